"""Show ``roslens watch`` as a screen, a line, HTML or JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from roslens.analysis.overview.live import PAIR, LastSeconds
from roslens.analysis.reports.numbers import duration, significant, unit_of_all
from roslens.analysis.reports.table import ReportTable, Sentence

_NS = 1e9
_ROOM = 60
"""Lines for tables if no screen height is known."""
_OVERHEAD = 2
"""Lines of a table in addition to its rows."""


@dataclass(frozen=True)
class Moment:
    """State of the watched programs at one time.

    Attributes
    ----------
    figures
        Figures of the last seconds; None before the first event.
    events
        Events per second in the last refresh; None in the first refresh.
    dropped
        Events that the tracer dropped since the watching began.
    exceeded
        Exceeded budgets, as in `Limits.exceeded`.
    hits
        Triggers that hit now, as plain data.
    notes
        Further notes.
    new
        What triggers did now.
    before
        What triggers did before.
    """

    figures: LastSeconds | None
    events: float | None
    dropped: int
    exceeded: Sequence[Mapping[str, object]] = ()
    hits: Sequence[Mapping[str, object]] = ()
    notes: Sequence[str] = ()
    new: Sequence[str] = ()
    before: Sequence[str] = ()

    def views(self) -> list[tuple[str, pl.DataFrame | None]]:
        """Return all tables by name, the most important first."""
        return [(view, getattr(self.figures, view, None)) for view in VIEWS]

    def to_json(self) -> dict[str, Any]:
        """Return the moment as plain data; times are in ns since the epoch."""
        figures = self.figures
        return {
            "begin_ns": figures.begin_ns if figures else None,
            "end_ns": figures.end_ns if figures else None,
            "events_per_s": None if self.events is None else round(self.events, 1),
            "dropped_by_the_tracer": self.dropped,
            **{view: [] if frame is None else frame.to_dicts() for view, frame in self.views()},
            "exceeded": [dict(excess) for excess in self.exceeded],
            "triggered": [dict(hit) for hit in self.hits],
            "notes": [*self.notes, *self.new],
        }


def line(moment: Moment) -> str:
    """Summarize a moment in one line."""
    figures = moment.figures
    if figures is None:
        return "no event yet"
    parts = [clock(figures.end_ns), f"{_number(moment.events)} events/s"]
    parts += [
        f"{row['topic']} {_number(row['rate_hz'])} Hz P99 {_time(row['p99_ms'])} "
        f"lost {_part(row['lost'])}"
        for row in figures.topics.head(3).iter_rows(named=True)
    ]
    busiest = next(figures.threads.iter_rows(named=True), None)
    if busiest:
        parts.append(f"busiest thread {busiest['vtid']} {_part(busiest['busy'])}")
    parts += [f"OVER BUDGET {excess['topic']}: {excess['budget']}" for excess in moment.exceeded]
    parts += [
        f"DEADLINE MISSED {chain['missed']} times: {chain['chain']}" for chain in _missed(figures)
    ]
    if moment.dropped:
        parts.append(f"the tracer dropped {moment.dropped:,}")
    return "; ".join([*parts, *moment.notes, *moment.new])


def screen(moment: Moment, height: int | None = None) -> RenderableType:
    """Show a moment as one screen of a given height in lines."""
    if moment.figures is None:
        return Text("\n".join(["no event yet; waiting", *moment.notes]))
    head = Text(f"{_time_in_words(moment)}   ")
    head.append(_dropped(moment), "red" if moment.dropped else "green")
    last = _sentences(moment)
    views = [(view, frame) for view, frame in moment.views() if frame is not None]
    room = _ROOM if height is None else height - len(last) - 2
    counts = _shared([frame.height for _, frame in views], room - _OVERHEAD * len(views))
    tables: list[RenderableType] = []
    more: list[str] = []
    for (view, frame), count in zip(views, counts, strict=True):
        columns = _columns(view, frame)
        table = Table(box=None, pad_edge=False, header_style="bold underline")
        for column in columns:
            if column.left:
                table.add_column(column.heading, overflow="fold")
            else:
                table.add_column(column.heading, justify="right", no_wrap=True)
        for row in frame.head(count).iter_rows(named=True):
            wrong = _exceeding_columns(view, row, moment)
            table.add_row(
                *(
                    Text(column.text(row[column.name]), "bold red" * (column.name in wrong))
                    for column in columns
                )
            )
        tables += [table, Text()]
        if frame.height > count:
            more.append(f"{frame.height - count} more {view}")
    return Group(head, *tables, Text("\n".join([*last, *[", ".join(more)] * bool(more)])))


def html(moment: Moment) -> str:
    """Show a moment as HTML for a notebook, with all rows of tables."""
    if moment.figures is None:
        return Sentence("; ".join(["No event yet", *moment.notes]))._repr_html_()
    parts: list[Sentence | ReportTable] = [
        Sentence(_time_in_words(moment)),
        Sentence(_dropped(moment), moment.dropped > 0),
    ]
    for view, frame in moment.views():
        if frame is None:
            continue
        columns = _columns(view, frame)
        rows = list(frame.iter_rows(named=True))
        marked = (i for i, row in enumerate(rows) if _exceeding_columns(view, row, moment))
        parts.append(ReportTable(
            [x.heading for x in columns], [[x.text(row[x.name]) for x in columns] for row in rows],
            view, marked=frozenset(marked), left=frozenset(x.heading for x in columns if x.left),
        ))  # fmt: skip
    parts += [Sentence(sentence) for sentence in _sentences(moment)]
    return "\n".join(part._repr_html_() for part in parts)


def _time_in_words(moment: Moment) -> str:
    figures = moment.figures
    assert figures is not None
    seconds = (figures.end_ns - figures.begin_ns) / _NS
    return f"{clock(figures.end_ns)}   last {seconds:.3g} s   {_number(moment.events)} events/s"


def _dropped(moment: Moment) -> str:
    return f"the tracer dropped {f'{moment.dropped:,}' if moment.dropped else 'nothing'}"


def _sentences(moment: Moment) -> list[str]:
    over = (f"over budget: {excess['topic']}: {excess['budget']}" for excess in moment.exceeded)
    return [*over, *moment.notes, *moment.before, *moment.new]


def _missed(figures: LastSeconds) -> list[dict[str, Any]]:
    rows = [] if figures.chains is None else figures.chains.to_dicts()
    return [row for row in rows if row["missed"]]


def _exceeding_columns(view: str, row: Mapping[str, Any], moment: Moment) -> set[object]:
    """Return the columns of a row whose values exceed a budget or deadline."""
    if view == "chains":
        return {"missed"} if row["missed"] else set()
    if view != "topics":
        return set()
    return {
        excess["column"]
        for excess in moment.exceeded
        if all(excess[name] == row[name] for name in PAIR)
    }


def _columns(view: str, frame: pl.DataFrame) -> list[Column]:
    """Return the columns, without optional columns that have no values."""
    return [
        column
        for column in VIEWS[view]
        if not column.asked or frame[column.name].null_count() < frame.height
    ]


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """Share rows equally among tables, except that none gets more than it needs."""
    given = [0] * len(wanted)
    while room > 0 and given != list(wanted):
        for place, most in enumerate(wanted):
            if given[place] < most and room > 0:
                given[place] += 1
                room -= 1
    return given


def clock(time_ns: int) -> str:
    """Format a time as time of day in UTC, as all commands print and accept it."""
    return f"{datetime.fromtimestamp(time_ns / _NS, UTC):%H:%M:%S} UTC"


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


def _bytes(value: float | None) -> str:
    factor, unit = unit_of_all([value], "byte")
    return "-" if value is None else f"{significant(value * factor, 3)} {unit}"


def _name(value: object) -> str:
    return str(value or "?")


@dataclass(frozen=True)
class Column:
    """Column of a table: its heading, and how its values are formatted.

    A column with `asked` is left out if it has no values.
    """

    name: str
    heading: str
    text: Callable[[Any], str]
    asked: bool = False

    @property
    def left(self) -> bool:
        """Return whether the column is left-aligned text."""
        return self.text is _name


_PERCENTILES = (Column("p50_ms", "P50", _time), Column("p99_ms", "P99", _time))
_WORST = Column("worst_ms", "max", _time)
_LOST = Column("lost", "lost", _part)
VIEWS: Mapping[str, Sequence[Column]] = {
    "chains": (
        Column("chain", "chain", _name),
        Column("complete", "n", _number),
        Column("approximate", "approx.", _number),
        *_PERCENTILES,
        _WORST,
        Column("deadline_ms", "deadline", _time, asked=True),
        Column("missed", "missed", _number, asked=True),
    ),
    "topics": (
        *(Column(name, name, _name) for name in ("topic", "from", "to")),
        Column("rate_hz", "Hz", _number),
        *_PERCENTILES,
        _WORST,
        _LOST,
    ),
    "nodes": (
        Column("node", "node", _name),
        Column("rate_hz", "runs/s", _number),
        Column("busy", "busy", _part),
        _PERCENTILES[1],
        _WORST,
        _LOST,
        Column("cpu", "CPU", _part, asked=True),
        Column("rss_bytes", "memory", _bytes, asked=True),
    ),
    "callbacks": (
        Column("kind", "callback", _name),
        Column("name", "of", _name),
        Column("node", "node", _name),
        Column("count", "runs", _number),
        *_PERCENTILES,
        _WORST,
    ),
    "threads": (
        Column("vtid", "thread", str),
        Column("vpid", "process", str),
        Column("nodes", "nodes", _name),
        Column("busy", "busy", _part),
    ),
}
"""The tables of a moment, the most important first."""
