"""Summarise each process: its CPU use, its nodes, and the time in its callbacks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.measures.busy import cut_to_processes, with_nested_once
from roslens.analysis.measures.pauses import recorded_time
from roslens.collectors.ros2.callbacks import is_callback

_PROCESS = ("run", "host", "vpid")


def processes_overview(
    processes: pl.LazyFrame,
    nodes: pl.LazyFrame,
    resources: pl.LazyFrame,
    instances: pl.LazyFrame,
    cells: Mapping[str, str],
    *,
    losses: pl.LazyFrame,
) -> pl.DataFrame:
    """Return one row per process with the same nodes, the greatest CPU use first.

    Parameters
    ----------
    processes, nodes, resources, instances, losses
        The tables ``processes``, ``nodes``, ``resources``, ``callback_instances`` and ``losses``
        with ``run``.
    cells
        Cell names by run, from `cells_in_words`.

    Returns
    -------
    ``cell``, ``process`` (its name), ``nodes`` (full names, comma separated; empty for none),
    ``runs``; means over runs: ``cpu`` (cores, all threads, from its first to its last sample; null
    where a run was not sampled), ``callbacks`` (time in its callbacks, summed over its threads,
    nested ones once, as part of the recorded time from its first to its last event; null without
    callbacks), ``pss_bytes`` (the largest sample; null where none was read).
    """
    named = (
        nodes.filter(pl.col("node").is_not_null())
        .group_by(_PROCESS)
        .agg(nodes=pl.col("node").unique().sort().str.join(", "))
    )
    sampled = resources.sort("time_ns").group_by(_PROCESS).agg(
        cpu=(pl.col("cpu_time_ns").drop_nulls().last() - pl.col("cpu_time_ns").drop_nulls().first())
        / (pl.col("time_ns").filter(pl.col("cpu_time_ns").is_not_null()).last()
           - pl.col("time_ns").filter(pl.col("cpu_time_ns").is_not_null()).first()),
        pss_bytes=pl.col("pss_bytes").max(),
    )  # fmt: skip
    ran = (
        instances.filter(is_callback())
        .drop_nulls("end_ns")
        .pipe(cut_to_processes, processes)
        .with_columns(start_ns="cut_start_ns", end_ns="cut_end_ns")
        .filter(pl.col("start_ns") < pl.col("end_ns"))
        .pipe(recorded_time, losses, "start_ns", "end_ns")
        .filter(~pl.col("paused"))
        .pipe(with_nested_once)
        .group_by(_PROCESS)
        .agg(ran_ns=pl.col("inside").sum())
    )
    lived = pl.col("end_ns") - pl.col("begin_ns")
    rows = processes.select(*_PROCESS, "procname", "begin_ns", "end_ns")
    rows = recorded_time(rows, losses, "begin_ns", "end_ns")
    for more in (named, sampled, ran):
        rows = rows.join(more, on=_PROCESS, how="left")

    def over_runs(name: str) -> pl.Expr:
        return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).mean()).alias(name)

    return (
        rows.with_columns(
            cell=pl.col("run").replace_strict(cells, return_dtype=pl.String),
            cpu=pl.when(pl.col("cpu").is_finite()).then("cpu"),
            callbacks=pl.when(lived > 0).then(pl.col("ran_ns") / lived),
            nodes=pl.col("nodes").fill_null(""),
        )
        .group_by("cell", pl.col("procname").alias("process"), "nodes")
        .agg(
            pl.col("run").n_unique().alias("runs"),
            over_runs("cpu"),
            over_runs("callbacks"),
            over_runs("pss_bytes"),
        )
        .sort(
            pl.coalesce("cpu", "callbacks"),
            "cell",
            "process",
            "nodes",
            descending=[True, False, False, False],
            nulls_last=True,
        )
        .collect()
    )
