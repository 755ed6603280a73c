"""Test formats of other tools, each in a file that follows its tool's writer; values by hand.

None of these files is copied. Their fields, their order and their separators are those of the
writers that ``SOURCE`` names; the readers were also run over the published files of the
repositories in the table of docs/other_tools.md.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.ctf import test_ctf2_drafts
from tests.results.test_rosbag2_benchmark import PLAIN, results
from tests.results.test_tool_results import oldest, performance_test

import roslens as rl
from roslens.collectors.results.formats import FORMATS, find_results, read_results
from roslens.collectors.results.tool_result import ToolResult
from roslens.formats import TRACES, formats_markdown, with_formats
from roslens.recording import UsageError
from roslens.reports import open_tool_files

PAGE = Path(__file__).parents[2] / "docs" / "other_tools.md"
RUN = "8d3c6a2e-1f54-4a31-9a2b-0f6a0c9b7e11"

SOURCE = {
    "CTF traces": "recordings of LTTng in data/samples, and streams made bit by bit in tests/ctf",
    "CTF 2 drafts": f"{test_ctf2_drafts.__name__}: written as the proposal's fragments",
    "Archives of traces": "packed by the usual tools in tests/security/test_unpacking.py",
    "CARET traces": "tests/ros2/test_caret.py: a recording rewritten by the fields of tp.h",
    "Tables of `roslens collect -o`": "written by collect in recording/test_tables_elsewhere.py",
    "ros2-performance": "its printing of 2019, tests/results/test_tool_results.py",
    "reference_system": "its line of statistics and psrecord's table",
    "performance_test: CSV, JSON or log": "its CSV writer, tests/results/test_tool_results.py",
    "performance_test: SQLite database": "the tables that its #pragma db classes map to",
    "ros2_benchmark": "BasicPerformanceMetrics and ResourceMetrics as its test writes them",
    "rosbag2_performance_benchmarking": "its result_utils.cpp, test_rosbag2_benchmark.py",
    "buildfarm_perf_tests: system metrics as CSV": "its system_metric_collector",
    "buildfarm_perf_tests: two-row CSV for Jenkins": "_raw_to_csv and _raw_to_jenkins of its tests",
    "buildfarm_perf_tests: benchmark.json": "write_jenkins_benchmark_json",
    "RobotPerf": "a benchmark.yaml as its documentation shows it",
    "micro-ROS benchmarking: *_com_analysis.data": "the lines that its analysis prints",
    "micro-ROS benchmarking: JSON": "the fields of its analyses of 2020 and 2021",
    "memory_benchmark": "the columns that it prints",
    "run_psutil.py": "the columns that it prints",
}
"""Sources of the tested file of each row of the table."""


def values(result: ToolResult) -> dict[tuple[str, str, str], float]:
    frame = result.summary.select("entity", "name", "metric", "value").fill_null("")
    return {(e, n, m): v for e, n, m, v in frame.iter_rows()}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def ros2_benchmark(path: Path) -> Path:
    def metrics(rate: float) -> dict[str, float]:
        return {
            "BasicPerformanceMetrics.RECEIVED_DURATION": 4993.2,
            "BasicPerformanceMetrics.MEAN_FRAME_RATE": rate,
            "BasicPerformanceMetrics.NUM_FRAMES_SENT": 50.5,
            "BasicPerformanceMetrics.NUM_MISSED_FRAMES": 0,
            "BasicPerformanceMetrics.MEAN_LATENCY": 5.5,
            "BasicPerformanceMetrics.MEAN_JITTER": 0.25,
            "ResourceMetrics.MEAN_OVERALL_CPU_UTILIZATION": 2.5,
            "ResourceMetrics.OC_EVENT_COUNT": 0,
        }

    about = {"metadata": {"Name": "graph", "Platform": "amd64"}}
    return written(path, {**metrics(189.0), **about, "10.0fps": metrics(10.2)})


def jenkins(path: Path, count: int = 12) -> Path:
    names = ",".join(["rmw_x"] * count)
    return written(path, names + "\n" + ",".join(f"{k}.5" for k in range(count)) + "\n")


def micro_ros_data(path: Path) -> Path:
    return written(
        path,
        "\n***************** Bandwidth TX ***************** \n\n"
        "Avg for eth is 16.0 kbps\nMax for eth is 80 kbps\nMin for eth is 8.0 kbps\n\n"
        "***********  RX Latency  in micro-sec ***********\nAvg for eth is 49.5\n",
    )


def micro_ros_tasks(path: Path) -> Path:
    executions = [
        {"stop": 5},
        {"start": 10},
        {"stop": 25},
        {"start": 30},
        {"stop": 35},
        {"start": 9},
    ]
    about = {"cpu_time": 20, "cpu_pourcentage": 0.5, "total_execution": 6}
    return written(path, {"publisher": {**about, "executions": executions}})


def database(path: Path, seconds: int = 2) -> Path:
    """Make tables as an object-relational mapper does for the classes: members without ``m_``."""
    with sqlite3.connect(path) as db:
        db.execute(
            'CREATE TABLE "ExperimentConfiguration" ("id" BLOB NOT NULL PRIMARY KEY,'
            ' "final_logfile_name" TEXT, "rate" INTEGER, "topic_name" TEXT)'
        )
        db.execute(
            'CREATE TABLE "AnalysisResult" ("configuration" BLOB, "id" INTEGER PRIMARY KEY,'
            ' "experiment_start" INTEGER, "loop_start" INTEGER, "num_samples_received" INTEGER,'
            ' "num_samples_sent" INTEGER, "num_samples_lost" INTEGER, "latency_min" REAL,'
            ' "latency_max" REAL, "latency_n" REAL, "latency_mean" REAL, "latency_M2" REAL,'
            ' "sys_tracker_ru_maxrss" INTEGER)'
        )
        run = uuid.UUID(RUN).bytes
        db.execute("INSERT INTO ExperimentConfiguration VALUES (?, 'log', 100, 'Array1k')", (run,))
        for k in range(seconds):
            row = (run, k, 0, (k + 1) * 10**9, 4, 5, 1, 1e-3, 3e-3, 4.0, 1e-3 * (k + 1), 0.0, 1000)
            db.execute(f"INSERT INTO AnalysisResult VALUES ({','.join('?' * len(row))})", row)
    db.close()
    return path


MADE: dict[str, Callable[[Path], Path]] = {
    "performance_test (SQLite": lambda at: database(at / "db_name"),
    "ros2_benchmark": lambda at: ros2_benchmark(at / "graph-agx_orin.json"),
    "buildfarm_perf_tests (two-row": lambda at: jenkins(at / "overhead.csv", 21),
    "micro-ROS benchmarking (*": lambda at: micro_ros_data(at / "1_com_analysis.data"),
    "micro-ROS benchmarking (JSON": lambda at: micro_ros_tasks(at / "1_sched.json"),
}
"""Whole files by the beginning of their format; others are in test_tool_report.py."""


def test_the_table_of_formats_is_that_of_the_readers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    again = "python -m roslens.formats docs/other_tools.md"
    assert page == with_formats(page), f"write it anew: {again}"


def test_each_row_of_the_table_says_what_its_test_is_made_from() -> None:
    rows = [row[0] for row in TRACES] + [
        f"{file_format.tool}: {file_format.files}" for file_format in FORMATS
    ]
    assert formats_markdown().count("\n") == len(rows) + 2
    for row in rows:
        assert [name for name in SOURCE if row.startswith(name)], row
    assert len(SOURCE) == len(rows)


def test_ros2_benchmark_by_rate_without_intervals(tmp_path: Path) -> None:
    main, ten = rl.read_result(ros2_benchmark(tmp_path / "a.json"))
    by_key = values(main)
    assert by_key["graph", "", "received_duration"] == pytest.approx(4993.2e6)
    assert by_key["graph", "", "latency_mean"] == 5.5e6
    assert by_key["graph", "", "jitter_mean_largest"] == 0.25e6
    assert by_key["graph", "", "overall_cpu_utilization_mean"] == 0.025
    assert (by_key["graph", "", "frame_rate"], values(ten)["graph", "", "frame_rate"]) == (
        189,
        10.2,
    )
    assert (main.factors, ten.factors) == ({"test": "main"}, {"test": "10.0fps"})
    assert main.metadata["Platform"] == "amd64"
    assert any("no interval" in note for note in main.notes)


def test_what_of_ros2_benchmark_is_not_known_is_named(tmp_path: Path) -> None:
    data = {"BasicPerformanceMetrics.MEAN_FRAME_RATE": 1, "BasicPerformanceMetrics.NEW": 2}
    (result,) = rl.read_result(written(tmp_path / "a.json", data))
    assert not result.factors
    assert any("NEW: the unit is not known" in note for note in result.notes)
    assert any("no latency" in note for note in result.notes)


def test_jenkins_csv_by_its_columns(tmp_path: Path) -> None:
    """Cell k is k + 0.5: virtual memory in pages (x 4 MiB), then CPU in percent, then MiB."""
    mib = 1024**2
    (node,) = rl.read_result(jenkins(tmp_path / "node.csv"))
    figures = values(node)
    assert figures["process", "rmw_x", "virtual_mean"] == 0.5 * 4 * mib
    assert figures["process", "rmw_x", "cpu_median"] == 0.045
    assert figures["process", "rmw_x", "rss_mean"] == 6.5 * mib
    assert figures["process", "rmw_x", "rss_by_pages_median"] == 10.5 * 4 * mib
    assert len(figures) == 8  # of 12, four are 95th percentiles
    (perf,) = rl.read_result(jenkins(tmp_path / "perf.csv", 13))
    figures = values(perf)
    assert figures["process", "rmw_x", "latency_mean_of_seconds"] == 0.5e6
    assert figures["process", "rmw_x", "rss_peak"] == 3.5 * 1024
    assert figures["process", "rmw_x", "lost"] == 6.5
    assert figures["process", "rmw_x", "throughput_mean"] == 10.5 * mib
    (sub,) = rl.read_result(jenkins(tmp_path / "sub.csv", 21))
    figures = values(sub)
    assert figures["process", "rmw_x", "virtual_mean"] == 0.5 * 4 * mib
    assert figures["process", "rmw_x", "sent_rate"] == 17.5
    assert figures["process", "rmw_x", "system_cpu_mean"] == 0.195
    with pytest.raises(UsageError, match="no result file"):
        rl.read_result(jenkins(tmp_path / "other.csv", 14))


def test_a_database_holds_what_the_json_does(tmp_path: Path) -> None:
    """Two seconds of 4 messages, means 1 and 2 ms, give 1.5 ms; 2 of 10 are lost."""
    (result,) = rl.read_result(database(tmp_path / "db"))
    assert values(result)["subscription", "Array1k", "latency_mean"] == pytest.approx(1.5e6)
    assert values(result)["subscription", "Array1k", "latency_sd"] == pytest.approx(0.5e6)
    assert values(result)["subscription", "Array1k", "lost"] == 2
    assert result.series.filter(pl.col("metric") == "rss_peak")["value"][0] == 1000 * 1024
    assert (result.identity, result.metadata["topic_name"]) == (RUN, "Array1k")


def test_a_log_beside_its_database_is_no_further_run(tmp_path: Path) -> None:
    database(tmp_path / "db")
    log = performance_test(tmp_path / "log", [[1, 1, 4, 5, 1, 0, 9, 1, 1, 1, 0, 1000, 50]])
    log.write_text(log.read_text().replace("Experiment id: 7", f"Experiment id: {RUN}"))
    results = open_tool_files([tmp_path])
    assert [result.run.name for result in results.runs] == ["db"]
    assert results.copies == [("log", "db")]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ('DROP TABLE "AnalysisResult"', "no such table: AnalysisResult|AnalysisResult is a view"),
        ('DELETE FROM "AnalysisResult"', "no experiment"),
        ('ALTER TABLE "AnalysisResult" DROP COLUMN "latency_M2"', "no column|latency_M2"),
        (
            'DROP TABLE "AnalysisResult"; CREATE VIEW "AnalysisResult" AS SELECT 1',
            "no such table: AnalysisResult|AnalysisResult is a view",
        ),
    ],
)
def test_other_databases_are_refused_in_a_line(tmp_path: Path, statement: str, said: str) -> None:
    path = database(tmp_path / "db")
    with sqlite3.connect(path) as db:
        db.executescript(statement)
    db.close()
    file_format = next(
        file_format for file_format in FORMATS if file_format.files == "SQLite database"
    )
    with pytest.raises(UsageError, match=said):
        read_results(path, file_format)


def test_times_in_the_driver_and_bandwidth_of_micro_ros(tmp_path: Path) -> None:
    (result,) = rl.read_result(micro_ros_data(tmp_path / "x.data"))
    figures = values(result)
    assert figures["sent", "eth", "throughput_mean"] == 2000  # 16 kbit/s
    assert figures["received", "eth", "driver_time_mean"] == 49500
    assert any("not from end to end" in note for note in result.notes)


def test_executions_are_starts_with_the_stop_that_follows(tmp_path: Path) -> None:
    """They last 15 and 5 ns; a stop before any start and a start at the end belong to none."""
    (result,) = rl.read_result(micro_ros_tasks(tmp_path / "x_sched.json"))
    assert result.samples["value_ns"].to_list() == [15, 5]
    assert values(result)["task", "publisher", "execution_mean"] == 10
    assert values(result)["task", "publisher", "cpu_time"] == 20
    assert values(result)["task", "publisher", "cpu"] == 0.005
    irqs = {"irq_time": 12, "irq_pourcentage": 2.0, "irq_cpu_time_pourcentage": 0.5, "irq_total": 1}
    data = {"83": {**irqs, "irqs": [{"start": 3}, {"stop": 15}]}}
    (result,) = rl.read_result(written(tmp_path / "x_isr.json", data))
    assert result.samples.rows() == [("interrupt", None, "83", 12)]


def test_heap_stacks_and_functions_of_micro_ros(tmp_path: Path) -> None:
    taken = [{"functions": ["a"], "requested": 20, "user_alloc": 32}] * 3
    block = {"heap_alloc": taken, "heap_free": [{"user_alloc": 32}]}
    (result,) = rl.read_result(written(tmp_path / "m.json", {"app": {"40": {"0x1": block}}}))
    figures = values(result)
    assert figures["task", "app", "heap_live"] == 64
    assert figures["task", "app", "heap_requested"] == 60
    assert (figures["task", "app", "allocations"], figures["task", "app", "frees"]) == (3, 1)
    (result,) = rl.read_result(
        written(tmp_path / "s.json", {"app": {"stack_used_bytes": 12568, "delim": 0}})
    )
    assert values(result) == {("task", "app", "stack_used"): 12568}
    calls = {"rcl_init": {"hits": 2, "addresses": [[1, "0x8"]], "calls": [[1, False]]}}
    (result,) = rl.read_result(written(tmp_path / "f.json", calls))
    assert values(result) == {("function", "rcl_init", "hits"): 2}
    timed = {"app": {"30": [], "rcl_take": {"hits": 2, "total": 30, "deltas": [10, 20]}}}
    (result,) = rl.read_result(written(tmp_path / "g.json", timed))
    assert values(result)["function", "rcl_take", "duration_mean"] == 15
    assert result.samples["value_ns"].to_list() == [10, 20]


def test_one_result_is_asked_for(tmp_path: Path) -> None:
    jenkins(tmp_path / "a.csv")
    jenkins(tmp_path / "b.csv", 13)
    with pytest.raises(UsageError, match="holds 2 results"):
        rl.read_result(tmp_path)
    oldest(tmp_path / "topology_log")
    assert rl.read_result(tmp_path / "topology_log")[0].tool == "ros2-performance"
    assert len(rl.read_result(results(tmp_path, PLAIN, PLAIN))) >= 1
    assert len(find_results(tmp_path)) == 4
