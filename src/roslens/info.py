"""The ``info`` verb: what it prints about a recording."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from roslens.collectors.collection import collect
from roslens.collectors.decoding import open_recording
from roslens.collectors.excerpt import excerpt_of
from roslens.collectors.reader import Process, Trace, TraceInfo
from roslens.collectors.resolving import find_runs, found_in_words
from roslens.collectors.schema import TABLES
from roslens.recording import NotEnoughEvidenceError, Recording, UsageError
from roslens.recording.files import text_path
from roslens.recording.terminal import Console
from roslens.recording.text import shown
from roslens.tracing.opening import opened

_NS = 1e9
_PROCESS = ("host", "vpid", "procname")


def utc(time_ns: int) -> str:
    """A time in ns since the epoch as UTC text, to the microsecond."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


def find_info(path: Path) -> tuple[TraceInfo, dict[str, Any] | None]:
    """What is in a recording; for an excerpt of one also which part that is.

    Raises
    ------
    UsageError
        There is no trace, or it cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    recording = Recording.at(opened(path))
    if not recording.is_excerpt:
        return _counted(open_recording(recording.path)), None
    there = collect(recording)
    processes = TABLES["processes"].empty()
    if there.rows:
        processes = pl.read_parquet(text_path(recording.tables / "processes.parquet"), glob=False)
    info = TraceInfo(
        events=there.events,
        events_by_name=there.events_by_name,
        discarded_events=there.discarded_events,
        begin_ns=processes.select(pl.col("begin_ns").min()).item(),
        end_ns=processes.select(pl.col("end_ns").max()).item(),
        processes=[Process(*about) for about in processes.select(_PROCESS).iter_rows()],
        hosts=sorted(processes["host"].unique()),
        warnings=there.warnings,
        loss_rows=[],
    )
    return info, excerpt_of(recording)


def run_info(path: Path, *, as_json: bool) -> None:
    """Print what is in a recording, or a line about each where several runs lie at a path.

    Raises
    ------
    UsageError
        There is no trace, or it cannot be read.
    NotEnoughEvidenceError
        No event is there; printed all the same.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    place = opened(path)
    runs = find_runs(place) if place.is_dir() else []
    if len(runs) < 2:
        info, excerpt = find_info(place)
        if as_json:
            _print_json(info.to_json() | ({"excerpt": excerpt} if excerpt else {}))
        else:
            show_info(info, Console(), excerpt)
        there = bool(info.events)
    else:
        infos = {run: find_info(run.path)[0] for run in runs}
        if as_json:
            rows = [{"path": str(run.path), **info.to_json()} for run, info in infos.items()]
            _print_json({"recordings": rows})
        else:
            _show_runs(place, infos, Console())
        there = any(info.events for info in infos.values())
    if not there:
        raise NotEnoughEvidenceError(f"{path}: no event was recorded, or none was saved")


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


def _show_runs(place: Path, infos: Mapping[Recording, TraceInfo], console: Console) -> None:
    console.print(found_in_words(place, list(infos)), soft_wrap=True)
    table = Table("run", "begin (UTC)", "seconds", "events", "discarded", "processes", box=None)
    for column in table.columns[2:]:
        column.justify = "right"
    for run, info in infos.items():
        begin, end = info.begin_ns, info.end_ns
        times = (
            ("", "")
            if begin is None or end is None
            else (utc(begin)[:19], f"{(end - begin) / _NS:.3f}")
        )
        counts = (info.events, info.discarded_events, len(info.processes))
        name = run.path.relative_to(place).as_posix()
        table.add_row(escape(shown(name)), *times, *(f"{count:,}" for count in counts))
    console.print(table)
    console.print("Give one of them for its events.")


def _counted(trace: Trace) -> TraceInfo:
    columns = (TextColumn("counting events"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        return trace.info(
            progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def show_info(info: TraceInfo, console: Console, excerpt: Mapping[str, Any] | None = None) -> None:
    """Print a trace's summary, loss first."""
    if excerpt is not None:
        text = escape(excerpt["text"])
        console.print(f"[yellow]Only part of the recording is here: {text}.[/]", soft_wrap=True)
    gone = ("lost_packets", "missing_stream")
    packets = sum(row["count"] or 0 for row in info.loss_rows if row["kind"] in gone)
    if info.discarded_events:
        console.print(f"[bold red]The tracer discarded {info.discarded_events:,} events.[/]")
    if packets:
        console.print(f"[bold red]{packets:,} packets of the recording are missing.[/]")
    if info.events and not info.discarded_events and not packets:
        console.print("[green]The tracer discarded no events.[/]")
    for warning in info.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    if info.begin_ns is not None and info.end_ns is not None:
        seconds = (info.end_ns - info.begin_ns) / _NS
        console.print(f"{utc(info.begin_ns)} to {utc(info.end_ns)} UTC, {seconds:.3f} s")
    processes = ", ".join(
        escape(f"{p.procname or '?'} ({p.host}:{p.vpid})") for p in info.processes
    )
    console.print(f"processes: {processes or 'none known'}", soft_wrap=True)
    # All of one level tell nothing: LTTng gives one to each event.
    levels = info.log_levels if len(set(info.log_levels.values())) > 1 else {}
    more = ["log level"] if levels else []
    table = Table("event", "count", *more, box=None, pad_edge=False, header_style="bold")
    table.columns[1].justify = "right"
    for name, count in sorted(info.events_by_name.items(), key=lambda item: (-item[1], item[0])):
        if count:
            table.add_row(escape(name), f"{count:,}", levels.get(name))
    table.add_row("total", f"{info.events:,}", style="bold")
    console.print(table)
