"""Read results of rosbag2's storage plugin comparison (2022).

Its ``single_benchmark`` (rosbag2_storage_plugin_comparison) prints a row per ``write()`` call
and finally a row with the close time (`read_batches`); its ``sweep.py`` condenses each such run
to one row (`read_digests`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_text
from roslens.recording.errors import UsageError

DIGEST_COLUMNS = (
    "run",
    "messages",
    "batch_size",
    "plugin_config",
    "avg_byte_throughput",
    "close_time",
)
BATCH_COLUMNS = ("sqc", "num_bytes", "num_msgs", "write_ns", "close_ns")
FACTORS = ("messages", "batch_size", "plugin_config")

DIGEST_SCHEMA = pl.Schema(
    {
        "machine": pl.String,
        "run": pl.Int64,
        "messages": pl.String,
        "batch_size": pl.String,
        "plugin_config": pl.String,
        "avg_byte_throughput": pl.Float64,
        "close_time": pl.Float64,
    }
)

_PREFIX = "storage_plugins_"


@dataclass(frozen=True)
class Batches:
    """One run of ``single_benchmark``.

    Attributes
    ----------
    calls
        One row per ``write()`` call: `num_bytes`, `num_msgs`, `write_ns` (int64).
    close_ns
        Time of closing the file.
    """

    calls: pl.DataFrame
    close_ns: int


def read_digests(path: Path | str) -> pl.DataFrame:
    """Read digests of one or several machines.

    Parameters
    ----------
    path
        A digest, or a folder, of which all files that begin with the digest's header are read. The
        machine's name is the file name without ``storage_plugins_`` and ``.csv``.

    Returns
    -------
    Columns of `DIGEST_SCHEMA`: throughput in bytes per second, the mean over calls of each call's
    own ratio without the close time; close time in seconds. In the order of the files.

    Raises
    ------
    UsageError
        There is nothing to read, a file has another format or is truncated, or a row is repeated
        or missing.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = [f for f in sorted(path.glob("*.csv")) if _header(f) in (DIGEST_COLUMNS, ())]
        if not files:
            raise UsageError(
                f"{path} has no digest of the storage plugin comparison: no *.csv file in it "
                f"begins with {','.join(DIGEST_COLUMNS)}"
            )
    return pl.concat(map(_digest, files))


def read_batches(path: Path | str) -> Batches:
    """Read the raw rows of one run, as ``single_benchmark`` printed them.

    Raises
    ------
    UsageError
        The format is another, a call is missing, or the close time is missing at the end.
    """
    path = Path(path)
    rows = _rows(path, BATCH_COLUMNS)
    if not rows:
        raise UsageError(f"{path} has no row: the run failed or the file is truncated")
    *calls, (line, last) = rows
    if any(last[:4]) or not last[4]:
        raise UsageError(
            f"{path}:{line} ends without a close time: the run failed or the file is truncated"
        )
    close = _integer(path, line, "close_ns", last[4])
    if not calls:
        raise UsageError(f"{path} has a close time but no write call")
    values: list[list[int]] = []
    for expected, (number, row) in enumerate(calls):
        if row[4]:
            raise UsageError(f"{path}:{number} has a close time before the last row")
        named = zip(BATCH_COLUMNS, row[:4], strict=False)
        sequence, *rest = (_integer(path, number, name, text) for name, text in named)
        if sequence != expected:
            raise UsageError(f"{path}:{number} has call {sequence} where {expected} is expected")
        values.append(rest)
    schema = dict.fromkeys(BATCH_COLUMNS[1:4], pl.Int64)
    return Batches(pl.DataFrame(values, schema=schema, orient="row"), close)


def _digest(path: Path) -> pl.DataFrame:
    machine = path.stem.removeprefix(_PREFIX)
    records: list[tuple[object, ...]] = []
    seen: dict[tuple[str, ...], int] = {}
    for line, row in _rows(path, DIGEST_COLUMNS):
        run = _integer(path, line, "run", row[0])
        key = (str(run), *row[1:4])
        if not all(row[1:4]):
            raise UsageError(f"{path}:{line} has an empty factor")
        if key in seen:
            raise UsageError(f"{path}:{line} repeats line {seen[key]}: run {', '.join(key)}")
        seen[key] = line
        throughput = _amount(path, line, "avg_byte_throughput", row[4])
        if not throughput:
            raise UsageError(f"{path}:{line} has avg_byte_throughput 0: nothing was written")
        close = _amount(path, line, "close_time", row[5])
        records.append((machine, run, *row[1:4], throughput, close))
    if not records:
        raise UsageError(f"{path} has no row below its header")
    frame = pl.DataFrame(records, schema=DIGEST_SCHEMA, orient="row")
    _complete(path, frame, seen)
    return frame


def _complete(path: Path, frame: pl.DataFrame, keys: Iterable[tuple[str, ...]]) -> None:
    """Raise UsageError unless every run has all combinations of levels, as in a sweep."""
    runs = [str(run) for run in frame["run"].unique().sort()]
    cells = list(product(*(frame[f].unique(maintain_order=True) for f in FACTORS)))
    swept = set(keys)
    missing = [(*cell, run) for cell in cells for run in runs if (run, *cell) not in swept]
    if missing:
        *cell, run = missing[0]
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise UsageError(
            f"{path} lacks run {run} of {', '.join(cell)}{more}: of {len(runs)} runs x "
            f"{len(cells)} cells {len(swept):,} rows are there; complete the sweep"
        )


def _header(path: Path) -> tuple[str, ...]:
    """Return the names in the first line; none where the file is empty."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return tuple(next(csv.reader(stream), ()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Return the rows below the header with their line numbers."""
    text = read_text(path)
    if not text:
        raise UsageError(f"{path} is empty")
    if not text.endswith("\n"):
        raise UsageError(f"{path} is truncated: its last line has no end")
    try:
        header, *rows = csv.reader(text.splitlines(), strict=True)
    except csv.Error as error:
        raise UsageError(f"{path} is not a table: {error}") from error
    if tuple(header) != tuple(columns):
        raise UsageError(f"{path} begins with {','.join(header)!r}, not with {','.join(columns)}")
    for line, row in enumerate(rows, 2):
        if len(row) != len(columns):
            raise UsageError(f"{path}:{line} has {len(row)} of {len(columns)} columns: truncated?")
    return list(enumerate(rows, 2))


def _integer(path: Path, line: int, name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise UsageError(f"{path}:{line} has {name} {text!r}: a whole number is expected")
    return int(text)


def _amount(path: Path, line: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{path}:{line} has {name} {text!r}: a number of at least 0 is expected")
    return value
