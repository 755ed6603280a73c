"""What a publication costs in heap, of runs whose allocator was recorded."""

from __future__ import annotations

import polars as pl

from roslens.analysis.estimate import Metric

ALLOCATED = Metric(
    "allocated_per_publication",
    "bytes that all recorded processes allocated from the first publication on (to the 100 ms of "
    "the heap table) / publications of the run",
    "byte",
)
ALLOCATIONS = Metric(
    "allocations_per_publication",
    "blocks that all recorded processes allocated from the first publication on (to the 100 ms of "
    "the heap table) / publications of the run",
    "blocks",
)


def heap_per_publication(heap: pl.LazyFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """``run``, ``allocated_bytes``, ``allocations``, both per publication, and ``publications``.

    Parameters
    ----------
    heap
        The table of that name, with ``run``; its counts are since the begin of each process.
    messages
        With ``run``, ``message_id``, ``publish_ns``.
    """
    published = messages.group_by("run").agg(
        pl.col("publish_ns").min().alias("first_ns"),
        pl.col("message_id").n_unique().cast(pl.Int64).alias("publications"),
    )
    before = pl.col("time_ns") < pl.col("first_ns")
    counts = ("allocated_bytes", "allocations")
    return (
        heap.select("run", "host", "vpid", "time_ns", *counts)
        .join(published.lazy().filter(pl.col("publications") > 0), on="run")
        .group_by("run", "host", "vpid", "publications")
        .agg(
            (pl.col(name).max() - pl.col(name).filter(before).max().fill_null(0)).alias(name)
            for name in counts
        )
        .group_by("run", "publications")
        .agg(pl.col(*counts).sum())
        .with_columns(pl.col(name) / pl.col("publications") for name in counts)
        .sort("run")
        .collect()
    )
