"""All cells of the published comparison: the interval as printed, and the right one."""

from __future__ import annotations

import math

import polars as pl

from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.student import t_quantile

STORAGE_FACTOR = 3.92
"""2 x 1.96: a full width as a half width, of the standard deviation, not the standard error. At 5
runs the interval is 3.16 times too wide."""

CELL = ("machine", "messages", "batch_size", "plugin_config")


def cells(digests: pl.DataFrame, level: float = 0.95) -> pl.DataFrame:
    """Mean throughput of each cell over its runs, with both half widths.

    Parameters
    ----------
    digests
        As of `roslens.collectors.results.storage_study.read_digests`.

    Returns
    -------
    One row per cell in the order of the file: `CELL`, `n` runs, `mean`, `sd` (n - 1 in the
    denominator), `half_width_published` (`STORAGE_FACTOR` sd), `half_width_t` (t sd / sqrt(n);
    null for fewer than 3 runs), bytes per second.
    """
    rows = []
    for name, cell in digests.group_by(CELL, maintain_order=True):
        values = cell["avg_byte_throughput"].to_numpy()
        n = values.size
        sd = float(values.std(ddof=1)) if n > 1 else None
        published = half = None
        if sd is not None:
            published = STORAGE_FACTOR * sd
            if n >= MINIMUM_RUNS:
                half = t_quantile((1 + level) / 2, n - 1) * sd / math.sqrt(n)
        rows.append((*name, n, float(values.mean()), sd, published, half))
    schema = dict.fromkeys(CELL, pl.String) | {
        "n": pl.Int64,
        "mean": pl.Float64,
        "sd": pl.Float64,
        "half_width_published": pl.Float64,
        "half_width_t": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
