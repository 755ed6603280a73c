"""What the tracer dropped or is missing of its files, and when."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

FOREVER = 2**63 - 1
_COUNTED = ("discarded_events", "lost_packets")


def counted(losses: pl.DataFrame, reported: Mapping[str, int | None]) -> dict[str, int | None]:
    """Discarded events, lost packets, and how many stretches of streams are not there.

    Parameters
    ----------
    losses
        The table ``losses``.
    reported
        What the tracer itself counted at the end, by kind; the larger number counts.

    Returns
    -------
    dict of str to int
        None where something is missing, and nothing tells how much.
    """
    by_kind: dict[str, int | None] = {}
    for kind in _COUNTED:
        counts = losses.filter(pl.col("kind") == kind)["count"]
        by_kind[kind] = (
            None if counts.null_count() else max(int(counts.sum()), reported.get(kind) or 0)
        )
    return by_kind | {"missing_stretches": losses.filter(~pl.col("kind").is_in(_COUNTED)).height}


def of_kernel() -> pl.Expr:
    """Whether a loss is one of the kernel's events, by the folder that LTTng puts these into."""
    return pl.col("trace").str.split("/").list.contains("kernel").fill_null(value=False)


def process_of_stream() -> pl.Expr:
    """The process that wrote the stream of a loss, by the name of the native tracer's files."""
    name = r"^ros2_(?:names_)?(\d+)_[0-9a-f]+_\d+(?:_before)?$"
    file = pl.col("stream").str.split("/").list.last()
    return file.str.extract(name).cast(pl.Int32, strict=False).alias("vpid")


def gaps_of(losses: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Host, gap_end_ns of each loss, and gap_begin_ns: the earliest begin of those from it on.

    Of all gaps that end at or after a moment, the earliest begin says whether one reaches into
    what follows the moment. By host and `more` columns.
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
