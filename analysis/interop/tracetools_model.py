"""Build the frames of tracetools_analysis' ``Ros2DataModel``, so that its notebooks run on them.

Names, index and columns are those of tracetools_analysis 3.1. Intended differences:

* ``callback_instances``: executions are distinguished by process and thread; there, one of two
  that overlap (reentrant callbacks, equal addresses in two processes) is dropped.
* ``services`` has the service's handle as its index; there it is a timestamp.
* An empty frame has its columns; there it has none.
* Init events that a snapshot session repeats count once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl

from roslens.collectors.ros2.events import FIELDS, INIT_EVENTS, Events
from roslens.collectors.ros2.one_pass import executions

if TYPE_CHECKING:
    import pandas as pd

_TIME = {"timestamp": "time_ns"}
_ENDPOINT = {"node_handle": "node_handle"}

_FRAMES: Mapping[str, tuple[str, dict[str, str]]] = {
    "contexts": (
        "rcl_init",
        {"context_handle": "context_handle", **_TIME, "pid": "vpid", "version": "version"},
    ),
    "nodes": (
        "rcl_node_init",
        {"node_handle": "node_handle", **_TIME, "tid": "vtid", "rmw_handle": "rmw_handle",
         "name": "node_name", "namespace": "namespace"},
    ),
    "rmw_publishers": (
        "rmw_publisher_init",
        {"publisher_handle": "rmw_publisher_handle", **_TIME, "gid": "gid"},
    ),
    "rcl_publishers": (
        "rcl_publisher_init",
        {"publisher_handle": "publisher_handle", **_TIME, **_ENDPOINT,
         "rmw_handle": "rmw_publisher_handle", "topic_name": "topic_name", "depth": "queue_depth"},
    ),
    "rmw_subscriptions": (
        "rmw_subscription_init",
        {"subscription_handle": "rmw_subscription_handle", **_TIME, "gid": "gid"},
    ),
    "rcl_subscriptions": (
        "rcl_subscription_init",
        {"subscription_handle": "subscription_handle", **_TIME, **_ENDPOINT,
         "rmw_handle": "rmw_subscription_handle", "topic_name": "topic_name",
         "depth": "queue_depth"},
    ),
    "subscription_objects": (
        "rclcpp_subscription_init",
        {"subscription": "subscription", **_TIME, "subscription_handle": "subscription_handle"},
    ),
    "services": (
        "rcl_service_init",
        {"service_handle": "service_handle", **_TIME, **_ENDPOINT,
         "rmw_handle": "rmw_service_handle", "service_name": "service_name"},
    ),
    "clients": (
        "rcl_client_init",
        {"client_handle": "client_handle", **_TIME, **_ENDPOINT,
         "rmw_handle": "rmw_client_handle", "service_name": "service_name"},
    ),
    "timers": (
        "rcl_timer_init",
        {"timer_handle": "timer_handle", **_TIME, "period": "period", "tid": "vtid"},
    ),
    "timer_node_links": (
        "rclcpp_timer_link_node",
        {"timer_handle": "timer_handle", **_TIME, **_ENDPOINT},
    ),
    "callback_symbols": (
        "rclcpp_callback_register",
        {"callback_object": "callback", **_TIME, "symbol": "symbol"},
    ),
    "lifecycle_state_machines": (
        "rcl_lifecycle_state_machine_init",
        {"state_machine_handle": "state_machine", **_ENDPOINT},
    ),
    "rclcpp_publish_instances": ("rclcpp_publish", {**_TIME, "message": "message"}),
    "rcl_publish_instances": (
        "rcl_publish",
        {"publisher_handle": "publisher_handle", **_TIME, "message": "message"},
    ),
    "rmw_publish_instances": ("rmw_publish", {**_TIME, "message": "message"}),
    "rmw_take_instances": (
        "rmw_take",
        {"subscription_handle": "rmw_subscription_handle", **_TIME, "message": "message",
         "source_timestamp": "source_timestamp", "taken": "taken"},
    ),
    "rcl_take_instances": ("rcl_take", {**_TIME, "message": "message"}),
    "rclcpp_take_instances": ("rclcpp_take", {**_TIME, "message": "message"}),
    "lifecycle_transitions": (
        "rcl_lifecycle_transition",
        {"state_machine_handle": "state_machine", "start_label": "start_label",
         "goal_label": "goal_label", "timestamp": "time_ns"},
    ),
}  # fmt: skip
"""Event of each frame and field of each column; the first column is the index of object frames."""

_HAPPENED = ("_instances", "_transitions")
"""Frames of events, which have no index."""

_REFERENCES = {
    "rclcpp_subscription_callback_added": "subscription",
    "rclcpp_service_callback_added": "service_handle",
    "rclcpp_timer_callback_added": "timer_handle",
}
_COMMON: dict[str, pl.DataType] = {
    "time_ns": pl.Int64(),
    "vpid": pl.Int32(),
    "vtid": pl.Int32(),
}


class TracetoolsDataModel(SimpleNamespace):
    """The frames of a ``Ros2DataModel`` by name, where that class itself is not installed."""


def tracetools_frames(raw: Mapping[str, pl.LazyFrame]) -> TracetoolsDataModel:
    """Return the frames, from raw events of one recording (event name to frame)."""
    frames = {
        name: _frame(_read(raw, event), columns, indexed=not name.endswith(_HAPPENED))
        for name, (event, columns) in _FRAMES.items()
    }
    frames["callback_objects"] = _callback_objects(raw)
    frames["callback_instances"] = _callback_instances(raw)
    return TracetoolsDataModel(**frames)


def ros2_data_model(frames: TracetoolsDataModel) -> Any:
    """Return a ``tracetools_analysis`` ``Ros2DataModel``, or the frames where that is missing."""
    try:
        from tracetools_analysis.data_model.ros2 import Ros2DataModel  # noqa: PLC0415
    except ImportError:
        return frames
    model = Ros2DataModel()
    model.finalize()
    for name, frame in vars(frames).items():
        setattr(model, name, frame)
    return model


def _read(raw: Mapping[str, pl.LazyFrame], event: str) -> pl.DataFrame:
    """Return events in the order of time, with the columns that their definition has."""
    kinds = {**_COMMON, **FIELDS[event]}
    frame = raw.get(f"ros2:{event}")
    if frame is None:
        return pl.DataFrame(schema=kinds)
    columns = frame.collect_schema()
    events = frame.select(
        pl.col(name).cast(kind) if name in columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in kinds.items()
    ).collect()
    if event in INIT_EVENTS:
        events = events.unique(maintain_order=True)
    return events.sort("time_ns", maintain_order=True)


def _frame(events: pl.DataFrame, columns: Mapping[str, str], *, indexed: bool) -> pd.DataFrame:
    selected = events.select(pl.col(field).alias(name) for name, field in columns.items())
    # Without uint64 in pandas: user-space addresses fit int64, and compare as Python's numbers do.
    selected = selected.with_columns(
        pl.col(pl.UInt64, pl.Int32).cast(pl.Int64),
    )
    if "taken" in columns:
        selected = selected.with_columns(pl.col("taken") != 0)
    frame = selected.to_pandas()
    if "gid" in columns:
        frame["gid"] = selected["gid"].to_list()
    return frame.set_index(next(iter(columns))) if indexed else frame


def _callback_objects(raw: Mapping[str, pl.LazyFrame]) -> pd.DataFrame:
    added = pl.concat(
        _read(raw, event).select("time_ns", pl.col(owner).alias("reference"), "callback")
        for event, owner in _REFERENCES.items()
    ).sort("time_ns", maintain_order=True)
    columns = {"reference": "reference", **_TIME, "callback_object": "callback"}
    return _frame(added, columns, indexed=True)


def _callback_instances(raw: Mapping[str, pl.LazyFrame]) -> pd.DataFrame:
    """Return finished executions, in the order in which they ended."""
    return (
        executions(Events(raw))
        .filter(pl.col("end_ns").is_not_null())
        .sort("end_ns", maintain_order=True)
        .select(
            pl.col("callback").cast(pl.Int64).alias("callback_object"),
            pl.col("start_ns").cast(pl.Datetime("ns")).alias("timestamp"),
            (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Duration("ns")).alias("duration"),
            pl.col("intra_process").fill_null(value=False),
        )
        .to_pandas()
    )
