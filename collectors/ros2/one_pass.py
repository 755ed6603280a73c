"""The pass over all events in the order of time, in native code (crate ``collectors/model``)."""

from __future__ import annotations

from typing import Any

import polars as pl

from roslens.collectors import _native
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.outcomes import of_kernel
from roslens.collectors.ros2.publications import only_publishers
from roslens.collectors.ros2.services import halves
from roslens.collectors.ros2.types import NAME, TEXT

_CONTEXT = ("time_ns", "host", "vpid", "vtid", "ctx_pid_ns")
_EVENTS = _native.model_events()


def run(
    events: Events, objects: Objects, callbacks: pl.DataFrame, losses: pl.DataFrame
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Tables by name, and what was counted; `callbacks` as of `callback_objects`."""
    given = {
        **objects.tables,
        "clients": objects.clients.with_columns(halves("gid")),
        "publisher_by_rmw": objects.publisher_by_rmw,
        "subscription_by_rmw": objects.subscription_by_rmw,
        "callbacks": callbacks,
    }
    tables, told = _native.model(
        {name: _source(events, name) for name in _EVENTS if events.declared(name)},
        {name: _plain(frame) for name, frame in given.items()},
        _about(events, objects, losses),
    )
    return {name: pl.DataFrame(table) for name, table in tables.items()}, told


def _source(events: Events, name: str) -> pl.DataFrame:
    if events.overlapping:
        return events[name]
    frame = events.scan(name)
    assert frame is not None
    columns = [c for c in (*_CONTEXT, *_EVENTS[name]) if events.has_column(name, c)]
    return frame.select(list(dict.fromkeys(columns))).collect()


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.drop(lists).with_columns(pl.col(NAME).cast(TEXT)).rechunk()


def _about(events: Events, objects: Objects, losses: pl.DataFrame) -> dict[str, Any]:
    processes = events.processes
    hosts = processes["host"].unique().sort().to_list()
    number = {host: place for place, host in enumerate(hosts)}
    since = [
        sorted(
            b.time_ns
            for b in events.found.boundaries
            if (b.host, b.pid_ns, b.vpid) == (host, namespace, vpid)
        )
        for host, namespace, vpid in processes.select("host", "pid_ns", "vpid").iter_rows()
    ]
    columns = ("host", "pid_ns", "vpid", "part", "end_ns")
    rows = zip(processes.select(columns).iter_rows(), since, strict=True)
    gaps = losses.filter(~of_kernel() & pl.col("host").is_in(hosts))
    return {
        "hosts": hosts,
        "processes": [
            (number[host], namespace, vpid, times[part - 1] if part else -(2**63), end)
            for (host, namespace, vpid, part, end), times in rows
        ],
        "guesses": only_publishers(objects).rows(),
        "losses": [
            (number[host], begin, end)
            for host, begin, end in gaps.select(
                "host", pl.col("begin_ns").fill_null(0), pl.col("end_ns").fill_null(2**63 - 1)
            ).iter_rows()
        ],
        "declared": [name for name in _EVENTS if events.declared(name)],
        "happened": [name for name in _EVENTS if events.happened(name)],
    }
