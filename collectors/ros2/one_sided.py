"""Messages of which only the receiving side was recorded, by their source timestamp.

A source timestamp is of the sender's system clock, event times are the system clock as it was when
the trace began. What lies between the two on the receiving host shows in what that host published
itself. Between two hosts there is, beside, how well their clocks are synchronised, which no event
tells.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import pick, sorted_by
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import NAME, label


def find_one_sided(
    takes: pl.DataFrame,
    events: Events,
    objects: Objects,
    publications: pl.DataFrame,
    synchronisation: str | None,
) -> pl.DataFrame:
    """One row per take without publication; columns of the table, and proc.

    Parameters
    ----------
    takes
        Those that no publication was found for, as of `find_takes`.
    events, objects, publications
        Of the same recording.
    synchronisation
        How the clocks of the hosts were synchronised, as the recording says.
    """
    if takes.is_empty():
        publications = publications.clear()
    stamped = publications.select("proc", "rmw_publish_ns", "source_timestamp_ns").drop_nulls()
    # Processes and subscriptions are numbered in their order.
    stamped = (
        stamped.hstack(pick(events.places, stamped["proc"], "host"))
        .select(
            "host",
            pl.col("rmw_publish_ns").alias("near_ns"),
            (pl.col("source_timestamp_ns") - pl.col("rmw_publish_ns")).alias("clock_offset_ns"),
        )
        .sort("near_ns")
    )
    there = objects.publishers["topic"].drop_nulls().unique().to_list()
    takes = sorted_by(takes.filter(~pl.col("intra_process")), "take_ns", "take_id")
    near = (
        takes.select("take_ns", pick(events.places, takes["proc"], "host").to_series())
        .join_asof(
            stamped,
            left_on="take_ns",
            right_on="near_ns",
            by="host" if events.places["host"].n_unique() > 1 else None,
            strategy="nearest",
            check_sortedness=False,
        )
        .select("clock_offset_ns")
    )
    created = pick(objects.subscriptions, takes["subscription_id"], "created_ns")
    found = takes.hstack(near).hstack(created)
    sent = pl.col("source_timestamp_ns") - pl.col("clock_offset_ns").fill_null(0)
    replayed = (sent < pl.col("created_ns")).fill_null(value=False)
    started = pl.col("callback_start_ns").is_not_null()
    return found.with_columns(
        pl.col("node").alias("subscription_node"),
        pl.col("topic").is_in(there).alias("publisher_recorded"),
        pl.when(~replayed).then(pl.col("callback_start_ns") - sent).alias("latency_ns"),
        pl.lit(synchronisation, dtype=NAME).alias("synchronisation"),
        pl.when(replayed)
        .then(label("replayed"))
        .when(started)
        .then(label("delivered"))
        .otherwise(label("taken"))
        .alias("outcome"),
    )
