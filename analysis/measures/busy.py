"""Measure how executors spend their time: waiting, in callbacks, blocked, or on their own work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.measured_part import CALLBACKS_MEASURED, MEASURED
from roslens.analysis.measures.pauses import recorded_time
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import refused_estimate, value_over_runs

_OF = "of the time between the first and the last executor event, mean over the executor's threads"
_WAITING = f"waiting for work outside of callbacks, part {_OF}"
WAIT = Metric("executor_wait", _WAITING, "1", None, "fraction")
CALLBACKS = Metric("executor_callbacks", f"inside of callbacks, part {_OF}", "1", None, "fraction")
BLOCKED = Metric(
    "executor_blocked",
    "waiting for the executor's lock: busy outside of callbacks while another thread of the same "
    f"executor waits for work, part {_OF}",
    "1",
    scale="fraction",
)
OVERHEAD = Metric(
    "executor_overhead",
    "neither waiting, nor blocked, nor inside of callbacks: the executor's own work, part " + _OF,
    "1",
    scale="fraction",
)
CPU = Metric(
    "executor_cpu",
    "CPU time of the threads that ran callbacks, part of the time, mean over these threads: by the "
    "kernel's events between the first and the last executor event if all runs have them, else "
    f"sampled, over {MEASURED}",
    "1",
    scale="positive",
)
_METRICS = {"wait": WAIT, "callbacks": CALLBACKS, "blocked": BLOCKED, "overhead": OVERHEAD}
_THREAD = ("run", "host", "vpid", "vtid")
NO_EVENTS = (
    "no event of an executor in any run: this executor emits none, or they were not recorded; how "
    "busy it was, its callbacks and the CPU time of its threads show"
)
PAUSED = "runs that attaching recorded with pauses; attach with --full"
_ALONE = (
    "inside of callbacks, part of the time, mean over the threads that ran callbacks, of runs "
    f"whose executor emits no events; over {CALLBACKS_MEASURED}"
)


def busy_per_run(intervals: pl.LazyFrame, losses: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return the parts of the time per executor state, one row per run with executor events.

    Parameters
    ----------
    intervals
        ``executor_intervals`` with ``run``. Intervals without an end are left out.
    losses
        The ``losses`` table: intervals that began where events were lost are left out too, because
        long intervals lose their end more often.

    Returns
    -------
    ``run``, ``threads``, and ``wait``, ``callbacks``, ``blocked``, ``overhead``, ``cpu``: parts of
    the time, 0..1; ``cpu`` is null unless the kernel was recorded. A wait inside of a callback, as
    of one that spins, is time of the callback.
    """
    duration = pl.col("duration_ns")
    whole = duration.sum()
    parts = ("wait", "callbacks", "blocked")
    return (
        intervals.filter(duration.is_not_null())
        .pipe(recorded_time, losses, "begin_ns")
        .filter(~pl.col("paused"))
        .group_by(_THREAD)
        .agg(
            wait=(duration - pl.col("callback_ns")).filter(pl.col("state") == "wait").sum() / whole,
            callbacks=pl.col("callback_ns").sum() / whole,
            blocked=duration.filter(pl.col("state") == "blocked").sum() / whole,
            cpu=pl.col("cpu_ns").sum() / duration.filter(pl.col("cpu_ns").is_not_null()).sum(),
        )
        .filter(pl.col("wait").is_finite())
        .with_columns(pl.col("cpu").fill_nan(None))
        .group_by("run")
        .agg(pl.len().alias("threads"), *(pl.col(name).mean() for name in (*parts, "cpu")))
        .with_columns(overhead=1 - sum((pl.col(name) for name in parts), start=pl.lit(0.0)))
        .sort("run")
        .collect()
    )


def cut_to_processes(executions: pl.LazyFrame, processes: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``cut_start_ns`` and ``cut_end_ns``: the part in the recorded time of their process.

    Parameters
    ----------
    executions
        ``run``, ``host``, ``vpid``, ``start_ns`` and ``end_ns``; without an end, it stays null.
    processes
        `Tables.recorded_processes`; without its process an execution is not cut.
    """
    spans = processes.filter(pl.col("begin_ns") < pl.col("end_ns")).group_by(_THREAD[:3])
    edges = spans.agg(_begin=pl.col("begin_ns").min(), _end=pl.col("end_ns").max())
    end = pl.min_horizontal("end_ns", "_end")
    return (
        executions.join(edges, on=_THREAD[:3], how="left")
        .with_columns(
            cut_start_ns=pl.max_horizontal("start_ns", "_begin"),
            cut_end_ns=pl.when(pl.col("end_ns").is_not_null()).then(end),
        )
        .drop("_begin", "_end")
    )


def with_nested_once(executions: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``inside``: the ns from ``start_ns`` to ``end_ns`` in no earlier one of the thread."""
    latest = pl.col("end_ns").cum_max().shift(1).over(_THREAD)
    inside = pl.col("end_ns") - pl.max_horizontal("start_ns", latest)
    return executions.sort(*_THREAD, "start_ns").with_columns(inside=inside.clip(lower_bound=0))


def callbacks_per_run(
    instances: pl.LazyFrame, threads: pl.LazyFrame, parts: pl.DataFrame
) -> pl.DataFrame:
    """Return what is known of executors that emit no events, one row per run with callbacks.

    Parameters
    ----------
    instances
        ``callback_instances`` with ``run``, restricted to callbacks.
    threads
        Sampled resource use of threads, with ``run``; may be empty.
    parts
        From `measured_parts`.

    Returns
    -------
    ``run``, ``threads``, ``callbacks`` and ``cpu``: parts of the time, 0..1; null where unknown.
    """
    ran = (
        instances.select(*_THREAD, "start_ns", "end_ns")
        .drop_nulls()
        .join(parts.lazy().rename({"end_ns": "until_ns"}), on="run")
        .with_columns(
            pl.col("begin_ns").fill_null(pl.col("start_ns").min().over("run")),
            pl.col("until_ns").fill_null(pl.col("end_ns").max().over("run")),
        )
        .with_columns(
            pl.max_horizontal("start_ns", "begin_ns"), pl.min_horizontal("end_ns", "until_ns")
        )
        .filter(pl.col("start_ns") < pl.col("end_ns"))
        .pipe(with_nested_once)
        .group_by(*_THREAD, "begin_ns", "until_ns")
        .agg(pl.col("inside").sum())
        .with_columns(callbacks=pl.col("inside") / (pl.col("until_ns") - pl.col("begin_ns")))
    )
    time, cpu = pl.col("time_ns"), pl.col("cpu_time_ns")
    used = (
        threads.join(parts.lazy(), on="run")
        .filter(
            time.is_between(pl.col("begin_ns").fill_null(time), pl.col("end_ns").fill_null(time))
        )
        .group_by(_THREAD)
        .agg(cpu=(cpu.max() - cpu.min()) / (time.max() - time.min()))
        .filter(pl.col("cpu").is_finite())
    )
    return (
        ran.join(used, on=_THREAD, how="left")
        .group_by("run")
        .agg(pl.len().alias("threads"), pl.col("callbacks").mean(), pl.col("cpu").mean())
        .sort("run")
        .collect()
    )


def busy_estimates(
    busy: pl.DataFrame,
    alone: pl.DataFrame,
    runs: Sequence[Run],
    level: float = 0.95,
    paused: Collection[str] = (),
) -> list[Estimate]:
    """Estimate parts of the time of each cell; from callbacks and CPU time if there are no events.

    Parameters
    ----------
    busy, alone
        From `busy_per_run` and `callbacks_per_run`, without runs that paused.
    paused
        Names of the runs that paused.
    """
    estimates = []
    # Use one measure for all runs; otherwise they could not be compared.
    by_kernel = {run.name for run in runs} - {*paused} <= set(busy.drop_nulls("cpu")["run"])
    for members in cells_of(runs).values():
        in_cell = pl.col("run").is_in([run.name for run in members])
        rows, callback_rows = busy.filter(in_cell), alone.filter(in_cell)
        for name, metric in _METRICS.items():
            values = rows[name].to_list()
            if name == "callbacks" and not values:
                metric, values = replace(metric, definition=_ALONE), callback_rows[name].to_list()  # noqa: PLW2901
            if values:
                estimates.append(
                    value_over_runs(metric, members[0].cell, values, len(values), level)
                )
            else:
                reason = PAUSED if all(run.name in paused for run in members) else NO_EVENTS
                estimates.append(refused_estimate(metric, members[0].cell, reason, level))
        cpu = (rows if by_kernel else callback_rows)["cpu"].drop_nulls().to_list()
        if cpu:
            estimates.append(value_over_runs(CPU, members[0].cell, cpu, len(cpu), level))
    return estimates
