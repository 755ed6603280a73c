"""Executor threads: the stretch that each is in goes on from one part of the time to the next."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.blocked import with_blocked
from roslens.collectors.ros2.events import nothing
from roslens.collectors.ros2.executors import EVENTS, find_executor_intervals
from roslens.collectors.ros2.types import I32, I64, NAME
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.part import Part
from roslens.collectors.ros2.windows.run import Run, frame_of
from roslens.collectors.work import State

_EXECUTE = EVENTS[2]
_SUMS = ("executed", "callback_ns")
_ROW = {
    "proc": I32, "thread": I64, "state": NAME, "begin_ns": I64, "end_ns": I64, "duration_ns": I64,
    "timeout_ns": I64, "executed": I64, "callback_ns": I64,
}  # fmt: skip


def find_intervals(run: Run) -> pl.Series:
    """Write what executor threads did; the threads that emitted an event."""
    found = Buckets(run.work, "intervals", "begin_ns", run.windows.edges)

    def step(number: int, state: State) -> State:
        before = {name: frame_of(state, name) for name in EVENTS}
        part = run.part(number, before)
        instances = _within(run.runs(number).instances, *run.windows.spans[number])
        rows = (
            find_executor_intervals(part, run.seen(instances))
            .select(list(_ROW))
            .cast(pl.Schema(_ROW))
        )
        rows = rows.sort("thread", "begin_ns", maintain_order=True)
        first = pl.col("thread").is_first_distinct()
        last = pl.col("thread").is_last_distinct()
        known = pl.concat(frame.select("thread") for frame in before.values())
        executing = before[_EXECUTE]["thread"]
        rows = rows.with_columns(
            first.alias("first"),
            last.alias("last"),
            (first & pl.col("thread").is_in(known["thread"].implode())).alias("goes_on"),
            pl.col("begin_ns").shift(-1).alias("next_ns"),
        )
        # The event before was counted where it was seen first.
        counted = pl.col("goes_on") & pl.col("thread").is_in(executing.implode())
        rows = rows.with_columns(pl.col("executed") - counted.cast(I64))
        going_on = rows.filter("goes_on").select(
            "thread", *(pl.col(name).alias(f"more_{name}") for name in _SUMS), "last", "next_ns"
        )
        opened = frame_of(state, "open").join(
            going_on, on="thread", how="left", maintain_order="left"
        )
        opened = opened.with_columns(
            pl.col(name) + pl.col(f"more_{name}").fill_null(0) for name in _SUMS
        )
        ended = opened.filter(~pl.col("last")).with_columns(pl.col("next_ns").alias("end_ns"))
        ended = ended.with_columns((pl.col("end_ns") - pl.col("begin_ns")).alias("duration_ns"))
        own = rows.filter(~pl.col("goes_on"))
        still = pl.concat(
            [
                opened.filter("last").select(list(_ROW)),
                own.filter("last").select(list(_ROW)),
            ]
        )
        done = [ended.select(list(_ROW)), own.filter(~pl.col("last")).select(list(_ROW))]
        if run.last(number):
            done.append(still)
        found.add(pl.concat(done), number)
        return {"open": still} | _last_events(part)

    start: State = {"open": pl.DataFrame(schema=_ROW)}
    start |= {name: nothing(name) for name in EVENTS}
    run.work.stage("executors", len(run.windows), step, start)

    def split(_: int, __: State) -> State:
        numbers = range(len(run.windows))
        parts = [found.read(number) for number in numbers]
        # Only processes in which several threads executed: few, and held whole.
        rows = pl.concat(parts)
        several = (
            rows.group_by("proc").agg(pl.col("thread").n_unique()).filter(pl.col("thread") > 1)
        )
        of_several = pl.col("proc").is_in(several["proc"].implode())
        ran = [run.instances.read(number).filter(of_several) for number in numbers]
        for number, part in enumerate(parts):
            whole.add(part.filter(~of_several), number)
        whole.add(with_blocked(rows.filter(of_several), pl.concat(ran)), len(parts))
        return {}

    whole = Buckets(run.work, "intervals split", "begin_ns", run.windows.edges)
    run.work.stage("blocked executors", 1, split, {})

    def finish(number: int, state: State) -> State:
        rows = whole.read(number).sort("begin_ns", "thread", maintain_order=True)
        run.write("executor_intervals", rows, number)
        both = pl.concat([frame_of(state, "threads"), rows.select("thread").unique()])
        return {"threads": both.unique()}

    threads = pl.DataFrame(schema={"thread": I64})
    state = run.work.stage("executor intervals", len(run.windows), finish, {"threads": threads})
    return frame_of(state, "threads")["thread"]


def _within(instances: pl.DataFrame, begin: int | None, end: int | None) -> pl.DataFrame:
    """Finished executions, as much of each as lies between two times."""
    start, stop = pl.col("start_ns"), pl.col("end_ns")
    return instances.filter(stop.is_not_null()).with_columns(
        start if begin is None else start.clip(lower_bound=begin),
        stop if end is None else stop.clip(upper_bound=end),
    )


def _last_events(part: Part) -> State:
    """The last event of each thread, by name."""
    frames = [part[name] for name in EVENTS]
    line = pl.concat(
        frame.select("thread", "time_ns").with_row_index("row").with_columns(
            pl.lit(kind).alias("kind")
        )
        for kind, frame in enumerate(frames)
    ).sort("time_ns", maintain_order=True)  # fmt: skip
    last = line.unique("thread", keep="last", maintain_order=True)
    return {
        name: frames[kind][last.filter(kind=kind)["row"].sort()] for kind, name in enumerate(EVENTS)
    }
