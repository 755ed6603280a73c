"""Compute intervals from a single run: they hold for that run only, and say so."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.statistics.autocorrelation import (
    effective_samples,
    effective_samples_of_quantile,
)
from roslens.analysis.statistics.over_runs import Interval, estimate_of, resolution
from roslens.analysis.statistics.quantiles import least_samples, percentile_name, quantile
from roslens.analysis.statistics.student import binomial_at_most, t_quantile
from roslens.recording.arrays import ArrayLike, np

WARNING = "one run: says nothing about how much runs differ"


def order_statistics(n: int, q: float, level: float = 0.95) -> tuple[int, int] | None:
    """Return ranks (from 1) of the order statistics that enclose the q-quantile of n samples.

    The chance that the l-th lies at or below and the u-th above it is that of a binomial count
    in l..u-1, whatever the distribution (Hahn and Meeker, "Statistical Intervals", section 5.2).
    The result is the narrowest such pair with at most (1 - level) / 2 in either tail; if only the
    extremes are far enough out, all of (1 - level) may lie in one tail.

    Returns
    -------
    The lower and the upper rank; None below `quantiles.least_samples`.
    """
    if n < least_samples(q, level):
        return None
    alpha = (1 - level) / 2
    low = _binomial_quantile(alpha, n, q)
    high = _binomial_quantile(1 - alpha, n, q) + 1
    low, high = max(low, 1), min(high, n)
    while _covered(n, q, low, high) < level:
        if high < n:
            high += 1
        elif low > 1:
            low -= 1
        else:
            return None
    return low, high


def _binomial_quantile(p: float, n: int, q: float) -> int:
    """Return the least k for which at most k of n has at least the chance p."""
    return bisect_left(range(n), p, key=lambda k: binomial_at_most(k, n, q))


def _covered(n: int, q: float, low: int, high: int) -> float:
    return binomial_at_most(high - 1, n, q) - binomial_at_most(low - 1, n, q)


def percentile_of_one_run(
    metric: Metric, cell: Cell, samples: ArrayLike, q: float, level: float = 0.95
) -> Estimate:
    """Estimate a percentile of one run, its interval by order statistics.

    Correlated samples count as their effective number: the ranks are those of that many
    independent samples, taken at the same fractions of all samples.

    Parameters
    ----------
    samples
        Samples in time order; lost messages may be infinite.
    q
        Quantile, between 0 and 1.
    """
    values = np.asarray(samples, dtype=np.float64).ravel()
    name, least = percentile_name(q), least_samples(q, level)
    method = f"{name}, order statistics of effective samples; {WARNING}"
    runs = int(values.size > 0)
    answer = partial(
        estimate_of, metric, cell, level=level, runs=runs, samples=values.size, method=method
    )
    if values.size == 0 or np.isnan(values).any() or np.isneginf(values).any():
        reason = "there is what is not a number" if values.size else "there is no sample"
        return answer(Interval(None, refused=reason))
    effective = effective_samples_of_quantile(values, q)
    n = math.floor(effective + 1e-9)
    ranks = order_statistics(n, q, level)
    value = quantile(values, q) if values.size >= least else None
    if ranks is None:
        wanted = math.ceil(least * values.size / effective)
        interval = Interval(
            value,
            refused=f"{n:,} effective of {values.size:,} samples; {name} needs {least:,}: "
            f"about {wanted:,} samples",
        )
    else:
        ordered = np.sort(values)
        low = max(1, math.floor(ranks[0] * values.size / n))
        high = min(values.size, math.ceil(ranks[1] * values.size / n))
        bounds = float(ordered[low - 1]), float(ordered[high - 1])
        if math.isfinite(bounds[1]):
            tick = resolution([values]) if metric.unit == "ns" and bounds[0] == bounds[1] else 0.0
            least_bound = 0.0 if bounds[0] >= 0 else -math.inf
            interval = Interval(value, max(least_bound, bounds[0] - tick), bounds[1] + tick)
        else:
            interval = Interval(value, refused="the upper bound is a lost message: infinite")
    return answer(interval, effective=effective)


def mean_of_one_run(
    metric: Metric, cell: Cell, samples: ArrayLike, level: float = 0.95
) -> Estimate:
    """Estimate the mean of one run, with Student's t interval over effective samples.

    Parameters
    ----------
    samples
        Samples in time order.
    """
    values = np.asarray(samples, dtype=np.float64).ravel()
    method = f"mean, variance over effective samples; {WARNING}"
    runs = int(values.size > 0)
    answer = partial(
        estimate_of, metric, cell, level=level, runs=runs, samples=values.size, method=method
    )
    if values.size == 0 or not np.isfinite(values).all():
        reason = "there is what is not finite" if values.size else "there is no sample"
        return answer(Interval(None, refused=reason))
    effective, mean = effective_samples(values), float(values.mean())
    if effective < 10:
        wanted = math.ceil(10 * values.size / effective)
        interval = Interval(
            mean,
            refused=f"{math.floor(10 * effective) / 10:,.1f} effective of {values.size:,} samples; "
            "10 are needed: about "
            f"{wanted:,} samples",
        )
    else:
        t = t_quantile((1 + level) / 2, effective - 1)
        half = t * float(values.std(ddof=1)) / math.sqrt(effective)
        low = mean - half
        if metric.scale != "signed" and values.min() >= 0 and mean > 0:
            low = mean * math.exp(-half / mean)
        interval = Interval(mean, low, mean + half)
    return answer(interval, effective=effective)
