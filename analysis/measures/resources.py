"""CPU and memory of the recorded processes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs

_PROCESS = ("host", "vpid")

CPU = Metric(
    "cpu",
    "CPU time of all recorded processes between their first and last sample / time between the "
    "first and the last sample of the run; 1 is one core fully used",
    "core",
)
PSS = Metric(
    "pss", "mean over time of the proportional set size, all recorded processes added up", "byte"
)
RSS = Metric(
    "rss",
    "mean over time of the resident set size (not its peak), all recorded processes added up; "
    "pages they share count in each",
    "byte",
)


def usage_per_run(resources: pl.LazyFrame, warm_up_s: float = 0.0) -> pl.DataFrame:
    """One row per run: ``run``, ``samples``, ``cpu`` (cores), ``pss`` and ``rss`` (bytes).

    Null where a column was not measured. The first sample of each process is taken while it is
    still being loaded; it counts for the start of CPU time, not for memory.

    Parameters
    ----------
    resources
        ``resources.parquet`` with ``run``.
    warm_up_s
        Samples in the first so many seconds of each run are left out.
    """
    of_run = pl.col("time_ns") - pl.col("time_ns").min().over("run")
    warm = resources.filter(of_run >= round(warm_up_s * 1e9))
    processes = (
        warm.sort("time_ns")
        .group_by("run", *_PROCESS)
        .agg(
            samples=pl.len(),
            cpu=pl.col("cpu_time_ns").max() - pl.col("cpu_time_ns").min(),
            pss=pl.col("pss_bytes").slice(1).mean(),
            rss=pl.col("rss_bytes").slice(1).mean(),
        )
    )
    spans = warm.group_by("run").agg(span=pl.col("time_ns").max() - pl.col("time_ns").min())
    # sum() of nothing but nulls is 0, which would claim that nothing was used.
    total = [
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
        for name in ("cpu", "pss", "rss")
    ]
    return (
        processes.group_by("run")
        .agg(pl.col("samples").sum(), *total)
        .join(spans, on="run")
        .with_columns(
            cpu=pl.when(pl.col("span") > 0).then(pl.col("cpu").cast(pl.Float64) / pl.col("span"))
        )
        .drop("span")
        .sort("run")
        .collect()
    )


def resource_estimates(
    usage: pl.DataFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """``cpu``, ``pss`` and ``rss`` of each cell whose runs were sampled; from `usage_per_run`."""
    estimates = []
    for members in cells_of(runs).values():
        rows = usage.filter(pl.col("run").is_in([run.name for run in members]))
        for metric in (CPU, PSS, RSS):
            known = rows.filter(pl.col(metric.name).is_not_null())
            if known.height:
                values = known[metric.name].to_list()
                samples = int(known["samples"].sum())
                estimates.append(value_over_runs(metric, members[0].cell, values, samples, level))
    return estimates


def usage_over_time(resources: pl.LazyFrame) -> pl.DataFrame:
    """What each process used at each moment, for drawing.

    Returns
    -------
    ``run``, ``process`` (its name, or pid where it has none), ``seconds`` (since the run's first
    sample), ``cpu`` (cores, since the sample before; null for the first), ``pss_bytes``,
    ``rss_bytes``.
    """
    key = ["run", *_PROCESS]
    step = pl.col("time_ns").diff().over(key)
    return (
        resources.sort("run", *_PROCESS, "time_ns")
        .with_columns(
            cpu=pl.when(step > 0).then(pl.col("cpu_time_ns").diff().over(key) / step),
            seconds=(pl.col("time_ns") - pl.col("time_ns").min().over("run")) / 1e9,
            process=pl.coalesce("process", pl.format("pid {}", pl.col("vpid"))),
        )
        .select("run", "process", "vpid", "seconds", "cpu", "pss_bytes", "rss_bytes")
        .collect()
    )
