"""Find the states of lifecycle nodes: the times between transitions of one state machine.

rcl_lifecycle reports the way from a primary state to a transition state, and from there to the
next primary state, each as a transition with two labels.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of
from roslens.collectors.ros2.objects import Objects, numbered
from roslens.collectors.ros2.types import I32, empty_table

FIRST = "unconfigured"


def find_state_machines(events: Events, objects: Objects) -> pl.DataFrame:
    """Return the columns of the table ``state_machines``, and proc and node_created_ns."""
    nodes = objects.nodes.select(
        "proc", "node_handle", "node_id", "node", "created_ns",
        pl.col("created_ns").alias("node_created_ns"),
    )  # fmt: skip
    machines = as_of(
        events["rcl_lifecycle_state_machine_init"],
        nodes,
        "node_handle",
        ["node_id", "node", "node_created_ns"],
    )
    return numbered(
        machines.rename({"time_ns": "created_ns"}), "state_machine_id", ["state_machine"]
    )


def find_lifecycle_states(events: Events, machines: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return a row per stretch in one state, and the number of transitions that are missing."""
    if machines.is_empty() and not events.has("rcl_lifecycle_transition"):
        return empty_table("lifecycle_states"), 0
    machines = machines.select(
        "proc",
        "state_machine",
        "node_id",
        "node",
        pl.col("state_machine_id").alias("machine"),
        pl.col("created_ns").alias("time_ns"),
        pl.col("node_created_ns").alias("created_ns"),
    )
    moves = events["rcl_lifecycle_transition"].sort("time_ns", maintain_order=True)
    moves = as_of(
        moves, machines, "state_machine", ["machine"],
        since="time_ns",
    )  # fmt: skip
    key = ["proc", "state_machine", "machine"]
    first = machines.select(
        *key,
        pl.col("created_ns").alias("begin_ns"),
        pl.lit(FIRST).alias("state"),
        pl.lit(0, dtype=I32).alias("place"),
    )
    entered = moves.select(
        *key,
        pl.col("time_ns").alias("begin_ns"),
        pl.col("goal_label").alias("state"),
        (pl.int_range(pl.len()).over(key) + 1).cast(I32).alias("place"),
    )
    left = moves.select(
        *key,
        pl.col("start_label").alias("state"),
        pl.col("time_ns").alias("end_ns"),
        pl.int_range(pl.len()).over(key).cast(I32).alias("place"),
    )
    # The state that the n-th transition left is the one that the previous transition entered.
    states = pl.concat([first, entered]).join(
        left, on=[*key, "place", "state"], how="full", coalesce=True, nulls_equal=True
    )
    of_machines = states.filter(pl.col("machine").is_not_null())
    gaps = of_machines.filter(pl.col("begin_ns").is_null()).height
    names = machines.select("machine", "node_id", "node")
    return (
        states.join(names, on="machine", how="left")
        .with_columns((pl.col("end_ns") - pl.col("begin_ns")).alias("duration_ns"))
        .sort("proc", "machine", "state_machine", "place", pl.col("begin_ns"), nulls_last=True)
    ), gaps
