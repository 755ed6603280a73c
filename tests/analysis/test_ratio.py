"""Test ratios, differences, equivalence: by hand, against scipy, by simulation, by property."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.ratio import (
    Spread,
    difference_of_means,
    equivalent_pairs,
    equivalent_ratio,
    least_runs,
    p_of_difference,
    paired_p,
    paired_ratio,
    ratio_of_means,
    ratio_of_positive,
    root,
    runs_for_ratio,
)

values = st.lists(st.floats(1.0, 100.0), min_size=3, max_size=12)


def test_fieller_by_hand() -> None:
    # Equal runs and spreads: m1 = 12, m0 = 10, s = 1, k = 4, so variances of means are 1/4.
    # With df(r) = 3 (1 + r^2)^2 / (1 + r^4) a bound solves (12 - 10 r)^2 = t^2 (1 + r^2) / 4.
    effect = ratio_of_means(Spread(12, 1, 4), Spread(10, 1, 4))
    assert effect.value == pytest.approx(1.2)
    for r in (effect.low, effect.high):
        t = stats.t.ppf(0.975, 3 * (1 + r**2) ** 2 / (1 + r**4))
        assert (12 - 10 * r) ** 2 == pytest.approx(t**2 * (1 + r**2) / 4, rel=1e-9)
    assert effect.low < 1.2 < effect.high


def test_difference_is_welch() -> None:
    # scipy's Welch test and interval are the second implementation.
    a, b = [10.0, 12.0, 11.0, 15.0], [9.0, 9.5, 8.0, 10.0, 9.0]
    expected = stats.ttest_ind(a, b, equal_var=False)
    interval = expected.confidence_interval(0.95)
    effect = difference_of_means(Spread.of(a), Spread.of(b))
    assert effect.p == pytest.approx(expected.pvalue, rel=1e-12)
    assert (effect.low, effect.high) == pytest.approx((interval.low, interval.high), rel=1e-12)


@given(values, values)
def test_interval_and_p_never_contradict(new: list[float], base: list[float]) -> None:
    a, b = Spread.of(new), Spread.of(base)
    effect = ratio_of_means(a, b)
    assert effect.low <= effect.value <= effect.high
    if abs(effect.p - 0.05) > 1e-6:
        assert (effect.p < 0.05) == (effect.low > 1 or effect.high < 1)


@given(values, values, st.floats(1e-9, 1e9))
def test_scale_does_not_matter(new: list[float], base: list[float], scale: float) -> None:
    ratio = ratio_of_means(Spread.of(new), Spread.of(base))
    scaled = ratio_of_means(Spread.of(np.array(new) * scale), Spread.of(np.array(base) * scale))
    for name in ("value", "low", "high"):
        assert getattr(ratio, name) == pytest.approx(getattr(scaled, name), rel=1e-6, abs=1e-9)


@given(values, values)
def test_turning_the_ratio_round_turns_the_interval_round(
    new: list[float], base: list[float]
) -> None:
    ratio = ratio_of_means(Spread.of(new), Spread.of(base))
    inverse = ratio_of_means(Spread.of(base), Spread.of(new))
    assert inverse.value == pytest.approx(1 / ratio.value)
    if math.isfinite(ratio.high) and ratio.low > 1e-6:
        assert inverse.low == pytest.approx(1 / ratio.high, rel=1e-6)
        assert inverse.high == pytest.approx(1 / ratio.low, rel=1e-6)


def test_constant_runs() -> None:
    same = ratio_of_means(Spread(5, 0, 3), Spread(5, 0, 3))
    assert (same.low, same.value, same.high, same.p) == (1, 1, 1, 1)
    more = ratio_of_means(Spread(6, 0, 3), Spread(5, 0, 3))
    assert (more.low, more.high, more.p) == (1.2, 1.2, 0)
    assert difference_of_means(Spread(6, 0, 3), Spread(5, 0, 3)).low == 1


def test_denominator_not_told_from_zero_has_no_upper_bound() -> None:
    effect = ratio_of_means(Spread(10, 1, 5), Spread(1, 3, 5))
    assert math.isinf(effect.high)
    assert effect.low > 0


@pytest.mark.parametrize(("top", "bottom"), [(1, 0), (1, -1), (-1, 1)])
def test_no_ratio_of_what_is_not_positive(top: float, bottom: float) -> None:
    with pytest.raises(ValueError, match="positive mean"):
        ratio_of_means(Spread(top, 1, 3), Spread(bottom, 1, 3))


@pytest.mark.parametrize("given_values", [[1.0, 2.0], [], [1.0, math.nan, 2.0], [1, 2, math.inf]])
def test_spread_of_what_is_no_spread(given_values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 3 finite"):
        Spread.of(given_values)


@pytest.mark.parametrize(("cv_new", "cv_base"), [(0.02, 0.02), (0.3, 0.05)])
def test_coverage_of_the_ratio(cv_new: float, cv_base: float) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        new = rng.normal(1.3, 1.3 * cv_new, 5)
        base = rng.normal(1.0, cv_base, 5)
        effect = ratio_of_means(Spread.of(new), Spread.of(base))
        hits += effect.low <= 1.3 <= effect.high
    # Monte Carlo error 0.007
    assert hits / 1000 == pytest.approx(0.95, abs=0.02)


def test_with_unequal_runs_both_tests_must_reject() -> None:
    # Three runs happen to be alike: Welch takes their spread for known, the pooled t does not.
    few, many = [1.0, 1.01, 0.99], [0.9, 1.2, 1.4, 1.1, 1.3, 1.0, 1.5, 1.2, 1.1, 1.3]
    sides = Spread.of(few), Spread.of(many)
    welch = stats.ttest_ind(few, many, equal_var=False)
    pooled = stats.ttest_ind(few, many)
    assert p_of_difference(*sides) == pytest.approx(pooled.pvalue) == ratio_of_means(*sides).p
    assert welch.pvalue < 0.05 < pooled.pvalue
    assert ratio_of_means(*sides).high > 1
    # The other way round, a few runs differ much.
    few = [0.2, 1.0, 2.6]
    welch = stats.ttest_ind(few, many, equal_var=False)
    assert p_of_difference(Spread.of(few), Spread.of(many)) == pytest.approx(welch.pvalue)


def test_ratio_of_positive_by_hand() -> None:
    # Means 2 and 1, s / mean .1 and .2, k = 4 and 4: errors .05 and .1 of the logs, df by
    # Satterthwaite 3 * .0125^2 / (.0025^2 + .01^2) = 4.41176.
    ratio = ratio_of_positive(Spread(2, 0.2, 4), Spread(1, 0.2, 4))
    half = stats.t.ppf(0.975, 4.411765) * math.hypot(0.05, 0.1)
    assert (ratio.value, ratio.low) == (2, pytest.approx(2 * math.exp(-half)))
    assert ratio.high == pytest.approx(2 * math.exp(half))
    assert ratio.p == pytest.approx(2 * stats.t.sf(math.log(2) / math.hypot(0.05, 0.1), 4.411765))
    turned = ratio_of_positive(Spread(1, 0.2, 4), Spread(2, 0.2, 4))
    assert (turned.low, turned.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))
    same = ratio_of_positive(Spread(3, 0, 4), Spread(1, 0, 5))
    assert (same.low, same.high, same.p) == (3, 3, 0)
    with pytest.raises(ValueError, match="positive means"):
        ratio_of_positive(Spread(0, 0.2, 4), Spread(1, 0.2, 4))


def test_paired_ratio_by_hand() -> None:
    # d(r) = new - r base; at each bound |mean d| sqrt(k) / sd(d) = t(k - 1, .975) = 4.302653.
    new, base = np.array([11.0, 12.0, 14.0]), np.array([10.0, 10.0, 13.0])
    effect = paired_ratio(new, base)
    assert effect.value == pytest.approx(37 / 33)
    for r in (effect.low, effect.high):
        d = new - r * base
        assert abs(d.mean()) * math.sqrt(3) / d.std(ddof=1) == pytest.approx(4.302653, abs=1e-5)
    assert effect.p == pytest.approx(stats.ttest_rel(new, base).pvalue)
    assert (effect.p < 0.05) == (effect.low > 1 or effect.high < 1)


def test_pairs_see_what_strangers_do_not() -> None:
    # Blocks differ by far more than the change within each.
    base = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    new = base * np.array([1.05, 1.06, 1.05, 1.04, 1.05])
    assert paired_p(new, base) < 0.05
    assert paired_ratio(new, base).low > 1
    assert p_of_difference(Spread.of(new), Spread.of(base)) > 0.5


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="at least 3 finite"):
        paired_ratio([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="positive mean"):
        paired_ratio([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    zero = paired_ratio([1.0, 2.0, 3.0], [-1.0, 0.0, 4.0])
    assert math.isinf(zero.high)


def test_runs_needed_by_hand() -> None:
    # power 1/2: t(power) = 0. One side, variance 1: t(k-1) / sqrt(k) <= 0.715 first at k = 10
    # (0.7153 at 10 rounds to .715; 0.7154 asks for 10, 0.7153 for 11).
    assert least_runs(1.0, 0.7154, 0.95, 0.5, sides=1) == 10
    assert least_runs(1.0, 0.7153, 0.95, 0.5, sides=1) == 11
    assert least_runs(1.0, 1e-9, 0.95, 0.5, sides=1) is None
    assert runs_for_ratio(Spread(1, 0, 3), Spread(1, 0, 3), 0.0) is None


def test_runs_needed_do() -> None:
    # As many runs as recommended to tell 10 % at cv 10 %: found in about 80 % (error 0.018).
    top, bottom = Spread(1.1, 0.1, 5), Spread(1.0, 0.1, 5)
    n = runs_for_ratio(top, bottom, 0.1)
    rng = np.random.default_rng(3)
    a, b = rng.normal(1.1, 0.1, (500, n)), rng.normal(1.0, 0.1, (500, n))
    power = (stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.06)


NEW, BASE = [101.0, 99.0, 103.0, 100.0], [100.0, 98.0, 99.0, 101.0]


def test_pairs_by_hand() -> None:
    # new - 1.1 base of (11, 10, 12) and (10, 10, 10): 0, -1, 1; mean 0: t = 0, p = 1/2.
    assert equivalent_pairs([11.0, 10.0, 12.0], [10.0] * 3, 0.1) == pytest.approx(0.5)
    # new - 0.9 base of (10, 9, 11): 1, 0, 2, mean 1, s = 1: t = sqrt(3); one-sided with 2 degrees
    # of freedom (1 - t / sqrt(2 + t^2)) / 2 = (1 - sqrt(3 / 5)) / 2 = 0.1127, and as much above.
    p = equivalent_pairs([10.0, 9.0, 11.0], [10.0] * 3, 0.1)
    assert p == pytest.approx((1 - math.sqrt(3 / 5)) / 2, rel=1e-12)


def test_against_the_t_tests_of_scipy() -> None:
    y, x = np.array(NEW), np.array(BASE)
    for a, b in ((y, x), (x, y)):
        low = stats.ttest_ind(a, 0.95 * b, equal_var=False, alternative="greater").pvalue
        high = stats.ttest_ind(a, 1.05 * b, equal_var=False, alternative="less").pvalue
        p = equivalent_ratio(Spread.of(a), Spread.of(b), 0.05)
        assert p == pytest.approx(max(low, high))
        low = stats.ttest_rel(a, 0.95 * b, alternative="greater").pvalue
        high = stats.ttest_rel(a, 1.05 * b, alternative="less").pvalue
        assert equivalent_pairs(a, b, 0.05) == pytest.approx(max(low, high))


four = st.lists(st.floats(90, 110), min_size=4, max_size=4, unique=True)


@given(four, four, st.sampled_from([0.02, 0.05, 0.2]))
def test_equivalent_exactly_where_the_interval_at_90_percent_lies_inside(
    y: list[float], x: list[float], threshold: float
) -> None:
    """Two tests at 5 % and the interval at 90 % give the same answer."""
    for effect, p in (
        (
            ratio_of_means(Spread.of(y), Spread.of(x), 0.9),
            equivalent_ratio(Spread.of(y), Spread.of(x), threshold),
        ),
        (paired_ratio(y, x, 0.9), equivalent_pairs(y, x, threshold)),
    ):
        inside = 1 - threshold < effect.low and effect.high < 1 + threshold
        if abs(p - 0.05) > 1e-9:
            assert inside == (p < 0.05)


@given(four, four, st.floats(1e-3, 1e6))
def test_scale_and_order_do_not_matter(y: list[float], x: list[float], scale: float) -> None:
    p = equivalent_ratio(Spread.of(y), Spread.of(x), 0.05)
    scaled = equivalent_ratio(
        Spread.of([scale * v for v in y[::-1]]), Spread.of([scale * v for v in x]), 0.05
    )
    assert scaled == pytest.approx(p, rel=1e-6, abs=1e-12)
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


def test_a_root_by_hand() -> None:
    assert root(lambda x: x * x - 2, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert root(lambda x: 2 - x * x, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x * x, 1.0, 2.0)


@given(st.floats(1e-9, 1e9), st.floats(1.5, 1e3))
def test_the_place_is_found_to_the_last_digit(place: float, factor: float) -> None:
    zero = root(lambda x: x - place, place / factor, place * factor)
    assert abs(zero - place) <= 2 * math.ulp(place)
