"""Links between what a node receives and what it publishes, where the node declared them."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import I64, none_of

KINDS = ("periodic_async", "partial_sync")


def find_message_links(events: Events, objects: Objects) -> pl.DataFrame:
    """One row per declared pair; columns of the table, and proc."""
    if not any(events.happened(f"message_link_{kind}") for kind in KINDS):
        return none_of("message_links")
    declared = pl.concat(
        events[f"message_link_{kind}"].with_columns(pl.lit(kind).alias("kind")) for kind in KINDS
    )
    links = (
        declared.sort("time_ns", maintain_order=True)
        .with_row_index("link_id")
        .select(
            pl.col("link_id").cast(I64),
            "proc",
            "kind",
            "time_ns",
            pl.col("subs").alias("subscription_handle"),
            pl.col("pubs").alias("publisher_handle"),
        )
        .explode("subscription_handle")
        .explode("publisher_handle")
    )
    for end, ends in (("subscription", objects.subscriptions), ("publisher", objects.publishers)):
        named = ends.rename({"node": f"{end}_node", "topic": f"{end}_topic"})
        links = as_of(
            links,
            named,
            [("proc", "proc"), (f"{end}_handle", f"{end}_handle")],
            [f"{end}_id", f"{end}_node", f"{end}_topic"],
        )
    return links.with_columns(
        pl.coalesce("subscription_node", "publisher_node").alias("node"),
        pl.col("time_ns").alias("declared_ns"),
    )
