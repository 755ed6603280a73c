"""Executions of callbacks: starts wait for their ends from one stretch to the next."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import find_instances
from roslens.collectors.ros2.events import nothing
from roslens.collectors.ros2.health import OfCallbacks, of_callbacks
from roslens.collectors.ros2.model import instance_rows
from roslens.collectors.ros2.types import I64
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

TIMER_GROUPS = 16
_NUMBER = "callback_instance_id"


def find_executions(run: Run) -> tuple[OfCallbacks, Buckets]:
    """All executions, in `Run.instances`; and the starts of timers' callbacks by timer."""
    found = Buckets(run.work, "executions", "start_ns", run.windows.edges)
    timers = Buckets(run.work, "timer_starts", "group")
    # Without ends nothing is worth waiting for.
    ended = run.events.happened("callback_end")

    def pair(number: int, state: State) -> State:
        part = run.part(number, {"callback_start": frame_of(state, "open")})
        rows, alone = find_instances(part, run.callbacks)
        waits = rows["end_ns"].is_null() & _is_last(rows) & (ended and not run.last(number))
        found.add(rows.filter(~waits).drop(_NUMBER), number)
        opened = rows.filter(waits).select(
            pl.col("start_ns").alias("time_ns"),
            "proc",
            "thread",
            "callback",
            # Null for those that are no messages', where it counts for nothing.
            pl.col("intra").cast(pl.Int32).alias("is_intra_process"),
        )
        return {"open": opened, "alone": number_of(state, "alone") + alone}

    def finish(number: int, state: State) -> State:
        # Of equal starts of one callback on one thread the inner one ends first.
        rows = (
            found.read(number)
            .sort(
                "start_ns", "thread", "callback", "end_ns",
                descending=[False, False, False, True], nulls_last=False, maintain_order=True,
            )
            .with_row_index(_NUMBER, offset=number_of(state, "count"))
            .with_columns(pl.col(_NUMBER).cast(I64))
        )  # fmt: skip
        before = frame_of(state, "running") if "running" in state else rows.clear()
        run.instances.put(rows, number)
        run.running.put(before, number)
        run.write("callback_instances", instance_rows(rows), number)
        of_timers = rows.filter((pl.col("kind") == "timer") & pl.col("owner_id").is_not_null())
        timers.add(
            of_timers.select(
                _NUMBER, "proc", "thread", pl.col("owner_id").alias("timer_id"), "node",
                "start_ns", (pl.col("owner_id") % TIMER_GROUPS).alias("group"),
            ),
            number,
        )  # fmt: skip
        counts = of_callbacks(run.seen(rows))
        threads = pl.concat([frame_of(state, "threads")["thread"], counts.threads]).unique()
        return {
            "count": number_of(state, "count") + rows.height,
            "running": _still_running(pl.concat([before, rows]), run.windows.end(number)),
            "threads": threads.to_frame("thread"),
            "unfinished": number_of(state, "unfinished") + counts.unfinished,
            "nameless": number_of(state, "nameless") + counts.nameless,
            "ownerless": number_of(state, "ownerless") + counts.ownerless,
        }

    start: State = {"open": nothing("callback_start"), "alone": 0}
    paired = run.work.stage("callbacks", len(run.windows), pair, start)
    threads = pl.DataFrame(schema={"thread": I64})
    zero: State = dict.fromkeys(("count", "unfinished", "nameless", "ownerless"), 0)
    state = run.work.stage("executions", len(run.windows), finish, zero | {"threads": threads})
    found.drop()
    return OfCallbacks(
        unfinished=number_of(state, "unfinished"),
        threads=frame_of(state, "threads")["thread"],
        ends_alone=number_of(paired, "alone"),
        nameless=number_of(state, "nameless"),
        ownerless=number_of(state, "ownerless"),
    ), timers


def _is_last(rows: pl.DataFrame) -> pl.Series:
    """Whether no later execution of the callback on the thread began: only then it may end."""
    return rows.select(pl.struct("thread", "callback").is_last_distinct()).to_series()


def _still_running(rows: pl.DataFrame, end_ns: int | None) -> pl.DataFrame:
    """Those that last to a moment; one without an end as far as the next one of its thread."""
    if end_ns is None:
        return rows.clear()
    last = pl.struct("thread").is_last_distinct()
    return rows.filter(
        (pl.col("end_ns") >= end_ns) | (pl.col("end_ns").is_null() & last)
    )  # fmt: skip
