"""Run the ``events`` verb: print events of a recording as text, JSON lines, CSV or Parquet.

The verb streams: it cuts the time into parts of some MiB of trace; each part is read, sorted
by time over all kinds of events, and written before the next part is read.
"""

from __future__ import annotations

import difflib
import fnmatch
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeAlias

import polars as pl
from rich.progress import TaskProgressColumn

from roslens.collectors.decoding import open_recording
from roslens.collectors.reader import Trace
from roslens.collectors.times import parse_time, utc
from roslens.progress import progress_bar
from roslens.recording import UsageError
from roslens.recording.errors import cannot_be_written, writing
from roslens.recording.files import replaced_whole, sync, write_atomically
from roslens.recording.text import UNSEEN, shown
from roslens.tracing.opening import opened

Format: TypeAlias = Literal["text", "json", "csv", "parquet"]

_SECOND = 1_000_000_000
_CONTEXTS = ("vpid", "vtid", "procname")
Bases: TypeAlias = Mapping[str, Mapping[str, tuple[int, int]]]
"""For each event and column: the base in which to show its integers, and their number of bits."""
LEVEL = "log_level"
"""The field that stands for the log level of an event's class."""


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
        Event names, or patterns with ``*``; empty: all events.
    start, end
        The first and last time; see `roslens.collectors.times.parse_time`.
    fields
        Columns besides ``time_ns``; empty: all columns.
    output
        The output file, or a folder for Parquet and several events. None: standard output.
    threads
        The number of decoding threads; 0: one per CPU.

    Raises
    ------
    UsageError
        No trace, no such event or field, an invalid time, or Parquet without `output`.
    UsageError, RunFailedError
        `output` cannot be written; RunFailedError if the disk is full.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    if form == "parquet" and output is None:
        raise UsageError("Parquet is not written to a terminal: give a file or folder with -o")
    path = opened(path)
    trace = open_recording(path)
    chosen = choose(trace.event_names, names, path)
    first = trace.first_event_ns
    begin_ns = None if start is None else parse_time(start, first)
    end_ns = None if end is None else parse_time(end, first)
    if begin_ns is not None and end_ns is not None and begin_ns > end_ns:
        raise UsageError(f"--start {start} is after --end {end}")
    columns = list(fields) or None
    levels = trace.log_levels if LEVEL in fields and form != "parquet" else {}
    schemas = _with_levels(trace.read(chosen, begin_ns=0, end_ns=-1, threads=threads), levels)
    _check_fields(columns, schemas, chosen)
    if output is not None and form == "parquet":
        times = (begin_ns, end_ns)
        _to_parquet(trace, chosen, times, columns, output, threads=threads)
        return
    to_lines = _Lines(form, schemas, columns, trace.display_bases)
    has_lines = False
    bar = progress_bar(TaskProgressColumn(), disable=output is None)
    with _opened(output) as file, bar as progress:
        # A program gets the recorded text; a terminal only what is safe to show.
        safe = partial(shown, lines=True) if file.isatty() else str
        file.write(safe(to_lines.head()))
        parts = trace.windows(begin_ns=begin_ns, end_ns=end_ns)
        for low, high in progress.track(parts, description="writing events"):
            frames = trace.read(chosen, begin_ns=low, end_ns=high, fields=columns, threads=threads)
            lines = to_lines.body(_with_levels(frames, levels))
            has_lines = has_lines or bool(lines)
            file.write(safe(lines))
    if not has_lines:
        last = trace.last_event_ns
        span = "" if first is None or last is None else f"; the trace has {_span(first, last)}"
        subject = f"none of {_listed(chosen)}" if names else "no event"
        print(shown(f"roslens: {subject} in this time{span}"), file=sys.stderr)


def _check_fields(
    columns: Sequence[str] | None, schemas: Mapping[str, pl.DataFrame], chosen: Sequence[str]
) -> None:
    names = {column for frame in schemas.values() for column in frame.columns}
    if missing := [column for column in columns or () if column not in names]:
        raise UsageError(
            f"no field '{missing[0]}' in {_listed(chosen)}{_similar_names(missing[0], names)}"
        )


def _span(first: int, last: int) -> str:
    """Format the first and last time in the form that `parse_time` takes."""
    return f"{utc(first)} to {utc(last)} UTC, that is +0s to +{(last - first) / _SECOND:.3f}s"


def _with_levels(
    frames: dict[str, pl.DataFrame], levels: Mapping[str, str]
) -> dict[str, pl.DataFrame]:
    """Add the log level of each event's class, unless the event has a field of that name."""
    if not levels:
        return frames
    return {
        name: frame
        if LEVEL in frame.columns
        else frame.with_columns(pl.lit(levels.get(name), dtype=pl.String).alias(LEVEL))
        for name, frame in frames.items()
    }


def choose(declared: Sequence[str], patterns: Sequence[str], path: Path) -> list[str]:
    """Return the declared events that match any of the patterns, in declaration order.

    Raises
    ------
    UsageError
        A pattern matches no event.
    """
    if not patterns:
        return list(declared)
    wanted: set[str] = set()
    for pattern in patterns:
        matches = fnmatch.filter(declared, pattern)
        if not matches:
            raise UsageError(
                f"{path}: no event '{pattern}' is declared{_similar_names(pattern, declared)}"
            )
        wanted.update(matches)
    return [name for name in declared if name in wanted]


class _Lines:
    """Converter of frames to lines of text, in time order."""

    def __init__(
        self,
        form: Format,
        schemas: dict[str, pl.DataFrame],
        columns: Sequence[str] | None,
        bases: Bases,
    ) -> None:
        self._bases = bases
        self._form = form
        self._several = len(schemas) > 1
        self._columns: dict[str, None] = {"time_ns": None}
        for frame in schemas.values():
            for column in frame.columns:
                if columns is None or column in columns:
                    self._columns[column] = None

    def head(self) -> str:
        """Return the header of the output."""
        if self._form != "csv":
            return ""
        event = ["event"] if self._several else []
        return pl.DataFrame(schema=dict.fromkeys([*event, *self._columns], pl.String)).write_csv()

    def body(self, frames: dict[str, pl.DataFrame]) -> str:
        """Return the lines of one part of the time."""
        parts = []
        for name, frame in frames.items():
            if frame.height:
                line = {"text": self._text, "json": self._json, "csv": self._csv}[self._form]
                parts.append(frame.select("time_ns", line(name, frame).alias("line")))
        if not parts:
            return ""
        lines = pl.concat(parts).sort("time_ns", maintain_order=True)["line"]
        if self._form == "text" and lines.str.contains(f"[{UNSEEN}]").any():
            lines = pl.Series(map(shown, lines))
        elif self._form == "json":
            # The encoder escapes only ASCII control characters.
            for code in (0x7F, *range(0x80, 0xA0)):
                if lines.str.contains(chr(code), literal=True).any():
                    lines = lines.str.replace_all(chr(code), f"\\u{code:04x}", literal=True)
        return "\n".join(lines.to_list()) + "\n"

    def _text(self, name: str, frame: pl.DataFrame) -> pl.Expr:
        time = pl.from_epoch("time_ns", time_unit="ns")
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
        bases = self._bases.get(name, {})
        shown = [
            _group([_named(c, schema[c], bases.get(c)) for c in group]) for group in groups if group
        ]
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


def _named(column: str, kind: pl.DataType, base: tuple[int, int] | None) -> pl.Expr:
    """Format ``name = value``; null if the value is null."""
    value = pl.col(column)
    if base is not None and kind.is_integer():
        digits = value.map_batches(lambda s: _in_base(s, *base), return_dtype=pl.String)
        shown = pl.concat_str(pl.lit(f"{column} = "), digits)
        return pl.when(value.is_not_null()).then(shown)
    match kind:
        case pl.String():
            value = pl.concat_str(pl.lit('"'), _escaped(value), pl.lit('"'))
        case pl.Struct() | pl.List():
            value = _as_json(column)
        case _:
            value = value.cast(pl.String)
    shown = pl.concat_str(pl.lit(f"{column} = "), value)
    return pl.when(pl.col(column).is_not_null()).then(shown)


_PREFIX = {2: "0b", 8: "0", 16: "0x"}
_FORM = {2: "b", 8: "o", 16: "X"}


def _in_base(numbers: pl.Series, base: int, bits: int) -> pl.Series:
    """Format integers of `bits` bits as babeltrace2 does: negative ones as their bits."""
    values = [value & (1 << bits) - 1 for value in numbers.fill_null(0)]
    prefix, form = _PREFIX[base], f"0{bits}b" if base == 2 else _FORM[base]
    texts = [f"{prefix}{value:{form}}" for value in values]
    return pl.Series(numbers.name, texts, dtype=pl.String)


def _escaped(text: pl.Expr) -> pl.Expr:
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.str.replace_all(raw, escaped, literal=True)
    return text


def _as_json(column: str) -> pl.Expr:
    # Only structs can be encoded: wrap the value in a struct, then cut its single name off.
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
    """Write one file for one event, else a folder as `Trace.write_events` makes it."""
    begin_ns, end_ns = times
    with progress_bar(TaskProgressColumn()) as bar:
        task = bar.add_task("writing events")
        write = partial(
            trace.write_events,
            names=names,
            begin_ns=begin_ns,
            end_ns=end_ns,
            fields=fields,
            threads=threads,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        if len(names) > 1 or output.is_dir():
            write(output)
            return
        with writing(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=output.parent, prefix=".events-") as scratch:
                write(Path(scratch))
                files = list(Path(scratch).rglob("*.parquet"))
                if files:
                    sync(files[0])
                    shutil.move(files[0], output)
                else:
                    empty = trace.read(names, begin_ns=0, end_ns=-1, fields=fields)[names[0]]
                    content = io.BytesIO()
                    empty.write_parquet(content)
                    write_atomically(output, content.getvalue())


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    try:
        if output is None:
            yield sys.stdout
            sys.stdout.flush()
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        with replaced_whole(output) as part, part.open("w", encoding="utf-8") as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:
            # Otherwise the interpreter would try to write the remaining output again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise cannot_be_written(output or Path("standard output"), error) from error


def _listed(names: Sequence[str]) -> str:
    return f"'{names[0]}'" if len(names) == 1 else f"{len(names)} kinds of events"


def _similar_names(text: str, names: Sequence[str] | set[str]) -> str:
    close = difflib.get_close_matches(text, list(names), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
