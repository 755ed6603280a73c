"""Read the resource use of processes during a run, from our samples or another tool's CSV."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.collectors.schema import Table
from roslens.recording import UsageError
from roslens.recording.files import text_path

_CSV = {
    "time_ns_realtime": pl.Int64,
    "pid": pl.Int32,
    "cpu_user_s": pl.Float64,
    "cpu_system_s": pl.Float64,
    "rss_bytes": pl.Int64,
    "pss_bytes": pl.Int64,
    "num_threads": pl.Int64,
}


def scan_samples(table: Table, path: Path) -> pl.LazyFrame:
    """Read samples recorded beside a run as one of the tables of samples.

    Parameters
    ----------
    path
        The table's file, whose older versions have fewer columns; or, for resources, a
        ``resources.csv`` with the columns time_ns_realtime, pid, cpu_user_s and cpu_system_s
        (cumulative), rss_bytes, pss_bytes and num_threads. Missing values are null.

    Raises
    ------
    UsageError
        The file cannot be read, is damaged, or lacks a column.
    """
    try:
        frame = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
        return table.conform(frame).lazy()
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path}: not a table of {table.name}: {reason}") from error


def _read_parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path.read_bytes(), glob=False)
    except pl.exceptions.PanicException as error:  # damaged pages; not a subclass of Exception
        raise ValueError(str(error)) from error


def _read_csv(path: Path) -> pl.DataFrame:
    seconds = pl.col("cpu_user_s") + pl.col("cpu_system_s")
    return (
        pl.scan_csv(text_path(path), glob=False, schema_overrides=_CSV)
        .select(*_CSV)
        .drop_nulls("time_ns_realtime")
        .select(
            pl.col("time_ns_realtime").alias("time_ns"),
            pl.lit("h0").alias("host"),
            pl.col("pid").alias("vpid"),
            (seconds * 1e9).round().cast(pl.Int64).alias("cpu_time_ns"),
            "rss_bytes",
            "pss_bytes",
            pl.col("num_threads").alias("threads"),
        )
        .collect()
    )
