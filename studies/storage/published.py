"""Compute all cells of the published comparison: the interval as printed, and the correct one."""

from __future__ import annotations

import math

import polars as pl

from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.student import t_quantile

STORAGE_FACTOR = 3.92
"""2 x 1.96: a full width used as a half width, and of the standard deviation instead of the
standard error. At 5 runs the interval is 3.16 times too wide."""

CELL = ("machine", "messages", "batch_size", "plugin_config")


def cells(digests: pl.DataFrame, level: float = 0.95) -> pl.DataFrame:
    """Return the mean throughput of each cell over its runs, with both half widths.

    Parameters
    ----------
    digests
        Digests from `results.comparison.read_digests`.

    Returns
    -------
    One row per cell in the order of the file: `CELL`, `n` runs, `mean`, `sd` (n - 1 in the
    denominator), `half_width_published` (`STORAGE_FACTOR` sd), `half_width_t` (t sd / sqrt(n);
    null for fewer than 3 runs), bytes per second.
    """
    average = pl.col("avg_byte_throughput")
    means = digests.group_by(CELL, maintain_order=True).agg(
        n=pl.len().cast(pl.Int64), mean=average.mean(), sd=average.std()
    )
    # Factor on the standard deviation, by number of runs.
    t_factor = {
        n: t_quantile((1 + level) / 2, n - 1) / math.sqrt(n)
        for n in means["n"].unique()
        if n >= MINIMUM_RUNS
    }
    factor = pl.col("n").replace_strict(t_factor, default=None, return_dtype=pl.Float64)
    return means.with_columns(
        half_width_published=STORAGE_FACTOR * pl.col("sd"), half_width_t=factor * pl.col("sd")
    )


PUBLISHED_BYTES = {
    "1MiB": 250 * 2**20,
    "10KiB": 250 * 2**20,
    "100B": 250 * 2**20,
    "mixed": 183 * 1_000_000 + 5_242 * 10_000 + 262_144 * 100,
}
"""Bytes of messages written in each run of the study, by its suite of messages."""

REFUSED = (
    "the rows are digests: the mean over calls of each call's ratio, without the calls; "
    "all bytes over all time cannot be computed from it"
)


def throughput_bounds(digests: pl.DataFrame) -> pl.DataFrame:
    """Return the bound of each cell on its throughput including the close, averaged over its runs.

    A digest has the mean over calls of each call's own ratio, not the calls. The arithmetic mean of
    ratios is never below bytes over time where calls are of equal size, so only an upper bound can
    be derived: 1 / (1 / avg + close_time / bytes). With messages of mixed sizes calls differ in
    size, the mean of ratios may lie on either side, and not even a bound can be derived.

    Parameters
    ----------
    digests
        Digests from `results.comparison.read_digests`, of the study's own sizes.

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
