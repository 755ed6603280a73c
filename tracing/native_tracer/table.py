"""Look up the tracepoints of each ROS 2 distribution in a table that roslens ships."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from roslens.tracing.ros.header import Field, Instrumentation, Parameter, Tracepoint

_TABLE = Path(__file__).with_name("tracepoints.yaml")
_C_TYPES = {
    "pointer": "const void *",
    "string": "const char *",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "bool": "bool",
    "gid": "const uint8_t *",
    "pointers": "const void **",
}


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
    parameters, fields = [], []
    for kind, name in map(str.split, entry["arguments"]):
        parameters.append(Parameter(_C_TYPES[kind], name))
        if kind == "pointers":
            parameters.append(Parameter("size_t", f"{name}_length"))
        if name not in entry.get("unrecorded", ()):
            fields.append(_field(kind, name, facts["gid_bytes"]))
    if "constant" in entry:
        name = entry["constant"]
        fields.append(Field("ctf_string", name, (name, f'"{facts["tracetools"]}"')))
    return Tracepoint(entry["name"], tuple(parameters), tuple(fields))


def _field(kind: str, name: str, gid_bytes: int) -> Field:
    c_type = _C_TYPES[kind]
    if kind == "pointer":
        return Field("ctf_integer_hex", name, (c_type, name, name))
    if kind == "string":
        return Field("ctf_string", name, (name, name))
    if kind == "bool":
        return Field("ctf_integer", name, ("int", name, f"({name} ? 1 : 0)"))
    if kind == "gid":
        return Field("ctf_array", name, ("uint8_t", name, name, str(gid_bytes)))
    if kind == "pointers":
        return Field(
            "ctf_sequence_hex", name, ("const void *", name, name, "size_t", f"{name}_length")
        )
    return Field("ctf_integer", name, (c_type, name, name))
