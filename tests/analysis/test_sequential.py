"""Confidence sequences: by hand, by enumeration, against confseq's formula, by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.sequential import (
    RatioInterval,
    confidence_sequence,
    log_wealth,
    resolution_of,
)
from roslens.analysis.verdicts.race import decided

logs = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=1, max_size=30)


def wins(size: float) -> float:
    return 2 / (1 + math.exp(-2 * size))


def test_six_pairs_by_hand() -> None:
    # Three pairs are bet on by sign, at 1/2, 1 and 2. Then d = 0, 2, -2 have the variance 4, times
    # 1 + 3/2 as it has two degrees of freedom: 10; the three of 0, 2, -2, 10 have 27, times
    # 1 + 3/3: 54; and the four of 0, 2, -2, 10, 0 have 108/5 - (10/5)^2 = 17.6, times 5/4, which
    # is 22, times 1 + 3/4: 38.5.
    d, resolution = np.array([0.0, 2, -2, 10, 0, 1]), 2.0
    assert np.var(d[:3], ddof=1) * 2.5 == 10
    assert np.var(d[:4], ddof=1) * 2 == pytest.approx(166 / 9 * 3)
    assert np.var(d[:5], ddof=1) * 1.75 == pytest.approx(38.5)
    expected = np.zeros(6)
    for size, share in ((0.5, 0.25), (1, 0.5), (2, 0.25)):
        x = d + 1
        bets = [size, size, -size, size * 2 * x[3] / 10, size * 2 * x[4] / (166 / 3)]
        bets.append(size * 2 * x[5] / 38.5)
        expected += share * np.cumprod([wins(min(bet, 2)) for bet in bets])
    assert np.exp(log_wealth(d, -1, resolution)) == pytest.approx(expected)


def test_six_pairs_one_way_are_the_least_that_tell() -> None:
    # Of bets that are all won: (1/4 f(1/2)^3 + 1/2 f(1)^3 + 1/4 f(2)^3) f(2)^3 = 41.0 >= 2 / 0.05.
    first = sum(share * wins(size) ** 3 for size, share in ((0.5, 0.25), (1, 0.5), (2, 0.25)))
    assert first * wins(2) ** 3 == pytest.approx(41.0, abs=0.1)
    b = np.array([1.21, 1.2, 1.22, 1.2, 1.19, 1.2])
    five, six = (confidence_sequence(np.ones(n), b[:n], 0.05) for n in (5, 6))
    assert (five.low, five.high) == (0, math.inf)
    # Every bet is won where all pairs lie beyond, by enough for bets of half the resolution.
    variances = [1.75 * np.var(np.log(b[:5]), ddof=1), 2 * np.var(np.log(b[:4]), ddof=1)]
    variances.append(2.5 * np.var(np.log(b[:3]), ddof=1))
    assert 1.19 * math.exp(-4 * max(variances) / 0.05) < six.low <= 1.19
    assert 1.22 <= six.high < 1.22 * math.exp(4 * max(variances) / 0.05)
    assert six.value == pytest.approx((1.2**3 * 1.21) ** (1 / 4))
    assert decided(five, 0.1) is None
    assert decided(six, 0.1) == "regression"
    assert decided(six, 0.1, better="higher") == "improvement"


@pytest.mark.parametrize("resolution", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("theta", [0.0, 0.3])
def test_every_pattern_of_signs(resolution: float, theta: float) -> None:
    # What the coin can do with ten pairs, all of it: the mean of the wealth is 1 after each pair,
    # and on either side the share of patterns that ever reach 2 / alpha is at most alpha / 2.
    sizes = np.random.default_rng(7).exponential(size=10) * 0.2
    signs = np.array(np.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1).T
    d = theta + signs * sizes
    above, below = (np.exp(log_wealth(s * d, s * theta, resolution)) for s in (1, -1))
    assert (above + below).mean(axis=0) / 2 == pytest.approx(np.ones(10))
    assert above.mean(axis=0) == pytest.approx(np.ones(10))
    reached = above.max(axis=1), below.max(axis=1)
    for alpha in (0.05, 0.2, 0.5):
        assert max((side >= 2 / alpha).mean() for side in reached) <= alpha / 2
    assert (reached[0] >= 4).any()


def test_wealth_is_at_least_the_self_normalised_one() -> None:
    # De la Pena's exp(u x - u^2 x^2 / 2), whose mixtures are the boundaries of Howard et al. and of
    # the package confseq, is never above exp(u x) / cosh(u x): their wealth for the same bets.
    d = np.random.default_rng(3).normal(0.1, 0.3, 200)
    variance = np.array([np.var(d[:i], ddof=1) * (1 + 3 / (i - 1)) for i in range(3, 200)])
    theirs = [math.log(share) + np.cumsum(np.concatenate([
        size * np.sign(d[:3]) - size**2 / 2, (u := size * 0.1 * d[3:] / variance) - u**2 / 2
    ])) for size, share in ((0.5, 0.25), (1, 0.5), (2, 0.25))]  # fmt: skip
    ours = log_wealth(d, 0, 0.1)
    assert (np.abs(0.2 * d[3:] / variance) < 2).all()
    assert (ours >= np.logaddexp.reduce(theirs) - 1e-12).all()
    assert ours[-1] == pytest.approx(np.logaddexp.reduce(theirs)[-1], rel=0.1)


@given(logs, st.floats(0.01, 0.5), st.floats(-3, 3))
def test_scale_and_exchange(d: list[float], resolution: float, scale: float) -> None:
    a, b = np.ones(len(d)), np.exp(d)
    here = confidence_sequence(a, b, resolution)
    exchanged = confidence_sequence(b, a, resolution)
    scaled = confidence_sequence(a * math.exp(scale), b * math.exp(scale), resolution)
    near = pytest.approx(logs_of(here), abs=0.01 * resolution)
    assert logs_of(scaled) == near
    assert logs_of(exchanged)[::-1] * -1 == near
    assert exchanged.pairs == scaled.pairs == len(d)
    assert exchanged.value * here.value == pytest.approx(1)
    assert here.low <= here.value <= here.high


def logs_of(interval: RatioInterval) -> np.ndarray:
    """Of both bounds, those beyond what a float holds as infinite."""
    with np.errstate(divide="ignore"):
        bounds = np.log([interval.low, interval.high])
    return np.where(np.abs(bounds) < 690, bounds, np.inf * np.sign(bounds))


@given(logs, st.floats(0.01, 0.5))
def test_bounds_are_where_the_wealth_suffices(d: list[float], resolution: float) -> None:
    found = confidence_sequence(np.ones(len(d)), np.exp(d), resolution)
    x = np.log(np.exp(d))
    step = 1e-3 * resolution
    for side, theta in zip((1, -1), logs_of(found), strict=True):
        if math.isfinite(theta) and found.low < found.value < found.high:
            outside = log_wealth(side * x, side * theta - step, resolution).max()
            inside = log_wealth(side * x, side * theta + step, resolution).max()
            assert inside < math.log(40) <= outside


def test_intervals_only_shrink() -> None:
    b = np.exp(np.random.default_rng(1).normal(0.05, 0.1, 120))
    rows = [confidence_sequence(np.ones(n), b[:n], 0.05) for n in range(1, 121)]
    assert (np.diff([i.low for i in rows]) >= -1e-5).all()
    assert (np.diff([-1 / i.high for i in rows]) <= 1e-5).all()


def test_a_ratio_that_is_not_constant_leaves_no_false_certainty() -> None:
    b = np.exp(0.01 * np.random.default_rng(2).normal(size=60) + np.repeat([0.0, 0.5], 30))
    found = confidence_sequence(np.ones(60), b, 0.05)
    assert found.low < 1.02
    assert found.high > math.exp(0.2)


def test_false_alarms_at_most_five_percent() -> None:
    # All at once, looked at after every pair: drift of 50 %, skew, two modes, effects of runs. By
    # the binomial distribution more than 42 alarms of 600 would come once in 100 such tests.
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(600, 200)) * 0.05 + np.linspace(0, math.log(1.5), 200)
    runs += 0.3 * (rng.random(runs.shape) < 0.1) + np.log1p(rng.exponential(size=runs.shape) / 20)
    d = np.where(rng.random((600, 100)) < 0.5, 1, -1) * (runs[:, 1::2] - runs[:, ::2])
    alarms = sum(
        int((log_wealth(s * d, 0, 0.05).max(axis=1) >= math.log(40)).sum()) for s in (1, -1)
    )
    assert alarms <= stats.binom.ppf(0.99, 600, 0.05) == 43
    slower = log_wealth(d + math.log(1.2), 0, 0.05).max(axis=1) >= math.log(40)
    assert slower.all()


@pytest.mark.parametrize(
    ("low", "high", "lower", "higher"),
    [
        (1.01, 1.2, "regression", "improvement"),
        (0.8, 0.99, "improvement", "regression"),
        (0.92, 1.08, "no_difference", "no_difference"),
        (1.02, 1.05, "no_difference", "no_difference"),
        (0.95, 1.12, None, None),
        (0.0, math.inf, None, None),
    ],
)
def test_verdicts(low: float, high: float, lower: str | None, higher: str | None) -> None:
    interval = RatioInterval(1.0, low, high, 10)
    assert decided(interval, 0.1) == lower
    assert decided(interval, 0.1, better="higher") == higher


def test_precision_ends_a_race_too() -> None:
    interval = RatioInterval(1.05, 0.95, 1.12, 10)
    assert decided(interval, 0.1, precision=0.17) == "not_enough_evidence"
    assert decided(interval, 0.1, precision=0.15) is None
    assert decided(RatioInterval(1.05, 1.01, 1.12, 10), None) is None
    assert decided(RatioInterval(1.05, 1.01, 1.12, 10), None, precision=0.2) == "regression"


def test_bad_input() -> None:
    assert resolution_of(0.1, 0.1) == pytest.approx(math.log(1.1) / 2)
    with pytest.raises(ValueError, match="threshold or a precision"):
        resolution_of()
    with pytest.raises(ValueError, match="above 0"):
        confidence_sequence([1.0, 0.0], [1.0, 1.0], 0.1)
    with pytest.raises(ValueError, match="needs pairs"):
        confidence_sequence([1.0], [1.0, 1.0], 0.1)
    with pytest.raises(ValueError, match="at least 1"):
        confidence_sequence([], [], 0.1)
