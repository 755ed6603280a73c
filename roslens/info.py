"""The ``info`` verb: what it prints about a recording."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from collectors.reader import TraceInfo

_NS = 1e9


def utc(time_ns: int) -> str:
    """A time in ns since the epoch as UTC text, to the microsecond."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


def show_info(info: TraceInfo, console: Console) -> None:
    """Print a trace's summary, loss first."""
    if info.discarded_events:
        console.print(f"[bold red]The tracer discarded {info.discarded_events:,} events.[/]")
    else:
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
    table = Table("event", "count", box=None, pad_edge=False, header_style="bold")
    table.columns[1].justify = "right"
    for name, count in sorted(info.events_by_name.items(), key=lambda item: (-item[1], item[0])):
        if count:
            table.add_row(escape(name), f"{count:,}")
    table.add_row("total", f"{info.events:,}", style="bold")
    console.print(table)
