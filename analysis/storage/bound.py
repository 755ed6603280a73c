"""What the published digests allow to be said about throughput with the close time in it.

A digest has the mean over calls of each call's own ratio, not the calls. The arithmetic mean of
ratios is never below bytes over time where calls are of equal size, so all that can be had is an
upper bound: 1 / (1 / avg + close_time / bytes). With messages of mixed sizes calls differ in size,
the mean of ratios may lie on either side, and not even a bound can be had.
"""

from __future__ import annotations

import polars as pl

from roslens.analysis.storage.published import CELL

PUBLISHED_BYTES = {
    "1MiB": 250 * 2**20,
    "10KiB": 250 * 2**20,
    "100B": 250 * 2**20,
    "mixed": 183 * 1_000_000 + 5_242 * 10_000 + 262_144 * 100,
}
"""Bytes of messages written in each run of the study, by its suite of messages."""

REFUSED = (
    "the published rows are digests: the mean over calls of each call's ratio, without the calls; "
    "all bytes over all time cannot be computed from it"
)


def throughput_bounds(digests: pl.DataFrame) -> pl.DataFrame:
    """The bound of each cell, the mean over its runs.

    Parameters
    ----------
    digests
        As of `roslens.collectors.results.storage_study.read_digests`, of the study's own sizes.

    Returns
    -------
    `CELL`, `mean` (as published), `close_time` (mean, seconds), `at_most` (bytes per second:
    mean over runs of the bound), `is_bound` (False for mixed sizes), `refused`.
    """
    bytes_written = pl.col("messages").replace_strict(
        PUBLISHED_BYTES, default=None, return_dtype=pl.Float64
    )
    average = pl.col("avg_byte_throughput")
    return (
        digests.with_columns(
            at_most=1 / (1 / average + pl.col("close_time") / bytes_written),
        )
        .group_by(CELL, maintain_order=True)
        .agg(
            mean=average.mean(),
            close_time=pl.col("close_time").mean(),
            at_most=pl.col("at_most").mean(),
        )
        .with_columns(
            is_bound=pl.col("messages") != "mixed",
            refused=pl.lit(REFUSED),
        )
    )
