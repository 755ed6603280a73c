"""How executors spend their time: waiting for work, in callbacks, and on themselves."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import Interval, estimate_of, value_over_runs

_OF = "of the time between the first and the last executor event, mean over the executor's threads"
WAIT = Metric("executor_wait", f"waiting for work (rcl_wait), part {_OF}", "1", None, "fraction")
CALLBACKS = Metric("executor_callbacks", f"inside of callbacks, part {_OF}", "1", None, "fraction")
OVERHEAD = Metric(
    "executor_overhead",
    f"neither waiting nor inside of callbacks: the executor's own work, part {_OF}",
    "1",
    scale="fraction",
)
_METRICS = {"wait": WAIT, "callbacks": CALLBACKS, "overhead": OVERHEAD}


def busy_per_run(intervals: pl.LazyFrame) -> pl.DataFrame:
    """One row per run with executor events.

    Parameters
    ----------
    intervals
        ``executor_intervals`` with ``run``. Stretches without an end are left out.

    Returns
    -------
    ``run``, ``threads``, and ``wait``, ``callbacks``, ``overhead``: parts of the time, 0..1.
    """
    waiting = pl.col("state") == "wait"
    whole = pl.col("duration_ns").sum()
    return (
        intervals.filter(pl.col("duration_ns").is_not_null())
        .group_by("run", "host", "vpid", "vtid")
        .agg(
            wait=pl.col("duration_ns").filter(waiting).sum() / whole,
            callbacks=pl.col("callback_ns").sum() / whole,
        )
        .filter(pl.col("wait").is_finite())
        .group_by("run")
        .agg(threads=pl.len(), wait=pl.col("wait").mean(), callbacks=pl.col("callbacks").mean())
        .with_columns(overhead=1 - pl.col("wait") - pl.col("callbacks"))
        .sort("run")
        .collect()
    )


def busy_estimates(busy: pl.DataFrame, runs: Sequence[Run], level: float = 0.95) -> list[Estimate]:
    """Three parts of each cell, from `busy_per_run`; refused where no run has executor events.

    The events executors of rclcpp and rclpy emit none.
    """
    found = []
    for members in cells_of(runs).values():
        rows = busy.filter(pl.col("run").is_in([run.name for run in members]))
        for name, metric in _METRICS.items():
            values = rows[name].to_list()
            if values:
                found.append(value_over_runs(metric, members[0].cell, values, len(values), level))
            else:
                found.append(_without_events(metric, members, level))
    return found


def _without_events(metric: Metric, members: Sequence[Run], level: float) -> Estimate:
    reason = (
        "no rclcpp_executor_* event in any run: this executor emits none, or they were not recorded"
    )
    interval = Interval(None, refused=reason)
    cell = members[0].cell
    return estimate_of(metric, cell, interval, level, runs=0, samples=0, method="none")
