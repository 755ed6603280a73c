"""Summarise each process: its CPU use, its nodes, and the time in its callbacks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.measures.busy import cut_to_processes, with_nested_once
from roslens.analysis.measures.pauses import recorded_time
from roslens.analysis.measures.samples import with_cells
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
    """Return one row per name of processes with the same nodes, the greatest CPU use first.

    A run may have several of them: one after the other if they are started again, or on several
    hosts at a time.

    Parameters
    ----------
    processes, nodes, resources, instances, losses
        The tables ``processes``, ``nodes``, ``resources``, ``callback_instances`` and ``losses``
        with ``run``.
    cells
        Cell names by run, from `cells_in_words`: only these runs count.

    Returns
    -------
    ``cell``, ``process`` (its name), ``nodes`` (full names, comma separated; empty for none),
    ``runs``; means over runs: ``cpu`` (cores, all threads, from first to last sample, summed over
    hosts; null where a process was not sampled), ``callbacks`` (time in callbacks, summed over
    threads, nested ones once, as part of the recorded time from first to last event, summed over
    processes; null without callbacks), ``pss_bytes`` (the largest sample; null where none was
    read).
    """
    named = (
        nodes.filter(pl.col("node").is_not_null())
        .group_by(_PROCESS)
        .agg(nodes=pl.col("node").unique().sort().str.join(", "))
    )
    sampled = resources.sort("time_ns").group_by(_PROCESS).agg(
        used_ns=pl.col("cpu_time_ns").drop_nulls().last()
        - pl.col("cpu_time_ns").drop_nulls().first(),
        first_ns=pl.col("time_ns").filter(pl.col("cpu_time_ns").is_not_null()).first(),
        last_ns=pl.col("time_ns").filter(pl.col("cpu_time_ns").is_not_null()).last(),
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
    rows = with_cells(processes.select(*_PROCESS, "procname", "begin_ns", "end_ns"), cells)
    rows = recorded_time(rows, losses, "begin_ns", "end_ns")
    for more in (named, sampled, ran):
        rows = rows.join(more, on=_PROCESS, how="left")

    def of_all(name: str, value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col(name).null_count() == 0).then(value)

    def over_runs(name: str) -> pl.Expr:
        return of_all(name, pl.col(name).mean()).alias(name)

    key = ("cell", "process", "nodes", "run")
    used, span = pl.col("used_ns"), pl.col("last_ns").max() - pl.col("first_ns").min()
    inside, lasted = pl.col("ran_ns"), pl.col("lived_ns").sum()
    return (
        rows.with_columns(
            process="procname",
            used_ns=pl.when(pl.col("last_ns") > pl.col("first_ns")).then(used),
            lived_ns=lived.clip(lower_bound=0),
            nodes=pl.col("nodes").fill_null(""),
        )
        .group_by(*key, "host")
        .agg(
            cpu=of_all("used_ns", used.sum() / span),
            ran_ns=pl.when(inside.count() > 0).then(inside.sum()),
            lived_ns=lasted,
            pss_bytes=of_all("pss_bytes", pl.col("pss_bytes").max()),
        )
        .group_by(key)
        .agg(
            cpu=of_all("cpu", pl.col("cpu").sum()),
            callbacks=pl.when(inside.count() > 0, lasted > 0).then(inside.sum() / lasted),
            pss_bytes=of_all("pss_bytes", pl.col("pss_bytes").max()),
        )
        .group_by("cell", "process", "nodes")
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
