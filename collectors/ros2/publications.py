"""What a process could publish on."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.objects import Objects
from roslens.collectors.topics import DISCOVERY, INTERNAL, ROSOUT


def only_publishers(objects: Objects) -> pl.DataFrame:
    """Since when a process could publish on one topic only: proc, since_ns, guess_topic, guess_id.

    rosout never goes through rclcpp; a process publishes on /parameter_events while its nodes
    start, so that topic counts while there is no other. Null where there are several.
    """
    # What a process could publish on changes only when it makes a publisher.
    known = ("topics", "publishers", "guess_topic", "guess_id")
    kind = ("proc", "own")
    topic, publisher = pl.col("topic"), pl.col("publisher_id")
    made = (
        objects.publishers.filter(topic.is_not_null() & ~topic.is_in([ROSOUT, DISCOVERY]))
        .with_columns((~topic.is_in(INTERNAL)).alias("own"))
        .sort("proc", "created_ns", "own")
        .with_columns(
            pl.struct("proc", "topic").is_first_distinct().cum_sum().over(kind).alias("topics"),
            pl.int_range(1, pl.len() + 1).over(kind).alias("publishers"),
            topic.first().over(kind).alias("guess_topic"),
            publisher.first().over(kind).alias("guess_id"),
        )
    )
    # What is known of its own publishers counts from the first one of these on.
    of_own = (pl.when("own").then(name).forward_fill().over("proc") for name in known)
    return (
        made.with_columns(
            pl.coalesce(found, name).alias(name) for found, name in zip(of_own, known, strict=True)
        )
        .group_by("proc", pl.col("created_ns").alias("since_ns"))
        .agg(pl.col(*known).last())
        .select(
            "proc",
            "since_ns",
            pl.when(topics=1).then("guess_topic"),
            pl.when(publishers=1).then("guess_id"),
        )
    )
