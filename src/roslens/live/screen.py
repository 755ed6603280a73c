"""What ``roslens watch`` shows: one screen, a line, or JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from roslens.analysis.overview.live import LastSeconds
from roslens.analysis.reports.numbers import duration

_ROWS = (24, 10, 8)
_NS = 1e9


@dataclass(frozen=True)
class Moment:
    """What is known at one time.

    Attributes
    ----------
    figures
        Of the last seconds; None before the first event.
    events
        How many came in the last refresh, per second; None in the first one.
    dropped
        What the tracer dropped since the watching began.
    exceeded
        As of `Limits.exceeded`.
    hits
        Triggers that hit now, as plain data.
    notes
        What else is to be said.
    new
        What triggers did now, and before.
    before
        As above.
    """

    figures: LastSeconds | None
    events: float | None
    dropped: int
    exceeded: Sequence[Mapping[str, object]] = ()
    hits: Sequence[Mapping[str, object]] = ()
    notes: Sequence[str] = ()
    new: Sequence[str] = ()
    before: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data; times in ns since the epoch."""
        found = self.figures
        return {
            "begin_ns": found.begin_ns if found else None,
            "end_ns": found.end_ns if found else None,
            "events_per_s": None if self.events is None else round(self.events, 1),
            "dropped_by_the_tracer": self.dropped,
            "topics": found.topics.to_dicts() if found else [],
            "callbacks": found.callbacks.to_dicts() if found else [],
            "threads": found.threads.to_dicts() if found else [],
            "exceeded": [dict(one) for one in self.exceeded],
            "triggered": [dict(one) for one in self.hits],
            "notes": [*self.notes, *self.new],
        }


def line(moment: Moment) -> str:
    """The most important of a moment in one line."""
    found = moment.figures
    if found is None:
        return "no event yet"
    parts = [clock(found.end_ns), f"{_number(moment.events)} events/s"]
    parts += [
        f"{row['topic']} {_number(row['rate_hz'])} Hz P99 {_time(row['p99_ms'])} "
        f"lost {_part(row['lost'])}"
        for row in found.topics.head(3).iter_rows(named=True)
    ]
    busiest = next(found.threads.iter_rows(named=True), None)
    if busiest:
        parts.append(f"busiest thread {busiest['vtid']} {_part(busiest['busy'])}")
    parts += [f"OVER BUDGET {one['topic']}: {one['budget']}" for one in moment.exceeded]
    if moment.dropped:
        parts.append(f"the tracer dropped {moment.dropped:,}")
    return "; ".join([*parts, *moment.notes, *moment.new])


def screen(moment: Moment) -> RenderableType:
    """All of a moment, as one screen."""
    found = moment.figures
    if found is None:
        return Text("\n".join(["no event yet; waiting", *moment.notes]))
    seconds = (found.end_ns - found.begin_ns) / _NS
    head = Text(
        f"{clock(found.end_ns)}   last {seconds:.3g} s   {_number(moment.events)} events/s   "
    )
    head.append(
        f"the tracer dropped {moment.dropped:,}"
        if moment.dropped
        else "the tracer dropped nothing",
        "red" if moment.dropped else "green",
    )
    over = {(one["topic"], one["to"], one["column"]): one["budget"] for one in moment.exceeded}
    topics = _table("topic", "from", "to", "Hz", "P50", "P99", "max", "lost")
    for row in found.topics.head(_ROWS[0]).iter_rows(named=True):
        cells = [
            ("rate_hz", _number(row["rate_hz"])),
            *((column, _time(row[column])) for column in ("p50_ms", "p99_ms", "worst_ms")),
            ("lost", _part(row["lost"])),
        ]
        topics.add_row(
            *(Text(str(row[column] or "?")) for column in ("topic", "from", "to")),
            *(Text(x, "bold red" * ((row["topic"], row["to"], c) in over)) for c, x in cells),
        )
    callbacks = _table("callback", "of", "node", "runs", "P50", "P99", "max")
    for row in found.callbacks.head(_ROWS[1]).iter_rows(named=True):
        callbacks.add_row(
            *(Text(str(row[column] or "?")) for column in ("kind", "name", "node")),
            str(row["count"]),
            *(_time(row[column]) for column in ("p50_ms", "p99_ms", "worst_ms")),
        )
    threads = _table("thread", "process", "nodes", "busy", left=3)
    for row in found.threads.head(_ROWS[2]).iter_rows(named=True):
        threads.add_row(
            str(row["vtid"]), str(row["vpid"]), Text(str(row["nodes"] or "?")), _part(row["busy"])
        )
    more = [
        f"{count} more {name}"
        for name, count in (
            ("topics", found.topics.height - _ROWS[0]),
            ("callbacks", found.callbacks.height - _ROWS[1]),
            ("threads", found.threads.height - _ROWS[2]),
        )
        if count > 0
    ]
    said = [f"over budget: {one['topic']}: {one['budget']}" for one in moment.exceeded]
    done = [*moment.before, *moment.new]
    last = Text("\n".join([*said, *moment.notes, *done, *[", ".join(more)] * bool(more)]))
    return Group(head, topics, callbacks, threads, last)


def _table(*headings: str, left: int = 3) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(headings):
        if place < left:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def clock(time_ns: int) -> str:
    """A time of the day, where one is."""
    return f"{datetime.fromtimestamp(time_ns / _NS).astimezone():%H:%M:%S}"


def _number(value: float | None) -> str:
    return (
        "-"
        if value is None or math.isnan(value)
        else f"{value:.3g}"
        if value < 1e3
        else f"{value:,.0f}"
    )


def _time(milliseconds: float | None) -> str:
    return duration(None if milliseconds is None else milliseconds * 1e6)


def _part(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"
