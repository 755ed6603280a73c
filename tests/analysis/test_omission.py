"""Test coordinated omission by hand."""

import math

import numpy as np
import polars as pl
import pytest

from roslens.analysis.statistics.omission import (
    corrected_runs,
    expected_period,
    omitted_by_schedule,
)


def test_a_held_up_publisher_by_hand() -> None:
    # Period 10; due at 20 and 30, published at 40 with latency 2: late by 22 and 12.
    held_up = omitted_by_schedule([0, 10, 40, 50], [1.0, 1.0, 2.0, 1.0], 10)
    assert held_up.tolist() == [22, 12]
    # A caller that waits 1 s for its answer: 990 ms are missing, 980 ms, and so on.
    closed = omitted_by_schedule([0, 1000, 1010], [1000.0, 0.5, 0.5], 10)
    assert closed.size == 99
    assert sorted(closed) == [10 * k + 0.5 for k in range(1, 100)]
    # On schedule, however late: nothing was omitted.
    queue = omitted_by_schedule(np.arange(100) * 10, np.full(100, 500.0), 10)
    assert queue.size == 0
    # Jitter is no gap; a lost message is no sample and dates nothing.
    assert omitted_by_schedule([0, 14, 20], [1, 1, 1], 10).size == 0
    lossy = omitted_by_schedule([0, 30, 60], [1, math.nan, 1], 10)
    assert lossy.tolist() == [21, 11]
    assert omitted_by_schedule([], [], 10).size == 0
    for t, latencies, period in (([1, 0], [1, 1], 1), ([0], [1, 1], 1), ([0, 1], [1, 1], 0)):
        with pytest.raises(ValueError, match=r"schedule|period"):
            omitted_by_schedule(t, latencies, period)
    with pytest.raises(ValueError, match="would add"):
        omitted_by_schedule([0, 1e12], [1, 1], 1e-3)


def test_runs_source_by_source() -> None:
    t = 1_700_000_000_000_000_000 + 10_000_000 * np.arange(30)
    late = np.where(np.arange(30) >= 20, t + 30_000_000, t)
    frame = pl.DataFrame(
        {
            "run": ["a"] * 60 + ["b"] * 30,
            "publisher_id": [1] * 30 + [2] * 30 + [1] * 30,
            "subscription_id": 1,
            "publish_ns": [*late, *(t[0] + np.arange(30) ** 2 * 10**6), *t],
            "latency_ns": 1000,
            "outcome": "delivered",
        }
    )
    a, b = corrected_runs(frame.lazy())
    # Publisher 1 of run a misses three; 2 has no period.
    assert (a.run, a.added, a.not_periodic, len(a.periods_ns)) == ("a", 3, 1, 1)
    assert sorted(a.samples[-33:])[-3:] == pytest.approx([10_001_000, 20_001_000, 30_001_000])
    assert (b.run, b.added, b.samples.size, b.not_periodic) == ("b", 0, 30, 0)
    lost = frame.with_columns(outcome=pl.lit("lost"), latency_ns=pl.lit(None, pl.Int64))
    assert corrected_runs(lost.lazy()) == []
    assert corrected_runs(frame.clear().lazy()) == []


def test_period_by_hand() -> None:
    regular = np.arange(100) * 10.0
    assert expected_period(regular) == 10
    # A stall of 500 and an early one do not matter.
    stalled = np.where(np.arange(100) >= 50, regular + 500, regular)
    assert expected_period(stalled[::-1]) == 10
    rng = np.random.default_rng(1)
    assert expected_period(np.cumsum(rng.exponential(10.0, 200))) is None
    for few in ([], [1.0], np.arange(10.0), [math.nan] * 20, [5.0] * 20):
        assert expected_period(few) is None
