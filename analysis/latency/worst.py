"""Pictures of the threads around the worst messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.reports.tables import NO_PATH
from roslens.analysis.timeline.build import TrackTables, build_timeline


def drawn(number: int, message: Mapping[str, Any], tables: Tables) -> Drawing:
    """What the threads of the receiving process did around a message.

    Parameters
    ----------
    number
        From 1.
    message
        A row of `callbacks.worst_messages`, with its ``sentence``.
    """
    from roslens.analysis.figures.timeline import draw_timeline  # noqa: PLC0415  (a second)

    begin, end = message["publish_ns"], message["callback_start_ns"]
    room = max(1, (end - begin) // 4)
    first, last = begin - room, end + room
    of_run = pl.col("run") == message["run"]
    of_process = (pl.col("host") == message["subscription_host"]) & (
        pl.col("vpid") == message["subscription_vpid"]
    )

    def within(name: str, start: str, stop: pl.Expr) -> pl.LazyFrame:
        touching = (pl.col(start) <= last) & (stop.fill_null(last) >= first)
        return tables.table(name).filter(of_run, of_process, touching)

    scheduled = pl.col("start_ns") + pl.col("duration_ns")
    timeline = build_timeline(
        TrackTables(
            within("callback_instances", "start_ns", pl.col("end_ns")),
            within("executor_intervals", "begin_ns", pl.col("end_ns")),
            tables.table("processes").filter(of_run),
            scheduling=within("callback_scheduling", "start_ns", scheduled),
        )
    )
    return draw_timeline(
        timeline,
        first,
        last,
        marks={"published": begin, "callback": end},
        caption=f"{number}. {message['topic'] or '-'}, {milliseconds(message['latency_ns'])} ms, "
        f"{message['run']}: {message['sentence'] or NO_PATH}.",
    )
