"""Draw what threads did around a moment: that of a trigger, or that of a late message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.timeline import draw_timeline
from roslens.analysis.overview.in_range import worst_messages
from roslens.analysis.reports.front import utc
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import milliseconds, seen, significant
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import NO_PATH
from roslens.analysis.runs import Run
from roslens.analysis.timeline.build import build_timeline

_MOST_WORST = 5


def around_hit(tables: Tables) -> list[Drawing | ReportTable]:
    """Return threads and slowest messages around the first hit in the tables; [] without a hit."""
    for run in tables.runs:
        if run.triggered and (shown := _threads_and_messages(tables, run)):
            return shown
    return []


def _threads_and_messages(tables: Tables, run: Run) -> list[Drawing | ReportTable]:
    of_run = tables.only(run.name)
    timeline = build_timeline(
        of_run.table("callback_instances"),
        of_run.table("executor_intervals"),
        of_run.table("processes"),
        scheduling=of_run.table("callback_scheduling"),
        kernel=tables.kernel_events(run.name),
    )
    window = timeline.around(run.triggered)
    if window is None:
        return []
    hit, begin, end = window
    drawing = draw_timeline(
        timeline, begin, end, marks={"triggered": hit.at_ns},
        caption=f"Around {utc(hit.at_ns)}, when '{hit.trigger}' hit{seen(hit)}.",
    )  # fmt: skip
    within = pl.col("callback_start_ns").is_between(begin, end)
    worst = worst_messages(of_run.table("messages").filter(within), hit.at_ns)
    rows = [
        [significant(r["latency_ms"], 3), f"{r['at_s']:+.3f}"]
        + [r[name] or "-" for name in ("topic", "from", "to")]
        for r in worst.head(_MOST_WORST).iter_rows(named=True)
    ]
    columns = ["ms", "published [s]", "topic", "from", "to"]
    caption = "The slowest messages of that time; published: from the trigger on"
    left = frozenset({"topic", "from", "to"})
    return [drawing, *([ReportTable(columns, rows, caption, left=left)] if rows else [])]


def drawn(number: int, message: Mapping[str, Any], tables: Tables) -> Drawing:
    """Draw what the threads of the receiving process did around a message.

    Parameters
    ----------
    number
        Number of the message in the caption, from 1.
    message
        A row of `callbacks.worst_messages`, with its ``sentence``.
    """
    begin, end = message["publish_ns"], message["callback_start_ns"]
    room = max(1, (end - begin) // 4)
    first, last = begin - room, end + room
    of_run = tables.only(message["run"])
    of_process = (pl.col("host") == message["subscription_host"]) & (
        pl.col("vpid") == message["subscription_vpid"]
    )

    def within(name: str, start: str, stop: pl.Expr) -> pl.LazyFrame:
        touching = (pl.col(start) <= last) & (stop.fill_null(last) >= first)
        return of_run.table(name).filter(of_process, touching)

    scheduled = pl.col("start_ns") + pl.col("duration_ns")
    timeline = build_timeline(
        within("callback_instances", "start_ns", pl.col("end_ns")),
        within("executor_intervals", "begin_ns", pl.col("end_ns")),
        of_run.table("processes"),
        scheduling=within("callback_scheduling", "start_ns", scheduled),
    )
    return draw_timeline(
        timeline,
        first,
        last,
        marks={"published": begin, "callback": end},
        caption=f"{number}. {message['topic'] or '-'}, {milliseconds(message['latency_ns'])} ms, "
        f"{message['run']}: {message['sentence'] or NO_PATH}.",
    )
