"""Represent other tools' result files in one form: one row per figure, SI-like units."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import polars as pl

from roslens.recording.errors import UsageError

SUMMARY_SCHEMA = pl.Schema(
    {
        "entity": pl.String,
        "node": pl.String,
        "name": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "unit": pl.String,
        "samples": pl.Int64,
    }
)
SERIES_SCHEMA = pl.Schema(
    {"time_ns": pl.Int64, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
)
SAMPLES_SCHEMA = pl.Schema(
    {"entity": pl.String, "node": pl.String, "name": pl.String, "value_ns": pl.Int64}
)


Rows: TypeAlias = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class ToolResult:
    """The figures of one run as another tool wrote them.

    Attributes
    ----------
    tool
        Name of the tool that wrote the files.
    metadata
        Information on the run from the files.
    summary
        `SUMMARY_SCHEMA`: one row per figure. `entity` is its subject (subscription, publisher,
        client, process, ...), `name` its topic, service or action; `metric` such as
        ``latency_mean``; `unit` ``ns``, ``byte``, ``core``, ``1`` (count or fraction), ``Hz``.
    series
        `SERIES_SCHEMA`: figures over time, `time_ns` since the tool's start.
    samples
        `SAMPLES_SCHEMA`: single latencies, where the tool wrote them.
    notes
        Corrections, omissions and misleading names; one sentence each.
    factors
        Settings that distinguish this run from others in the same file.
    identity
        The tool's own id of the run, which is equal in all files of one run; empty without.
    """

    tool: str
    metadata: Mapping[str, str]
    summary: pl.DataFrame
    series: pl.DataFrame
    samples: pl.DataFrame
    notes: Sequence[str]
    factors: Mapping[str, str | int | float]
    identity: str

    @classmethod
    def of(
        cls,
        tool: str,
        summary: Rows = (),
        series: Rows = (),
        samples: Rows = (),
        *,
        metadata: Mapping[str, str] = MappingProxyType({}),
        notes: Iterable[str] = (),
        factors: Mapping[str, str | int | float] = MappingProxyType({}),
        identity: str = "",
    ) -> Self:
        """Make a result from the rows of its frames; missing and non-finite values become null."""
        frames = (
            _frame(summary, SUMMARY_SCHEMA),
            _frame(series, SERIES_SCHEMA),
            _frame(samples, SAMPLES_SCHEMA),
        )
        return cls(tool, dict(metadata), *frames, tuple(notes), dict(factors), identity)


def _frame(rows: Rows, schema: pl.Schema) -> pl.DataFrame:
    records = [{name: _finite(row.get(name)) for name in schema.names()} for row in rows]
    return pl.DataFrame(records, schema=schema, orient="row")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(
    figures: Mapping[str, tuple[float | None, str]], **columns: Any
) -> list[dict[str, Any]]:
    """Return a row for each figure.

    Parameters
    ----------
    figures
        Value and unit by metric.
    columns
        The other columns, with the same cell in all rows.
    """
    return [
        {**columns, "metric": metric, "value": value, "unit": unit}
        for metric, (value, unit) in figures.items()
    ]


def read_text(path: Path) -> str:
    """Return a result file's text.

    Raises
    ------
    UsageError
        The file cannot be read, or is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: no text: {error.reason} at byte {error.start}") from error


_NAN = re.compile(r"^([+-]?nan)\(\w+\)$", re.IGNORECASE)


def number(text: str, where: str) -> float:
    """Convert a cell to a number.

    Parameters
    ----------
    where
        File, line and column, for the error.

    Raises
    ------
    UsageError
        The cell is not a number.
    """
    try:
        # MSVC writes nan(ind) and nan(snan).
        return float(_NAN.sub(r"\1", text))
    except ValueError:
        raise UsageError(f"{where}: {text!r} is no number; is the file cut off?") from None


def split_row(line: str, columns: int | None = None) -> list[str]:
    """Split a row into cells: at commas where there are any, else at white space.

    Parameters
    ----------
    columns
        Number of columns; the last takes the rest of a row without commas.
    """
    if "," in line:
        return [cell.strip() for cell in next(csv.reader([line]))]
    return line.split(None, columns - 1) if columns else line.split()


def numbered(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def named(cells: Sequence[str], header: Sequence[str], where: str) -> dict[str, str]:
    """Return the cells of a row by column name.

    Raises
    ------
    UsageError
        There are fewer cells than columns.
    """
    if len(cells) < len(header):
        raise UsageError(
            f"{where}: {len(cells)} cells under {len(header)} columns; is the file cut off?"
        )
    return dict(zip(header, cells, strict=False))


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield place and cells of each row of a file whose first line names the columns.

    Raises
    ------
    UsageError
        The file cannot be read, or a row has fewer cells than there are columns.
    """
    (_, first), *rows = numbered(read_text(path))
    header = split_row(first)
    for number, line in rows:
        where = f"{path}:{number}"
        yield where, named(split_row(line), header, where)


def read_rows(path: Path, schema: pl.Schema, optional: Sequence[str] = ()) -> pl.DataFrame:
    """Read a CSV file with a header and these column types, as our own programs write it.

    Parameters
    ----------
    optional
        Columns whose cells may be empty.

    Raises
    ------
    UsageError
        The file cannot be read, has other columns, or is truncated.
    """
    text = read_text(path)
    content = text.encode()
    header = text.partition("\n")[0].split(",")
    if header != schema.names():
        raise UsageError(f"{path}: its header is not {','.join(schema.names())}")
    try:
        frame = pl.read_csv(content, schema=schema)
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    missing = [pl.col(name).is_null() for name in schema if name not in optional]
    if not text.endswith("\n"):
        raise UsageError(f"{path}: a row is not whole: it is cut off")
    torn = frame.select(pl.any_horizontal(pl.lit(value=False), *missing).arg_true()).to_series()
    if torn.len():
        raise UsageError(f"{path}:{torn[0] + 2}: a row is not whole: it is cut off")
    return frame
