"""Block bootstrap: intervals of any statistic of one run, for that run only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.statistics.autocorrelation import autocorrelation
from roslens.analysis.statistics.one_run import WARNING
from roslens.analysis.statistics.over_runs import Interval, estimate_of

Floats = NDArray[np.float64]

RESAMPLES = 1999
BLOCKS = 20
"""Fewer blocks than this tell too little of how a statistic varies."""


def optimal_block_length(series: ArrayLike) -> float:
    """Mean block length of the stationary bootstrap that is best for the mean, at least 1.

    Politis and White (2004, Econometric Reviews 23) with the correction of Patton, Politis and
    White (2009, Econometric Reviews 28).

    Parameters
    ----------
    series
        In time order, finite.
    """
    x = np.asarray(series, dtype=np.float64).ravel()
    n = x.size
    if n < 8:
        return 1.0
    rho = autocorrelation(x)
    if not rho[1:].any():
        return 1.0
    window = max(5, math.ceil(math.sqrt(math.log10(n))))
    longest = min(n - 1, math.ceil(math.sqrt(n)) + window)
    small = np.abs(rho[1 : longest + 1]) < 2 * math.sqrt(math.log10(n) / n)
    runs = np.convolve(small, np.ones(window), "valid") == window
    if runs.any():
        lag = max(1, int(np.argmax(runs)))
    else:
        large = np.flatnonzero(~small)
        lag = int(large[-1]) + 1 if large.size else 1
    most = min(2 * lag, longest)
    k = np.arange(1, most + 1)
    # The flat-top window: 1 up to half the lags, then down to 0.
    weight = np.minimum(1.0, 2 * (1 - k / most))
    spectrum = 1 + 2 * float((weight * rho[k]).sum())
    slope = 2 * float((weight * k * rho[k]).sum())
    if spectrum == 0:
        return 1.0
    length = (slope**2 / spectrum**2 * n) ** (1 / 3)
    return float(min(max(1.0, length), math.ceil(min(3 * math.sqrt(n), n / 3))))


def bootstrap_of_one_run(
    metric: Metric,
    cell: Cell,
    samples: ArrayLike,
    statistic: Callable[[Floats], Floats],
    level: float = 0.95,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Any statistic of one run with the percentile interval of the stationary bootstrap.

    Politis and Romano (1994, JASA 89): series are put together from blocks of geometrically
    distributed length, so that neighbours stay together. Of percentiles far out order statistics
    are better (`one_run.percentile_of_one_run`): no resample holds what the run did not.

    Parameters
    ----------
    samples
        In time order, finite.
    statistic
        Over the last axis of an array of shape (..., n).
    seed
        The same seed, the same interval.
    """
    x = np.asarray(samples, dtype=np.float64).ravel()
    method = f"stationary bootstrap, {resamples:,} resamples, percentile interval; {WARNING}"
    answer = partial(
        estimate_of,
        metric,
        cell,
        level=level,
        runs=int(x.size > 0),
        samples=x.size,
        method=method,
    )
    if x.size == 0 or not np.isfinite(x).all():
        reason = "there is what is not finite" if x.size else "there is no sample"
        return answer(Interval(None, refused=reason))
    value = float(statistic(x))
    length = optimal_block_length(x)
    if x.size < BLOCKS * length:
        wanted = math.ceil(BLOCKS * length)
        reason = (
            f"{x.size:,} samples are {x.size / length:,.0f} blocks of {length:,.1f}; {BLOCKS} "
            f"are needed: about {wanted:,} samples"
        )
        return answer(Interval(value if math.isfinite(value) else None, refused=reason))
    rng = np.random.default_rng(seed)
    found: list[Floats] = []
    step = max(1, 4_000_000 // x.size)
    for begin in range(0, resamples, step):
        places = resampled(rng, x.size, length, min(step, resamples - begin))
        found.append(np.atleast_1d(statistic(x[places])))
    values = np.concatenate(found)
    if not (math.isfinite(value) and np.isfinite(values).all()):
        return answer(Interval(None, refused="the statistic is not finite"))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return answer(Interval(value, float(low), float(high)))


def resampled(rng: np.random.Generator, size: int, length: float, count: int) -> NDArray[np.intp]:
    """Places of `count` resampled series, shape (count, size): blocks, wrapped at the end."""
    fresh = rng.random((count, size)) < 1 / length
    fresh[:, 0] = True
    starts = rng.integers(0, size, (count, size))
    # Each place is the start of its block and as many steps on.
    at = np.arange(size)
    begun = np.maximum.accumulate(np.where(fresh, at, 0), axis=1)
    places: NDArray[np.intp] = (np.take_along_axis(starts, begun, 1) + at - begun) % size
    return places
