"""Column types of the model, and the number that stands for a context that is missing."""

from __future__ import annotations

import polars as pl

U64 = pl.UInt64()
I64 = pl.Int64()
I32 = pl.Int32()
TEXT = pl.String()
BYTES = pl.List(pl.UInt8)
POINTERS = pl.List(pl.UInt64)

NOTHING = -1
"""Process and thread number in place of a missing context."""
