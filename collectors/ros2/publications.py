"""What a process could publish on."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.objects import DISCOVERY, ROSOUT, Objects

INTERNAL = (ROSOUT, "/parameter_events", DISCOVERY)


def only_publishers(objects: Objects) -> pl.DataFrame:
    """Since when a process could publish on one topic only: proc, since_ns, guess_topic, guess_id.

    rosout never goes through rclcpp; a process publishes on /parameter_events while its nodes
    start, so that topic counts while there is no other. Null where there are several.
    """
    candidates = objects.publishers.filter(
        pl.col("topic").is_not_null() & ~pl.col("topic").is_in([ROSOUT, DISCOVERY])
    ).with_columns(pl.col("topic").is_in(INTERNAL).alias("internal"))
    # What a process could publish on changes only when it makes a publisher.
    steps = candidates.select("proc", "created_ns").unique().sort("proc", "created_ns")
    there = (
        steps.join(candidates, on="proc", suffix="_other")
        .filter(pl.col("created_ns_other") <= pl.col("created_ns"))
        .filter(pl.col("internal") == pl.col("internal").min().over("proc", "created_ns"))
        .group_by("proc", "created_ns")
        .agg(
            pl.col("topic").first(),
            pl.col("topic").n_unique().alias("topics"),
            pl.col("publisher_id").first(),
            pl.len().alias("publishers"),
        )
    )
    one_topic, one = pl.col("topics") == 1, pl.col("publishers") == 1
    return there.select(
        "proc",
        pl.col("created_ns").alias("since_ns"),
        pl.when(one_topic).then("topic").alias("guess_topic"),
        pl.when(one).then("publisher_id").alias("guess_id"),
    )
