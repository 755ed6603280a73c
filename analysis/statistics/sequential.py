"""Estimate how much slower B is than A, validly even if one looks after every pair and stops.

The first eight runs, four of each side, are in random order, each of the 70 orders equally likely;
after them A and B run in pairs, within a pair in random order (a fair coin). Assume that B is like
A but `exp(theta)` times as large, and let z be the logarithms of all runs, those of B less theta.
Whatever they are (drift, autocorrelation, skew, effects of runs), the random order alone decides
which of them belong to B.

Among the first eight runs, let U be the number of the 16 comparisons of a run of B with a run of A
that B wins. It has the distribution of Mann and Whitney (1947, Ann. Math. Statist. 18), so that a
payoff g(U) whose mean over the 70 orders is 1 is a fair bet. For a later pair let s be 1 or -1 as
the coin falls and u any bet that depends on earlier runs and on the two z without their sides; then

    2 / (1 + exp(-2 u s))  =  exp(u s) / cosh(u)

has mean 1. The product is a nonnegative martingale, and so is an average of such products: the
wealth of somebody who bets that B is above theta. By Ville's inequality it reaches 2 / alpha with
a probability of at most alpha / 2, whenever one looks. The lower bound of the confidence sequence
is the least theta at which the wealth has stayed below 2 / alpha; the upper bound is the same for
A / B. With fewer than 8 runs no bound is possible: one of the 35 orders of 3 and 4 runs has 2.9 %,
above 2.5 %.

u is proportional to the difference of the ranks of the two z among the runs just before:
Wilcoxon's score, which loses 5 % if runs are normal, and gains if they are skewed or have outliers.
Ramdas, Ruf, Larsson and Koolen (2020, arXiv:2009.03167, on symmetric distributions) show that such
products are the admissible ones; de la Pena (1999, Ann. Probab. 27) has the inequality, Howard,
Ramdas, McAuliffe and Sekhon (2021, Ann. Statist. 49) confidence sequences from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

from roslens.analysis.statistics.finite import finite_pairs
from roslens.recording.arrays import ArrayLike, Bools, Floats, np

OPENING = 4
"""Number of runs of each side that open a race: fewer could show nothing, in whatever order."""

_ALL = 0.55
"""Share of the stake on all 16 comparisons: it pays 70 times, so that 8 runs may do (2 / 0.05)."""

_TILT = 0.3
"""Exponent of the rest of the stake, on exp(_TILT U): the first runs count even if insufficient."""

_BETS = ((0.5, 0.25), (1.0, 0.5), (2.0, 0.25))
"""Effects bet on, in units of the resolution, each with its share of the wealth."""

_LARGEST = 2.0
"""Largest bet: one that is lost leaves 4 % of its share."""

_WINDOW = 16
"""Number of preceding pairs among whose runs a pair is ranked."""

_RANK_BET = 6 / math.sqrt(2 * math.pi)
"""u is this times effect / sd of log(B / A) times the difference of ranks, for normal runs: the
difference has the mean effect / (2 sqrt(pi) sd of a run) and the variance 1 / 6."""

_STEADY = 1e-200
"""Least variance: pairs that do not differ get the largest bets."""


@dataclass(frozen=True)
class RatioInterval:
    """An interval of B / A.

    Attributes
    ----------
    value
        exp of the midmean of the log ratios: the mean of the middle half of the pairs.
    low, high
        Confidence sequence: all its intervals, after each pair, contain the true ratio with a
        probability of at least `level`. 0 and infinity while nothing is known.
    pairs
        Number of runs of each side.
    """

    value: float
    low: float
    high: float
    pairs: int
    level: float = 0.95


def resolution_of(threshold: float | None = None, precision: float | None = None) -> float:
    """Return the least difference, on the log scale, that a race is to detect.

    Parameters
    ----------
    threshold
        Relative difference that matters: 0.05 is 5 %.
    precision
        Full width of the interval relative to the value.

    Raises
    ------
    ValueError
        Neither is given, or a given one is not above 0.
    """
    wanted = [
        math.log1p(relative) / parts
        for relative, parts in ((threshold, 1), (precision, 2))
        if relative is not None
    ]
    if not wanted or not 0 < min(wanted) < math.inf:
        raise ValueError("a race needs a threshold or a precision, above 0")
    return min(wanted)


def confidence_sequence(
    a: ArrayLike, b: ArrayLike, resolution: float, level: float = 0.95
) -> RatioInterval:
    """Return the interval of B / A after these pairs.

    Each ratio that was excluded after fewer pairs remains excluded. If no constant ratio is left
    (B / A changed during the race), the interval goes from the least ratio that was excluded from
    above to the largest that was excluded from below, and grows.

    Parameters
    ----------
    a, b
        One value above 0 per run, shape (pairs,), in the order of time. The first `OPENING` runs of
        both must have run in one random order, each later pair in the order of a fair coin.
    resolution
        From `resolution_of`, decided before the first pair: the bets are best for differences of
        this size. The interval is valid for any.
    level
        Nominal coverage, between 0 and 1.

    Raises
    ------
    ValueError
        There is no pair, the lengths differ, or a value is not finite and above 0.
    """
    of_a, of_b = finite_pairs(a, b, "a race", 1)
    if not (of_a > 0).all() or not (of_b > 0).all():
        raise ValueError("a race needs values above 0")
    if not 0 < level < 1 or not resolution > 0:
        raise ValueError("the level must lie between 0 and 1, the resolution above 0")
    logs = np.stack([np.log(of_a), np.log(of_b)])
    d = logs[1] - logs[0]
    needed = math.log(2 / (1 - level))

    def left_out(theta: Floats) -> Bools:
        """Return whether B / A above exp(theta[0]), and A / B above exp(theta[1]), are excluded."""
        wealth = log_wealth(logs, logs[::-1], theta[:, None], resolution)
        return np.asarray(wealth.max(axis=1) >= needed, dtype=np.bool_)

    # Below `least` all runs of B, less theta, are above all of A; above `most` they are below.
    least = np.array([logs[1].min() - logs[0].max(), logs[0].min() - logs[1].max()]) - resolution
    most = -least[::-1]
    bounded = left_out(least)
    halvings = math.log2(1e4 * max(1.0, (most - least).max() / resolution))
    for _ in range(math.ceil(halvings)):
        middle = (least + most) / 2
        beyond = left_out(middle)
        least, most = np.where(beyond, middle, least), np.where(beyond, most, middle)
    low, high = np.where(bounded, least, -np.inf) * (1, -1)
    centre = float(np.sort(d)[d.size // 4 : d.size - d.size // 4].mean())
    # The interval is widened to hold its value; crossed bounds must not look like certainty.
    bounds = (low, centre, high)
    with np.errstate(over="ignore"):
        value, low, high = (float(bound) for bound in np.exp([centre, min(bounds), max(bounds)]))
    return RatioInterval(value, low, high, d.size, level)


def log_wealth(a: ArrayLike, b: ArrayLike, theta: ArrayLike, resolution: float) -> Floats:
    """Return the log wealth after each pair of somebody who bets that B / A is above exp(theta).

    For a bet that it is below, exchange a and b and pass `-theta`.

    Parameters
    ----------
    a, b
        Logarithms of the values of the runs, shape (..., pairs), in the order of time.
    theta
        Log ratio, broadcast to the shape of `b`.

    Returns
    -------
    Shape (..., pairs); minus infinity until the runs that open the race are complete.
    """
    of_a = np.asarray(a, dtype=np.float64)
    of_b = np.asarray(b, dtype=np.float64)
    z: Floats = of_b - np.asarray(theta, dtype=np.float64)
    logs = np.full(z.shape, -np.inf)
    if z.shape[-1] < OPENING:
        return logs
    # A tie counts as lost, which never increases the wealth.
    won = z[..., :OPENING, None] > of_a[..., None, :OPENING]
    opening = _LOG_PAYOFF[won.sum(axis=(-1, -2))]
    deviation = np.sqrt(_variance_before(of_b - of_a))
    bet = (_RANK_BET * resolution * _rank_difference(of_a, z) / deviation)[..., OPENING:]
    wealth = np.full(bet.shape, -np.inf)
    for size, share in _BETS:
        pays = math.log(2) - np.log1p(np.exp(-2 * np.clip(size * bet, -_LARGEST, _LARGEST)))
        wealth = np.logaddexp(wealth, math.log(share) + np.cumsum(pays, axis=-1))
    logs[..., OPENING - 1] = opening
    logs[..., OPENING:] = opening[..., None] + wealth
    return logs


def _log_payoff() -> Floats:
    """Return log g(U) by U: the mean of g over all orders of the runs that open a race is 1."""
    runs = range(2 * OPENING)
    least = sum(range(OPENING))
    orders = np.bincount([sum(ranks) - least for ranks in combinations(runs, OPENING)])
    tilted = np.exp(_TILT * np.arange(orders.size))
    payoff: Floats = (1 - _ALL) * tilted / (tilted @ orders) * orders.sum()
    payoff[-1] += _ALL * orders.sum()
    logs: Floats = np.log(payoff)
    return logs


_LOG_PAYOFF = _log_payoff()


def _rank_difference(a: Floats, z: Floats) -> Floats:
    """Return how much z ranks above a among runs of up to `_WINDOW` pairs before; from -1 to 1."""
    before = (np.full((*side.shape[:-1], _WINDOW), np.nan) for side in (a, z))
    earlier = [
        np.lib.stride_tricks.sliding_window_view(
            np.concatenate([none, side], axis=-1), _WINDOW, axis=-1
        )[..., :-1, :]
        for none, side in zip(before, (a, z), strict=True)
    ]
    difference: Floats = 2 * np.sign(z - a)
    for runs in earlier:
        for side, sign in ((z, 1), (a, -1)):
            above, below = ((side[..., None] > runs), (side[..., None] < runs))
            difference += sign * (above.sum(axis=-1) - below.sum(axis=-1))
    comparisons: Floats = 2.0 + 4 * np.minimum(np.arange(z.shape[-1]), _WINDOW)
    return difference / comparisons


def _variance_before(d: Floats) -> Floats:
    """Return the variance of all earlier pairs, larger while they are few; at least `_STEADY`."""
    before = np.maximum(np.arange(d.shape[-1]), 1)
    # Relative to the first pair, because ratios far from 1 would cancel.
    moved = d - d[..., :1]
    sums, squares = np.cumsum(moved, axis=-1) - moved, np.cumsum(moved**2, axis=-1) - moved**2
    freedom = np.maximum(before - 1, 1)
    variance: Floats = (squares - sums**2 / before) / freedom * (1 + 3 / freedom)
    return variance.clip(_STEADY)
