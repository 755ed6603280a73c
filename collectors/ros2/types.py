"""Define column types of the model, and the number that stands for a missing context."""

from __future__ import annotations

from functools import cache

import polars as pl

from roslens.collectors.schema.tables import TABLES

U64 = pl.UInt64()
I64 = pl.Int64()
I32 = pl.Int32()
TEXT = pl.String()
NAME = pl.Categorical()
"""Text with few distinct values on many rows: names and labels, of four bytes each."""
BYTES = pl.List(pl.UInt8)
POINTERS = pl.List(pl.UInt64)

NOTHING = -1
"""The process and thread number that stands for a missing context."""


@cache
def empty_table(table: str) -> pl.DataFrame:
    """Return an empty table as the model holds it: processes by number, text as `NAME`."""
    kinds = {
        column: NAME if kind == TEXT else kind
        for column, kind in TABLES[table].schema.items()
        if column not in ("host", "vpid")
    }
    return pl.DataFrame(schema={"proc": I32, **kinds})


def label(text: str) -> pl.Expr:
    """Return a constant text for all rows."""
    return pl.lit(text, dtype=NAME)


def with_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast all text columns to `NAME`."""
    return frame.with_columns(pl.col(TEXT).cast(NAME))
