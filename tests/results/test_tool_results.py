"""Test other tools' result files, written here as their formats say; values by hand."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from roslens.collectors.results.buildfarm import read_buildfarm_benchmark, read_buildfarm_csv
from roslens.collectors.results.irobot import read_irobot
from roslens.collectors.results.memory_tables import read_memory_benchmark, read_psutil
from roslens.collectors.results.performance_test import read_performance_test
from roslens.collectors.results.reference_system import read_reference_system
from roslens.collectors.results.robotperf import read_robotperf
from roslens.collectors.results.tool_result import ToolResult
from roslens.recording.errors import UsageError
from roslens.reports import read_result


def value(result: ToolResult, metric: str, **which: str) -> tuple[float | None, str]:
    rows = result.summary.filter(
        pl.col("metric") == metric, *(pl.col(k) == v for k, v in which.items())
    )
    assert rows.height == 1, rows
    return rows["value"][0], rows["unit"][0]


def series(result: ToolResult, metric: str) -> list[float | None]:
    return result.series.filter(pl.col("metric") == metric)["value"].to_list()


# ---------------------------------------------------------------- ros2-performance


HEADERS = {
    "A": "node topic size[b] received[#] late[#] too_late[#] lost[#] mean[us] sd[us] min[us] "
    "max[us] freq[hz] duration[s]",
    "B": "node topic size[b] received[#] late[#] too_late[#] lost[#] mean[us] sd[us] min[us] "
    "max[us] freq[hz] throughput[Kb/s]",
    "C": "node topic size_b received_msgs late_msgs too_late_msgs lost_msgs mean_us sd_us min_us "
    "max_us freq_hz throughput_Kb_per_sec",
    "D": "node topic size_b received_msgs late_msgs too_late_msgs lost_msgs mean_us sd_us min_us "
    "max_us freq_hz throughput_Kb_per_sec all_lat",
}
ROW = "lyon amazon 36 3 1 2 4 191 7 183 201 100 3.5"


def irobot(folder: Path, dialect: str, *, commas: bool = False) -> Path:
    folder.mkdir()
    row = ROW + (" [183; 201; 190]" if dialect == "D" else "")
    header, parts = HEADERS[dialect].split(), row.split(None, 13)
    glue = "," if commas else "   "
    lines = [
        "",
        "Action Clients stats:",
        glue.join(header).replace("topic", "action"),
        glue.join(parts),
        "",
        "Clients stats:",
        glue.join(header).replace("topic", "service"),
        glue.join(parts),
        "",
        "Publishers stats:",
        glue.join(header),
        glue.join(parts).replace(f"{glue}3{glue}", f"{glue}0{glue}", 1),
        "",
        "Subscriptions stats:",
        glue.join(header),
        glue.join(parts),
    ]
    (folder / "latency_all.txt").write_text("\n".join(lines) + "\n")
    (folder / "metadata.txt").write_text(
        "system_executor: EventsExecutor\ntracking.is_enabled: on\n"
    )
    return folder


@pytest.mark.parametrize("commas", [False, True])
@pytest.mark.parametrize("dialect", list(HEADERS))
def test_latencies_of_each_dialect(tmp_path: Path, dialect: str, commas: bool) -> None:
    result = read_irobot(irobot(tmp_path / "log", dialect, commas=commas))
    assert result.metadata["dialect"] == dialect
    assert result.metadata["system_executor"] == "EventsExecutor"
    labels = {"entity": "subscription", "node": "lyon", "name": "amazon"}
    assert value(result, "latency_mean", **labels) == (191_000, "ns")
    assert value(result, "latency_sd", **labels) == (7_000, "ns")
    assert value(result, "latency_min", **labels) == (183_000, "ns")
    assert value(result, "latency_max", **labels) == (201_000, "ns")
    assert value(result, "received", **labels) == (3, "1")
    assert value(result, "late", **labels) == (1, "1")
    assert value(result, "too_late", **labels) == (2, "1")
    assert value(result, "lost", **labels) == (4, "1")
    assert value(result, "frequency", **labels) == (100, "Hz")
    assert value(result, "message_size", **labels) == (36, "byte")
    assert value(result, "response_time_mean", entity="client") == (191_000, "ns")
    assert value(result, "response_time_mean", entity="action_client") == (191_000, "ns")
    # Publishers receive nothing: their times are those of publish().
    assert value(result, "publish_duration_mean", entity="publisher") == (191_000, "ns")
    left_out = [note for note in result.notes if "too late" in note]
    # Since dialect D those samples are in the mean.
    assert bool(left_out) == (dialect != "D")
    singles = result.samples.filter(entity="subscription")["value_ns"].to_list()
    assert singles == ([183_000, 201_000, 190_000] if dialect == "D" else [])


def test_resources(tmp_path: Path) -> None:
    folder = irobot(tmp_path / "log", "D")
    (folder / "resources.txt").write_text(
        "time_ms,cpu_perc,latency_us,arena_KB,in_use_KB,mmap_KB,rss_KB,vsz_KB,pubs,subs,frequency,\n"
        "0,0,0,0,0,0,0,0,0,0,0,\n"
        "1000,12.5,80,10,8,2,100,1000,1,2,100,\n"
        "2000,25,18446744073709551615,10,-8,2,120,1000,1,2,100,\n"
    )
    result = read_irobot(folder)
    assert series(result, "cpu_of_machine") == [0.125, 0.25]
    assert series(result, "rss_peak") == [102_400, 122_880]
    assert "rss" not in result.series["metric"].to_list()
    assert series(result, "heap_in_use") == [8192, None]
    assert series(result, "latency_mean") == [80_000, None]
    assert result.series["time_ns"].min() == 1_000_000_000
    notes = " ".join(result.notes)
    assert "peak" in notes
    assert "1 sizes below zero" in notes
    assert "1 latencies in resources.txt had wrapped" in notes
    # With the number of cores it is known what the percentages refer to.
    (folder / "run_manifest.json").write_text(json.dumps({"host": {"cpu_count": 8}, "run": {}}))
    assert series(read_irobot(folder), "cpu") == [1.0, 2.0]


def test_totals_and_events(tmp_path: Path) -> None:
    folder = irobot(tmp_path / "log", "C")
    (folder / "latency_total.txt").write_text(
        "received_msgs  mean_us  late_msgs late_perc too_late_msgs too_late_perc lost_msgs "
        "lost_perc\n4226  72  3  0  2  0  1  0\n"
    )
    (folder / "events.txt").write_text(
        "Time_ms,Caller,Code,Description\n1,a,0,x\n2,a,3,y\n3,a,3,z\n"
    )
    result = read_irobot(folder)
    assert value(result, "latency_mean", entity="all") == (72_000, "ns")
    assert value(result, "lost", entity="all") == (1, "1")
    assert value(result, "events_lost") == (2, "1")


# The files of dialect A as the tool's README shows them; names and numbers are made up.
OLDEST = {
    "latency_all.txt": """\
node           topic          size[b]   received[#]    late[#]   too_late[#]    lost[#]  \
 mean[us]  sd[us]    min[us]   max[us]   freq[hz]  duration[s]
oslo           glomma         36        6001           11        2              4        \
 602       145       345       4300      100       60
bergen         vosso          10000     601            0         0              0        \
 881       245       434       3664      10        60
""",
    "latency_total.txt": """\
received[#]    mean[us]  late[#]   late[%]   too_late[#]    too_late[%]    lost[#]   lost[%]
6602           627       11        0.1666    2              0.03029        4         0.06055
""",
    "resources.txt": """\
time[ms]       cpu[%]    arena[KB]      in_use[KB]     mmap[KB]       rss[KB]        vsz[KB]
0              0         0              0              0              0              0
500            27        61080          60712          0              24948          305212
1000           51        167860         167539         0              47060          544012
""",
    "events.txt": """\
Time[ms]    Caller                   Code  Description
90          SYSTEM                   0     [discovery] PDP completed
156         glomma->oslo             1     msg 0 late, 4300us > 2000us
338         glomma->oslo             2     msg 1 too late. 184382us > 50000us
""",
}


def oldest(folder: Path) -> Path:
    folder.mkdir()
    for name, text in OLDEST.items():
        (folder / name).write_text(text)
    return folder


def test_files_with_units_in_brackets_are_read_whole(tmp_path: Path) -> None:
    """In 2019, all files have units in brackets, no section titles, and blanks between cells."""
    result = read_irobot(oldest(tmp_path / "sierra_log"))
    assert result.metadata["dialect"] == "A"
    assert value(result, "latency_mean", node="oslo", name="glomma") == (602_000, "ns")
    assert value(result, "message_size", name="vosso") == (10_000, "byte")
    assert value(result, "latency_mean", entity="all") == (627_000, "ns")
    assert value(result, "received", entity="all") == (6602, "1")
    assert value(result, "lost", entity="all") == (4, "1")
    assert series(result, "cpu_of_machine") == [0.27, 0.51]
    assert series(result, "rss_peak") == [24_948 * 1024, 47_060 * 1024]
    assert series(result, "heap_in_use") == [60_712 * 1024, 167_539 * 1024]
    assert value(result, "events_discovery") == (1, "1")
    assert value(result, "events_too_late") == (1, "1")


def test_dialect_b_with_titles_and_commas(tmp_path: Path) -> None:
    """In 2023, with ``--csv-out on``, files have the columns of B, separated by commas."""
    folder = irobot(tmp_path / "log", "B", commas=True)
    for name in ("latency_total.txt", "resources.txt"):
        lines = OLDEST[name].splitlines()
        (folder / name).write_text("\n".join(",".join(line.split()) for line in lines) + "\n")
    result = read_irobot(folder)
    assert result.metadata["dialect"] == "B"
    assert value(result, "latency_mean", entity="all") == (627_000, "ns")
    assert series(result, "cpu_of_machine") == [0.27, 0.51]


def test_clients_among_the_subscriptions_are_told(tmp_path: Path) -> None:
    """In 2021, subscriptions and clients share one section."""
    folder = oldest(tmp_path / "log")
    file = folder / "latency_all.txt"
    file.write_text("Subscriptions and clients stats:\n" + file.read_text())
    result = read_irobot(folder)
    assert value(result, "latency_mean", entity="subscription", node="oslo") == (602_000, "ns")
    assert "clients stand among the subscriptions: theirs is a round trip" in result.notes


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("latency_all.txt", "received[#]"),
        ("latency_total.txt", "mean[us]"),
        ("resources.txt", "time[ms]"),
        ("events.txt", "Code"),
    ],
)
def test_a_column_that_is_missing_is_named(tmp_path: Path, name: str, column: str) -> None:
    folder = oldest(tmp_path / "log")
    (folder / name).write_text(OLDEST[name].replace(column, "other"))
    with pytest.raises(UsageError, match=rf"{name}.*no column \w+"):
        read_irobot(folder)


def test_sent_and_received_without_the_total(tmp_path: Path) -> None:
    folder = irobot(tmp_path / "log", "D", commas=True)
    with (folder / "latency_all.txt").open("a") as stream:
        stream.write(
            "\nSent vs received messages:\n"
            "topic,n_pub,n_sub,cfg_hz,sent,received,delivered_perc,true_lost,gap_lost\n"
            "amazon,1,1,100,10,7,70,3,2\nTOTAL,,,,10,7,70,3,2\n"
        )
    result = read_irobot(folder)
    assert value(result, "sent", entity="topic") == (10, "1")
    assert value(result, "lost", entity="topic") == (3, "1")


def test_torn_folders_are_refused(tmp_path: Path) -> None:
    folder = irobot(tmp_path / "log", "C")
    file = folder / "latency_all.txt"
    file.write_text(file.read_text().rsplit("  ", 3)[0] + "\n")
    with pytest.raises(UsageError, match=r"latency_all\.txt:16: 1\d cells under 13 columns"):
        read_irobot(folder)
    file.write_text(
        "\nSubscriptions stats:\n" + HEADERS["C"] + "\n" + ROW.replace("191", "x") + "\n"
    )
    with pytest.raises(UsageError, match=r"latency_all\.txt:4 mean: 'x' is no number"):
        read_irobot(folder)


# ---------------------------------------------------------------- performance_test


PT_COLUMNS = [
    *("T_experiment", "T_loop", "received", "sent", "lost", "relative_loss", "data_received"),
    *(f"latency_{statistic} (ms)" for statistic in ("min", "max", "mean", "variance")),
    *("ru_maxrss", "cpu_usage (%)"),
]


def performance_test(path: Path, rows: list[list[object]], *, trailing: str = "") -> Path:
    lines = [
        "Experiment id: 7",
        "RMW Implementation: rmw_cyclonedds_cpp",
        "Topic name: Array1k",
        "",
        "---EXPERIMENT-START---",
        ",\t".join(PT_COLUMNS) + trailing,
        *(",\t\t".join(map(str, row)) + trailing for row in rows),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("trailing", ["", ","])
def test_moments_per_second_are_put_together(tmp_path: Path, trailing: str) -> None:
    # 2 samples of mean 1 ms and variance .04 ms^2 (written .04e-3 ms s), 3 of mean 2 ms, variance 0
    rows: list[list[object]] = [
        [1, 1, 2, 2, 0, 0, 100, 0.8, 1.2, 1.0, 0.04e-3, 1000, 50],
        [2, 1, 0, 2, 2, 1, 0, "inf", "-inf", 0, 0, 1100, 10],
        [3, 1, 3, 3, 0, 0, 100, 2, 2, 2.0, 0, 1100, 50],
    ]
    path = performance_test(tmp_path / "log.csv", rows, trailing=trailing)
    result = read_performance_test(path)
    assert result.metadata["RMW Implementation"] == "rmw_cyclonedds_cpp"
    assert value(result, "latency_mean", name="Array1k")[0] == pytest.approx(1.6e6)
    # (2 (.04 + .36) + 3 (.16)) / 5 = .256 ms^2
    assert value(result, "latency_sd")[0] == pytest.approx(0.256**0.5 * 1e6)
    assert value(result, "latency_min")[0] == pytest.approx(0.8e6)
    assert value(result, "latency_max")[0] == pytest.approx(2e6)
    assert value(result, "received") == (5, "1")
    assert value(result, "lost") == (2, "1")
    assert series(result, "latency_min") == pytest.approx([0.8e6, 2e6])
    assert series(result, "rss_peak") == [1_024_000, 1_126_400, 1_126_400]
    notes = " ".join(result.notes)
    assert "percentiles cannot be had" in notes
    assert "1 s in which nothing was received" in notes


@pytest.mark.parametrize(
    "last", ["Maximum runtime reached. Exiting.", "\nCaught signal. Exiting.\n"]
)
def test_the_program_s_last_words_are_no_row(tmp_path: Path, last: str) -> None:
    """The log is that of a program whose output was written to the file."""
    rows: list[list[object]] = [[1, 1, 2, 2, 0, 0, 100, 0.8, 1.2, 1.0, 0, 1000, 50]]
    path = performance_test(tmp_path / "log", rows)
    path.write_text(path.read_text() + last + "\n")
    assert value(read_performance_test(path), "received") == (2, "1")
    path.write_text(path.read_text() + "Segmentation fault\n")
    with pytest.raises(UsageError, match="1 cells under 13 columns"):
        read_performance_test(path)


@pytest.mark.parametrize("nan", ["-nan(ind)", "nan(ind)", "-nan", "NaN", "nan(snan)"])
def test_no_number_of_another_compiler(tmp_path: Path, nan: str) -> None:
    """Windows writes this if there was no sample: left out like other seconds without messages."""
    rows: list[list[object]] = [
        [1, 1, 0, 2, 2, 1, 0, "inf", "-inf", nan, nan, 1000, 50],
        [2, 1, 2, 2, 0, 0, 100, 0.8, 1.2, 1.0, 0.04e-3, 1000, 50],
    ]
    result = read_performance_test(performance_test(tmp_path / "log.csv", rows))
    assert value(result, "latency_mean")[0] == pytest.approx(1e6)
    assert value(result, "latency_sd")[0] == pytest.approx(0.2e6)
    assert value(result, "lost") == (2, "1")


def test_json_is_in_seconds(tmp_path: Path) -> None:
    results = [
        {
            "experiment_start": 10_000_000_000,
            "experiment_end": 11_000_000_000,
            "num_samples_sent": 4,
            "num_samples_lost": 0,
            "latency_min": 0.001,
            "latency_max": 0.003,
            "latency_mean": 0.002,
            "latency_n": 4,
            "latency_M2": 4e-6,
            "cpu_info_cpu_usage": 25.0,
        }
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"topic_name": "t", "analysis_results": results}))
    result = read_performance_test(path)
    assert value(result, "latency_mean")[0] == pytest.approx(2e6)
    assert value(result, "latency_sd")[0] == pytest.approx(1e6)  # sqrt(4e-6 / 4) s
    assert result.series["time_ns"].unique().to_list() == [1_000_000_000]


def test_torn_performance_tests_are_refused(tmp_path: Path) -> None:
    path = performance_test(tmp_path / "a.csv", [[1, 1, 2]])
    with pytest.raises(UsageError, match=r"a\.csv:7: 3 cells under 13 columns"):
        read_performance_test(path)
    path = performance_test(tmp_path / "b.csv", [])
    with pytest.raises(UsageError, match="no row"):
        read_performance_test(path)


# ---------------------------------------------------------------- the others


def test_buildfarm_reads_pages_as_pages(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(
        "T_experiment,cpu_usage (%),virtual memory (Mb),physical memory (Mb),"
        "resident anonymous memory (Mb),system_cpu_usage (%),system virtual memory (Mb)\n"
        "1.5, 50, 100, 40, 10, 30, 2000\n"
    )
    result = read_buildfarm_csv(path)
    assert series(result, "virtual") == [400 * 1024**2]
    assert series(result, "rss") == [40 * 1024**2]
    assert series(result, "rss_by_pages") == [40 * 1024**2]
    assert series(result, "cpu") == [0.5]


def test_buildfarm_percentiles_are_refused_and_throughput_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.json"
    tests = {
        "spin": {
            "parameters": {},
            "average_latency": {"dblValue": 2.5, "unit": "ms"},
            "cpu_p95": {"dblValue": 9, "unit": "percent"},
            "throughput": {"dblValue": 3, "unit": "Mbit/s"},
        }
    }
    path.write_text(json.dumps({"buildfarm_perf_tests.x": tests}))
    result = read_buildfarm_benchmark(path)
    assert value(result, "average_latency") == (2.5e6, "ns")
    assert value(result, "throughput") == (3 * 1024**2, "byte/s")
    assert "cpu_p95" not in result.summary["metric"].to_list()
    assert len(result.notes) == 2
    path.write_text('{"a": "dblValue"')
    with pytest.raises(UsageError, match=r"benchmark\.json: not JSON: .*is it cut off"):
        read_buildfarm_benchmark(path)


def test_reference_system_takes_the_last_statistics(tmp_path: Path) -> None:
    line = "  hot path latency:         {}ms [min={}ms, max={}ms, average={}ms, deviation={}]\n"
    (tmp_path / "std_output.log").write_text(
        line.format(40, 40, 40, 40, 0)
        + "  hot path drops:           1 [min=0, max=2, average=0.5, deviation=0.1]\n"
        + line.format(42, 40, 42, 41, 1)
        + "  behavior planner period:  1ms [min=1ms, max=1.8446744e+13ms, average=1ms, "
        + "deviation=1]\n"
    )
    (tmp_path / "memory_log.txt").write_text(
        "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n  0.5  150.0  10.0  100.0\n"
    )
    result = read_reference_system(tmp_path)
    assert value(result, "hot_path_latency_mean") == (41e6, "ns")
    assert value(result, "hot_path_latency_max") == (42e6, "ns")
    assert value(result, "hot_path_drops_mean") == (0.5, "1")
    assert "behavior planner period had wrapped around and is left out" in result.notes
    assert series(result, "cpu") == [1.5]
    assert series(result, "rss") == [10 * 1024**2]
    (tmp_path / "memory_log.txt").write_text("header\n0.5 150.0\n")
    with pytest.raises(UsageError, match=r"memory_log\.txt:2: 2 cells under 4 columns"):
        read_reference_system(tmp_path)


def test_robotperf_with_the_statistics_of_its_note(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.yaml"
    path.write_text(
        "id: a1\nresults:\n- result:\n    category: workstation\n    datasource: perception/image\n"
        "    hardware: x86\n    metric: latency\n    metric_unit: ms\n    timestampt: 1\n"
        "    note: mean 121.6 ms, rms 122.0 ms, max 130.5 ms, min 120.0 ms, lost 0.50%\n"
        "    type: grey\n    value: 121.6\n"
    )
    result = read_robotperf(path)
    assert value(result, "latency") == (121.6e6, "ns")
    assert value(result, "latency_max") == (130.5e6, "ns")
    assert value(result, "latency_lost") == (0.005, "1")
    assert result.metadata["id"] == "a1"
    path.write_text("results: 7\n")
    with pytest.raises(UsageError, match=r"cannot be read as RobotPerf .*TypeError"):
        read_result(path)


def test_memory_by_number_of_entities(tmp_path: Path) -> None:
    path = tmp_path / "memory.csv"
    path.write_text("Entity,N,RSS,DELTA\nnone,0,1000,0\nnone,0,1001,0\nnode,1,1100,100\n")
    result = read_memory_benchmark(path)
    assert value(result, "rss_peak", entity="none", name="0") == (1_025_024, "byte")
    assert value(result, "rss_peak", entity="node", name="1") == (1_126_400, "byte")
    path.write_text("Entity,N,RSS,DELTA\nnode,1\n")
    with pytest.raises(UsageError, match=r"memory\.csv:2: 2 cells under 4 columns"):
        read_memory_benchmark(path)


def test_psutil_has_true_sizes(tmp_path: Path) -> None:
    path = tmp_path / "psutil.tsv"
    path.write_text("Time[sec]\tCPU[%]\tPSS[MB]\tRSS[MB]\tMaxVMS[MB]\n0.5\t150\t10\t20\t30\n")
    result = read_psutil(path)
    assert series(result, "cpu") == [1.5]
    assert series(result, "rss") == [20 * 1024**2]
    assert series(result, "pss") == [10 * 1024**2]
