"""Test ranks by hand, against scipy's Mann-Whitney, by simulation; adjusted p values by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.multiplicity import holm, holm_of_known
from roslens.analysis.statistics.ranks import _mann_whitney, cliffs_delta, hodges_lehmann

values = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=10)


def test_three_by_three_by_hand() -> None:
    # Differences -1 1 1 2 3 4 4 6 7; 8 of 9 pairs are above, 1 below.
    new, base = [3.0, 5.0, 8.0], [1.0, 2.0, 4.0]
    assert hodges_lehmann(new, base).value == 3
    assert cliffs_delta(new, base) == pytest.approx(7 / 9)
    # A two-sided exact 95 % is out of reach with 3 and 3: P(U = 0) = 1/20 on either side.
    assert hodges_lehmann(new, base).refused is not None


def test_five_by_five_by_hand() -> None:
    # P(U <= 2) = 4/252 <= .025 < P(U <= 3) = 7/252: from the 3rd to the 23rd difference.
    base = np.arange(5.0)
    new = np.array([0.3, 1.4, 2.6, 3.1, 7.7])
    differences = np.sort(np.subtract.outer(new, base).ravel())
    interval = hodges_lehmann(new, base)
    assert (interval.low, interval.high) == (differences[2], differences[22])


def test_exact_distribution_by_hand() -> None:
    assert [20 * probability for probability in _mann_whitney(3, 3)] == pytest.approx(
        [1, 1, 2, 3, 3, 3, 3, 2, 1, 1]
    )
    assert sum(_mann_whitney(30, 25)) == pytest.approx(1)


@given(values, values)
def test_delta_is_mann_whitneys_u(new: list[float], base: list[float]) -> None:
    u = stats.mannwhitneyu(new, base).statistic
    assert cliffs_delta(new, base) == pytest.approx(2 * u / (len(new) * len(base)) - 1)
    assert cliffs_delta(base, new) == pytest.approx(-cliffs_delta(new, base))


@given(values, values, st.integers(-20, 20))
def test_shift_moves_with_the_data(new: list[float], base: list[float], by: int) -> None:
    shift, moved = hodges_lehmann(new, base), hodges_lehmann(np.array(new) + by, base)
    assert moved.value == pytest.approx((shift.value or 0) + by)


def test_interval_covers() -> None:
    # Exact for continuous data: at least .95 (6 and 6 runs: .9589; Monte Carlo error .006).
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(1000):
        interval = hodges_lehmann(rng.standard_cauchy(6) + 2, rng.standard_cauchy(6))
        hits += interval.low <= 2 <= interval.high
    assert 0.94 <= hits / 1000 <= 0.98


def test_what_cannot_be_ranked() -> None:
    for wrong in ([], [math.nan]):
        with pytest.raises(ValueError, match="at least one value"):
            cliffs_delta(wrong, [1.0])
    assert hodges_lehmann([math.inf], [1.0]).refused == "a run is infinite"
    assert cliffs_delta([math.inf, 1.0], [math.inf, 1.0]) == 0


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made non-decreasing.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # Values that could not be tested are not among those that the others are corrected for.
    corrected = holm_of_known([0.01, None, 0.04, 0.03, 0.005])
    assert corrected == pytest.approx([0.03, None, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), max_size=30))
def test_order_of_tests_does_not_matter(p: list[float]) -> None:
    order = np.random.default_rng(len(p)).permutation(len(p))
    corrected = np.array(holm(p))
    assert holm(np.array(p)[order]) == pytest.approx(corrected[order])
    assert ((corrected >= np.array(p) - 1e-12) & (corrected <= 1)).all()


def test_none_and_what_is_no_p_value() -> None:
    assert holm([]) == []
    for wrong in ([0.5, np.nan], [-0.1], [1.1]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm(wrong)
