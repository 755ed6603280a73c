"""Memory series from tables made by hand."""

from __future__ import annotations

import polars as pl
import pytest

from analysis.memory import leaks_by_cell, memory_series
from analysis.runs import Run

SECOND = 1_000_000_000


def resources(rows: list[tuple[str, int, float, int | None]]) -> pl.LazyFrame:
    return pl.LazyFrame(
        [
            {"run": r, "host": "h0", "vpid": v, "time_ns": int(t * SECOND), "pss_bytes": b}
            for r, v, t, b in rows
        ]
    ).with_columns(rss_bytes=pl.lit(None, pl.Int64), heap_bytes=pl.lit(None, pl.Int64))


def messages(rows: list[tuple[str, str, int, float]]) -> pl.LazyFrame:
    schema = {"run": pl.String, "topic": pl.String, "message_id": pl.Int64, "publish_ns": pl.Int64}
    return pl.LazyFrame(
        [(r, t, m, int(s * SECOND)) for r, t, m, s in rows], schema=schema, orient="row"
    )


def test_processes_are_added_up_at_common_times() -> None:
    # 1 is sampled at 0, 1, 2, 3; 2 a little later and ends after 1.1.
    rows = [("r", 1, t, 100 + t) for t in range(4)] + [("r", 2, 0.1, 10), ("r", 2, 1.1, 20)]
    found = memory_series(
        resources([*rows, ("r", 3, 0, None)]), messages([]), [Run("r", work_topic="/a")], "pss"
    )["r"]
    assert found.seconds.tolist() == [0, 0.1, 1, 1.1, 2, 3]
    # The median step is .9: 2 counts until 1.1 + 1.8.
    assert found.values.tolist() == [100, 110, 111, 121, 122, 103]
    assert found.messages is None


def test_publications_on_the_work_topic_are_counted_once() -> None:
    rows = [("r", "/a", 1, 0.5), ("r", "/a", 1, 0.5), ("r", "/a", 2, 1.0), ("r", "/b", 3, 0.2)]
    found = memory_series(
        resources([("r", 1, t, 100) for t in range(3)]),
        messages(rows),
        [Run("r", work_topic="/a")],
        "pss",
    )["r"]
    assert found.messages is not None
    assert found.messages.tolist() == [0, 2, 2]


def test_leaks_by_cell() -> None:
    # 1 kB and 0 per message at 10 Hz; rss and heap were not measured.
    runs, sampled, sent = [], [], []
    for number in range(6):
        name, leaks = f"r{number}", number % 2
        runs.append(Run(name, {"leak": leaks}, work_topic="/a"))
        for t in range(100):
            sampled.append((name, 1, float(t), 5_000_000 + 10_000 * leaks * t))
            sent += [(name, "/a", 10 * t + i, t - 0.05 + i / 10) for i in range(10)]
    stable, climbs = leaks_by_cell(resources(sampled), messages(sent), runs)
    assert (stable.verdict, climbs.verdict) == ("stable", "climbs")
    assert dict(climbs.per_second.cell) == {"leak": 1}
    assert climbs.per_second.value == pytest.approx(10_000)
    assert climbs.per_message is not None
    assert climbs.per_message.value == pytest.approx(1000)
    assert climbs.per_message.metric == "leak_pss_per_message"
