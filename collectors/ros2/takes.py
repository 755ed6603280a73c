"""Messages taken, from the middleware or from a ring buffer, and the callback each one started.

On one thread: ``rmw_take``, ``rcl_take``, ``rclcpp_take``, ``callback_start``; or the dequeue of a
ring buffer, then ``callback_start``. A callback belongs to the take before it only if it is one of
that subscription.
"""

from __future__ import annotations

import polars as pl

from collectors.ros2.callbacks import Callbacks
from collectors.ros2.events import Events
from collectors.ros2.joins import as_of, timeline
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
    of_subscription = pl.col("kind").fill_null("subscription") == "subscription"
    executions = callbacks.instances.select(
        "thread",
        pl.col("start_ns").alias("time_ns"),
        "callback_instance_id",
    )
    mine = ["proc", "subscription_id"]
    line = timeline(
        [
            (takes, [*mine, "message", "source_timestamp", "taken"]),
            (dequeues, [*mine, "buffer", "index"]),
            (events["rcl_take"], ["message"]),
            (events["rclcpp_take"], ["message"]),
            (executions, ["callback_instance_id"]),
        ]
    )
    kind, message = pl.col("kind"), pl.col("message")
    head = kind <= DEQUEUE
    line = line.with_columns(
        head.cum_sum().alias("group"),
        pl.when(head).then("thread").forward_fill().alias("head_thread"),
        pl.when(head).then(message.fill_null(0)).forward_fill().alias("head_message"),
    )
    same = message == pl.col("head_message")
    groups = (
        # Whatever precedes a thread's first take belongs to none.
        line.filter(pl.col("thread") == pl.col("head_thread"))
        .with_columns(
            pl.when((kind == RCL) & same).then("time_ns").alias("rcl_take_ns"),
            pl.when((kind == RCLCPP) & same).then("time_ns").alias("rclcpp_take_ns"),
        )
        .group_by("group", maintain_order=True)
        .agg(
            pl.col("thread").first(),
            pl.col("proc").first(),
            pl.col("subscription_id").first(),
            pl.col("time_ns").first().alias("take_ns"),
            kind.first(),
            pl.col("taken").first(),
            pl.col("source_timestamp").first().alias("source_timestamp_ns"),
            pl.col("buffer").first(),
            pl.col("index").first(),
            pl.col("rcl_take_ns").min(),
            pl.col("rclcpp_take_ns").min(),
            # Executions are numbered in time: this is the first after the take.
            pl.col("callback_instance_id").min(),
        )
    )
    groups = groups.filter((pl.col("kind") == DEQUEUE) | (pl.col("taken") != 0))
    groups = groups.join(
        callbacks.instances.select(
            "callback_instance_id",
            pl.col("start_ns").alias("callback_start_ns"),
            pl.col("end_ns").alias("callback_end_ns"),
            of_subscription.alias("may"),
            "owner_id",
            "intra",
        ),
        on="callback_instance_id",
        how="left",
        maintain_order="left",
    )
    intra = pl.col("kind") == DEQUEUE
    fits = (
        pl.col("may")
        & (pl.col("owner_id") == pl.col("subscription_id")).fill_null(value=True)
        & (pl.col("intra") == intra)
    ).fill_null(value=False)
    linked = ("callback_instance_id", "callback_start_ns", "callback_end_ns")
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
        .drop("group", "kind", "taken", "may", "owner_id", "intra")
    )
