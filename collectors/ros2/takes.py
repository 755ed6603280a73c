"""Messages taken, from the middleware or from a ring buffer, and the callback each one started.

On one thread: ``rmw_take``, ``rcl_take``, ``rclcpp_take``, ``callback_start``; or the dequeue of a
ring buffer, then ``callback_start``. A callback belongs to the take before it only if it is one of
that subscription.
"""

from __future__ import annotations

import polars as pl

from collectors.ros2.callbacks import Callbacks
from collectors.ros2.events import Events
from collectors.ros2.joins import as_of, first_of_group, follows, pick, timeline
from collectors.ros2.objects import DISCOVERY, Objects
from collectors.ros2.ring_buffers import buffer_owners
from collectors.ros2.types import I64

TAKE, DEQUEUE, RCL, RCLCPP, START = range(5)
"""Kinds of events on the timeline, in the order in which they happen."""


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
        buffer_owners(events, objects),
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
    return (
        groups.join(
            objects.subscriptions.select("subscription_id", "topic", "node"),
            on="subscription_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.when(own).then(pl.lit(DISCOVERY)).otherwise(pl.col("topic")).alias("topic")
        )
        .sort("take_ns", "thread", maintain_order=True)
        .with_row_index("take_id")
        .with_columns(pl.col("take_id").cast(I64))
        .drop("kind", "may", "owner_id", "intra")
    )


def _with_followers(
    takes: pl.DataFrame, dequeues: pl.DataFrame, events: Events, callbacks: Callbacks
) -> pl.DataFrame:
    """What was taken or dequeued, with the times of rcl and rclcpp and the execution after it."""
    sources = pl.concat([takes, dequeues], how="diagonal").with_row_index("row")
    key = pl.col("message").fill_null(0).alias("message")
    line = timeline(
        [
            (sources.head(takes.height).with_columns(key), ["row", "message"]),
            (sources.tail(dequeues.height).with_columns(key), ["row", "message"]),
            (events["rcl_take"], ["message"]),
            (events["rclcpp_take"], ["message"]),
            (
                callbacks.instances.select(
                    "thread", pl.col("start_ns").alias("time_ns"), "callback_instance_id"
                ),
                ["callback_instance_id"],
            ),
        ]
    )
    kind, message = pl.col("kind"), pl.col("message")
    head = kind <= DEQUEUE
    line = line.with_columns(
        # Whatever precedes a thread's first take belongs to none.
        (head | ~follows(by=1)).cum_sum().alias("group"),
        pl.when(head).then(message).forward_fill().alias("head_message"),
    )
    same = message == pl.col("head_message")
    heads = line.select(
        head.alias("head"),
        kind,
        "row",
        "thread",
        pl.col("time_ns").alias("take_ns"),
        first_of_group((kind == RCL) & same, "time_ns", "group").alias("rcl_take_ns"),
        first_of_group((kind == RCLCPP) & same, "time_ns", "group").alias("rclcpp_take_ns"),
        # Executions are numbered in time: this is the first after the take.
        first_of_group(kind == START, "callback_instance_id", "group").alias(
            "callback_instance_id"
        ),
    ).filter("head")
    known = pick(
        sources.rename({"source_timestamp": "source_timestamp_ns"}),
        heads["row"],
        *("proc", "subscription_id", "taken", "source_timestamp_ns", "buffer", "index"),
    )
    return (
        heads.drop("head", "row")
        .hstack(known)
        .filter((kind == DEQUEUE) | (pl.col("taken") != 0))
        .drop("taken")
    )
