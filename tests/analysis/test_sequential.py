"""Test confidence sequences: by hand, enumeration, confseq's formula, and simulation."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from scipy import stats

from roslens.analysis.figures.race import race_plot
from roslens.analysis.statistics.sequential import (
    OPENING,
    RatioInterval,
    confidence_sequence,
    log_wealth,
    resolution_of,
)
from roslens.analysis.verdicts.race import decided

logs = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=1, max_size=30)
BETS = ((0.5, 0.25), (1, 0.5), (2, 0.25))


def wins(size: float) -> float:
    return 2 / (1 + math.exp(-2 * size))


def payoff(won: int) -> float:
    """Return 55 % for the one order of 70 in which B wins all 16, the rest like exp(0.3 U)."""
    # How many of the 70 orders give each U: Mann and Whitney (1947), table of four and four.
    orders = (1, 1, 2, 3, 5, 5, 7, 7, 8, 7, 7, 5, 5, 3, 2, 1, 1)
    mean = sum(n * math.exp(0.3 * u) for u, n in enumerate(orders)) / 70
    return 0.45 * math.exp(0.3 * won) / mean + 0.55 * 70 * (won == 16)


def test_six_pairs_by_hand() -> None:
    # Less theta = -1, the first four of B are 1, 3, -1, 11: they win 12 of 16 against 0, 0, 0, 0.
    b, resolution = np.array([0.0, 2, -2, 10, 0, 1]), 20.0
    # The fifth pair has z = 1 and 0, among 1, 3, -1, 11 and four times 0: z wins 5 and loses 2, 0
    # wins 1 and loses 3, and z wins against 0. The sixth has 2 and 0: 8 and 2, 1 and 4.
    ranks = np.array([(2 + (5 - 2) - (1 - 3)) / 18, (2 + (8 - 2) - (1 - 4)) / 22])
    # d = 0, 2, -2, 10 have the variance 83 / 3, times 1 + 3/3 as it has three degrees of freedom,
    # and the five of 0, 2, -2, 10, 0 have 88 / 4, times 1 + 3/4.
    bets = 6 / math.sqrt(2 * math.pi) * resolution * ranks / np.sqrt([166 / 3, 38.5])
    won = [share * np.cumprod([wins(min(size * bet, 2)) for bet in bets]) for size, share in BETS]
    expected = payoff(12) * np.array([1, *np.sum(won, axis=0)])
    wealth = np.exp(log_wealth(np.zeros(6), b, -1, resolution))
    assert wealth == pytest.approx([0, 0, 0, *expected])


def test_eight_runs_are_the_least_that_tell() -> None:
    assert payoff(16) > 2 / 0.05 > payoff(15)
    a = np.array([1.0, 1.01, 0.99, 1.0, 1.0])
    b = np.array([1.21, 1.2, 1.22, 1.19, 1.2])
    three, four = (confidence_sequence(a[:n], b[:n], 0.05) for n in (3, 4))
    assert (three.low, three.high) == (0, math.inf)
    # All of B is above all of A, and below.
    assert four.low == pytest.approx(1.19 / 1.01, abs=1e-4)
    assert four.high == pytest.approx(1.22 / 0.99, abs=1e-4)
    # The middle two of 1.21, 1.2 / 1.01, 1.22 / 0.99, 1.19.
    assert four.value == pytest.approx(math.sqrt(1.21 * 1.19))
    assert decided(three, 0.1) is None
    assert decided(four, 0.1) == "regression"
    assert decided(four, 0.1, better="higher") == "improvement"
    # Half as much may err: one more pair that is won doubles the wealth.
    four, five = (confidence_sequence(a[:n], b[:n], 0.05, 0.975) for n in (4, 5))
    assert four.low == 0
    assert five.low > 1


@pytest.mark.parametrize("resolution", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("theta", [0.0, 0.3])
def test_every_order(resolution: float, theta: float) -> None:
    # All orders that a race of eight pairs may have: 70 of the first eight runs, 2 of each pair.
    # The mean of the wealth is 1 from then on, and on either side the share of orders that ever
    # reach 2 / alpha is at most alpha / 2, whatever the runs give (here: drift and skew).
    runs = np.random.default_rng(7).exponential(size=16) * 0.2 + np.linspace(0, 0.5, 16)
    orders = [
        np.isin(range(16), [*first, *(2 * i + 8 + side for i, side in enumerate(later))])
        for first in combinations(range(8), OPENING)
        for later in product((0, 1), repeat=4)
    ]
    a = np.array([runs[~is_b] for is_b in orders])
    b = np.array([runs[is_b] + theta for is_b in orders])
    above = np.exp(log_wealth(a, b, theta, resolution))
    below = np.exp(log_wealth(b, a, -theta, resolution))
    for wealth in (above, below):
        assert wealth[:, OPENING - 1 :].mean(axis=0) == pytest.approx(np.ones(5))
        for alpha in (0.05, 0.2, 0.5):
            assert (wealth.max(axis=1) >= 2 / alpha).mean() <= alpha / 2
        assert (wealth.max(axis=1) >= 4).any()


def test_ties_are_worth_no_more_than_their_orders() -> None:
    # Runs as coarse as a clock of 1 ms: the mean over all orders is at most 1.
    runs = np.array([5, 5, 6, 6, 6, 7, 5, 9])
    orders = [np.isin(range(8), first) for first in combinations(range(8), OPENING)]
    a, b = (np.log([runs[side ^ is_b] for is_b in orders]) for side in (True, False))
    assert np.exp(log_wealth(a, b, 0, 0.1)[:, -1]).mean() <= 1


def test_wealth_is_at_least_the_self_normalised_one() -> None:
    # De la Pena's exp(u s - u^2 / 2), whose mixtures are the boundaries of Howard et al. and of the
    # package confseq, is never above exp(u s) / cosh(u): their wealth for the same bets.
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 0.2, 200), rng.normal(0.1, 0.2, 200)
    among = [slice(max(0, i - 16), i) for i in range(200)]
    ranks = [
        (2 * np.sign(b[i] - a[i]) + sum(np.sign(b[i] - x[of]).sum() - np.sign(a[i] - x[of]).sum()
                                        for x in (a, b))) / (2 + 4 * min(i, 16))
        for i, of in enumerate(among)
    ]  # fmt: skip
    variance = [np.var((b - a)[:i], ddof=1) * (1 + 3 / (i - 1)) for i in range(OPENING, 200)]
    unit = 6 / math.sqrt(2 * math.pi) * 0.05 * np.array(ranks[OPENING:]) / np.sqrt(variance)
    assert (np.abs(2 * unit) < 2).all()
    theirs = np.logaddexp.reduce(
        [math.log(share) + np.cumsum(size * unit - (size * unit) ** 2 / 2) for size, share in BETS]
    )
    won = int((b[:OPENING, None] > a[:OPENING]).sum())
    ours = log_wealth(a, b, 0, 0.05)[OPENING:] - math.log(payoff(won))
    assert (ours >= theirs - 1e-12).all()
    assert ours[-1] == pytest.approx(theirs[-1], rel=0.1)


@given(logs, st.floats(0.01, 0.5), st.floats(-3, 3))
def test_scale_and_exchange(d: list[float], resolution: float, scale: float) -> None:
    a, b = np.ones(len(d)), np.exp(d)
    sequence = confidence_sequence(a, b, resolution)
    exchanged = confidence_sequence(b, a, resolution)
    scaled = confidence_sequence(a * math.exp(scale), b * math.exp(scale), resolution)
    near = pytest.approx(logs_of(sequence), abs=0.01 * resolution)
    assert logs_of(scaled) == near
    assert logs_of(exchanged)[::-1] * -1 == near
    assert exchanged.pairs == scaled.pairs == len(d)
    assert exchanged.value * sequence.value == pytest.approx(1)
    assert sequence.low <= sequence.value <= sequence.high


def logs_of(interval: RatioInterval) -> np.ndarray:
    """Return the logarithms of both bounds, with infinities beyond what a float holds."""
    with np.errstate(divide="ignore"):
        bounds = np.log([interval.low, interval.high])
    return np.where(np.abs(bounds) < 690, bounds, np.inf * np.sign(bounds))


@given(logs, st.floats(0.01, 0.5))
def test_bounds_are_where_the_wealth_suffices(d: list[float], resolution: float) -> None:
    sequence = confidence_sequence(np.ones(len(d)), np.exp(d), resolution)
    sides = [np.zeros(len(d)), np.log(np.exp(d))]
    step = 1e-3 * resolution
    for sign, theta in zip((1, -1), logs_of(sequence), strict=True):
        if math.isfinite(theta) and sequence.low < sequence.value < sequence.high:
            outside = log_wealth(*sides[::sign], sign * theta - step, resolution).max()
            inside = log_wealth(*sides[::sign], sign * theta + step, resolution).max()
            assert inside < math.log(40) <= outside


def test_intervals_only_shrink() -> None:
    b = np.exp(np.random.default_rng(1).normal(0.05, 0.1, 120))
    rows = [confidence_sequence(np.ones(n), b[:n], 0.05) for n in range(1, 121)]
    assert (np.diff([i.low for i in rows]) >= -1e-5).all()
    assert (np.diff([-1 / i.high for i in rows]) <= 1e-5).all()


def test_a_ratio_that_is_not_constant_leaves_no_false_certainty() -> None:
    b = np.exp(0.01 * np.random.default_rng(2).normal(size=60) + np.repeat([0.0, 0.5], 30))
    sequence = confidence_sequence(np.ones(60), b, 0.05)
    assert sequence.low < 1.02
    assert sequence.high > math.exp(0.2)


def test_false_alarms_at_most_five_percent() -> None:
    # All at once, looked at after every pair: drift of 50 %, skew, two modes, effects of runs. By
    # the binomial distribution more than 42 alarms of 600 would come once in 100 such tests.
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(600, 200)) * 0.05 + np.linspace(0, math.log(1.5), 200)
    runs += 0.3 * (rng.random(runs.shape) < 0.1) + np.log1p(rng.exponential(size=runs.shape) / 20)
    is_b = np.tile([False, True], (600, 100))
    is_b[:, : 2 * OPENING] = rng.permuted(is_b[:, : 2 * OPENING], axis=1)
    is_b[:, 2 * OPENING :] ^= np.repeat(rng.random((600, 100 - OPENING)) < 0.5, 2, axis=1)
    a, b = runs[~is_b].reshape(600, -1), runs[is_b].reshape(600, -1)
    above, below = log_wealth(a, b, 0, 0.05), log_wealth(b, a, 0, 0.05)
    alarms = sum(int((side.max(axis=1) >= math.log(40)).sum()) for side in (above, below))
    assert alarms <= stats.binom.ppf(0.99, 600, 0.05) == 43
    slower = log_wealth(a, b + math.log(1.2), 0, 0.05).max(axis=1) >= math.log(40)
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


def test_the_picture_shows_each_interval_that_is_known() -> None:
    intervals = [
        RatioInterval(1.3, 0, math.inf, 1), RatioInterval(1.2, 0.9, 40, 2),
        RatioInterval(1.1, 0.95, 1.2, 3),
    ]  # fmt: skip
    plot = race_plot({"one": intervals, "other": intervals[:1]}, "time", 0.05)
    upper, lower = plot.figure.axes
    (drawn,) = (
        collection for collection in upper.collections if isinstance(collection, LineCollection)
    )
    assert [np.asarray(line).tolist() for line in drawn.get_segments()] == [
        [[2, 0.9], [2, 40]], [[3, 0.95], [3, 1.2]],
    ]  # fmt: skip
    # Values beyond a factor of ten leave the rest visible.
    assert upper.get_ylim() == pytest.approx((0.95 * 0.9, 10))
    assert lower.get_title(loc="left") == "other"
    assert plot.png().startswith(b"\x89PNG")


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
