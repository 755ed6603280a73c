"""Tables as Parquet files."""

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
    """Write a table; text that is categories is text in the file.

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
        It cannot be written; the second where the disk is full.
    """
    with writing(path):
        write_table(frame, path, about)


def scan_table(table: Table, path: Path) -> pl.LazyFrame:
    """A table's file of this or an earlier version; columns that it lacks are null."""
    return pl.scan_parquet(
        text_path(path),
        glob=False,
        schema=table.schema,
        missing_columns="insert",
        extra_columns="ignore",
    )


def check_versions(recording: Recording, files: Iterable[Path]) -> None:
    """Refuse tables that a later major version of the definitions wrote.

    Parameters
    ----------
    files
        Those of the recording's tables that are looked into.

    Raises
    ------
    UsageError
        They are of such a version, or one cannot be read.
    """
    for path in files:
        try:
            text = pl.read_parquet_metadata(text_path(path)).get(ABOUT_KEYS[0])
            # Files of before 1.0 say nothing.
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
    """Decode every file at or below a folder, piece by piece, for a process that may end over it.

    Raises
    ------
    UsageError
        One is damaged; it is named.
    """
    for path in sorted(folder.rglob("*.parquet")):
        try:
            table = TABLES.get(path.stem) if path.parent.name == "tables" else None
            # As it will be read: a column may have become one of another type.
            scan = (
                scan_table(table, path) if table else pl.scan_parquet(text_path(path), glob=False)
            )
            rows = scan.select(pl.len()).collect().item()
            for first in range(0, rows, _ROWS_AT_ONCE):
                scan.slice(first, _ROWS_AT_ONCE).collect()
        except BaseException as error:
            # Where pages or lengths are damaged, polars' reader panics.
            raise UsageError(f"{path}: damaged; run 'roslens collect' again") from error
