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

NEW, BASE = [101.0, 99.0, 103.0, 100.0], [100.0, 98.0, 99.0, 101.0]


def test_pairs_by_hand() -> None:
    # new - 1.1 base of (11, 10, 12) and (10, 10, 10): 0, -1, 1; mean 0: t = 0, p = 1/2.
    assert equivalent_pairs([11.0, 10.0, 12.0], [10.0] * 3, 0.1) == pytest.approx(0.5)
    # new - 0.9 base of (10, 9, 11): 1, 0, 2, mean 1, s = 1: t = sqrt(3); one-sided with 2 degrees
    # of freedom (1 - t / sqrt(2 + t^2)) / 2 = (1 - sqrt(3 / 5)) / 2 = 0.1127, and as much above.
    both = equivalent_pairs([10.0, 9.0, 11.0], [10.0] * 3, 0.1)
    assert both == pytest.approx((1 - math.sqrt(3 / 5)) / 2, rel=1e-12)


def test_against_the_t_tests_of_scipy() -> None:
    y, x = np.array(NEW), np.array(BASE)
    for a, b in ((y, x), (x, y)):
        low = stats.ttest_ind(a, 0.95 * b, equal_var=False, alternative="greater").pvalue
        high = stats.ttest_ind(a, 1.05 * b, equal_var=False, alternative="less").pvalue
        found = equivalent_ratio(Spread.of(a), Spread.of(b), 0.05)
        assert found == pytest.approx(max(low, high))
        low = stats.ttest_rel(a, 0.95 * b, alternative="greater").pvalue
        high = stats.ttest_rel(a, 1.05 * b, alternative="less").pvalue
        assert equivalent_pairs(a, b, 0.05) == pytest.approx(max(low, high))


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
        if abs(found - 0.05) > 1e-9:
            assert inside == (found < 0.05)


@settings(derandomize=True)
@given(values, values, st.floats(1e-3, 1e6))
def test_scale_and_order_do_not_matter(y: list[float], x: list[float], scale: float) -> None:
    one = equivalent_ratio(Spread.of(y), Spread.of(x), 0.05)
    scaled = equivalent_ratio(
        Spread.of([scale * v for v in y[::-1]]), Spread.of([scale * v for v in x]), 0.05
    )
    assert scaled == pytest.approx(one, rel=1e-6, abs=1e-12)
    pairs = equivalent_pairs(y, x, 0.05)
    assert equivalent_pairs(y[::-1], x[::-1], 0.05) == pytest.approx(pairs, rel=1e-6, abs=1e-12)


def test_constant_series_are_certain_and_bad_input_is_refused() -> None:
    same = Spread(10.0, 0.0, 5)
    assert equivalent_ratio(same, same, 0.05) == 0
    assert equivalent_ratio(Spread(11.0, 0.0, 5), same, 0.05) == 1
    assert equivalent_pairs([10.0] * 3, [10.0] * 3, 0.05) == 0
    for y, x in (([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, math.nan], [1.0, 2.0, 3.0]), ([], [])):
        with pytest.raises(ValueError, match="need"):
            equivalent_pairs(y, x, 0.05)
    for threshold in (0.0, 1.0):
        with pytest.raises(ValueError, match="threshold"):
            equivalent_ratio(same, same, threshold)
