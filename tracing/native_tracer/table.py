"""Look up the tracepoints of each ROS 2 distribution in a table that roslens ships."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from roslens.tracing.ros.header import Field, Instrumentation, Tracepoint, tracepoint

_TABLE = Path(__file__).with_name("tracepoints.yaml")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return table


def distributions() -> tuple[str, ...]:
    """Return the ROS 2 distributions that the table contains, oldest first."""
    return tuple(_table()["distributions"])


def instrumentation_of(distribution: str) -> Instrumentation:
    """Return the tracepoints and functions that a distribution's tracetools defines.

    Raises
    ------
    KeyError
        The table does not contain the distribution.
    """
    ordered = list(distributions())
    facts = _table()["distributions"][distribution]
    at = ordered.index(distribution)
    entries = [
        entry
        for entry in _table()["events"]
        if ordered.index(entry.get("since", ordered[0]))
        <= at
        <= ordered.index(entry.get("until", ordered[-1]))
    ]
    tracepoints = tuple(_tracepoint(entry, facts) for entry in entries)
    return Instrumentation(
        provider="ros2",
        version=facts["tracetools"],
        tracepoints=tracepoints,
        functions={point.name: point.parameters for point in tracepoints},
    )


def _tracepoint(entry: dict[str, Any], facts: dict[str, Any]) -> Tracepoint:
    point = tracepoint(
        *(entry["name"], *entry["arguments"]),
        gid_bytes=facts["gid_bytes"],
        unrecorded=entry.get("unrecorded", ()),
    )
    if "constant" not in entry:
        return point
    name = entry["constant"]
    constant = Field("ctf_string", name, (name, f'"{facts["tracetools"]}"'))
    return replace(point, fields=(*point.fields, constant))
