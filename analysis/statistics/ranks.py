"""Compare two sets of runs by rank: robust companions of the ratio of means."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, product
from statistics import median

from roslens.analysis.statistics.over_runs import Interval


def cliffs_delta(new: Iterable[float], base: Iterable[float]) -> float:
    """Return how much more often a run of `new` is above one of `base` than below: -1 to 1.

    Cliff (1993, Psychological Bulletin 114); 2 U / (m n) - 1 with Mann and Whitney's U.

    Parameters
    ----------
    new, base
        One value per run, infinite ones allowed; neither empty.
    """
    y, x = _checked(new), _checked(base)
    return sum((b > a) - (b < a) for b, a in product(y, x)) / (len(y) * len(x))


def hodges_lehmann(new: Iterable[float], base: Iterable[float], level: float = 0.95) -> Interval:
    """Return the median difference of a run of `new` and one of `base`, with its exact interval.

    Hodges and Lehmann (1963, Ann. Math. Statist. 34); the interval inverts the Mann-Whitney test
    with its exact null distribution (Hollander, Wolfe and Chicken, "Nonparametric Statistical
    Methods", 3rd ed., section 4.3): it holds for any two distributions that differ by a shift.
    Ties make it wider, never narrower.

    Parameters
    ----------
    new, base
        One finite value per run; neither empty.
    """
    y, x = _checked(new), _checked(base)
    if not all(map(math.isfinite, (*y, *x))):
        return Interval(None, refused="a run is infinite")
    differences = sorted(b - a for b, a in product(y, x))
    value = median(differences)
    chances = list(accumulate(_mann_whitney(len(y), len(x))))
    # The largest c with P(U < c) <= (1 - level) / 2: the interval begins at the c-th difference.
    c = bisect_right(chances, (1 - level) / 2)
    if c == 0:
        return Interval(
            value, refused=f"{len(y)} and {len(x)} runs are too few for an interval by rank"
        )
    return Interval(value, differences[c - 1], differences[-c])


@lru_cache(maxsize=32)
def _mann_whitney(m: int, n: int) -> list[float]:
    """Return the exact null distribution of Mann and Whitney's (1947) U, its m n + 1 chances."""
    # The generating function is the Gaussian binomial: the product over i of
    # (1 - q^(n + i)) / (1 - q^i), divided step by step by the binomial coefficient.
    size = m * n + 1
    chances = [1.0] + [0.0] * (m * n)
    for i in range(1, m + 1):
        for k in reversed(range(n + i, size)):
            chances[k] -= chances[k - n - i]
        for k in range(i, size):
            chances[k] += chances[k - i]
        chances = [chance * i / (n + i) for chance in chances]
    return chances


def _checked(values: Iterable[float]) -> list[float]:
    numbers = [float(value) for value in values]
    if not numbers or any(map(math.isnan, numbers)):
        raise ValueError("ranks need at least one value on each side, none nan")
    return numbers
