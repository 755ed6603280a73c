"""Messages taken, from the middleware or from a ring buffer, and the callback each one started.

On one thread: ``rmw_take``, ``rcl_take``, ``rclcpp_take``, ``callback_start``; or the dequeue of a
ring buffer, then ``callback_start``. A callback belongs to the take before it only if it is one of
that subscription, and if the thread did nothing else in between: neither ended a callback nor went
on with its executor.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.executors import EVENTS as EXECUTOR
from roslens.collectors.ros2.joins import as_of, pick, sorted_by
from roslens.collectors.ros2.objects import DISCOVERY, Objects
from roslens.collectors.ros2.passes import first_after
from roslens.collectors.ros2.types import I64

TAKE, DEQUEUE, OTHER = range(3)
"""Where a message was taken from; of the same time, in this order. Or what ends a take."""


def find_takes(events: Events, objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """One row per message taken (``taken = 1``) or dequeued.

    Returns
    -------
    polars.DataFrame
        ``take_id``, proc, thread, subscription_id, topic, node, take_ns, rcl_take_ns,
        rclcpp_take_ns, source_timestamp_ns, intra_process, buffer, index, callback_instance_id,
        callback_start_ns, callback_end_ns.
    """
    takes = as_of(
        events["rmw_take"],
        objects.subscription_by_rmw,
        [("proc", "proc"), ("rmw_subscription_handle", "rmw_subscription_handle")],
        ["subscription_id"],
        since="since_ns",
    )
    dequeues = as_of(
        events["rclcpp_ring_buffer_dequeue"],
        objects.ring_buffers,
        [("proc", "proc"), ("buffer", "buffer")],
        ["subscription_id"],
    )
    heads = _with_followers(takes, dequeues, events, callbacks)
    of_subscription = pl.col("kind").fill_null("subscription") == "subscription"
    linked = ("callback_instance_id", "callback_start_ns", "callback_end_ns")
    runs = callbacks.instances.select(
        pl.col("start_ns").alias("callback_start_ns"),
        pl.col("end_ns").alias("callback_end_ns"),
        of_subscription.alias("may"),
        "owner_id",
        "intra",
    )
    groups = heads.hstack(pick(runs, heads["callback_instance_id"], *runs.columns))
    intra = pl.col("kind") == DEQUEUE
    fits = (
        pl.col("may")
        & (pl.col("owner_id") == pl.col("subscription_id")).fill_null(value=True)
        & (pl.col("intra") == intra)
    ).fill_null(value=False)
    groups = groups.with_columns(
        intra.alias("intra_process"),
        *(pl.when(fits).then(pl.col(name)).alias(name) for name in linked),
    )
    # The middleware's own takes have no rcl event, and Cyclone DDS announces no subscription.
    own = (
        pl.col("subscription_id").is_null()
        & pl.col("rcl_take_ns").is_null()
        & ~intra
        & pl.lit(events.declared("rcl_take"))
    )
    # Objects are numbered in their order.
    named = pick(objects.subscriptions, groups["subscription_id"], "topic", "node")
    # What rcl took is of a subscription of which rcl's event is missing.
    other = pl.col("rcl_take_ns").is_not_null() & (pl.col("topic") == DISCOVERY)
    topic = pl.when(~other.fill_null(value=False)).then("topic")
    return (
        groups.hstack(named)
        .with_columns(pl.when(own).then(pl.lit(DISCOVERY)).otherwise(topic).alias("topic"))
        .with_row_index("take_id")
        .with_columns(pl.col("take_id").cast(I64))
        .drop("kind", "may", "owner_id", "intra")
    )


def others(events: Events) -> list[pl.DataFrame]:
    """What a thread does not do between a take and its callback: frames of thread, time_ns.

    Of the same time an executor's event comes before a callback's start, and an end after it.
    """
    before = [events[name].select("thread", pl.col("time_ns") - 1) for name in EXECUTOR]
    return [*before, events["callback_end"].select("thread", "time_ns")]


def _with_followers(
    takes: pl.DataFrame, dequeues: pl.DataFrame, events: Events, callbacks: Callbacks
) -> pl.DataFrame:
    """What was taken or dequeued, with the times of rcl and rclcpp and the execution after it."""
    kinds = ((takes, TAKE), (dequeues, DEQUEUE))
    heads = sorted_by(
        pl.concat(
            [
                f.rename({"source_timestamp": "source_timestamp_ns"}, strict=False).with_columns(
                    pl.lit(kind, dtype=pl.Int8).alias("kind")
                )
                for f, kind in kinds
            ],
            how="diagonal",
        ),
        *("time_ns", "thread"),
    ).with_columns(pl.col("message").fill_null(0))
    ends = [other["time_ns"].gather(first_after(heads, other)) for other in others(events)]
    over = pl.DataFrame([end.alias(str(n)) for n, end in enumerate(ends)])
    over_ns = over.select(pl.min_horizontal(pl.all()).fill_null(2**63 - 1)).to_series()

    def follower(rows: pl.DataFrame, key: str | None = None) -> pl.Series:
        """The row that follows each take before it is over, or null."""
        row = first_after(heads, rows, key)
        return row.set(rows["time_ns"].gather(row) > over_ns, None)

    rcl, rclcpp = events["rcl_take"], events["rclcpp_take"]
    starts = callbacks.instances.select("thread", pl.col("start_ns").alias("time_ns"))
    return (
        heads.select(
            "kind",
            "thread",
            pl.col("time_ns").alias("take_ns"),
            rcl["time_ns"].gather(follower(rcl, "message")).alias("rcl_take_ns"),
            rclcpp["time_ns"].gather(follower(rclcpp, "message")).alias("rclcpp_take_ns"),
            # Executions are numbered in time: this is the first after the take.
            callbacks.instances["callback_instance_id"].gather(follower(starts)),
            *("proc", "subscription_id", "taken", "source_timestamp_ns", "buffer", "index"),
        )
        .filter((pl.col("kind") == DEQUEUE) | (pl.col("taken") != 0))
        .drop("taken")
    )
