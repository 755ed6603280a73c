"""What processes used while a run was recorded: ours, and what another harness left as CSV."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.collectors.schema import RESOURCES, Table
from roslens.tracing.recording import UsageError
from roslens.tracing.recording.files import text_path

_CSV = {
    "time_ns_realtime": pl.Int64,
    "pid": pl.Int32,
    "cpu_user_s": pl.Float64,
    "cpu_system_s": pl.Float64,
    "rss_bytes": pl.Int64,
    "pss_bytes": pl.Int64,
    "num_threads": pl.Int64,
}


def scan_resources(path: Path) -> pl.LazyFrame:
    """A run's resources as the table of that name.

    Parameters
    ----------
    path
        ``resources.parquet``, or a ``resources.csv`` with the columns time_ns_realtime, pid,
        cpu_user_s and cpu_system_s (cumulative), rss_bytes, pss_bytes and num_threads; what it
        does not tell is null.

    Raises
    ------
    UsageError
        The CSV lacks a column or cannot be read.
    """
    if path.suffix != ".csv":
        stored = pl.scan_parquet(text_path(path), glob=False)
        there = set(stored.collect_schema().names())
        # Older recorders wrote fewer columns.
        return stored.with_columns(
            pl.lit(None, dtype=RESOURCES.schema[column.name]).alias(column.name)
            for column in RESOURCES.columns
            if column.name not in there
        )
    try:
        found = (
            pl.scan_csv(text_path(path), glob=False, schema_overrides=_CSV)
            .select(*_CSV)
            .drop_nulls("time_ns_realtime")
            .collect()
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path}: not a table of resources: {reason}") from error
    seconds = pl.col("cpu_user_s") + pl.col("cpu_system_s")
    frame = found.select(
        pl.col("time_ns_realtime").alias("time_ns"),
        pl.lit("h0").alias("host"),
        pl.col("pid").alias("vpid"),
        (seconds * 1e9).round().cast(pl.Int64).alias("cpu_time_ns"),
        "rss_bytes",
        "pss_bytes",
        pl.col("num_threads").alias("threads"),
    )
    return RESOURCES.conform(frame).lazy()


def scan_samples(table: Table, path: Path) -> pl.LazyFrame:
    """What was sampled beside a run, as one of the tables of samples."""
    if table is RESOURCES:
        return scan_resources(path)
    return pl.scan_parquet(text_path(path), glob=False)
