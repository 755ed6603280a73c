"""Tables as Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from roslens.collectors import _native


def write_table(table: pl.DataFrame, path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write a table, on as many threads as polars has; text that is categories is text in the file.

    Parameters
    ----------
    table, path
        What to write, and where to.
    about
        Keys and texts for the file's metadata, as of `roslens.recording.schema.Table.about`.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    names = [name for name, kind in table.schema.items() if kind == pl.Categorical]
    texts = pl.DataFrame(schema={"text": pl.String})
    if names:
        # All categories have their numbers in common. Handed over as they are, each column's would
        # be numbered anew, row by row.
        table = table.with_columns(pl.col(names).to_physical())
        most = table.select(pl.max_horizontal(pl.col(names).max())).item()
        known = pl.int_range(0 if most is None else most + 1, dtype=pl.UInt32)
        text = known.cat.to(pl.Categorical, strict=False).cast(pl.String).fill_null("")
        texts = pl.select(text.alias("text"))
    said = [] if about is None else list(about.items())
    _native.write_table(table, path, names, texts, pl.thread_pool_size(), said)
