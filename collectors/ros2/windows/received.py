"""Takes, and what became of messages in ring buffers."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import nothing
from roslens.collectors.ros2.health import unknown_subscription
from roslens.collectors.ros2.messages import with_take
from roslens.collectors.ros2.ring_buffers import (
    dequeued,
    in_order,
    newest_taken,
    slot_of,
    taken_up_to,
    with_fate,
    with_owner,
    with_publication,
)
from roslens.collectors.ros2.takes import DEQUEUE, OTHER, find_takes, others
from roslens.collectors.ros2.types import I64
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.calls import OfPublications
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

_TAKE, _DEQUEUE = "rmw_take", "rclcpp_ring_buffer_dequeue"
_FOLLOWERS = {"rcl_take": "rcl_take_ns", "rclcpp_take": "rclcpp_take_ns"}
_NUMBER = "callback_instance_id"
_LINKED = (
    "message_id", "subscription_id", "proc", "time_ns", "fate", _NUMBER, "take_ns",
    "rclcpp_take_ns", "callback_start_ns", "callback_end_ns",
)  # fmt: skip


def find_all_takes(run: Run) -> tuple[list[int], int]:
    """All takes, in `Run.takes`; their counts as of `OfPublications`, and those of unknown topic.

    The last take of each thread waits for what may still follow it.
    """
    found = Buckets(run.work, "taken", "take_ns", run.windows.edges)

    def follow(number: int, state: State) -> State:
        before = {name: frame_of(state, name) for name in (_TAKE, _DEQUEUE, *_FOLLOWERS)}
        part = run.part(number, before)
        starts = run.instances.read(number)
        if "starts" in state:
            starts = pl.concat([frame_of(state, "starts").select(starts.columns), starts])
        starts = starts.sort(_NUMBER)
        # Rows of instances are found by their numbers.
        local = starts.with_columns(pl.int_range(pl.len()).alias(_NUMBER))
        takes = find_takes(part, run.objects, run.seen(local)).drop("take_id")
        takes = takes.with_columns(starts[_NUMBER].gather(takes[_NUMBER]))
        if run.last(number):
            found.add(takes, number)
            return {name: nothing(name) for name in before}
        waiting = _last_heads(part[_TAKE], part[_DEQUEUE], pl.concat(others(part)))
        behind = pl.int_range(pl.len(), 0, -1).over("thread")
        waits = (behind == 1) & pl.col("thread").is_in(waiting["thread"].implode())
        takes = takes.with_columns(waits.alias("waits"))
        found.add(takes.filter(~pl.col("waits")).drop("waits"), number)
        return _carried(waiting, takes.filter("waits"), part[_TAKE], part[_DEQUEUE], starts)

    names = (_TAKE, _DEQUEUE, *_FOLLOWERS)
    run.work.stage("taken", len(run.windows), follow, {name: nothing(name) for name in names})

    def finish(number: int, state: State) -> State:
        count = number_of(state, "count")
        takes = found.read(number).sort("take_ns", "thread", maintain_order=True)
        takes = takes.with_row_index("take_id", offset=count).with_columns(
            pl.col("take_id").cast(I64)
        )
        run.takes.put(takes, number)
        run.write("takes", takes, number)
        counts = frame_of(state, "counts")
        return {
            "count": count + takes.height,
            "counts": pl.concat([counts, pl.DataFrame({"count": [count]})]),
            "unknown": number_of(state, "unknown") + takes.filter(unknown_subscription()).height,
        }

    start: State = {"count": 0, "unknown": 0, "counts": pl.DataFrame(schema={"count": I64})}
    state = run.work.stage("takes", len(run.windows), finish, start)
    found.drop()
    counts = frame_of(state, "counts")["count"].to_list()
    return [*counts, number_of(state, "count")], number_of(state, "unknown")


def _last_heads(takes: pl.DataFrame, dequeues: pl.DataFrame, between: pl.DataFrame) -> pl.DataFrame:
    """The last event of each thread that takes something or ends a take, where it took something:
    kind, row.
    """  # noqa: D205
    heads = pl.concat(
        [
            between.select(
                "thread",
                "time_ns",
                pl.lit(OTHER, dtype=pl.Int8).alias("kind"),
                pl.lit(value=False).alias("took"),
            ).with_row_index("row"),
        ]
        + [
            frame.select(
                "thread", "time_ns", pl.lit(kind, dtype=pl.Int8).alias("kind"), took.alias("took"),
            ).with_row_index("row")
            for kind, (frame, took) in enumerate(
                ((takes, pl.col("taken") != 0), (dequeues, pl.lit(value=True)))
            )
        ]
    )  # fmt: skip
    last = heads.sort("time_ns", maintain_order=True).unique(
        "thread", keep="last", maintain_order=True
    )
    return last.filter("took")


def _carried(
    waiting: pl.DataFrame,
    takes: pl.DataFrame,
    taken: pl.DataFrame,
    dequeues: pl.DataFrame,
    starts: pl.DataFrame,
) -> State:
    """The events of takes that wait, with those of their followers that were found."""
    of_take = waiting.filter(pl.col("kind") != DEQUEUE)
    of_dequeue = waiting.filter(pl.col("kind") == DEQUEUE)
    state: State = {
        _TAKE: taken[of_take["row"].sort()],
        _DEQUEUE: dequeues[of_dequeue["row"].sort()],
    }
    message = pl.col("message").fill_null(0)
    messages = pl.concat(
        [
            taken[of_take["row"]].select("thread", message),
            dequeues[of_dequeue["row"]].select("thread", pl.lit(0, pl.UInt64).alias("message")),
        ]
    )
    followed = takes.join(messages, on="thread", how="left")
    for name, time in _FOLLOWERS.items():
        there = followed.filter(pl.col(time).is_not_null())
        state[name] = there.select(pl.col(time).alias("time_ns"), "proc", "thread", "message").sort(
            "time_ns"
        )
    first = (
        starts.join(waiting.select("thread", "time_ns"), on="thread", how="inner")
        .filter(pl.col("start_ns") >= pl.col("time_ns"))
        .sort(_NUMBER)
        .unique("thread", keep="first", maintain_order=True)
    )
    return state | {"starts": first.select(starts.columns)}


def find_all_enqueues(run: Run, of: OfPublications, takes: list[int]) -> tuple[Buckets, int]:
    """What ring buffers held: rows of `with_take` by stretch of their publication; those cleared.

    Messages wait for what comes next at their place, publications for their enqueues.
    """
    linked = Buckets(run.work, "linked", "message_id", of.counts[1:-1])
    pending = ("thread", "message_id", "intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns",
               "rmw_publish_ns")  # fmt: skip

    def step(number: int, state: State) -> State:
        calls = (
            pl.concat([frame_of(state, "calls"), run.publications.read(number).select(pending)])
            if "calls" in state
            else run.publications.read(number).select(pending)
        )
        part = run.part(number)
        new = part["rclcpp_ring_buffer_enqueue"].with_row_index(
            "enqueue_id", offset=number_of(state, "count")
        )
        count = number_of(state, "count") + new.height
        new = with_owner(new.with_columns(pl.col("enqueue_id").cast(I64)), run.objects)
        seen = pl.concat([frame_of(state, "seen"), new]) if "seen" in state else new
        all_takes = run.takes.read(number)
        dequeues = dequeued(all_takes)
        held = frame_of(state, "held") if "held" in state else None
        every = [seen] if held is None else [seen, held]
        slot = slot_of(pl.concat(frame.select("buffer") for frame in every), dequeues)
        found = with_publication(seen.with_columns(slot), calls)
        own = found.filter(pl.col("enqueue_id") >= number_of(state, "count"))
        if held is not None:
            own = pl.concat([held.with_columns(slot).select(own.columns), own])
        before = frame_of(state, "newest")
        fated = in_order(with_fate(own, dequeues.with_columns(slot), part), before)
        waits = fated["next_ns"].is_null() & (not run.last(number))
        done = fated.filter(~waits)
        row = done["take_id"] - takes[number]
        linked.add(with_take(done, all_takes, row).select(_LINKED), number)
        last = calls.group_by("thread", maintain_order=True).tail(2).select(calls.columns)
        again = found.filter(pl.col("message_id").is_in(last["message_id"].implode()))
        again = again.unique(["message_id", "proc", "buffer"], keep="first", maintain_order=True)
        kept = seen.filter(pl.col("enqueue_id").is_in(again["enqueue_id"].implode()))
        return {
            "calls": last,
            "seen": kept,
            "held": fated.filter(waits).select(own.columns),
            "newest": newest_taken(fated, before),
            "count": count,
            "cleared": number_of(state, "cleared") + done.filter(fate="cleared").height,
        }

    start: State = {"count": 0, "cleared": 0, "newest": taken_up_to()}
    state = run.work.stage("ring buffers", len(run.windows), step, start)
    return linked, number_of(state, "cleared")
