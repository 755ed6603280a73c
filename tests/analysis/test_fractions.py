"""Test fractions over runs: by hand, also with unknowns, and by simulation of losses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.calibration import losses
from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics.fractions import (
    bounded_fraction_over_runs,
    fraction_over_runs,
    p_of,
    spread_behind,
)
from roslens.analysis.statistics.ratio import Spread
from roslens.analysis.verdicts.budgets import check, parse_budget
from roslens.analysis.verdicts.one_cell import compare

LOSS = Metric("loss", "lost / sent", "1", scale="fraction")


def bounds(estimate: Estimate) -> tuple[float, float]:
    return estimate.low, estimate.high


def test_by_hand() -> None:
    """Fractions .01, .02, .03: e = .01 / sqrt 3, more than binomial; t(2) = 4.302653, h = 1.242069.

    Above: seen = .02 (1 + 1.692820 h) = .062052; a part 1 - .05 ** (1 / 3) = .631597 of the runs
    may not have been met, and loses all: .368403 .062052 + .631597 = .654457.
    """
    estimate = fraction_over_runs(LOSS, {}, [100, 400, 300], [10_000, 20_000, 10_000])
    assert (estimate.value, estimate.samples) == (pytest.approx(0.02), 40_000)
    assert bounds(estimate) == (
        pytest.approx(0.02 * math.exp(-1.242069), rel=1e-6),
        pytest.approx(0.654457, rel=1e-5),
    )


def test_one_lost_in_each_run_is_no_certainty() -> None:
    """If every run has the same, the error is the binomial one, sqrt(.001 .999 / 3000)."""
    low, high = bounds(fraction_over_runs(LOSS, {}, [1, 1, 1], [1000] * 3))
    # Clopper and Pearson's interval of 3 of 3,000 is [.000206, .002919].
    assert low < 0.000206
    assert high > 0.002919


def test_nothing_lost_needs_many_runs() -> None:
    few = fraction_over_runs(LOSS, {}, [0] * 10, [1000] * 10)
    assert (few.value, few.low, few.high) == (0, None, None)
    # .9 ** 10 = .349; .9 ** 29 = .0471 is the first below .05.
    assert "10 runs contain none in 35 % of cases; 29 runs are needed" in few.refused
    assert fraction_over_runs(LOSS, {}, [0] * 28, [1000] * 28).refused is not None
    # Clopper and Pearson for 0 of 2,900 bursts of ten.
    many = fraction_over_runs(LOSS, {}, [0] * 29, [1000] * 29)
    assert bounds(many) == (0, pytest.approx(1 - 0.025 ** (1 / 2900)))


counts = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 2000)), min_size=3, max_size=30)


@given(counts)
def test_of_the_other_part_it_is_the_mirror_image(runs: list[tuple[int, int]]) -> None:
    events, totals = [min(e, n) for e, n in runs], [n for _, n in runs]
    estimate = fraction_over_runs(LOSS, {}, events, totals)
    rest = [n - e for e, n in zip(events, totals, strict=True)]
    mirrored = fraction_over_runs(LOSS, {}, rest, totals)
    assert (estimate.low is None) == (mirrored.low is None)
    if estimate.value in (0.5, mirrored.value) or estimate.low is None:
        return
    assert bounds(estimate) == pytest.approx(
        (1 - bounds(mirrored)[1], 1 - bounds(mirrored)[0]), abs=1e-9
    )
    assert 0 <= bounds(estimate)[0] <= (estimate.value or 0) + 1e-12
    assert (estimate.value or 0) - 1e-12 <= bounds(estimate)[1] <= 1


@given(counts, st.floats(0.0001, 0.9999))
def test_p_and_interval_agree(runs: list[tuple[int, int]], limit: float) -> None:
    estimate = fraction_over_runs(LOSS, {}, [min(e, n) for e, n in runs], [n for _, n in runs])
    spread = spread_behind(estimate)
    if estimate.low is None or isinstance(spread, str) or spread.deviation == 0:
        return
    low, high = bounds(estimate)
    if min(abs(limit - low), abs(limit - high)) > 1e-6:
        assert (p_of(estimate, spread, limit) >= 0.05) == (low <= limit <= high)


@given(counts)
def test_the_spread_comes_back_out_of_the_interval(runs: list[tuple[int, int]]) -> None:
    """The truth is the mean and the standard error that the module's docstring names."""
    events, totals = [min(e, n) for e, n in runs], [n for _, n in runs]
    spread = spread_behind(fraction_over_runs(LOSS, {}, events, totals))
    shares = [e / n for e, n in zip(events, totals, strict=True)]
    mean, k = sum(shares) / len(shares), len(shares)
    if not isinstance(spread, Spread) or mean in (0, 1):
        return
    variance = sum((v - mean) ** 2 for v in shares) / (k - 1)
    binomial = mean * (1 - mean) * sum(1 / n for n in totals) / k
    assert spread.deviation == pytest.approx(math.sqrt(max(variance, binomial)), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", losses.KINDS)
@pytest.mark.parametrize("runs", [3, 10])
def test_it_covers_bursts_runs_that_differ_and_bad_runs(kind: str, runs: int) -> None:
    """0.5 % of 1,000 messages, 400 simulations: 2.6 Monte Carlo errors (of .013) below .93."""
    low, high, truth, _ = losses.simulated(kind, 0.005, 1000, runs, 400)
    given = np.isfinite(low)
    assert ((low <= truth) & (truth <= high))[given].mean() >= 0.93 - 2.6 * 0.0128


def test_check_at_the_border_is_rarely_within() -> None:
    """One bad run in ten, with 5 %, makes 0.5 %; in 73 % of experiments three runs meet none."""
    events = losses.drawn("bad run, others none", 0.005, 1000, 3, 200)
    budget = parse_budget("loss < 0.5 %")
    estimates = [fraction_over_runs(LOSS, {}, row, [1000] * 3) for row in events.tolist()]
    verdicts = [check(budget, estimate).verdict for estimate in estimates]
    assert verdicts.count("within") <= 0.05 * 200


def bounded(lost: list[int], known: list[int], unknown: list[int]) -> Estimate:
    return bounded_fraction_over_runs(LOSS, {}, lost, known, unknown=unknown)


def test_without_unknown_ones_it_is_the_plain_fraction() -> None:
    plain = fraction_over_runs(LOSS, {}, [1, 2, 3], [100, 100, 100])
    assert bounded([1, 2, 3], [100, 100, 100], [0, 0, 0]) == plain


def test_a_few_unknown_ones_widen_the_interval() -> None:
    """The interval goes from all unknown messages having arrived to none having arrived.

    One of 101 is less than chance leaves open (Clopper and Pearson: 1 - 0.025 ** (1 / 303) = 1.21
    %).
    """
    estimate = bounded([1, 2, 3], [100, 100, 100], [1, 1, 1])
    least = fraction_over_runs(LOSS, {}, [1, 2, 3], [101, 101, 101])
    most = fraction_over_runs(LOSS, {}, [2, 3, 4], [101, 101, 101])
    assert (estimate.value, estimate.refused) == (0.02, None)
    assert (estimate.low, estimate.high) == (least.low, most.high)
    assert "of 3 of 303 it is not known" in estimate.method


def test_many_unknown_ones_refuse_it_and_tell_the_bounds() -> None:
    """0 of 339 known messages are lost, 252 more are unknown: between 0 and 252 / 591."""
    estimate = bounded([0, 0, 0], [339, 339, 339], [252, 252, 252])
    assert (estimate.value, estimate.low, estimate.high) == (None, None, None)
    assert "of 756 of 1,773 messages nobody can say" in estimate.refused
    assert "between 0 % and 42.6 %" in estimate.refused
    assert check(parse_budget("loss < 2 %"), estimate).verdict == "not_enough_evidence"
    assert compare(estimate, estimate).verdict == "not_enough_evidence"


def test_a_fraction_near_one_is_bounded_as_its_complement() -> None:
    """By definition: of 8 messages that arrived 2 did not, and unknown ones may be of both."""
    lost, known = [1, 2, 3], [100, 100, 100]
    for unknown in ([1, 1, 1], [10, 10, 10]):
        arrived = bounded([n - e for e, n in zip(lost, known, strict=True)], known, unknown)
        missed = bounded(lost, known, unknown)
        assert (arrived.value is None) == (missed.value is None)
        if missed.value is None:
            assert missed.bounds == pytest.approx([1 - bound for bound in arrived.bounds[::-1]])
        else:
            assert (1 - missed.high, 1 - missed.low) == pytest.approx((arrived.low, arrived.high))


def test_where_nothing_is_known_it_lies_between_none_and_all() -> None:
    estimate = bounded([0, 0, 0], [0, 0, 0], [10, 10, 10])
    assert "between 0 % and 100 %" in estimate.refused
