"""Four published studies: their way to a figure, and the right one, by one switch.

Each function takes the same data both ways: ``as_published=True`` computes what the study would
have printed, with `refused` where it gave no interval; ``as_published=False`` what the data
support. The method of each says what was done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.statistics.over_runs import Interval, estimate_of, student_t
from roslens.analysis.statistics.student import t_quantile
from roslens.analysis.statistics.trends import least_squares

Floats = NDArray[np.float64]

STORAGE_FACTOR = 3.92
"""2 x 1.96: a full width as a half width, of the standard deviation, not the standard error. At 5
runs the interval is 3.16 times too wide."""

CUT_S = 30.0
"""The study of executors leaves out so much of a long run at either end."""

BIN_S = 10.0
"""Then it takes means over so long."""

NO_INTERVAL = "the study gives no interval"


def storage(
    metric: Metric, cell: Cell, runs: ArrayLike, *, as_published: bool, level: float = 0.95
) -> Estimate:
    """Mean of one value per run (rosbag2 storage plugins, 2022).

    As published: mean +- `STORAGE_FACTOR` standard deviations, called a 95 % interval. Right:
    Student t over the runs.

    Parameters
    ----------
    runs
        One value per run.
    """
    x = np.asarray(runs, dtype=np.float64).ravel()
    interval = student_t(x, level)
    method = "one value per run, Student t over runs"
    if as_published:
        method = f"as published: mean +- {STORAGE_FACTOR} standard deviations"
        if x.size < 2 or not np.isfinite(x).all():
            interval = Interval(interval.value, refused="two finite runs are needed")
        else:
            half = STORAGE_FACTOR * float(x.std(ddof=1))
            interval = Interval(interval.value, float(x.mean()) - half, float(x.mean()) + half)
    return estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=x.size,
        samples=x.size,
        method=method,
        per_run=x.tolist(),
    )


def executors(
    metric: Metric,
    cell: Cell,
    runs: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    as_published: bool,
    level: float = 0.95,
) -> Estimate:
    """Mean of a resource or a latency over a long run (executors of rclcpp, 2025).

    Both cut `CUT_S` off either end and take means over `BIN_S`. As published: the mean of the
    one run that is shown, without an interval. Right: the mean of each run, Student t over them.

    Parameters
    ----------
    runs
        Times in seconds since the run's start, increasing, and values, of each run.
    """
    means = [_binned_mean(seconds, values) for seconds, values in runs]
    samples = sum(np.asarray(values).size for _, values in runs)
    if not as_published:
        method = f"{BIN_S:g} s means after cutting {CUT_S:g} s off either end, Student t over runs"
        interval = student_t(means, level)
        return estimate_of(
            metric,
            cell,
            interval,
            level,
            runs=len(means),
            samples=samples,
            method=method,
            per_run=means,
        )
    method = f"as published: {BIN_S:g} s means of one run, {CUT_S:g} s cut off either end"
    return estimate_of(
        metric,
        cell,
        _shown(means[:1]),
        level,
        runs=min(len(means), 1),
        samples=samples,
        method=method,
    )


def micro_ros_memory(
    metric: Metric,
    cell: Cell,
    entities: ArrayLike,
    memory: ArrayLike,
    *,
    as_published: bool,
    level: float = 0.95,
) -> Estimate:
    """Memory per entity (micro-ROS, 2021 to 2023).

    Both take the slope of the least squares line. As published: without an interval. Right: with
    Student t, n - 2 degrees of freedom, over the scatter about the line; the scatter of one
    build, not of others.

    Parameters
    ----------
    entities, memory
        Numbers of entities, and bytes with so many; shape (n,).
    """
    x = np.asarray(entities, dtype=np.float64).ravel()
    y = np.asarray(memory, dtype=np.float64).ravel()
    if x.shape != y.shape:
        raise ValueError("a line needs as many numbers of entities as sizes")
    finite = bool(np.isfinite(x).all() and np.isfinite(y).all())
    if x.size < 3 or not finite or np.ptp(x) == 0:
        reason = "a line needs three finite points at two numbers of entities"
        interval = Interval(None, refused=reason)
        value: tuple[float, ...] = ()
    else:
        line = least_squares(x, y)
        half = t_quantile((1 + level) / 2, x.size - 2) * line.slope_error
        interval = Interval(line.slope, line.slope - half, line.slope + half)
        value = (line.slope,)
    method = "least squares, Student t over the scatter about the line"
    if as_published:
        method = "as published: least squares without an interval"
        interval = _shown(value) if value else interval
    return estimate_of(
        metric, cell, interval, level, runs=min(x.size, 1), samples=x.size, method=method
    )


def micro_ros_latency(
    metric: Metric, cell: Cell, exchanges: ArrayLike, *, as_published: bool, level: float = 0.95
) -> Estimate:
    """Latency of a transport (micro-ROS, 2021 to 2023).

    As published: one exchange. Right: the mean over exchanges of independent connections with
    Student t; with a single one that is refused.

    Parameters
    ----------
    exchanges
        One latency per connection.
    """
    x = np.asarray(exchanges, dtype=np.float64).ravel()
    if not as_published:
        method = "mean over connections, Student t"
        return estimate_of(
            metric,
            cell,
            student_t(x, level),
            level,
            runs=x.size,
            samples=x.size,
            method=method,
            per_run=x.tolist(),
        )
    method = "as published: one exchange"
    used = min(x.size, 1)
    return estimate_of(
        metric, cell, _shown(x[:1].tolist()), level, runs=used, samples=used, method=method
    )


def communication(
    metric: Metric,
    cell: Cell,
    runs: Sequence[Mapping[str, ArrayLike]],
    *,
    as_published: bool,
    level: float = 0.95,
) -> Estimate:
    """Latency or period by entity (communication of rclcpp, 2019).

    As published: one run, one dot per entity (`per_run` holds the dots, the value is their mean),
    over what was received, so that 58 % of messages lost are nowhere to be seen. Right: the
    mean over entities of each run, Student t over runs; lost messages are infinite, and
    an infinite mean is said to be so.

    Parameters
    ----------
    runs
        Of each run the samples of each entity (publisher, subscription, pair); a lost message is
        an infinite latency.
    """
    if as_published:
        dots = [
            float(received.mean())
            for samples in (runs[0].values() if runs else ())
            if (received := _finite(samples)).size
        ]
        method = "as published: one run, mean of one dot per entity, over what was received"
        interval = _shown([float(np.mean(dots))] if dots else [])
        used = sum(_finite(samples).size for samples in runs[0].values()) if runs else 0
        return estimate_of(
            metric,
            cell,
            interval,
            level,
            runs=min(len(runs), 1),
            samples=used,
            method=method,
            per_run=dots,
        )
    means = [_mean_of_entities(run) for run in runs]
    total = sum(np.asarray(samples).size for run in runs for samples in run.values())
    method = "mean over the entities of each run, lost messages infinite, Student t over runs"
    return estimate_of(
        metric,
        cell,
        student_t(means, level),
        level,
        runs=len(means),
        samples=total,
        method=method,
        per_run=means,
    )


def average_period(times: ArrayLike) -> float:
    """(last - first) / (n - 1), as the study of communication has it; nan for fewer than two."""
    t = np.asarray(times, dtype=np.float64).ravel()
    return float(t[-1] - t[0]) / (t.size - 1) if t.size > 1 else math.nan


def _binned_mean(seconds: ArrayLike, values: ArrayLike) -> float:
    t = np.asarray(seconds, dtype=np.float64).ravel()
    y = np.asarray(values, dtype=np.float64).ravel()
    if t.shape != y.shape:
        raise ValueError("a series needs as many times as values")
    if t.size == 0:
        return math.nan
    inside = (t >= t[0] + CUT_S) & (t <= t[-1] - CUT_S)
    if not inside.any():
        return math.nan
    t, y = t[inside], y[inside]
    # Only whole bins: a short last one would weigh as much as the others.
    place = np.floor((t - t[0]) / BIN_S).astype(np.intp)
    whole = place < max(1, int(np.floor((t[-1] - t[0]) / BIN_S + 1e-9)))
    counts = np.bincount(place[whole])
    sums = np.bincount(place[whole], weights=y[whole])
    return float((sums[counts > 0] / counts[counts > 0]).mean())


def _mean_of_entities(run: Mapping[str, ArrayLike]) -> float:
    arrays = [np.asarray(samples, dtype=np.float64).ravel() for samples in run.values()]
    arrays = [a for a in arrays if a.size]
    if not arrays or any(np.isnan(a).any() or np.isneginf(a).any() for a in arrays):
        return math.nan
    return float(np.mean([a.mean() for a in arrays]))


def _finite(samples: ArrayLike) -> Floats:
    x = np.asarray(samples, dtype=np.float64).ravel()
    return x[np.isfinite(x)]


def _shown(values: Sequence[float]) -> Interval:
    """A value alone, as a study without intervals has it."""
    if not len(values) or not math.isfinite(values[0]):
        return Interval(None, refused="there is no finite value")
    return Interval(float(values[0]), refused=NO_INTERVAL)
