"""Read what our own library records about goals: requests that name them, and their status.

rcl_action takes a request (``action_request`` comes next to ``rmw_take_request``), accepts a goal
and changes its status (``goal_status``, the numbers of ``action_msgs/msg/GoalStatus``).
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, join_next_in_time
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import I64, TEXT

_ACCEPTED = 1
_ENDS = {4: "succeeded", 5: "canceled", 6: "aborted"}
_OF_ALL = "0" * 32
"""The id in a cancel request for all goals, or for those accepted before some time."""
_STATUS = "/_action/status"


def with_goal_ids(calls: pl.DataFrame, events: Events, objects: Objects) -> pl.DataFrame:
    """Add the ``goal_id`` that each call of an action service named; null if unknown."""
    asked = _with_id(events["action_request"])
    of_actions = pl.col("service").cast(TEXT).str.contains("/_action/")
    services = objects.services.filter(of_actions & pl.lit(not asked.is_empty()))
    taken = events.concerning(
        "rmw_take_request", "rmw_service_handle", services["rmw_service_handle"]
    ).select("thread", pl.col("time_ns").alias("request_taken_ns"))
    ids = join_next_in_time(asked, taken, "time_ns", "request_taken_ns", "thread")
    ids = ids.select("proc", "request_taken_ns", "goal_id").drop_nulls()
    key = ["proc", "request_taken_ns"]
    # Of two requests that follow one take, the first belongs to it.
    return calls.join(
        ids.unique(key, keep="first", maintain_order=True), on=key, how="left",
        maintain_order="left",
    )  # fmt: skip


def goal_ends(events: Events, objects: Objects) -> pl.DataFrame:
    """Find the goals whose status was recorded.

    Returns
    -------
    One row per goal: ``proc``, ``goal_id``, ``accepted_ns``, ``ended_ns`` and ``outcome`` (null if
    not seen), ``action`` and ``server_node`` (of the status message that the thread publishes
    next; null if it publishes none).
    """
    statuses = _with_id(events["goal_status"])
    ended = pl.col("status").is_in(list(_ENDS))
    ends = statuses.group_by("proc", "goal_id", maintain_order=True).agg(
        pl.col("time_ns", "thread").first(),
        pl.col("time_ns").filter(pl.col("status") == _ACCEPTED).first().alias("accepted_ns"),
        pl.col("time_ns").filter(ended).first().alias("ended_ns"),
        pl.col("status").filter(ended).first().replace_strict(_ENDS, return_dtype=TEXT)
        .alias("outcome"),
    )  # fmt: skip
    of_status = pl.col("topic").cast(TEXT).str.ends_with(_STATUS)
    publishers = objects.publishers.filter(of_status & pl.lit(not statuses.is_empty()))
    published = as_of(
        events.concerning("rcl_publish", "publisher_handle", publishers["publisher_handle"]),
        publishers.select("proc", "publisher_handle", "created_ns", "topic", "node"),
        "publisher_handle",
        ["topic", "node"],
    ).select(
        "thread",
        pl.col("time_ns").alias("published_ns"),
        pl.col("topic").cast(TEXT).str.strip_suffix(_STATUS).alias("action"),
        pl.col("node").cast(TEXT).alias("server_node"),
    )
    return join_next_in_time(
        ends, published, "time_ns", "published_ns", "thread", strategy="forward"
    ).select("proc", "goal_id", "accepted_ns", "ended_ns", "outcome", "action", "server_node")


def _with_id(events: pl.DataFrame) -> pl.DataFrame:
    ids = [None if uuid is None else bytes(uuid).hex() for uuid in events["goal_id"].to_list()]
    rows = events.with_columns(pl.Series("goal_id", ids, dtype=TEXT))
    return rows.filter(pl.col("goal_id") != _OF_ALL).cast({"time_ns": I64})
