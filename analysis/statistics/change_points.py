"""Detect where the mean of a series changes, with a known rate of false alarms.

The method is circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler 2004,
Biostatistics 5): the statistic is the largest sum of squares between a stretch of the series and
the rest of it, over all stretches, including those that reach an end, so that a change that was
undone later is found as well as one that stays. Its p is by permutation: if nothing changes and the
order of the values means nothing, every order is equally likely, so the test holds its level
whatever the distribution of the values is.

A single value far out would hide every change, because it alone makes up the sum of squares.
Therefore values farther than `FAR` robust standard deviations from the median of the tested part
are moved to that distance (winsorising). Neither depends on the order, so the level still holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count, pairwise

from roslens.analysis.statistics.finite import finite
from roslens.recording.arrays import ArrayLike, Floats, Ints, np

LEAST = 3
"""Least number of values in a segment: fewer do not show how much they vary."""

FAR = 5.0
"""Robust standard deviations (1.4826 times the median absolute deviation) from the median. Of ten
normal values one lies farther out in 3.6 % of series, of forty normal values in 0.4 %."""

_NORMAL = 1.4826
_AT_ONCE = 1 << 21
_GRID = 60


@dataclass(frozen=True)
class ChangePoint:
    """A place where the mean changes.

    Attributes
    ----------
    index
        Index of the first value after the change.
    p
        P value of the test that found it, in its part of the series.
    """

    index: int
    p: float


def change_points(
    values: ArrayLike,
    *,
    false_alarms: float = 0.01,
    permutations: int = 1999,
) -> list[ChangePoint]:
    """Find the changes of the mean, in the order of the series.

    The whole series is tested first and its parts only if it has a change; so a series without
    any change gives an alarm with probability at most `false_alarms`. Autocorrelated values give
    more.

    Parameters
    ----------
    values
        Finite values in the order of time, shape (n,).
    false_alarms
        Level of each test, between 0 and 1.
    permutations
        Number of random orders that a test compares with; 1 / (permutations + 1) is the least p.
        The same series always gets the same orders, and so the same changes.
    """
    if not 0 < false_alarms < 1:
        raise ValueError("the rate of false alarms must lie between 0 and 1")
    series = finite(values, "a series", 0)
    random = np.random.default_rng(1)
    points: list[ChangePoint] = []
    waiting = [(0, series.size)]
    while waiting:
        begin, end = waiting.pop()
        if end - begin < 2 * LEAST:
            continue
        part = winsorised(series[begin:end])
        cuts, p = stretch(part, permutations, random)
        if p <= false_alarms:
            cuts = _significant_cuts(part, cuts, false_alarms, permutations, random)
            points += [ChangePoint(begin + cut, p) for cut in cuts]
            waiting += pairwise([begin, *(begin + cut for cut in cuts), end]) if cuts else []
    return sorted(points, key=lambda point: point.index)


def winsorised(x: Floats) -> Floats:
    """Return the values with those far out moved to where far begins; shape (n,)."""
    return np.clip(x, *reach(x)) if x.size else x


def reach(x: Floats) -> tuple[float, float]:
    """Return where far begins, below and above the median, for at least one value.

    If more than half of the values are equal, the deviation is the median of the non-zero ones.
    """
    median = float(np.median(x))
    away = np.abs(x - median)
    deviation = float(np.median(away)) or float(np.median(away[away > 0])) if away.any() else 0.0
    far = FAR * _NORMAL * deviation
    return median - far, median + far


def stretch(x: Floats, permutations: int, random: np.random.Generator) -> tuple[list[int], float]:
    """Return begin and end of the stretch that differs most, and its permutation p.

    Parameters
    ----------
    x
        Shape (n,), n at least 2 `LEAST`.

    Returns
    -------
    cuts, p
        One or two indices within the series.
    """
    begins, ends = _stretches(x.size)
    centred = _centred(x)
    between = _squares_between(centred[None, :], begins, ends)[0]
    best = int(between.argmax())
    cuts = [int(cut) for cut in (begins[best], ends[best]) if 0 < cut < x.size]
    return cuts, _p(centred, float(between[best]), (begins, ends), permutations, random)


def _significant_cuts(
    x: Floats,
    cuts: list[int],
    false_alarms: float,
    permutations: int,
    random: np.random.Generator,
) -> list[int]:
    """Keep the ends of a stretch at which the mean changes; a single one is itself the finding."""
    if len(cuts) == 1:
        return cuts
    first, second = cuts
    kept = []
    for cut, part, length in ((first, x[:second], first), (second, x[first:], second - first)):
        place = np.array([0]), np.array([length])
        centred = _centred(part)
        observed = _squares_between(centred[None, :], *place)[0, 0]
        if _p(centred, float(observed), place, permutations, random) <= false_alarms:
            kept.append(cut)
    return kept


def _stretches(n: int) -> tuple[Ints, Ints]:
    """Return stretches with `LEAST` values or more inside, and before and after, or none there.

    In a long series inner stretches begin and end on a grid: the level holds for any choice.
    """
    cuts = np.arange(LEAST, n - LEAST + 1)
    grid = cuts[:: max(1, math.ceil(n / _GRID))]
    first, second = np.meshgrid(grid, grid, indexing="ij")
    inner = second - first >= LEAST
    return (
        np.concatenate([np.zeros_like(cuts), first[inner]]),
        np.concatenate([cuts, second[inner]]),
    )


def _centred(x: Floats) -> Floats:
    scaled = x / (float(np.abs(x).max()) or 1.0)
    return np.asarray(scaled - scaled.mean())


def _p(
    centred: Floats,
    observed: float,
    stretches: tuple[Ints, Ints],
    permutations: int,
    random: np.random.Generator,
) -> float:
    if observed <= 1e-24:
        return 1.0
    # Rounding must not make equal sums differ.
    large = observed * (1 - 1e-9)
    rows = max(1, _AT_ONCE // max(stretches[0].size, centred.size))
    as_large = 0
    for first in range(0, permutations, rows):
        shape = (min(rows, permutations - first), centred.size)
        orders = random.permuted(np.broadcast_to(centred, shape), axis=1)
        as_large += int((_squares_between(orders, *stretches).max(axis=1) >= large).sum())
    return (1 + as_large) / (1 + permutations)


def _squares_between(rows: Floats, begins: Ints, ends: Ints) -> Floats:
    """Return the sum of squares between each stretch and the rest; the rows' means are 0."""
    n = rows.shape[1]
    sums = np.concatenate([np.zeros((rows.shape[0], 1)), rows.cumsum(axis=1)], axis=1)
    within = ends - begins
    return np.asarray((sums[:, ends] - sums[:, begins]) ** 2 * (n / (within * (n - within))))


def least_side(n: int, false_alarms: float) -> int | None:
    """Return how many of n values the shorter side of a step must have for the step to be found.

    The least p is that of a step without noise: every order that keeps one of the sides together
    in a place where a stretch may lie has as large a sum of squares. None if no step can be found.
    """
    begins, ends = _stretches(n)
    lengths = (ends - begins).tolist()
    for side in range(LEAST, n // 2 + 1):
        together = lengths.count(side) + lengths.count(n - side)
        if together <= false_alarms * math.comb(n, side):
            return side
    return None


def least_length(false_alarms: float) -> int:
    """Return how long a series must be for any change to be found at this rate of false alarms."""
    return next(n for n in count(2 * LEAST) if least_side(n, false_alarms) is not None)
