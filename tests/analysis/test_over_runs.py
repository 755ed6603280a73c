"""Test intervals over runs: by hand, by simulation, by property; refusals and their reasons."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from roslens.analysis.estimate import Estimate, Metric, Scale
from roslens.analysis.statistics.over_runs import (
    maximum_over_runs,
    mean_over_runs,
    over_runs,
    percentile_over_runs,
    student_t,
    value_over_runs,
)

# An estimate or a refusal is expected, never a warning of numpy.
pytestmark = pytest.mark.filterwarnings("error")

METRIC = Metric("latency", "from a to b", "ns")
SIGNED = replace(METRIC, scale="signed")
NORMAL_QUANTILES = {0.5: 0.0, 0.9: 1.2815515655446, 0.99: 2.3263478740408}


def bounds(estimate: Estimate) -> tuple[float, float]:
    assert estimate.refused is None
    return estimate.low, estimate.high


def test_student_t_by_hand() -> None:
    # 1, 2, 3: mean 2, s = 1, t(2, .975) = 4.302653: half width 4.302653 / sqrt(3).
    interval = student_t([1.0, 2.0, 3.0])
    assert interval.value == 2
    assert interval.low == pytest.approx(2 - 2.484138, abs=1e-6)
    assert interval.high == pytest.approx(2 + 2.484138, abs=1e-6)
    # t(2, .95) = 2.919986
    interval = student_t([1.0, 2.0, 3.0], level=0.9)
    assert interval.high == pytest.approx(2 + 2.919986 / math.sqrt(3), abs=1e-6)


def test_mean_over_runs_weighs_runs_not_samples() -> None:
    # Run means 1, 2, 6: mean 3 although most samples are 1.
    estimate = mean_over_runs(METRIC, {"a": 1}, [[1.0] * 100, [2.0] * 2, [5.0, 7.0]])
    assert estimate.value == 3
    assert (estimate.runs, estimate.samples) == (3, 104)
    low, high = bounds(estimate)
    # For quantities that cannot be negative: 3 exp(-h) and 3 (1 + (1 + 1.2 / sqrt 3) h).
    h = 4.302653 * math.sqrt(7) / 3 / math.sqrt(3)
    assert low == pytest.approx(3 * math.exp(-h), abs=1e-5)
    assert high == pytest.approx(3 * (1 + (1 + 1.2 / math.sqrt(3)) * h), abs=1e-4)
    signed = mean_over_runs(SIGNED, {"a": 1}, [[1.0] * 100, [2.0] * 2, [5.0, 7.0]])
    assert bounds(signed) == pytest.approx((3 - 3 * h, 3 + 3 * h), abs=1e-5)


@given(
    st.lists(st.floats(0, 1e9), min_size=3, max_size=20), st.sampled_from(["positive", "fraction"])
)
def test_no_bound_of_what_cannot_be_negative_is(values: list[float], scale: Scale) -> None:
    interval, _ = over_runs(replace(SIGNED, scale=scale), values)
    if interval.refused is None and (scale == "positive" or max(values) <= 1):
        assert 0 <= interval.low <= interval.value * (1 + 1e-12)
        assert interval.value * (1 - 1e-12) <= interval.high


def test_a_negative_run_is_told_as_it_is() -> None:
    # Between two hosts' clocks a latency can be below zero.
    interval, how = over_runs(METRIC, [-1.0, 1.0, 3.0])
    assert (interval.low, how) == (student_t([-1.0, 1.0, 3.0]).low, "Student t over runs")


@pytest.mark.parametrize("runs", [[], [[1.0, 2.0]], [[1.0, 2.0], [3.0]]])
def test_fewer_than_three_runs_are_refused(runs: list[list[float]]) -> None:
    estimate = mean_over_runs(METRIC, {}, runs)
    assert (estimate.low, estimate.high) == (None, None)
    assert "at least 3 are needed" in estimate.refused
    assert (estimate.value is None) == (not runs)


def test_nan_is_refused_and_said() -> None:
    runs = [[1.0, math.nan], [2.0], [3.0]]
    for estimate in (
        mean_over_runs(METRIC, {}, runs),
        percentile_over_runs(METRIC, {}, runs, 0.5),
        value_over_runs(METRIC, {}, [1.0, math.nan, 2.0], 3),
    ):
        assert estimate.value is None
        assert estimate.refused == "1 of 3 runs gave what is not a number"


def test_only_lateness_can_be_infinite() -> None:
    late = mean_over_runs(METRIC, {}, [[1.0, math.inf], [2.0], [3.0]])
    assert (late.value, late.refused) == (math.inf, "infinite in 1 of 3 runs")
    for runs in ([[1.0, -math.inf], [2.0], [3.0]], [[math.inf, -math.inf], [2.0], [3.0]]):
        early = mean_over_runs(METRIC, {}, runs)
        assert (early.value, early.refused) == (None, "1 of 3 runs gave what is not a number")
    huge = mean_over_runs(METRIC, {}, [[1e308], [-1e308], [1.0]])
    assert huge.refused == "the values are too large to compute with"


def test_runs_without_samples_are_left_out_and_named() -> None:
    estimate = mean_over_runs(METRIC, {}, [[1.0], [], [2.0], [3.0]])
    assert (estimate.value, estimate.runs) == (2, 3)
    assert "1 run without samples left out" in estimate.method


def test_a_quantised_clock_gives_its_width() -> None:
    # Microseconds: the median of all runs is 2,000 ns, which a timestamp's tick may be off by.
    runs = [np.array([1000.0, 2000, 2000, 2000, 3000, 2000] * 4)] * 3
    for estimate in (
        mean_over_runs(METRIC, {}, runs),
        percentile_over_runs(METRIC, {}, runs, 0.5),
    ):
        assert bounds(estimate) == (1000, 3000)
    # The tick of a single value is the power of ten that divides it; none is below zero.
    same = [np.full(100, 5_000_000.0)] * 3
    assert bounds(percentile_over_runs(METRIC, {}, same, 0.5)) == (4e6, 6e6)
    assert bounds(mean_over_runs(METRIC, {}, [np.full(9, 100.0)] * 3)) == (0, 200)
    # Nanoseconds, and quantities that are no times, add next to nothing.
    fine = [np.array([1001.0, 2000, 2000, 2000, 3000, 2000] * 4)] * 3
    assert bounds(percentile_over_runs(METRIC, {}, fine, 0.5)) == (1999, 2001)
    bytes_each = replace(METRIC, unit="byte")
    assert bounds(percentile_over_runs(bytes_each, {}, runs, 0.5)) == (2000, 2000)


def test_a_percentile_needs_five_effective_samples_beyond_it() -> None:
    rng = np.random.default_rng(1)
    enough = [rng.standard_normal(650) for _ in range(5)]
    assert percentile_over_runs(METRIC, {}, enough, 0.99).refused is None
    few = [run[:375] for run in enough]
    refused = percentile_over_runs(METRIC, {}, few, 0.99, rate_hz=500)
    assert "P99 needs 500" in refused.refused
    assert "s per run" in refused.refused
    assert refused.value is not None
    assert (refused.low, refused.high) == (None, None)
    assert percentile_over_runs(METRIC, {}, few, 0.9).refused is None


def test_correlated_samples_do_not_count_as_independent() -> None:
    rng = np.random.default_rng(2)
    # Each value occurs 10 times: 2,600 samples that are worth 260.
    runs = [np.repeat(rng.standard_normal(260), 10) for _ in range(5)]
    estimate = percentile_over_runs(METRIC, {}, runs, 0.99)
    assert estimate.refused is not None
    assert estimate.effective_samples < 0.2 * estimate.samples


@pytest.mark.parametrize(("q", "least"), [(0.5, 6), (0.9, 29), (0.99, 299)])
def test_below_the_least_number_there_is_no_value_either(q: float, least: int) -> None:
    rng = np.random.default_rng(3)
    runs = [rng.standard_normal(least) for _ in range(5)]
    assert percentile_over_runs(METRIC, {}, runs, q).value is not None
    runs[2] = runs[2][:-1]
    estimate = percentile_over_runs(METRIC, {}, runs, q)
    assert estimate.value is None
    assert f"needs {least}" in estimate.refused


def test_lost_messages_make_a_percentile_infinite() -> None:
    rng = np.random.default_rng(4)
    runs = [rng.standard_normal(3000) for _ in range(5)]
    runs[1][:60] = math.inf  # 2 %
    p99 = percentile_over_runs(METRIC, {}, runs, 0.99)
    assert p99.value == math.inf
    assert p99.refused == "infinite: in 1 of 5 runs more than 1 % were lost"
    assert p99.to_json()["value"] is None
    p90 = percentile_over_runs(METRIC, {}, runs, 0.9)
    assert math.isfinite(p90.value)


@pytest.mark.parametrize(("q", "samples"), [(0.5, 25), (0.9, 100), (0.99, 800)])
def test_coverage_of_percentiles_at_little_more_than_the_least_samples(
    q: float, samples: int
) -> None:
    """Lognormal samples, 5 runs, 400 simulations: Monte Carlo standard error .011.

    The true percentile of the population must be covered in .95 +- 3.3 standard errors.
    """
    rng = np.random.default_rng(6)
    truth = math.exp(NORMAL_QUANTILES[q])
    covered = given_up = 0
    for _ in range(400):
        runs = np.exp(rng.standard_normal((5, samples)))
        estimate = percentile_over_runs(METRIC, {}, list(runs), q)
        if estimate.low is None or estimate.high is None:
            given_up += 1
            continue
        covered += estimate.low <= truth <= estimate.high
    assert given_up < 200
    assert 0.913 <= covered / (400 - given_up) <= 0.987


@pytest.mark.parametrize(("q", "phi"), [(0.5, 0.98), (0.9, 0.95), (0.99, 0.8)])
def test_coverage_of_percentiles_of_correlated_samples(q: float, phi: float) -> None:
    """Lognormal AR(1), 5 runs of 2,500, about 8 effective samples beyond the percentile.

    200 simulations: the Monte Carlo standard error of .95 is .015, .90 is 3.3 of them below.
    """
    rng = np.random.default_rng(7)
    truth = math.exp(NORMAL_QUANTILES[q])
    covered = given = 0
    for _ in range(200):
        noise = rng.standard_normal((5, 2500)) * math.sqrt(1 - phi**2)
        noise[:, 0] /= math.sqrt(1 - phi**2)
        runs = np.exp(signal.lfilter([1], [1, -phi], noise, axis=1))
        estimate = percentile_over_runs(METRIC, {}, list(runs), q)
        if estimate.low is not None and estimate.high is not None:
            given += 1
            covered += estimate.low <= truth <= estimate.high
    assert given > 100
    assert 0.90 <= covered / given <= 1


per_run = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=3, max_size=12)


@given(per_run, st.floats(0.001, 1000), st.floats(-1e5, 1e5))
def test_intervals_scale_and_shift(values: list[float], scale: float, shift: float) -> None:
    original = student_t(values)
    moved = student_t([scale * v + shift for v in values])
    tolerance = 1e-9 * (scale * max(map(abs, values)) + abs(shift) + 1) * 10
    for before, after in (
        (original.value, moved.value),
        (original.low, moved.low),
        (original.high, moved.high),
    ):
        assert after == pytest.approx(scale * before + shift, abs=tolerance)


@given(st.permutations(range(5)))
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    rng = np.random.default_rng(7)
    runs = [np.round(rng.standard_normal(60), 1) for _ in range(5)]  # with ties
    shuffled = [runs[i] for i in order]
    for q in (0.5, 0.25):
        percentile = percentile_over_runs(METRIC, {}, runs, q)
        shuffled_percentile = percentile_over_runs(METRIC, {}, shuffled, q)
        assert percentile.value == pytest.approx(shuffled_percentile.value, abs=1e-12)
        assert percentile.low == pytest.approx(shuffled_percentile.low, abs=1e-12)
        assert percentile.refused == shuffled_percentile.refused
    first, second = (maximum_over_runs(METRIC, {}, order_of) for order_of in (runs, shuffled))
    assert (first.value, first.high) == pytest.approx((second.value, second.high), rel=1e-12)


def refused_p99(runs: int, count: int) -> float:
    """Return how often P99 of 600 independent samples per run is refused; 500 are needed."""
    rng = np.random.default_rng(runs)
    estimates = [
        percentile_over_runs(METRIC, {}, list(rng.exponential(1e6, (runs, 600))), 0.99)
        for _ in range(count)
    ]
    return sum(e.refused is not None for e in estimates) / count


def test_more_runs_do_not_refuse_more() -> None:
    """The correlation is that of all runs together, not the worst of ever more guesses."""
    few, many = refused_p99(3, 100), refused_p99(20, 50)
    assert few <= 0.12
    assert many == 0


def test_runs_that_are_truly_correlated_are_refused() -> None:
    """AR(1) with phi = 0.9 leaves the mean of 600 samples 600 (1 - .9) / (1 + .9) = 32."""
    rng = np.random.default_rng(5)
    logs = signal.lfilter([1], [1, -0.9], rng.standard_normal((20, 800)), axis=-1)[:, 200:]
    estimate = percentile_over_runs(SIGNED, {}, list(np.exp(logs)), 0.99)
    assert "in the shortest run; P99 needs 500" in estimate.refused
