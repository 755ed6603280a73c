"""Callback objects and their executions.

An execution is a `callback_start` and the next `callback_end` of the same callback on the same
thread: a reentrant callback runs in several threads at once. A start that another one of its
callback followed on its thread has no end: an exception left it, or its end was not recorded. So
has the outer one of two executions of one callback of which one spins in the other, as nothing
tells these from two executions of which an end and a start were dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, nearest, sorted_by
from roslens.collectors.ros2.objects import Objects, numbered
from roslens.collectors.ros2.passes import ends_of, innermost
from roslens.collectors.ros2.types import I64, NAME, TEXT, label, with_names

_HANDLE_KEY = {"service": "service_handle", "timer": "timer_handle"}


@dataclass(frozen=True)
class Callbacks:
    """Callback objects and executions.

    Attributes
    ----------
    objects
        ``callback_id``, proc, callback (address), kind, owner_id, name, node_id, node, symbol,
        created_ns.
    instances
        ``callback_instance_id``, proc, thread, callback_id, kind, owner_id, name, node, symbol,
        start_ns, end_ns, intra (whether the message came within the process).
    ends_alone
        Number of callback_end without a start.
    """

    objects: pl.DataFrame
    instances: pl.DataFrame
    ends_alone: int


def find_callbacks(events: Events, objects: Objects) -> Callbacks:
    """Callback objects with their owners, and each of their executions."""
    table = callback_objects(events, objects)
    instances, ends_alone = find_instances(events, table)
    return Callbacks(objects=table, instances=instances, ends_alone=ends_alone)


def callback_objects(events: Events, objects: Objects) -> pl.DataFrame:
    """Callback objects with their owners."""
    added = pl.concat(
        [
            _of_subscriptions(events, objects),
            _of(events, "service", objects.services, pl.col("service")),
            _of(events, "timer", objects.timers, _period("period_ns")),
        ]
    )
    registered = with_names(events["rclcpp_callback_register"])
    added = nearest(added, registered, ["proc", "callback"], ["symbol"])
    # Registered, but the event that names the owner was not recorded.
    alone = registered.join(added, on=["proc", "callback"], how="anti").select(
        "proc", "time_ns", "callback", "symbol"
    )
    return (
        pl.concat([added, alone], how="diagonal")
        .rename({"time_ns": "created_ns"})
        .pipe(numbered, "callback_id", ["callback"])
    )


def _of_subscriptions(events: Events, objects: Objects) -> pl.DataFrame:
    added = events["rclcpp_subscription_callback_added"].select(
        "proc", "time_ns", "subscription", "callback"
    )
    inits = events["rclcpp_subscription_init"]
    # The intra-process twin of a subscription gets its callback before its own init event.
    added = nearest(added, inits, ["proc", "subscription"], ["subscription_handle"])
    handle = pl.col("subscription_handle").fill_null(pl.col("subscription"))
    return _owned(
        added.with_columns(handle),
        "subscription",
        objects.subscriptions,
        "subscription_handle",
        pl.col("topic"),
    )


def _of(events: Events, kind: str, owners: pl.DataFrame, name: pl.Expr) -> pl.DataFrame:
    return _owned(events[f"rclcpp_{kind}_callback_added"], kind, owners, _HANDLE_KEY[kind], name)


def _owned(
    added: pl.DataFrame, kind: str, owners: pl.DataFrame, handle: str, name: pl.Expr
) -> pl.DataFrame:
    owners = owners.select(
        "proc", "created_ns", handle, pl.col(f"{kind}_id").alias("owner_id"),
        name.cast(NAME).alias("name"), "node_id", "node",
    )  # fmt: skip
    key = [("proc", "proc"), (handle, handle)]
    return as_of(added, owners, key, ["owner_id", "name", "node_id", "node"]).select(
        "proc",
        "time_ns",
        "callback",
        label(kind).alias("kind"),
        "owner_id",
        "name",
        "node_id",
        "node",
    )


def _period(column: str) -> pl.Expr:
    """A period as text, in the largest unit that keeps it whole: ``2 ms``."""
    period = pl.col(column)
    text = pl.lit(None, dtype=TEXT)
    for unit, size in (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        written = (period // size).cast(TEXT) + f" {unit}"
        text = pl.when(period % size == 0).then(written).otherwise(text)
    return text


def find_instances(events: Events, objects: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Each execution of these callback objects, and the number of ends without a start."""
    starts, ends = events["callback_start"], events["callback_end"]
    row = ends_of(starts, ends, "callback")
    instances = starts.with_columns(ends["time_ns"].gather(row).alias("end_ns"))
    ends_alone = ends.height - (row.len() - row.null_count())
    instances = sorted_by(instances, "time_ns", "thread", "callback")
    instances = as_of(
        instances,
        objects,
        [("proc", "proc"), ("callback", "callback")],
        ["callback_id", "kind", "owner_id", "name", "node", "symbol"],
    )
    of_message = pl.col("kind").fill_null("subscription") == "subscription"
    return (
        instances.rename({"time_ns": "start_ns"})
        .with_columns(
            pl.when(of_message).then(pl.col("is_intra_process") != 0).alias("intra"),
        )
        .drop("is_intra_process")
        .with_row_index("callback_instance_id")
        .with_columns(pl.col("callback_instance_id").cast(I64))
    ), ends_alone


def enclosing(instances: pl.DataFrame, moments: pl.DataFrame) -> pl.Series:
    """The innermost execution that was running on a thread at a moment.

    Parameters
    ----------
    instances
        As `Callbacks.instances`, sorted by start. One without an end counts until the next start
        on its thread: whether it had returned by then cannot be known.
    moments
        ``thread`` and ``time_ns``.

    Returns
    -------
    polars.Series
        ``callback_instance_id`` per moment, null outside of all callbacks.
    """
    ids = instances["callback_instance_id"]
    runs = instances.select("thread", pl.col("start_ns").alias("time_ns"), "end_ns")
    if moments["time_ns"].is_sorted():
        return ids.gather(innermost(runs, moments))
    order = moments["time_ns"].arg_sort()
    found = innermost(runs, moments.select("thread", "time_ns")[order])
    return ids.gather(found).gather(order.arg_sort())
