"""The ``events`` verb: events of a recording as text, JSON lines, CSV or Parquet.

Streams: the time is cut into parts of some MiB of trace, and each part is read, put into the
order of time over all kinds of events, and written, before the next is read.
"""

from __future__ import annotations

import difflib
import fnmatch
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Literal, TypeAlias

import polars as pl
from rich.console import Console
from rich.progress import Progress

from collectors.reader import Trace, open_trace
from collectors.times import parse_time
from tracing.recording import RunFailedError, UsageError

Format: TypeAlias = Literal["text", "json", "csv", "parquet"]

_SECOND = 1_000_000_000
_CONTEXTS = ("vpid", "vtid", "procname")
LEVEL = "log_level"
"""Field that stands for the log level of an event's class."""


def write_events(
    path: Path,
    *,
    names: Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    fields: Sequence[str] = (),
    form: Format = "text",
    output: Path | None = None,
    threads: int = 0,
) -> None:
    """Write events of the traces at or below `path`.

    Parameters
    ----------
    names
        Event names, or patterns with ``*``; all if there are none.
    start, end
        First and last time, see `collectors.times.parse_time`.
    fields
        Columns beside ``time_ns``; all if there are none.
    output
        File; for Parquet and several events a folder. None for standard output.
    threads
        That decode; 0 for one per CPU.

    Raises
    ------
    UsageError
        No trace, no such event or field, a time that is none, or Parquet without `output`.
    RunFailedError
        `output` cannot be written.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    trace = open_trace(path)
    chosen = choose(trace.event_names, names, path)
    first, _ = trace.span
    begin_ns = None if start is None else parse_time(start, first)
    end_ns = None if end is None else parse_time(end, first)
    if begin_ns is not None and end_ns is not None and begin_ns > end_ns:
        raise UsageError(f"--start {start} is after --end {end}")
    schemas = trace.read(chosen, begin_ns=0, end_ns=-1)
    columns = list(fields) or None
    if columns is not None and LEVEL in columns and form != "parquet":
        schemas = {name: _with_level(trace, name, frame) for name, frame in schemas.items()}
    if columns is not None:
        known = {column for frame in schemas.values() for column in frame.columns}
        if missing := [column for column in columns if column not in known]:
            raise UsageError(
                f"no field '{missing[0]}' in {_listed(chosen)}{_like(missing[0], known)}"
            )
    if form == "parquet":
        if output is None:
            raise UsageError("Parquet is not written to a terminal: give a file or folder with -o")
        _to_parquet(trace, chosen, (begin_ns, end_ns), columns, output, threads=threads)
        return
    to_lines = _Lines(form, schemas, columns, first)
    parts = trace.windows(begin_ns=begin_ns, end_ns=end_ns)
    with (
        _opened(output) as file,
        Progress(console=Console(stderr=True), transient=True, disable=output is None) as progress,
    ):
        file.write(to_lines.head())
        for low, high in progress.track(parts, description="writing events"):
            frames = trace.read(chosen, begin_ns=low, end_ns=high, fields=columns, threads=threads)
            if columns is not None and LEVEL in columns:
                frames = {name: _with_level(trace, name, frame) for name, frame in frames.items()}
            file.write(to_lines.body(frames))


def _with_level(trace: Trace, name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the log level of an event's class, where it has no field of that name."""
    if LEVEL in frame.columns:
        return frame
    return frame.with_columns(pl.lit(trace.log_levels.get(name), dtype=pl.String).alias(LEVEL))


def choose(declared: Sequence[str], patterns: Sequence[str], path: Path) -> list[str]:
    """Declared events that any of the patterns fits, in their own order.

    Raises
    ------
    UsageError
        A pattern fits none.
    """
    if not patterns:
        return list(declared)
    wanted: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(declared, pattern)
        if not found:
            raise UsageError(f"{path}: no event '{pattern}' is declared{_like(pattern, declared)}")
        wanted.update(found)
    return [name for name in declared if name in wanted]


class _Lines:
    """Frames to lines of text, in the order of time."""

    def __init__(
        self,
        form: Format,
        schemas: dict[str, pl.DataFrame],
        columns: Sequence[str] | None,
        first_ns: int | None,
    ) -> None:
        self._form = form
        self._several = len(schemas) > 1
        day = datetime.fromtimestamp((first_ns or 0) // _SECOND).astimezone()
        offset = day.utcoffset() or timedelta(0)
        self._offset_ns = int(offset.total_seconds()) * _SECOND
        self._columns: dict[str, None] = {"time_ns": None}
        for frame in schemas.values():
            for column in frame.columns:
                if columns is None or column in columns:
                    self._columns[column] = None

    def head(self) -> str:
        """What the output begins with."""
        if self._form != "csv":
            return ""
        event = ["event"] if self._several else []
        return pl.DataFrame(schema=dict.fromkeys([*event, *self._columns], pl.String)).write_csv()

    def body(self, frames: dict[str, pl.DataFrame]) -> str:
        """The lines of a part of the time."""
        parts = []
        for name, frame in frames.items():
            if frame.height:
                line = {"text": self._text, "json": self._json, "csv": self._csv}[self._form]
                parts.append(frame.select("time_ns", line(name, frame).alias("line")))
        if not parts:
            return ""
        lines = pl.concat(parts).sort("time_ns", maintain_order=True)["line"]
        return "\n".join(lines.to_list()) + "\n"

    def _text(self, name: str, frame: pl.DataFrame) -> pl.Expr:
        time = pl.from_epoch(pl.col("time_ns") + self._offset_ns, time_unit="ns")
        schema = frame.schema
        groups = (
            [c for c in ("cpu_id",) if c in schema],
            [c for c in schema if c in _CONTEXTS or c.startswith("ctx_")],
            [
                c
                for c in schema
                if c not in (*_CONTEXTS, "time_ns", "host", "trace", "cpu_id")
                and not c.startswith("ctx_")
            ],
        )
        shown = [_group([_named(c, schema[c]) for c in group]) for group in groups if group]
        host = [pl.col("host")] if "host" in schema else []
        head = pl.concat_str(
            pl.lit("["), time.dt.strftime("%H:%M:%S%.9f"), pl.lit("]"), ignore_nulls=True
        )
        return pl.concat_str(
            pl.concat_str([head, *host, pl.lit(f"{name}:")], separator=" "),
            pl.concat_str(shown, separator=", ", ignore_nulls=True) if shown else pl.lit(""),
            separator=" ",
        )

    def _json(self, name: str, frame: pl.DataFrame) -> pl.Expr:
        columns = [pl.col(column) for column in frame.columns]
        return pl.struct(pl.lit(name).alias("event"), *columns).struct.json_encode()

    def _csv(self, name: str, frame: pl.DataFrame) -> pl.Expr:
        cells = [pl.lit(name)] if self._several else []
        for column in self._columns:
            kind = frame.schema.get(column)
            cells.append(pl.lit("") if kind is None else _cell(column, kind))
        return pl.concat_str(cells, separator=",")


def _group(members: Sequence[pl.Expr]) -> pl.Expr:
    inner = pl.concat_str(members, separator=", ", ignore_nulls=True)
    empty = pl.all_horizontal([member.is_null() for member in members])
    return (
        pl.when(~empty)
        .then(pl.concat_str(pl.lit("{ "), inner, pl.lit(" }")))
        .otherwise(pl.lit(None, dtype=pl.String))
    )


def _named(column: str, kind: pl.DataType) -> pl.Expr:
    """``name = value``; null where there is none."""
    value = pl.col(column)
    match kind:
        case pl.String():
            value = pl.concat_str(pl.lit('"'), _escaped(value), pl.lit('"'))
        case pl.Struct() | pl.List():
            value = _as_json(column)
        case _:
            value = value.cast(pl.String)
    shown = pl.concat_str(pl.lit(f"{column} = "), value)
    return pl.when(pl.col(column).is_not_null()).then(shown)


def _escaped(text: pl.Expr) -> pl.Expr:
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.str.replace_all(raw, escaped, literal=True)
    return text


def _as_json(column: str) -> pl.Expr:
    # Only structs can be encoded; the value is what stands after the one name.
    text = pl.struct(pl.col(column).alias("v")).struct.json_encode()
    return text.str.slice(5, text.str.len_chars() - 6)


def _cell(column: str, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.Struct | pl.List):
        value = _as_json(column)
    else:
        value = pl.col(column).cast(pl.String)
    value = pl.when(pl.col(column).is_not_null()).then(value).otherwise(pl.lit(""))
    doubled = value.str.replace_all('"', '""', literal=True)
    quoted = pl.concat_str(pl.lit('"'), doubled, pl.lit('"'))
    return pl.when(value.str.contains(r'[",\r\n]')).then(quoted).otherwise(value)


def _to_parquet(
    trace: Trace,
    names: Sequence[str],
    times: tuple[int | None, int | None],
    fields: Sequence[str] | None,
    output: Path,
    *,
    threads: int,
) -> None:
    """One file for one event, else a folder as `Trace.write_events` makes it."""

    def write(folder: Path, progress: Callable[[int, int], object]) -> None:
        trace.write_events(
            folder,
            names=names,
            begin_ns=times[0],
            end_ns=times[1],
            fields=fields,
            threads=threads,
            progress=progress,
        )

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("writing events")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if len(names) > 1 or output.is_dir():
            write(output, tell)
            return
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=output.parent, prefix=".events-") as scratch:
                write(Path(scratch), tell)
                found = list(Path(scratch).rglob("*.parquet"))
                if found:
                    shutil.move(found[0], output)
                else:
                    empty = trace.read(names, begin_ns=0, end_ns=-1, fields=fields)[names[0]]
                    empty.write_parquet(output)
        except OSError as error:
            raise RunFailedError(f"{output}: cannot be written: {error.strerror}") from error


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    if output is None:
        yield sys.stdout
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise RunFailedError(f"{output}: cannot be written: {error.strerror}") from error


def _listed(names: Sequence[str]) -> str:
    return f"'{names[0]}'" if len(names) == 1 else f"any of {len(names)} events"


def _like(text: str, known: Sequence[str] | set[str]) -> str:
    close = difflib.get_close_matches(text, list(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
