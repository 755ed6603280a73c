"""What callbacks allocate and never free, where the allocator was traced (lttng_ust_libc)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric, largest_first
from roslens.analysis.measures.callbacks import readable
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs

KEPT = Metric(
    "callback_kept",
    "bytes allocated in an execution of the callback and not freed by the end of the recording, "
    "mean over the executions of a run",
    "byte",
    scale="signed",
)


def kept_by_callback(
    allocations: pl.LazyFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """``callback_kept`` of each cell and callback, those that keep most first.

    Cells gain ``callback``.

    Parameters
    ----------
    allocations
        ``callback_allocations`` with ``run``.
    """
    called = pl.concat_str(
        [
            pl.col("node").fill_null("(node unknown)"),
            pl.coalesce(readable(pl.col("name")), "kind", pl.lit("-")),
        ],
        separator=" ",
    )
    rows = (
        allocations.group_by("run", callback=called)
        .agg(kept=pl.col("kept_bytes").mean(), executions=pl.len())
        .collect()
    )
    found = []
    for members in cells_of(runs).values():
        of_cell = rows.filter(pl.col("run").is_in([run.name for run in members]))
        for (callback,), part in of_cell.partition_by("callback", as_dict=True).items():
            cell = {**members[0].cell, "callback": str(callback)}
            values = part["kept"].to_list()
            samples = int(part["executions"].sum())
            found.append(value_over_runs(KEPT, cell, values, samples, level))
    return sorted(found, key=largest_first)


def with_traced_heap(resources: pl.LazyFrame, heap: pl.LazyFrame) -> pl.LazyFrame:
    """Samples of the heap from the traced allocator, for runs in which no sampler read it.

    Parameters
    ----------
    resources
        ``resources`` with ``run``.
    heap
        The table of that name with ``run``: a row per step of 100 ms in which the heap changed.
    """
    sampled = (
        resources.filter(pl.col("heap_bytes").is_not_null()).select("run").unique().collect()
    )["run"]
    traced = (
        heap.filter(~pl.col("run").is_in(sampled.to_list()))
        .select("run", "host", "vpid", "time_ns", pl.col("live_bytes").alias("heap_bytes"))
        .sort("time_ns")
    )
    own = resources.filter(pl.col("run").is_in(sampled.to_list()))
    return pl.concat([own, traced], how="diagonal")
