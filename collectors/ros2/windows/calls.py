"""Publications: the events of the last calls of a thread wait for what may still belong to them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.events import nothing
from roslens.collectors.ros2.health import (
    BLOCK_NS,
    clock_offsets,
    stamped,
    unknown_publisher,
    unnamed,
)
from roslens.collectors.ros2.joins import follows, timeline
from roslens.collectors.ros2.messages import existing_pairs, first_after_end, public
from roslens.collectors.ros2.publications import (
    EVENTS,
    RCL,
    RCLCPP,
    TIMES,
    group,
    with_publisher,
    within_callbacks,
)
from roslens.collectors.ros2.types import I32, I64, NAME, TEXT
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

_ACTION = r"/_action/(feedback|status)$"


@dataclass(frozen=True)
class OfPublications:
    """What was found about all publications.

    Attributes
    ----------
    counts
        How many there were up to the begin of each stretch; and in all.
    first_after_end
        As of `roslens.collectors.ros2.messages.first_after_end`.
    told
        The publications that tell of actions: topic, node, publish_ns.
    offsets
        As of `roslens.collectors.ros2.health.clock_offsets`.
    near
        Of each stretch and host the first and the last stamp: place, host, proc, rmw_publish_ns,
        source_timestamp_ns.
    unnamed, unknown
        Counts, as of `roslens.collectors.ros2.health.OfMessages`.
    stamps
        Whether every publication has its source timestamp, or no event that it could be told by.
    """

    counts: list[int]
    first_after_end: pl.DataFrame
    told: pl.DataFrame
    offsets: pl.DataFrame
    near: pl.DataFrame
    unnamed: int
    unknown: int
    stamps: bool


def find_calls(run: Run) -> OfPublications:
    """All publications, in `Run.publications`."""
    found = Buckets(run.work, "calls", "publish_ns", run.windows.edges)
    python = _python(run)

    def put_together(number: int, state: State) -> State:
        before = {name: frame_of(state, name) for name in EVENTS.values()}
        part = run.part(number, before)
        calls = group(part, python)
        if run.last(number):
            found.add(calls, number)
            return {name: nothing(name) for name in before}
        since = _settled(calls)
        settled = calls.join(since, on="thread", how="left", maintain_order="left")
        found.add(
            settled.filter(pl.col("publish_ns") < pl.col("since_ns")).drop("since_ns"), number
        )
        return {
            name: part[name]
            .join(since, on="thread", how="inner", maintain_order="left")
            .filter(pl.col("time_ns") >= pl.col("since_ns"))
            .drop("since_ns")
            for name in before
        }

    run.work.stage(
        "calls", len(run.windows), put_together, {name: nothing(name) for name in EVENTS.values()}
    )

    def finish(number: int, state: State) -> State:
        count = number_of(state, "count")
        calls = with_publisher(found.read(number), run.events, run.objects)
        calls = calls.sort("publish_ns", "thread", maintain_order=True)
        calls = calls.with_row_index("message_id", offset=count)
        calls = within_callbacks(
            calls.with_columns(pl.col("message_id").cast(I64)), run.runs(number)
        )
        run.publications.put(calls, number)
        run.write("publications", calls, number)
        return {"count": count + calls.height} | _noted(run, number, calls, state)

    state = run.work.stage("publications", len(run.windows), finish, _nothing_noted())
    found.drop()
    counts = frame_of(state, "counts")["count"].to_list()
    return OfPublications(
        counts=[*counts, number_of(state, "count")],
        first_after_end=frame_of(state, "first"),
        told=frame_of(state, "told"),
        offsets=frame_of(state, "offsets"),
        near=frame_of(state, "near"),
        unnamed=number_of(state, "unnamed"),
        unknown=number_of(state, "unknown"),
        stamps=not number_of(state, "unstamped"),
    )


def _settled(calls: pl.DataFrame) -> pl.DataFrame:
    """Since when the calls of each thread may still change: thread, since_ns.

    What an event belongs to depends on its neighbours, so these are the last two calls; or more,
    where events of the same time might belong to either.
    """
    ends = pl.max_horizontal(TIMES.values())
    apart = (pl.col("publish_ns") > ends.shift(1).over("thread")).fill_null(value=True)
    behind = pl.int_range(pl.len(), 0, -1).over("thread")
    return (
        calls.with_columns(apart.alias("apart"), behind.alias("behind"))
        .filter("apart")
        .group_by("thread")
        .agg(
            pl.coalesce(
                pl.col("publish_ns").filter(pl.col("behind") >= 2).max(),
                pl.col("publish_ns").min(),
            ).alias("since_ns")
        )
    )


def _python(run: Run) -> list[int]:
    """The processes in which rcl never sees the address that rclcpp tells."""
    schema = {"thread": I64, "time_ns": I64, "message": pl.UInt64()}

    def look(number: int, state: State) -> State:
        pairs, before = frame_of(state, "pairs"), frame_of(state, "before")
        other = pairs.filter("equal")["proc"].to_list()
        part = run.part(number)
        unknown = ~pl.col("proc").is_in(other)
        if part[EVENTS[RCLCPP]].filter(unknown).is_empty() and before.is_empty():
            return state
        frames = [part[name].filter(unknown).select(list(schema)) for name in EVENTS.values()]
        frames[RCLCPP] = pl.concat([before, frames[RCLCPP]])
        line = timeline([(frame, ["message"]) for frame in frames])
        kind, message = pl.col("kind"), pl.col("message")
        pair = follows(by=1) & (kind == RCL) & (kind.shift(1) == RCLCPP)
        new = line.select(
            (((pl.col("thread") + 1) // 2**32).cast(I32)).alias("proc"),
            pair.alias("pair"),
            (message == message.shift(1)).alias("equal"),
        ).filter("pair")
        both = pl.concat([pairs, new.select("proc", "equal")])
        tail = line.filter(~follows(by=-1) & (kind == RCLCPP)).select(list(schema))
        return {"pairs": both.group_by("proc").agg(pl.col("equal").any()), "before": tail}

    start: State = {
        "pairs": pl.DataFrame(schema={"proc": I32, "equal": pl.Boolean()}),
        "before": pl.DataFrame(schema=schema),
    }
    state = run.work.stage("python", len(run.windows), look, start)
    return frame_of(state, "pairs").filter(~pl.col("equal"))["proc"].to_list()


def _nothing_noted() -> State:
    stamps = {"proc": I32, "time_ns": I64, "source_timestamp_ns": I64}
    offsets = {"host": TEXT, "block": I64, "offset": I64, "len": pl.UInt32()}
    near = {"place": pl.UInt32(), "host": TEXT, "proc": I32, "rmw_publish_ns": I64}
    return {
        "count": 0,
        "counts": pl.DataFrame(schema={"count": I64}),
        "first": pl.DataFrame(schema={"subscription_id": I64, "first_ns": I64}),
        "told": pl.DataFrame(schema={"topic": NAME, "node": NAME, "publish_ns": I64}),
        "stamps": pl.DataFrame(schema=stamps),
        "offsets": pl.DataFrame(schema=offsets).cast({"offset": pl.Float64()}),
        "near": pl.DataFrame(schema=near | {"source_timestamp_ns": I64}),
        "unnamed": 0,
        "unknown": 0,
        "unstamped": 0,
    }


def _noted(run: Run, number: int, calls: pl.DataFrame, state: State) -> State:
    """What is remembered of publications, with those of one more stretch."""
    told = calls.filter(pl.col("topic").cast(TEXT).str.contains(_ACTION).fill_null(value=False))
    counts = pl.DataFrame({"count": [number_of(state, "count")]}, schema={"count": I64})
    stamps, offsets = _offsets(run, number, calls, state)
    named = calls.filter(public())
    return {
        "counts": pl.concat([frame_of(state, "counts"), counts]),
        "first": _first(run, named, frame_of(state, "first")),
        "told": pl.concat([frame_of(state, "told"), told.select("topic", "node", "publish_ns")]),
        "stamps": stamps,
        "offsets": offsets,
        "near": pl.concat([frame_of(state, "near"), _near(run, calls)]),
        "unnamed": number_of(state, "unnamed") + calls.filter(unnamed()).height,
        "unknown": number_of(state, "unknown") + calls.filter(unknown_publisher()).height,
        "unstamped": number_of(state, "unstamped")
        + named.filter(
            pl.col("source_timestamp_ns").is_null()
            & pl.col("topic").is_not_null()
            & pl.coalesce("rmw_publish_ns", "rcl_publish_ns").is_not_null()
        ).height,
    }


def _first(run: Run, calls: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    ends = run.events.processes["end_ns"].min()
    last = calls["publish_ns"].max()
    if not isinstance(ends, int) or not isinstance(last, int) or last <= ends:
        return before
    new = first_after_end(existing_pairs(calls, run.objects, run.events))
    both = pl.concat([before, new.select(before.columns)])
    return both.group_by("subscription_id").agg(pl.col("first_ns").min())


def _offsets(
    run: Run, number: int, calls: pl.DataFrame, state: State
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stamps whose block of time may get more, and the clock's offsets in those that may not."""
    before = frame_of(state, "stamps")
    stamps = pl.concat([before, stamped(calls, run.part(number)).select(before.columns)])
    end = run.windows.end(number)
    if end is None:
        whole, rest = stamps, stamps.clear()
    else:
        over = pl.col("time_ns") // BLOCK_NS < end // BLOCK_NS
        whole, rest = stamps.filter(over), stamps.filter(~over)
    known = frame_of(state, "offsets")
    new = clock_offsets(whole, run.events).select(known.columns).cast(known.schema)
    return rest, pl.concat([known, new])


def _near(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    edges = pl.Series(run.windows.edges, dtype=pl.Int64)
    stamps = calls.select("proc", "rmw_publish_ns", "source_timestamp_ns").drop_nulls()
    place = edges.search_sorted(stamps["rmw_publish_ns"], side="right").alias("place")
    hosts = run.events.processes.select("proc", "host")
    time = pl.col("rmw_publish_ns")
    found = stamps.with_columns(place).join(hosts, on="proc", maintain_order="left")
    own = ["place", "host"]
    return found.filter((time == time.min().over(own)) | (time == time.max().over(own))).select(
        pl.col("place").cast(pl.UInt32), "host", "proc", "rmw_publish_ns", "source_timestamp_ns"
    )


def near_stamps(of: OfPublications, number: int) -> pl.DataFrame:
    """The stamps next before and next after a stretch, by host: proc, rmw_publish_ns,
    source_timestamp_ns.
    """  # noqa: D205
    time = pl.col("rmw_publish_ns")
    before = of.near.filter(pl.col("place") < number)
    after = of.near.filter(pl.col("place") > number)
    return pl.concat(
        [
            before.filter(time == time.max().over("host")),
            after.filter(time == time.min().over("host")),
        ]
    ).drop("place", "host")
