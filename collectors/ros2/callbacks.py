"""Find callback objects and their owners."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, nearest
from roslens.collectors.ros2.objects import Objects, numbered
from roslens.collectors.ros2.types import NAME, TEXT, label, with_names


def is_callback() -> pl.Expr:
    """Return whether an execution is that of a callback, and not of a probed function."""
    return pl.col("kind").ne_missing("function")


def callback_objects(events: Events, objects: Objects) -> pl.DataFrame:
    """Return the callback objects with their owners.

    Returns
    -------
    polars.DataFrame
        ``callback_id``, proc, callback (address), kind, owner_id, name, node_id, node, symbol,
        created_ns.
    """
    services, timers = (events[f"rclcpp_{kind}_callback_added"] for kind in ("service", "timer"))
    added = pl.concat(
        [
            _subscription_callbacks(events, objects),
            _owned(services, "service", objects.services, pl.col("service")),
            _owned(timers, "timer", objects.timers, _period("period_ns")),
        ]
    )
    registered = with_names(events["rclcpp_callback_register"])
    added = nearest(added, registered, "callback", ["symbol"])
    # These are registered, but the event that names the owner was not recorded.
    ownerless = registered.join(added, on=["proc", "callback"], how="anti").select(
        "proc", "time_ns", "callback", "symbol"
    )
    functions = with_names(events["function_register"]).select(
        "proc", "time_ns", name="function_name", callback="function", kind=label("function")
    )
    return (
        pl.concat([added, ownerless, functions], how="diagonal")
        .rename({"time_ns": "created_ns"})
        .pipe(numbered, "callback_id", ["callback"])
    )


def _subscription_callbacks(events: Events, objects: Objects) -> pl.DataFrame:
    added = events["rclcpp_subscription_callback_added"].select(
        "proc", "time_ns", "subscription", "callback"
    )
    inits = events["rclcpp_subscription_init"]
    # The intra-process twin of a subscription gets its callback before its own init event.
    added = nearest(added, inits, "subscription", ["subscription_handle"])
    added = added.with_columns(pl.col("subscription_handle").fill_null(pl.col("subscription")))
    return _owned(added, "subscription", objects.subscriptions, pl.col("topic"))


def _owned(added: pl.DataFrame, kind: str, owners: pl.DataFrame, name: pl.Expr) -> pl.DataFrame:
    handle = f"{kind}_handle"
    owners = owners.select(
        "proc", "created_ns", handle, pl.col(f"{kind}_id").alias("owner_id"),
        name.cast(NAME).alias("name"), "node_id", "node",
    )  # fmt: skip
    return as_of(added, owners, handle, ["owner_id", "name", "node_id", "node"]).select(
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
    """Return a period as text, in the largest unit that keeps it an integer: ``2 ms``."""
    period = pl.col(column)
    text = pl.lit(None, dtype=TEXT)
    for unit, size in (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        written = (period // size).cast(TEXT) + f" {unit}"
        text = pl.when(period % size == 0).then(written).otherwise(text)
    return text
