"""Describe when the tracer dropped events, and which of its files are missing."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

FOREVER = 2**63 - 1
_COUNTED = ("discarded_events", "lost_packets")


def counted(losses: pl.DataFrame, reported: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return discarded events, lost packets, and the number of missing stretches of streams.

    Parameters
    ----------
    losses
        The table ``losses``.
    reported
        The tracer's own counts at the end, by kind; the larger number is used.

    Returns
    -------
    dict of str to int
        None where something is missing, but not known how much.
    """
    by_kind: dict[str, int | None] = {}
    for kind in _COUNTED:
        counts = losses.filter(pl.col("kind") == kind)["count"]
        by_kind[kind] = (
            None if counts.null_count() else max(int(counts.sum()), reported.get(kind) or 0)
        )
    return by_kind | {"missing_stretches": losses.filter(~pl.col("kind").is_in(_COUNTED)).height}


def is_kernel_loss() -> pl.Expr:
    """Return whether a loss concerns kernel events, by the folder that LTTng puts these into."""
    return pl.col("trace").str.split("/").list.contains("kernel").fill_null(value=False)


def process_of_stream() -> pl.Expr:
    """Return the process that wrote a loss's stream, by the native tracer's file names."""
    name = r"^ros2_(?:names_)?(\d+)_[0-9a-f]+_\d+(?:_before)?$"
    file = pl.col("stream").str.split("/").list.last()
    return file.str.extract(name).cast(pl.Int32, strict=False).alias("vpid")


def gaps_of(losses: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Return host, gap_end_ns of each loss, and gap_begin_ns, the earliest begin from it on.

    Of all gaps that end at or after a moment, the earliest begin shows whether one reaches into
    the time after the moment. Computed per host and `more` columns.
    """
    by = ("host", *more)
    return (
        losses.select(
            *by,
            pl.col("begin_ns").fill_null(0),
            pl.col("end_ns").fill_null(FOREVER).alias("gap_end_ns"),
        )
        .sort(*by, "gap_end_ns")
        .with_columns(
            pl.col("begin_ns").reverse().cum_min().reverse().over(by).alias("gap_begin_ns")
        )
        .select(*by, "gap_begin_ns", "gap_end_ns")
        .sort("gap_end_ns")
    )
