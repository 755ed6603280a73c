"""Test memory series from tables made by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic import of_runs

from roslens.analysis.leaks.by_cell import MEMORY, leaks_of, memory_series, slopes_named
from roslens.analysis.leaks.series import Series
from roslens.analysis.runs import Run
from roslens.collectors.work_log import WorkLog, read_work_log
from roslens.recording import UsageError

SECOND = 1_000_000_000


def resources(rows: list[tuple[str, int, float, int | None]]) -> pl.LazyFrame:
    sampled = [
        {"run": r, "host": "h0", "vpid": v, "time_ns": int(t * SECOND), "pss_bytes": b}
        for r, v, t, b in rows
    ]
    return of_runs("resources", *sampled)


def messages(rows: list[tuple[str, str, int, float]]) -> pl.LazyFrame:
    sent = [
        {"run": r, "topic": t, "message_id": m, "publish_ns": int(s * SECOND)}
        for r, t, m, s in rows
    ]
    return of_runs("messages", *sent)


def series_of(
    sampled: pl.LazyFrame, sent: pl.LazyFrame, topic: str | None, log: WorkLog | None = None
) -> Series:
    logs = {} if log is None else {"r": log}
    return memory_series(sampled, sent, [Run("r", work_topic=topic)], "pss", logs)["r"]


def test_processes_are_added_up_at_common_times() -> None:
    # Process 1 is sampled at 0, 1, 2, 3; 2 a little later, and ends after 1.1.
    rows = [("r", 1, t, 100 + t) for t in range(4)] + [("r", 2, 0.1, 10), ("r", 2, 1.1, 20)]
    series = series_of(resources([*rows, ("r", 3, 0, None)]), messages([]), "/a")
    assert series.seconds.tolist() == [0, 0.1, 1, 1.1, 2, 3]
    # The median step is .9: process 2 counts until 1.1 + 1.8.
    assert series.values.tolist() == [100, 110, 111, 121, 122, 103]
    assert series.messages is None


def test_publications_on_the_work_topic_are_counted_once() -> None:
    rows = [("r", "/a", 1, 0.5), ("r", "/a", 1, 0.5), ("r", "/a", 2, 1.0), ("r", "/b", 3, 0.2)]
    series = series_of(resources([("r", 1, t, 100) for t in range(3)]), messages(rows), "/a")
    # Samples after the last publication (1.0 s) are left out.
    assert series.messages.tolist() == [0, 2]


def test_without_a_work_topic_or_a_log_what_the_application_publishes_is_counted() -> None:
    # The application has several topics, as in the rclcpp suites; ROS' own do not count.
    rows = [("r", "/data_0", 1, 0.5), ("r", "/data_1", 2, 0.9), ("r", "/data_0", 3, 2.0)]
    of_ros = ("/rosout", "/parameter_events", "ros_discovery_info", "/x/_action/feedback")
    rows += [("r", topic, 10 + i, 1.5) for i, topic in enumerate(of_ros)]
    sampled = resources([("r", 1, t, 100) for t in range(3)])
    series = series_of(sampled, messages(rows), None)
    assert series.messages.tolist() == [0, 2, 3]
    # A log of the run's work takes precedence.
    times = (np.array([0.2, 1.2, 1.8, 2.0]) * SECOND).astype(np.int64)
    log = WorkLog("request", times)
    logged = series_of(sampled, messages(rows), None, log)
    assert logged.messages.tolist() == [0, 1, 4]


def test_leaks_by_cell() -> None:
    # 1 kB and 0 per message at 10 Hz; rss and heap were not measured.
    runs, sampled, sent = [], [], []
    for number in range(6):
        name, leaks = f"r{number}", number % 2
        runs.append(Run(name, {"leak": leaks}, work_topic="/a"))
        for t in range(100):
            sampled.append((name, 1, float(t), 5_000_000 + 10_000 * leaks * t))
            sent += [(name, "/a", 10 * t + i, t - 0.05 + i / 10) for i in range(10)]
    stable, climbs = [
        leak
        for name in MEMORY
        for leak in leaks_of(
            memory_series(resources(sampled), messages(sent), runs, name),
            name,
            runs,
            measured=True,
        )
    ]
    assert (stable.verdict, climbs.verdict) == ("stable", "climbs")
    assert dict(climbs.per_second.cell) == {"leak": 1}
    assert climbs.per_second.value == pytest.approx(10_000)
    assert climbs.per_message.value == pytest.approx(1000)
    assert climbs.per_message.metric == "memory_slope_pss_per_message"


def test_without_publications_requests_or_goals_are_counted() -> None:
    log = WorkLog("goal", np.array([0.5, 1.5, 2.5]) * SECOND)
    series = series_of(resources([("r", 1, t, 100) for t in range(4)]), messages([]), None, log)
    assert series.messages.tolist() == [0, 1, 2]
    assert series.work == "goal"


def test_the_log_of_requests_comes_before_that_of_goals(tmp_path: Path) -> None:
    assert read_work_log(tmp_path) is None
    (tmp_path / "goals.csv").write_text("action,send_realtime_ns\n/a,7\n/a,5\n/a,\n")
    goals = read_work_log(tmp_path)
    assert (goals.kind, goals.times_ns.tolist()) == ("goal", [5, 7])
    (tmp_path / "calls.csv").write_text("service,request_sent_realtime_ns\n/s,3\n")
    calls = read_work_log(tmp_path)
    assert (calls.kind, calls.times_ns.tolist()) == ("request", [3])


def test_a_log_without_times_is_refused(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("service\n/s\n")
    with pytest.raises(UsageError, match=r"calls\.csv: none of the columns"):
        read_work_log(tmp_path)


def test_slopes_by_name() -> None:
    rows = [("r", 1, float(t), 1000 * t) for t in range(50)]
    slopes = slopes_named(
        ["memory_slope_pss_per_message"], resources(rows), messages([]), [Run("r")]
    )
    assert [e.metric for e in slopes] == ["memory_slope_pss", "memory_slope_pss_per_message"]
    assert slopes[0].value == pytest.approx(1000)
    assert slopes[1].refused is not None
    # RSS, which plain names mean, was not measured.
    assert slopes_named(["memory_slope"], resources(rows), messages([]), [Run("r")]) == []
