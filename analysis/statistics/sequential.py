"""How much slower B is than A, known well enough to look after every pair of runs and stop.

The two sides run in pairs, within a pair in random order (a fair coin). Let d be log(B / A) of a
pair, and B as A but `exp(theta)` times as large. Whatever a run gives beside that (drift, a value
that depends on the one before, skew, effects of runs), the coin alone decides the sign of
x = d - theta: given all earlier pairs and its own magnitude it is symmetric about 0. Then for any
bet u that depends on earlier pairs and on the magnitude of x,

    2 / (1 + exp(-2 u sign(x)))  =  exp(u sign(x)) / cosh(u)

has mean 1, the product over pairs is a nonnegative martingale, and so is an average of such
products: the wealth of one who bets that B is above theta. By Ville's inequality it reaches
2 / alpha with a probability of at most alpha / 2, whenever one looks. The lower bound of the
confidence sequence is the least theta at which the wealth has stayed below 2 / alpha, the upper one
the same of A / B. So no bound is known before pair 6: 2 * 2^-n < 0.05.

Ramdas, Ruf, Larsson and Koolen (2020, arXiv:2009.03167, on symmetric distributions) show that such
products are the admissible ones; de la Pena (1999, Ann. Probab. 27) has the inequality, Howard,
Ramdas, McAuliffe and Sekhon (2021, Ann. Statist. 49) confidence sequences from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roslens.analysis.statistics.finite import finite_pairs

Floats = NDArray[np.float64]

_BETS = ((0.5, 0.25), (1.0, 0.5), (2.0, 0.25))
"""Effects bet on, in units of the resolution, each with its share of the wealth."""

_LARGEST = 2.0
"""No bet is larger: one that is lost leaves 4 % of its share."""

_FIRST = 3
"""So many pairs are bet on by their sign alone: less than three tell no variance."""

_STEADY = 1e-200
"""Variances below count as this, so that pairs that do not differ are bet on by their sign."""


@dataclass(frozen=True)
class RatioInterval:
    """What is known of B / A.

    Attributes
    ----------
    value
        exp of the midmean of the log ratios: the mean of the middle half of the pairs.
    low, high
        Confidence sequence: all of them, after each pair, hold the true ratio with a probability of
        at least `level`. 0 and infinite while nothing is known.
    pairs
        Runs of each side.
    """

    value: float
    low: float
    high: float
    pairs: int
    level: float = 0.95


def resolution_of(threshold: float | None = None, precision: float | None = None) -> float:
    """On the log scale, the least difference that a race is to tell.

    Parameters
    ----------
    threshold
        Relative difference that matters: 0.05 is 5 %.
    precision
        Full width of the interval, relative to the value.

    Raises
    ------
    ValueError
        Neither is given, or one is not above 0.
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
    """Interval of B / A after these pairs; it only shrinks as pairs are added.

    Where no constant ratio is left (B / A changed during the race), it goes from the least ratio
    that was left out from above to the largest from below.

    Parameters
    ----------
    a, b
        One value above 0 per run, shape (pairs,), in the order in which the pairs were run. Which
        of a pair ran first must have been decided by a fair coin.
    resolution
        By `resolution_of`, decided before the first pair: the bets are best for differences of
        this size. The interval is valid for any.
    level
        Nominal coverage, between 0 and 1.

    Raises
    ------
    ValueError
        No pair, different lengths, or a value that is not above 0 and finite.
    """
    of_a, of_b = finite_pairs(a, b, "a race", 1)
    if not (of_a > 0).all() or not (of_b > 0).all():
        raise ValueError("a race needs values above 0")
    if not 0 < level < 1 or not resolution > 0:
        raise ValueError("the level must lie between 0 and 1, the resolution above 0")
    d = np.log(of_b) - np.log(of_a)
    sides = np.stack([d, -d])
    needed = math.log(2 / (1 - level))
    variance = _variance_before(sides)
    # Below `least` every bet is won in full, at `most` none is.
    least = sides.min(axis=1) - max(4 * variance.max() / resolution, resolution)
    most = sides.max(axis=1)
    known = _log_wealth(sides - least[:, None], variance, resolution).max(axis=1) >= needed
    halvings = math.log2(1e4 * max(1.0, (most - least).max() / resolution))
    for _ in range(math.ceil(halvings)):
        middle = (least + most) / 2
        wealth = _log_wealth(sides - middle[:, None], variance, resolution)
        left_out = wealth.max(axis=1) >= needed
        least, most = np.where(left_out, middle, least), np.where(left_out, most, middle)
    low, high = np.where(known, least, -np.inf) * (1, -1)
    centre = float(np.sort(d)[d.size // 4 : d.size - d.size // 4].mean())
    # Wider is always valid, so it holds its value; crossed bounds must not look like certainty.
    bounds = (low, centre, high)
    with np.errstate(over="ignore"):
        value, low, high = (float(x) for x in np.exp([centre, min(bounds), max(bounds)]))
    return RatioInterval(value, low, high, d.size, level)


def log_wealth(d: ArrayLike, theta: float, resolution: float) -> Floats:
    """Logarithm of the wealth after each pair of one who bets that B / A is above exp(theta).

    Of one who bets that it is below: the same of `-d` and `-theta`.

    Parameters
    ----------
    d
        log(B / A), shape (..., pairs), in the order of the pairs.

    Returns
    -------
    Shape (..., pairs).
    """
    x = np.asarray(d, dtype=np.float64)
    return _log_wealth(x - theta, _variance_before(x), resolution)


def _log_wealth(x: Floats, variance: Floats, resolution: float) -> Floats:
    # For normal x of the mean r and the variance v, r x / v is the bet that grows fastest.
    pairs = np.arange(x.shape[-1])
    bet = resolution * x / variance
    wealth = np.full(x.shape, -np.inf)
    for size, share in _BETS:
        most = np.where(pairs < _FIRST, size, _LARGEST)
        won = math.log(2) - np.log1p(np.exp(-2 * np.clip(size * bet, -most, most)))
        wealth = np.logaddexp(wealth, math.log(share) + np.cumsum(won, axis=-1))
    return wealth


def _variance_before(d: Floats) -> Floats:
    """Variance of all earlier pairs, larger while they are few; of the first ones `_STEADY`."""
    before = np.maximum(np.arange(d.shape[-1]), 1)
    # About the first pair: ratios far from 1 would cancel.
    moved = d - d[..., :1]
    sums, squares = np.cumsum(moved, axis=-1) - moved, np.cumsum(moved**2, axis=-1) - moved**2
    freedom = np.maximum(before - 1, 1)
    variance = (squares - sums**2 / before) / freedom * (1 + 3 / freedom)
    return np.where(np.arange(d.shape[-1]) < _FIRST, _STEADY, np.maximum(variance, _STEADY))
