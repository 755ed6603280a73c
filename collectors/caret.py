"""Translate CARET's events into the names and fields of ROS 2's own events, for the model.

CARET's preloaded library stores the events that name objects and repeats them under its own
provider, ``ros2_caret:rcl_node_init`` for ``ros2:rcl_node_init``, each with the time at which it
happened. Up to Iron, ``ros2:rmw_publish`` has no timestamp: there CARET's
``dds_bind_addr_to_stamp`` and ``dds_write``, or ``dds:write`` of an instrumented Cyclone DDS, give
the timestamp that the middleware wrote. With CARET's rclcpp for Galactic,
``ros2:dispatch_subscription_callback`` gives what other recordings have in ``rmw_take``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from roslens.collectors.caret_events import CLOCK, PROVIDER, REPEATED
from roslens.collectors.decoding import Raw

WRITES = (
    ("dds:write", "timestamp"),
    (f"{PROVIDER}dds_write", "timestamp"),
    (f"{PROVIDER}dds_bind_addr_to_stamp", "source_stamp"),
)
"""Events of a write to the middleware, and the field of the timestamp; the first found is used."""

_THREAD = ["host", "vpid", "vtid"]
_PROCESS = ["host", "vpid"]
_PLACE = ["time_ns", "host", "trace", "cpu_id", "vpid", "vtid", "procname"]
_HAPPENED = "init_timestamp"
_PUBLISH, _RCL_PUBLISH = "ros2:rmw_publish", "ros2:rcl_publish"
_TAKE, _DISPATCH = "ros2:rmw_take", "ros2:dispatch_subscription_callback"


def with_caret(raw: Raw) -> Raw:
    """Return the events with those of CARET, and of an instrumented DDS, turned into ROS 2's own.

    Each change adds a warning; without events of CARET, `raw` itself is returned.
    """
    recorded = {name: frame.lazy() for name, frame in raw.events.items()}
    events = dict(recorded)
    notes: list[str] = []
    if objects := _objects(events):
        events |= objects
        notes.append(f"objects are named by {len(objects)} kinds of init events of CARET")
    for (name, rows), table in ((_stamped(events), "publications"), (_dispatched(events), "takes")):
        if rows is not None:
            into = _PUBLISH if table == "publications" else _TAKE
            events[into] = rows.collect().lazy()
            notes.append(f"{table} have their source timestamps from {name}")
    if not notes:
        return raw
    files = {name: path for name, path in raw.files.items() if events[name] is recorded[name]}
    return replace(raw, events=events, warnings=[*raw.warnings, *notes], files=files)


def _objects(events: Mapping[str, pl.LazyFrame]) -> dict[str, pl.LazyFrame]:
    """Return ROS 2's events that name objects, with those that CARET repeated."""
    repeated = [name for name in REPEATED if f"{PROVIDER}{name}" in events]
    began = _clock(events)
    inits = {}
    for name in repeated:
        frame = events[f"{PROVIDER}{name}"]
        columns = frame.collect_schema().names()
        if _HAPPENED in columns:
            if began is not None:
                happened = pl.col(_HAPPENED).cast(pl.Int64) + pl.col("clock_ns")
                frame = frame.join(began, on=_PROCESS, how="left", nulls_equal=True).with_columns(
                    pl.coalesce(happened, "time_ns").alias("time_ns")
                )
            # CARET emits the event as it happens, and again when a session begins.
            key = [column for column in columns if column not in _PLACE] + _PROCESS
            frame = frame.sort("time_ns").unique(key, keep="first", maintain_order=True)
            frame = frame.select(column for column in columns if column != _HAPPENED)
        frames = [frame]
        if f"ros2:{name}" in events:
            frames.append(events[f"ros2:{name}"])
        whole = pl.concat(frames, how="diagonal_relaxed").sort("time_ns")
        inits[f"ros2:{name}"] = whole.collect().lazy()
    return inits


def _clock(events: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame | None:
    """Return, by process, how far its event times are ahead of CARET's clock."""
    frame = events.get(f"{PROVIDER}{CLOCK}")
    if frame is None or "clock_offset" not in frame.collect_schema().names():
        return None
    # clock_offset is LTTng's own clock at that moment, despite its name.
    ahead = pl.col("time_ns") - pl.col("clock_offset").cast(pl.Int64)
    return frame.sort("time_ns").group_by(_PROCESS).agg(ahead.first().alias("clock_ns"))


def _stamped(events: Mapping[str, pl.LazyFrame]) -> tuple[str, pl.LazyFrame | None]:
    """Return publications with the timestamp of the write that followed on the same thread."""
    source = next((write for write in WRITES if _has(events, *write)), None)
    if source is None or _has(events, _PUBLISH, "timestamp"):
        return "", None
    has_own = _PUBLISH in events and _has_rows(events[_PUBLISH])
    if not (has_own or _has(events, _RCL_PUBLISH, "message")):
        return "", None
    stamp = pl.col(source[1]).cast(pl.Int64).alias("timestamp")
    calls = events[_PUBLISH] if has_own else events[_RCL_PUBLISH]
    ordered = calls.sort("time_ns").with_row_index("call")
    writes = events[source[0]].select(*_THREAD, pl.col("time_ns").alias("written_ns"), stamp)
    # The first write after a call and before the thread's next call.
    written = (
        writes.sort("written_ns")
        .join_asof(
            ordered.select(*_THREAD, "time_ns", "call"),
            left_on="written_ns",
            right_on="time_ns",
            by=_THREAD,
            strategy="backward",
            check_sortedness=False,
        )
        .drop_nulls("call")
        .unique("call", keep="first", maintain_order=True)
        .select("call", "written_ns", "timestamp")
    )
    if has_own:
        rows = ordered.join(written, on="call", how="left").drop("call", "written_ns")
    else:
        # The write stands for the missing event: the middleware's call, and its message.
        rows = ordered.join(written, on="call").select(
            pl.col("written_ns").alias("time_ns"),
            *(column for column in _PLACE[1:] if column in calls.collect_schema().names()),
            "message",
            "timestamp",
        )
    return source[0], rows.sort("time_ns")


def _dispatched(events: Mapping[str, pl.LazyFrame]) -> tuple[str, pl.LazyFrame | None]:
    """Return dispatched callbacks as takes, where no event records the takes themselves."""
    if not _has(events, _DISPATCH, "source_stamp") or (
        _TAKE in events and _has_rows(events[_TAKE])
    ):
        return "", None
    chain: Sequence[tuple[str, str, str]] = (
        ("rclcpp_subscription_callback_added", "callback", "subscription"),
        ("rclcpp_subscription_init", "subscription", "subscription_handle"),
        ("rcl_subscription_init", "subscription_handle", "rmw_subscription_handle"),
    )
    if not all(_has(events, f"ros2:{name}", field) for name, _, field in chain):
        return "", None
    rows = events[_DISPATCH].sort("time_ns")
    for name, key, field in chain:
        inits = events[f"ros2:{name}"].select(*_PROCESS, "time_ns", key, field).sort("time_ns")
        rows = rows.join_asof(inits, on="time_ns", by=[*_PROCESS, key], check_sortedness=False)
    places = [column for column in _PLACE if column in rows.collect_schema().names()]
    taken = rows.drop_nulls("rmw_subscription_handle").select(
        *places,
        "rmw_subscription_handle",
        "message",
        pl.col("source_stamp").cast(pl.Int64).alias("source_timestamp"),
        pl.lit(1, pl.Int32).alias("taken"),
    )
    return _DISPATCH, taken


def _has(events: Mapping[str, pl.LazyFrame], name: str, field: str) -> bool:
    frame = events.get(name)
    return frame is not None and field in frame.collect_schema().names() and _has_rows(frame)


def _has_rows(frame: pl.LazyFrame) -> bool:
    return frame.head(1).collect().height > 0
