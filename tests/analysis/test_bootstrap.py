"""Block bootstrap: against arch's block lengths, by hand, by simulation, by property."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.bootstrap import (
    bootstrap_of_one_run,
    optimal_block_length,
    resampled,
)

METRIC = Metric("x", "simulated", "1")
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def mean(x: Floats) -> Floats:
    return x.mean(axis=-1)


def test_block_lengths_against_arch() -> None:
    # arch 8.0: optimal_block_length(x)["stationary"] 11.989 and, at its upper limit, 28.686; it
    # begins the window one lag later than Politis and White write, hence the tolerance.
    y = np.sin(np.arange(400.0) ** 2)
    assert optimal_block_length(signal.lfilter([1], [1, -0.7], y)) == pytest.approx(11.99, rel=0.1)
    assert optimal_block_length(np.cumsum(y)) == pytest.approx(28.686, abs=0.001)
    assert optimal_block_length(np.sin(1.3 * np.arange(400.0) ** 2)) == 1
    for short in ([], [1.0], [1.0] * 100, [1.0, 2.0, 3.0]):
        assert optimal_block_length(short) == 1


def test_resampled_series_are_blocks() -> None:
    places = resampled(np.random.default_rng(1), 1000, 10.0, 50)
    assert places.shape == (50, 1000)
    together = (np.diff(places, axis=1) % 1000 == 1).mean()
    # A new block starts with probability 1/10; by chance it may follow on.
    assert together == pytest.approx(0.9, abs=0.01)
    # Every place is as likely as any other.
    counts = np.bincount(places.ravel(), minlength=1000)
    assert counts.min() > 10
    single = resampled(np.random.default_rng(1), 1000, 1.0, 5)
    assert (np.diff(single, axis=1) % 1000 == 1).mean() < 0.01


def test_the_interval_of_a_mean_of_independent_samples() -> None:
    # As wide as 2 * 1.96 s / sqrt(n), give or take what 1,999 resamples leave open.
    x = np.random.default_rng(2).normal(size=400)
    found = bootstrap_of_one_run(METRIC, {}, x, mean)
    assert found.low is not None
    assert found.high is not None
    assert found.value == pytest.approx(x.mean())
    width = 2 * 1.96 * x.std() / math.sqrt(400)
    assert found.high - found.low == pytest.approx(width, rel=0.1)
    assert "one run" in found.method
    assert found.runs == 1
    again = bootstrap_of_one_run(METRIC, {}, x, mean)
    assert (again.low, again.high) == (found.low, found.high)


def test_correlation_widens_it() -> None:
    rng = np.random.default_rng(3)
    x = signal.lfilter([1], [1, -0.9], rng.normal(size=4000)) * math.sqrt(1 - 0.81)
    one = bootstrap_of_one_run(METRIC, {}, x, mean)
    other = bootstrap_of_one_run(METRIC, {}, rng.permutation(x), mean)
    assert one.low is not None
    assert one.high is not None
    assert other.low is not None
    assert other.high is not None
    # sqrt((1 + .9) / (1 - .9)) = 4.4 times as wide; the block bootstrap gets most of it.
    assert (one.high - one.low) / (other.high - other.low) > 2.5


@pytest.mark.parametrize("bad", [[], [math.nan] * 50, [math.inf] + [1.0] * 50])
def test_what_has_no_interval_is_refused(bad: list[float]) -> None:
    found = bootstrap_of_one_run(METRIC, {}, bad, mean)
    assert found.value is None
    assert found.refused is not None
    short = bootstrap_of_one_run(METRIC, {}, [1.0, 2.0, 4.0], mean)
    assert short.value == pytest.approx(7 / 3)
    assert "20 are needed: about 20 samples" in str(short.refused)


@settings(derandomize=True)
@given(
    st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=40),
    st.floats(0.1, 10),
    st.floats(-10, 10),
)
def test_scale_and_shift(values: list[float], scale: float, shift: float) -> None:
    one = bootstrap_of_one_run(METRIC, {}, values, mean, resamples=99)
    moved = [scale * v + shift for v in values]
    other = bootstrap_of_one_run(METRIC, {}, moved, mean, resamples=99)
    for before, after in ((one.value, other.value), (one.low, other.low), (one.high, other.high)):
        assert (before is None) == (after is None)
        if before is not None:
            assert after == pytest.approx(scale * before + shift, abs=1e-6)
    constant = bootstrap_of_one_run(METRIC, {}, [7.0] * 30, mean, resamples=99)
    assert (constant.low, constant.high) == (7, 7)
