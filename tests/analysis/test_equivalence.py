"""Two one-sided tests: by hand, against scipy's t tests, by property."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.ratio import (
    Spread,
    equivalent_pairs,
    equivalent_ratio,
    paired_ratio,
    ratio_of_means,
)
from roslens.analysis.statistics.student import t_above, t_quantile, t_two_sided

NEW, BASE = [101.0, 99.0, 103.0, 100.0], [100.0, 98.0, 99.0, 101.0]


def test_pairs_by_hand() -> None:
    # new - 1.1 base of (11, 10, 12) and (10, 10, 10): 0, -1, 1; mean 0: t = 0, p = 1/2.
    assert equivalent_pairs([11.0, 10.0, 12.0], [10.0] * 3, 0.1).p_not_above == pytest.approx(0.5)
    # new - 0.9 base: 2, 1, 3, mean 2, s = 1: t = 2 sqrt(3) = 3.4641; one-sided with 2 degrees
    # of freedom (1 - t / sqrt(2 + t^2)) / 2 = (1 - sqrt(12 / 14)) / 2 = 0.0370899.
    result = equivalent_pairs([11.0, 10.0, 12.0], [10.0] * 3, 0.1)
    assert result.p_not_below == pytest.approx((1 - math.sqrt(12 / 14)) / 2, rel=1e-12)
    assert result.p == result.p_not_above


def test_against_the_t_tests_of_scipy() -> None:
    y, x = np.array(NEW), np.array(BASE)
    found = equivalent_ratio(Spread.of(y), Spread.of(x), 0.05)
    low = stats.ttest_ind(y, 0.95 * x, equal_var=False, alternative="greater").pvalue
    high = stats.ttest_ind(y, 1.05 * x, equal_var=False, alternative="less").pvalue
    assert (found.p_not_below, found.p_not_above) == (pytest.approx(low), pytest.approx(high))
    pairs = equivalent_pairs(y, x, 0.05)
    low = stats.ttest_rel(y, 0.95 * x, alternative="greater").pvalue
    high = stats.ttest_rel(y, 1.05 * x, alternative="less").pvalue
    assert (pairs.p_not_below, pairs.p_not_above) == (pytest.approx(low), pytest.approx(high))


values = st.lists(st.floats(90, 110), min_size=4, max_size=4, unique=True)


@settings(derandomize=True)
@given(values, values, st.sampled_from([0.02, 0.05, 0.2]))
def test_equivalent_exactly_where_the_interval_at_90_percent_lies_inside(
    y: list[float], x: list[float], threshold: float
) -> None:
    """Two tests at 5 % and the interval at 90 % are two ways to one answer."""
    for effect, found in (
        (
            ratio_of_means(Spread.of(y), Spread.of(x), 0.9),
            equivalent_ratio(Spread.of(y), Spread.of(x), threshold),
        ),
        (paired_ratio(y, x, 0.9), equivalent_pairs(y, x, threshold)),
    ):
        inside = 1 - threshold < effect.low and effect.high < 1 + threshold
        if abs(found.p - 0.05) > 1e-9:
            assert inside == (found.p < 0.05)


@settings(derandomize=True)
@given(values, values, st.floats(1e-3, 1e6))
def test_scale_and_order_do_not_matter(y: list[float], x: list[float], scale: float) -> None:
    one = equivalent_ratio(Spread.of(y), Spread.of(x), 0.05).p
    scaled = equivalent_ratio(
        Spread.of([scale * v for v in y[::-1]]), Spread.of([scale * v for v in x]), 0.05
    ).p
    assert scaled == pytest.approx(one, rel=1e-6, abs=1e-12)
    pairs = equivalent_pairs(y, x, 0.05).p
    assert equivalent_pairs(y[::-1], x[::-1], 0.05).p == pytest.approx(pairs, rel=1e-6, abs=1e-12)


def test_constant_series_are_certain_and_bad_input_is_refused() -> None:
    same = Spread(10.0, 0.0, 5)
    assert equivalent_ratio(same, same, 0.05).p == 0
    assert equivalent_ratio(Spread(11.0, 0.0, 5), same, 0.05).p == 1
    assert equivalent_pairs([10.0] * 3, [10.0] * 3, 0.05).p == 0
    for y, x in (([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, math.nan], [1.0, 2.0, 3.0]), ([], [])):
        with pytest.raises(ValueError, match="need"):
            equivalent_pairs(y, x, 0.05)
    for threshold in (0.0, 1.0):
        with pytest.raises(ValueError, match="threshold"):
            equivalent_ratio(same, same, threshold)


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 4, 30, 1e6])
def test_student_is_that_of_scipy_stats(freedom: float) -> None:
    for p in (0.001, 0.025, 0.5, 0.8, 0.975, 0.9999):
        assert t_quantile(p, freedom) == pytest.approx(
            stats.t.ppf(p, freedom), rel=1e-10, abs=1e-12
        )
        t = float(stats.t.ppf(p, freedom))
        assert t_above(t, freedom) == pytest.approx(1 - p, rel=1e-9)
        assert t_two_sided(t, freedom) == pytest.approx(2 * min(p, 1 - p), rel=1e-9)
