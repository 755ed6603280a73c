"""Write, read and check tables as Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from roslens.collectors import _native
from roslens.collectors.schema import TABLES
from roslens.recording import Recording, UsageError
from roslens.recording.errors import writing
from roslens.recording.files import text_path
from roslens.recording.schema import ABOUT_KEYS, TABLES_VERSION, Table

_ROWS_AT_ONCE = 1_000_000


def write_table(table: pl.DataFrame, path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write a table; categorical columns become text in the file.

    Parameters
    ----------
    table, path
        The table, and its file.
    about
        Keys and texts for the file's metadata, from `roslens.recording.schema.Table.about`.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    names = [name for name, kind in table.schema.items() if kind == pl.Categorical]
    texts = pl.DataFrame(schema={"text": pl.String})
    if names:
        # All categorical columns share one numbering. Passed as they are, each column would be
        # numbered anew, row by row.
        table = table.with_columns(pl.col(names).to_physical())
        most = table.select(pl.max_horizontal(pl.col(names).max())).item()
        numbers = pl.int_range(0 if most is None else most + 1, dtype=pl.UInt32)
        text = numbers.cat.to(pl.Categorical, strict=False).cast(pl.String).fill_null("")
        texts = pl.select(text.alias("text"))
    entries = [] if about is None else list(about.items())
    _native.write_table(table, path, names, texts, entries)


def write_frame(frame: pl.DataFrame, path: Path, about: Mapping[str, str]) -> None:
    """Write a table; `about` goes into the file's metadata.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written; RunFailedError if the disk is full.
    """
    with writing(path):
        write_table(frame, path, about)


def scan_table(table: Table, path: Path) -> pl.LazyFrame:
    """Scan a table's file of this or an earlier version; missing columns are null."""
    return pl.scan_parquet(
        text_path(path),
        glob=False,
        schema=table.schema,
        missing_columns="insert",
        extra_columns="ignore",
    )


def check_versions(recording: Recording, files: Iterable[Path]) -> None:
    """Reject tables written by a later major version of the definitions.

    Parameters
    ----------
    files
        Files of the recording's tables to check.

    Raises
    ------
    UsageError
        The tables are of a later version, or a file cannot be read.
    """
    for path in files:
        try:
            text = pl.read_parquet_metadata(text_path(path)).get(ABOUT_KEYS[0])
            # Files from before version 1.0 have no such metadata.
            version = "0" if text is None else str(json.loads(text)["tables"])
            major = int(version.partition(".")[0])
        except Exception as error:
            raise UsageError(f"{path}: damaged; run 'roslens collect' again") from error
        if major > int(TABLES_VERSION.partition(".")[0]):
            raise UsageError(
                f"{recording.path}: its tables are of version {version}, and this roslens reads "
                f"those up to {TABLES_VERSION}: install a newer one, or run 'roslens collect' again"
            )


def decode_all(folder: Path) -> None:
    """Decode every file below a folder in pieces, for a process that may die of a damaged one.

    Raises
    ------
    UsageError
        A file is damaged; the message names it.
    """
    for path in sorted(folder.rglob("*.parquet")):
        try:
            table = TABLES.get(path.stem) if path.parent.name == "tables" else None
            # With the schema of later reads: damage may have changed a column's type.
            scan = (
                scan_table(table, path) if table else pl.scan_parquet(text_path(path), glob=False)
            )
            rows = scan.select(pl.len()).collect().item()
            for first in range(0, rows, _ROWS_AT_ONCE):
                scan.slice(first, _ROWS_AT_ONCE).collect()
        except BaseException as error:
            # polars' reader panics where pages or lengths are damaged.
            raise UsageError(f"{path}: damaged; run 'roslens collect' again") from error
