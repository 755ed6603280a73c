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

_FIELDS = {"timestamp": "time_ns", "pid": "vpid", "tid": "vtid", "depth": "queue_depth"}
"""Fields of the columns that have another name in all frames."""

_FRAMES: Mapping[str, tuple[str, str]] = {
    "contexts": ("rcl_init", "context_handle timestamp pid version"),
    "nodes": ("rcl_node_init", "node_handle timestamp tid rmw_handle name=node_name namespace"),
    "rmw_publishers": ("rmw_publisher_init", "publisher_handle=rmw_publisher_handle timestamp gid"),
    "rcl_publishers": (
        "rcl_publisher_init",
        "publisher_handle timestamp node_handle rmw_handle=rmw_publisher_handle topic_name depth",
    ),
    "rmw_subscriptions": (
        "rmw_subscription_init",
        "subscription_handle=rmw_subscription_handle timestamp gid",
    ),
    "rcl_subscriptions": (
        "rcl_subscription_init",
        (
            "subscription_handle timestamp node_handle rmw_handle=rmw_subscription_handle "
            "topic_name depth"
        ),
    ),
    "subscription_objects": (
        "rclcpp_subscription_init",
        "subscription timestamp subscription_handle",
    ),
    "services": (
        "rcl_service_init",
        "service_handle timestamp node_handle rmw_handle=rmw_service_handle service_name",
    ),
    "clients": (
        "rcl_client_init",
        "client_handle timestamp node_handle rmw_handle=rmw_client_handle service_name",
    ),
    "timers": ("rcl_timer_init", "timer_handle timestamp period tid"),
    "timer_node_links": ("rclcpp_timer_link_node", "timer_handle timestamp node_handle"),
    "callback_symbols": ("rclcpp_callback_register", "callback_object=callback timestamp symbol"),
    "lifecycle_state_machines": (
        "rcl_lifecycle_state_machine_init",
        "state_machine_handle=state_machine node_handle",
    ),
    "rclcpp_publish_instances": ("rclcpp_publish", "timestamp message"),
    "rcl_publish_instances": ("rcl_publish", "publisher_handle timestamp message"),
    "rmw_publish_instances": ("rmw_publish", "timestamp message"),
    "rmw_take_instances": (
        "rmw_take",
        "subscription_handle=rmw_subscription_handle timestamp message source_timestamp taken",
    ),
    "rcl_take_instances": ("rcl_take", "timestamp message"),
    "rclcpp_take_instances": ("rclcpp_take", "timestamp message"),
    "lifecycle_transitions": (
        "rcl_lifecycle_transition",
        "state_machine_handle=state_machine start_label goal_label timestamp",
    ),
}
"""Event of each frame and its columns: the first is the index of object frames. A column has the
values of the field of its name (or as in `_FIELDS`), unless it is given as ``column=field``."""

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


def _frame(events: pl.DataFrame, columns: str, *, indexed: bool) -> pd.DataFrame:
    """Return the columns, given as in `_FRAMES`."""
    named = (column.partition("=") for column in columns.split())
    selected = events.select(
        pl.col(field or _FIELDS.get(name, name)).alias(name) for name, _, field in named
    )
    # Without uint64 in pandas: user-space addresses fit int64, and compare as Python's numbers do.
    selected = selected.with_columns(pl.col(pl.UInt64, pl.Int32).cast(pl.Int64))
    if "taken" in selected.columns:
        selected = selected.with_columns(pl.col("taken") != 0)
    frame = selected.to_pandas()
    if "gid" in selected.columns:
        frame["gid"] = selected["gid"].to_list()
    return frame.set_index(selected.columns[0]) if indexed else frame


def _callback_objects(raw: Mapping[str, pl.LazyFrame]) -> pd.DataFrame:
    added = pl.concat(
        _read(raw, event).select("time_ns", pl.col(owner).alias("reference"), "callback")
        for event, owner in _REFERENCES.items()
    ).sort("time_ns", maintain_order=True)
    return _frame(added, "reference timestamp callback_object=callback", indexed=True)


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
