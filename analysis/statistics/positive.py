"""Compute intervals of non-negative quantities that runs may skew: times, sizes, rates.

Student's t gives such quantities negative bounds, and covers too little if few runs are much worse
than most: 0.88 for exponential runs. With h = t(k - 1) s / (mean sqrt(k)) the interval here is

    [mean exp(-h), mean (1 + (1 + 1.2 / sqrt(k)) h)]

The lower bound is Student's t on the log scale, which never reaches zero. The upper bound is wider
than t by what a skewness of about 1 needs, the more the fewer the runs (the first term of the
Cornish-Fisher expansion of t, Johnson 1978, JASA 73; the factor by simulation). Upper bounds on the
log scale grow without limit, Cox's for lognormal means covers exponential runs no better than t,
and three runs are too few for any bootstrap. docs/calibration.md has the coverage.
"""

from __future__ import annotations

import math

from roslens.analysis.statistics.student import t_quantile, t_two_sided

METHOD = "t for positive quantities over runs"
"""Text in the method of an estimate whose interval is of this form."""


def wider_above(runs: int) -> float:
    """Return the factor by which the upper bound lies farther from the mean than Student's."""
    return 1 + 1.2 / math.sqrt(runs)


def bounds(mean: float, deviation: float, runs: int, level: float) -> tuple[float, float]:
    """Return the interval of the mean over runs.

    Parameters
    ----------
    mean, deviation
        Mean and deviation of one value per run, none negative; runs - 1 in the denominator.
    """
    if mean == 0:
        return 0.0, 0.0
    h = t_quantile((1 + level) / 2, runs - 1) * (deviation / mean) / math.sqrt(runs)
    # The mean of equal values may differ from them by rounding, and so may the bounds.
    return mean * math.exp(-h), mean + wider_above(runs) * h * mean


def deviation_behind(value: float, low: float, high: float, runs: int, level: float) -> float:
    """Return the deviation between runs behind a `bounds` interval; the larger of both sides."""
    t = t_quantile((1 + level) / 2, runs - 1)
    h = (high / value - 1) / wider_above(runs)
    if low > 0:
        h = max(h, math.log(value) - math.log(low))
    return value * h * math.sqrt(runs) / t


def p_of(mean: float, deviation: float, runs: int, limit: float) -> float:
    """Return the two-sided p of a mean at `limit`: below 1 - level if the interval excludes it."""
    error = deviation / mean / math.sqrt(runs) if mean > 0 else 0.0
    if error == 0:
        return 1.0 if limit == mean else 0.0
    if limit <= 0:
        return 0.0
    if not math.isfinite(error):
        return 1.0
    h = math.log(mean) - math.log(limit) if limit < mean else (limit / mean - 1) / wider_above(runs)
    return t_two_sided(h / error, runs - 1)
