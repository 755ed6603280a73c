"""Estimate over runs: one statistic per run, then an interval by t over the runs.

The run is the unit of replication. Samples within a run are correlated and share the run's
conditions (placement, discovery, frequency), so an interval over pooled samples is far too
narrow; one over per-run statistics holds its level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.statistics import positive
from roslens.analysis.statistics.autocorrelation import (
    effective_samples,
    effective_samples_of_quantiles,
)
from roslens.analysis.statistics.quantiles import least_samples, percentile_name, quantile
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import ArrayLike, Bools, Floats, np

MINIMUM_RUNS = 3
"""With two runs an interval reaches 9 standard deviations to either side: true, but no evidence."""

EXCEEDANCES = 5
"""A percentile needs this many effective samples beyond it in each run: n_eff >= 5 / (1 - q).

From there on intervals over runs cover what they claim (docs/calibration.md), even when runs
differ by nothing else, which is the worst case for the bias of a per-run percentile.
"""

LENGTHS = 1.5
"""Factor by which run lengths may differ for the maxima of the runs to be averaged."""


@dataclass(frozen=True)
class Interval:
    """A value with its interval; if there is none, the bounds are None and `refused` is set."""

    value: float | None
    low: float | None = None
    high: float | None = None
    refused: str | None = None


def student_t(values: Iterable[float], level: float = 0.95) -> Interval:
    """Return the mean of one value per run, with its Student t interval.

    mean +- t(k - 1, (1 + level) / 2) * s / sqrt(k), s with k - 1 in the denominator (Student
    1908, Biometrika 6). Refused for fewer than `MINIMUM_RUNS` values, or if one is not finite.

    Parameters
    ----------
    values
        One statistic per run, shape (k,).
    level
        Nominal coverage, between 0 and 1.
    """
    per_run = [float(value) for value in values]
    if not 0 < level < 1:
        raise ValueError("the level must lie between 0 and 1")
    k = len(per_run)
    if k == 0:
        return Interval(None, refused=f"no run has a value; at least {MINIMUM_RUNS} are needed")
    # Lost messages are infinitely late; nothing is infinitely early.
    no_number = sum(math.isnan(v) or v == -math.inf for v in per_run)
    if no_number:
        return Interval(None, refused=f"{no_number} of {k} runs gave what is not a number")
    if math.inf in per_run:
        return Interval(math.inf, refused=f"infinite in {per_run.count(math.inf)} of {k} runs")
    mean, deviation = mean_and_deviation(per_run)
    if not math.isfinite(mean) or not math.isfinite(deviation):
        return Interval(None, refused="the values are too large to compute with")
    if k < MINIMUM_RUNS:
        return Interval(
            mean,
            refused=f"{k} run{'s' if k > 1 else ''}; at least {MINIMUM_RUNS} are needed to tell "
            "how much runs differ",
        )
    half = t_quantile((1 + level) / 2, k - 1) * deviation / math.sqrt(k)
    return Interval(mean, mean - half, mean + half)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (n - 1 in the denominator; 0 if n is 1) of finite values.

    Both are infinite if the values are too large to compute with.
    """
    try:
        mean = math.fsum(values) / len(values)
        squares = math.fsum((v - mean) * (v - mean) for v in values)
    except OverflowError:
        return math.inf, math.inf
    return mean, math.sqrt(squares / max(1, len(values) - 1))


def over_runs(
    metric: Metric, values: Iterable[float], level: float = 0.95, tick: float = 0.0
) -> tuple[Interval, str]:
    """Return the mean of one value per run with the interval that suits the metric, and its method.

    For a quantity that cannot be negative (`Metric.scale`) the interval is that of `positive`;
    for a fraction Student's, kept within 0..1; for others, and if a run has a negative value all
    the same (clocks of two hosts), Student's.

    Parameters
    ----------
    values
        One per run, shape (k,).
    tick
        Resolution of the clock behind each value: no bound is closer to the mean.
    """
    per_run = [float(value) for value in values]
    interval = student_t(per_run, level)
    if interval.value is None or interval.low is None or interval.high is None:
        return interval, "Student t over runs"
    if metric.scale == "signed" or min(per_run) < 0:
        return interval, "Student t over runs"
    if metric.scale == "fraction":
        within = replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))
        return within, "Student t over runs, within 0..1"
    low, high = positive.bounds(interval.value, mean_and_deviation(per_run)[1], len(per_run), level)
    if not math.isfinite(high):
        return Interval(None, refused="the values are too large to compute with"), positive.METHOD
    low, high = min(low, max(0.0, interval.value - tick)), max(high, interval.value + tick)
    return replace(interval, low=low, high=high), positive.METHOD


def value_over_runs(
    metric: Metric,
    cell: Cell,
    values: Sequence[float],
    samples: int,
    level: float = 0.95,
    *,
    statistic: str = "one value",
) -> Estimate:
    """Estimate a quantity that has one value per run, such as CPU use.

    Parameters
    ----------
    values
        One per run.
    samples
        Number of samples from which those values were made, over all runs.
    statistic
        Name of the per-run statistic that the values are.
    """
    interval, how = over_runs(metric, values, level)
    return estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=len(values),
        samples=samples,
        method=f"{statistic} per run, {how}",
        per_run=values,
    )


def mean_over_runs(
    metric: Metric, cell: Cell, runs: Sequence[ArrayLike], level: float = 0.95
) -> Estimate:
    """Estimate the mean over runs of the mean of each run; every run counts the same.

    Parameters
    ----------
    runs
        The samples of each run in time order. A run without samples is left out and counted in
        `method`; a run with a nan makes the estimate refused.
    """
    samples, left_out = _with_samples(runs)
    finite = all(np.isfinite(s).all() for s in samples)
    means = [_mean(s) for s in samples]
    # A mean evens out the random rounding of stamps to ticks, unless all runs round alike.
    tick = _tick(metric, samples) if len(set(means)) == 1 else 0.0
    interval, how = over_runs(metric, means, level, tick)
    return estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=len(samples),
        samples=sum(s.size for s in samples),
        effective=sum(effective_samples(s) for s in samples) if finite else None,
        method=f"mean per run, {how}{left_out}",
        per_run=means,
    )


def maximum_over_runs(
    metric: Metric, cell: Cell, runs: Sequence[ArrayLike], level: float = 0.95
) -> Estimate:
    """Estimate the mean over runs of the largest sample of each run.

    Defined as the maximum of a run of this length, averaged over runs: the longer a run, the
    larger its maximum, so that runs of unequal length (beyond a factor of `LENGTHS`) are refused.
    It says nothing of the largest value that can occur: no number of samples does. With heavy
    tails the maxima are themselves skewed, and the interval covers less than it claims
    (docs/calibration.md).
    """
    samples, left_out = _with_samples(runs)
    values = [math.nan if _no_number(s).any() else float(s.max()) for s in samples]
    interval, how = over_runs(metric, values, level, _tick(metric, samples))
    estimate = estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=len(samples),
        samples=sum(s.size for s in samples),
        method=f"largest sample of each run, {how}{left_out}",
        per_run=values,
    )
    sizes = [s.size for s in samples]
    if estimate.refused is None and max(sizes) > LENGTHS * min(sizes):
        reason = (
            f"runs of {min(sizes):,} to {max(sizes):,} samples: a maximum grows with the length "
            "of a run; make them equally long, or ask for a percentile"
        )
        return replace(estimate, low=None, high=None, refused=reason)
    return estimate


def percentile_over_runs(
    metric: Metric,
    cell: Cell,
    runs: Sequence[ArrayLike],
    q: float,
    level: float = 0.95,
    *,
    rate_hz: float | None = None,
) -> Estimate:
    """Estimate a percentile of a run, averaged over runs.

    Refused unless each run has `EXCEEDANCES` / (1 - q) effective samples (/ q if q is below one
    half, where the lower tail counts), by the correlation of all runs together. Without even a
    value if a run has fewer samples than the least that enclose the percentile at all, but infinite
    if in a run more messages were lost than the percentile leaves out.

    Parameters
    ----------
    runs
        The samples of each run in time order; lost messages may be infinite. A run without
        samples is left out and counted in `method`; a run with a nan makes the estimate refused.
    q
        Quantile between 0 and 1, such as 0.99.
    rate_hz
        Samples per second, used to say how long runs would have to be.
    """
    name = percentile_name(q)
    samples, left_out = _with_samples(runs)
    how = "Student t over runs"
    total = sum(s.size for s in samples)
    effective: float | None = None
    values: list[float] = []
    if any(_no_number(s).any() for s in samples):
        interval = student_t([math.nan if _no_number(s).any() else 0.0 for s in samples], level)
    else:
        each = effective_samples_of_quantiles(samples, q)
        effective = sum(each)
        values = [quantile(s, q) for s in samples]
        interval, how = over_runs(metric, values, level, _tick(metric, samples))
        least = least_samples(q, level)
        fewest = min((s.size for s in samples), default=0)
        if math.inf in values:
            effective = None
        if interval.value == math.inf:
            # However few samples a run has, more of them were lost than its percentile leaves out.
            infinite = values.count(math.inf)
            interval = Interval(
                math.inf,
                refused=f"infinite: in {infinite} of {len(samples)} runs more than "
                f"{100 * (1 - q):g} % were lost",
            )
        elif samples and fewest < least:
            interval = Interval(
                None,
                refused=f"{fewest:,} sample{'s' * (fewest != 1)} in the shortest run; {name} needs "
                f"{least:,} for a value and more for an interval",
            )
        elif interval.refused is None:
            reason = _too_few_effective(samples, each, q, rate_hz)
            if reason:
                interval = Interval(interval.value, refused=reason)
    return estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=len(samples),
        samples=total,
        effective=effective,
        method=f"{name} per run (type 8), {how}{left_out}",
        per_run=values,
    )


def has_interval(runs: Sequence[ArrayLike], q: float, level: float = 0.95) -> bool:
    """Return whether each run has enough samples for an interval of `percentile_over_runs`.

    Parameters
    ----------
    runs, q, level
        See `percentile_over_runs`; the samples are finite.
    """
    samples, _ = _with_samples(runs)
    if min((s.size for s in samples), default=0) < least_samples(q, level):
        return False
    each = effective_samples_of_quantiles(samples, q)
    return _too_few_effective(samples, each, q, None) is None


def statistics_over_runs(
    metric: Metric,
    cell: Cell,
    runs: Sequence[ArrayLike],
    statistics: Sequence[float | Literal["mean", "max"]],
    level: float = 0.95,
) -> list[Estimate]:
    """Estimate several statistics of the same samples, in the given order.

    Parameters
    ----------
    metric
        Base of the estimates' names: ``<name>_mean``, ``_max``, ``_p99``.
    statistics
        ``"mean"``, ``"max"``, or the q of a percentile.
    """
    estimates = []
    for asked in statistics:
        name = asked if isinstance(asked, str) else percentile_name(asked).lower()
        named = replace(metric, name=f"{metric.name}_{name}")
        if isinstance(asked, float):
            estimates.append(percentile_over_runs(named, cell, runs, asked, level))
        else:
            estimator = mean_over_runs if asked == "mean" else maximum_over_runs
            estimates.append(estimator(named, cell, runs, level))
    return estimates


def _with_samples(runs: Sequence[ArrayLike]) -> tuple[list[Floats], str]:
    arrays = [np.asarray(run, dtype=np.float64).ravel() for run in runs]
    kept = [array for array in arrays if array.size]
    return kept, without_samples(len(arrays) - len(kept))


def _tick(metric: Metric, samples: Sequence[Floats]) -> float:
    return resolution(samples) if metric.unit == "ns" else 0.0


def _no_number(x: Floats) -> Bools:
    return np.isnan(x) | np.isneginf(x)


def _mean(x: Floats) -> float:
    if _no_number(x).any():
        return math.nan
    with np.errstate(over="ignore"):
        mean = float(x.mean())
    return mean if math.isfinite(mean) or np.isinf(x).any() else math.nan


def without_samples(count: int) -> str:
    """Return the note in `method` about runs that are left out."""
    return f"; {count} run{'s' if count > 1 else ''} without samples left out" if count else ""


def _too_few_effective(
    samples: Sequence[Floats], per_run: Sequence[float], q: float, rate_hz: float | None
) -> str | None:
    needed = math.ceil(round(EXCEEDANCES / min(q, 1 - q), 6))
    effective, size = min(per_run), min(s.size for s in samples)
    # The effective number is itself an estimate, and is reported without decimals.
    if round(effective) >= needed:
        return None
    # Longer runs of the same kind keep the same correlation.
    wanted = math.ceil(needed * size / effective)
    seconds = f", {wanted / rate_hz:,.3g} s" if rate_hz else ""
    return (
        f"{effective:,.0f} effective of {size:,} samples in the shortest run; "
        f"{percentile_name(q)} needs {needed:,}: about {wanted:,} samples{seconds} per run"
    )


def estimate_of(
    metric: Metric,
    cell: Cell,
    interval: Interval,
    level: float,
    *,
    runs: int,
    samples: int,
    method: str,
    effective: float | None = None,
    verdict: str | None = None,
    per_run: Sequence[float] = (),
) -> Estimate:
    """Build the estimate of a metric from its interval and the samples behind it."""
    return Estimate(
        metric=metric.name,
        definition=metric.definition,
        better=metric.better,
        cell=dict(cell),
        value=interval.value,
        low=interval.low,
        high=interval.high,
        level=level,
        unit=metric.unit,
        runs=runs,
        samples=samples,
        effective_samples=effective,
        method=method,
        verdict=verdict,
        refused=interval.refused,
        per_run=tuple(per_run),
    )


def refused_estimate(
    metric: Metric,
    cell: Cell,
    reason: str,
    level: float,
    verdict: str | None = None,
) -> Estimate:
    """Build the estimate of a metric of which nothing can be said, with the reason."""
    interval = Interval(None, refused=reason)
    return estimate_of(
        metric, cell, interval, level, runs=0, samples=0, method="none", verdict=verdict
    )


_LARGEST = 2.0**53
_PIECE = 1000


def resolution(series: Iterable[Floats]) -> float:
    """Return the largest step of which all values are multiples; 0 if they are no whole numbers.

    If all values are the same, many steps explain them: the result is then the largest power of
    ten that divides the value, because clocks tick so.

    Parameters
    ----------
    series
        Differences of time stamps; infinite ones (lost messages) are left out.
    """
    step, largest = 0, 0.0
    for values in series:
        finite = np.abs(values[np.isfinite(values)])
        for begin in range(0, finite.size, _PIECE):
            piece = finite[begin : begin + _PIECE]
            largest = max(largest, float(piece.max()))
            if largest >= _LARGEST or (piece != np.rint(piece)).any():
                return 0.0
            step = math.gcd(step, int(np.gcd.reduce(piece.astype(np.int64))))
            # Most clocks tick in nanoseconds, which is known at once.
            if step == 1:
                return 1.0
    if step and step == largest:
        return float(10 ** (len(str(step)) - len(str(step).rstrip("0"))))
    return float(step)
