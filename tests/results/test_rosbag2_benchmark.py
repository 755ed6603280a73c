"""Test results.csv of rosbag2_performance_benchmarking, by its format; values by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from roslens.collectors.results.rosbag2_benchmark import read_rosbag2_runs
from roslens.collectors.results.tool_result import ToolResult
from roslens.recording.errors import UsageError

HEADER = (
    "storage_id instances frequency message_size total_messages_sent cache_size max_bagfile_size "
    "storage_config compression compression_queue compression_threads total_produced "
    "total_recorded_count producer_cpu_usage recorder_cpu_usage core_0 core_1"
)
ROW = "mcap 500 200 100 2000 100000000 0   1 0 1000000 999871 41.10 88.02 12.00 30.50"
PLAIN = "sqlite3 1 100 1000 500 0 0 cfg.yaml zstd 1 4 500 250 10 20 5 6"
PRODUCERS = """
rosbag2_performance_benchmarking_node:
  ros__parameters:
    publishers:
      publisher_groups: ["many_small", "few_large"]
"""


def results(folder: Path, *rows: str, header: str = HEADER, end: str = "\n") -> Path:
    path = folder / "results.csv"
    path.write_text("\n".join((header, *rows)) + end)
    return path


def figure(run: ToolResult, metric: str, entity: str = "publishers") -> list[float]:
    return run.summary.filter(metric=metric, entity=entity)["value"].to_list()


def test_empty_columns_do_not_shift_the_others(tmp_path: Path) -> None:
    first, second = read_rosbag2_runs(results(tmp_path, ROW, PLAIN))
    assert first.factors == {
        "storage_id": "mcap",
        "cache_size": 100_000_000,
        "max_bagfile_size": 0,
        "compression_queue": 1,
        "compression_threads": 0,
    }
    assert (figure(first, "sent"), figure(first, "received")) == ([1_000_000], [999_871])
    assert figure(first, "cpu", "recorder") == [pytest.approx(0.8802)]
    assert (second.factors["storage_config"], second.factors["compression"]) == ("cfg.yaml", "zstd")
    assert figure(second, "lost") == [250]


def test_rows_of_a_run_are_its_publisher_groups(tmp_path: Path) -> None:
    path = results(tmp_path, ROW, PLAIN, ROW, PLAIN)
    (tmp_path / "producers.yaml").write_text(PRODUCERS)
    runs = read_rosbag2_runs(path)
    assert [figure(run, "sent") for run in runs] == [[1_000_000, 500]] * 2


def test_older_files_lack_the_cpu_columns(tmp_path: Path) -> None:
    header = HEADER.partition(" producer_cpu_usage")[0]
    path = results(tmp_path, ROW.partition(" 41.10")[0], header=header)
    (result,) = read_rosbag2_runs(path)
    assert figure(result, "received") == [999_871]
    assert "cpu" not in result.summary["metric"]


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    for rows, words in (
        ((ROW.replace("   ", " "),), "cells under 17 columns"),
        ((ROW, ROW[:40]), "results.csv:3"),
        ((ROW.replace("999871", "x"),), "no number"),
        ((ROW.replace("1000000 999871", "10 999871"),), "shifted"),
        ((), "no row"),
    ):
        with pytest.raises(UsageError, match=words):
            read_rosbag2_runs(results(tmp_path, *rows))
    with pytest.raises(UsageError, match="cut off"):
        read_rosbag2_runs(results(tmp_path, ROW, end=""))
    (tmp_path / "producers.yaml").write_text(PRODUCERS)
    with pytest.raises(UsageError, match="missing rows"):
        read_rosbag2_runs(results(tmp_path, ROW, PLAIN, ROW))
    (tmp_path / "producers.yaml").write_text("a: 1\n")
    with pytest.raises(UsageError, match="publisher_groups"):
        read_rosbag2_runs(results(tmp_path, ROW))
