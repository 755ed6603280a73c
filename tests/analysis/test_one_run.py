"""Test intervals from one run: the binomial table, simulation, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.one_run import (
    mean_of_one_run,
    order_statistics,
    percentile_of_one_run,
)
from roslens.analysis.statistics.quantiles import least_samples

METRIC = Metric("latency", "from a to b", "ns")


@pytest.mark.parametrize(
    ("n", "q", "expected"),
    [
        # Binomial(n, 1/2): P(l <= X < u) first at least .95; the sign test's table.
        (6, 0.5, (1, 6)),
        (10, 0.5, (2, 9)),
        (20, 0.5, (6, 15)),
        (100, 0.5, (40, 61)),
    ],
)
def test_ranks_by_the_table(n: int, q: float, expected: tuple[int, int]) -> None:
    assert order_statistics(n, q) == expected


@given(st.integers(6, 3000), st.sampled_from([0.05, 0.5, 0.9, 0.99]))
def test_ranks_always_cover(n: int, q: float) -> None:
    ranks = order_statistics(n, q)
    assert (ranks is None) == (n < least_samples(q))
    if ranks is not None:
        low, high = ranks
        assert 1 <= low < high <= n
        assert sum(stats.binom.pmf(np.arange(low, high), n, q)) >= 0.95 - 1e-9


def test_coverage_on_correlated_samples() -> None:
    # AR(1) with .8: nine samples are worth one. Pooled as independent, about .5 would be covered.
    rng = np.random.default_rng(2)
    hits = means = 0
    for _ in range(300):
        samples = signal.lfilter([1], [1, -0.8], rng.normal(size=2200))[200:]
        median = percentile_of_one_run(METRIC, {}, samples, 0.5)
        hits += median.low <= 0 <= median.high
        mean = mean_of_one_run(METRIC, {}, samples)
        means += mean.low <= 0 <= mean.high
    assert hits / 300 >= 0.91
    assert means / 300 >= 0.91


def test_every_estimate_warns() -> None:
    for estimate in (
        mean_of_one_run(METRIC, {}, np.arange(100.0) % 7),
        percentile_of_one_run(METRIC, {}, np.arange(100.0) % 7, 0.5),
    ):
        assert "says nothing about how much runs differ" in estimate.method
        assert estimate.runs == 1


def test_refusals_say_what_is_needed() -> None:
    few = percentile_of_one_run(METRIC, {}, np.arange(20.0) % 3, 0.99)
    assert (few.value, few.low) == (None, None)
    assert "P99 needs 299" in few.refused
    slow = mean_of_one_run(METRIC, {}, np.linspace(0, 1, 50))
    assert slow.value == pytest.approx(0.5)
    assert "10 are needed" in slow.refused
    for nothing in ([], [math.nan] * 50):
        assert percentile_of_one_run(METRIC, {}, nothing, 0.5).refused is not None
        assert mean_of_one_run(METRIC, {}, nothing).refused is not None
    lost = percentile_of_one_run(METRIC, {}, np.append(np.arange(30.0) % 7, [math.inf] * 9), 0.9)
    assert lost.high is None
