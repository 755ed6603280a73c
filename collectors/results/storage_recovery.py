"""``recovery.csv`` of the suite storage-resilience: what came back after a crash or power loss."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_text
from roslens.recording.errors import UsageError

RECOVERY_NAME = "recovery.csv"
SCHEMA = pl.Schema(
    {
        "trial": pl.Int64,
        "failure": pl.String,
        "acknowledged": pl.Int64,
        "recovered": pl.Int64,
        "wrong": pl.Int64,
        "whole": pl.Int64,
        "recovered_with_tool": pl.Int64,
        "tool": pl.String,
    }
)


def read_recovery(path: Path) -> pl.DataFrame:
    """Read one file: `SCHEMA`, a row per trial; counts are of messages.

    `acknowledged` had been written as far as the writer knew; `recovered` came back with the
    content that was written, by a plain reader, `wrong` with another content; `whole` is 1 where
    that reader ended without complaint; `recovered_with_tool` by the best tool there is.

    Raises
    ------
    UsageError
        It is no such file, or is cut off.
    """
    text = read_text(path)
    rows = list(csv.reader(text.splitlines()))
    if not rows or rows[0] != SCHEMA.names():
        raise UsageError(f"{path}: its header is not {','.join(SCHEMA.names())}")
    if not text.endswith("\n") or len(rows) < 2 or any(len(r) != len(SCHEMA) for r in rows):
        raise UsageError(f"{path}: cut off, or without a trial; record the run again")
    try:
        frame = pl.DataFrame(rows[1:], schema=SCHEMA.names(), orient="row").cast(SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{path}: {str(error).splitlines()[0]}") from error
    if frame.filter(pl.col("acknowledged") <= 0).height:
        raise UsageError(f"{path}: a trial without an acknowledged message")
    return frame
