"""Two sets of runs compared by rank: robust companions of the ratio of means."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roslens.analysis.statistics.over_runs import Interval

Floats = NDArray[np.float64]


def cliffs_delta(new: ArrayLike, base: ArrayLike) -> float:
    """How much more often a run of `new` is above one of `base` than below: between -1 and 1.

    Cliff (1993, Psychological Bulletin 114); 2 U / (m n) - 1 with Mann and Whitney's U.

    Parameters
    ----------
    new, base
        One value per run, infinite ones allowed; neither empty.
    """
    y, x = _checked(new), _checked(base)
    return float(np.greater.outer(y, x).mean() - np.less.outer(y, x).mean())


def hodges_lehmann(new: ArrayLike, base: ArrayLike, level: float = 0.95) -> Interval:
    """Median of all differences of a run of `new` and one of `base`, with its exact interval.

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
    if not np.isfinite(y).all() or not np.isfinite(x).all():
        return Interval(None, refused="a run is infinite")
    differences = np.sort(np.subtract.outer(y, x).ravel())
    value = float(np.median(differences))
    chances = np.cumsum(_mann_whitney(y.size, x.size))
    # The largest c with P(U < c) <= (1 - level) / 2: the interval goes from the c-th difference.
    c = int(np.searchsorted(chances, (1 - level) / 2, side="right"))
    if c == 0:
        return Interval(
            value, refused=f"{y.size} and {x.size} runs are too few for an interval by rank"
        )
    return Interval(value, float(differences[c - 1]), float(differences[-c]))


@lru_cache(maxsize=32)
def _mann_whitney(m: int, n: int) -> Floats:
    """Exact null distribution of U, shape (m n + 1,), of Mann and Whitney (1947)."""
    # The generating function is the Gaussian binomial: the product over i of
    # (1 - q^(n + i)) / (1 - q^i), divided step by step by the binomial coefficient.
    size = m * n + 1
    chances = np.zeros(size)
    chances[0] = 1.0
    for i in range(1, m + 1):
        if n + i < size:
            chances[n + i :] -= chances[: size - n - i].copy()
        for k in range(i, size):
            chances[k] += chances[k - i]
        chances *= i / (n + i)
    return chances


def _checked(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size == 0 or np.isnan(x).any():
        raise ValueError("ranks need at least one value on each side, none nan")
    return x
