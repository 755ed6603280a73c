"""Compare two models of one recording cell by cell.

Rows are compared as a multiset of their contents; an object's number is replaced by the object's
identity (its process, addresses and times), as each model numbers objects in its own way.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
import reference_model

from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.clock_fit import fit_clocks
from roslens.collectors.ros2.host_clocks import find_crossings
from roslens.collectors.schema import TABLES

IDENTITY = {
    "context_id": ("contexts", ("context_handle",)),
    "process_id": ("processes", ("pid_namespace", "begin_ns")),
    "node_id": ("nodes", ("node_handle",)),
    "publisher_id": ("publishers", ("publisher_handle", "rmw_publisher_handle")),
    "subscription_id": ("subscriptions", ("subscription_handle", "rmw_subscription_handle")),
    "service_id": ("services", ("service_handle",)),
    "client_id": ("clients", ("client_handle",)),
    "timer_id": ("timers", ("timer_handle",)),
    "callback_id": ("callbacks", ("callback",)),
    "ring_buffer_id": ("ring_buffers", ("buffer",)),
    "callback_instance_id": ("callback_instances", ("vtid", "start_ns")),
    "message_id": (
        "publications",
        ("vtid", "intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns", "rmw_publish_ns"),
    ),
    "take_id": ("takes", ("vtid", "take_ns", "intra_process")),
}
"""For each id: the table of its objects, and the columns that identify an object."""
ROLES = {
    "owner_id": {"subscription": "subscription_id", "timer": "timer_id", "service": "service_id"},
    "client_callback_instance_id": dict.fromkeys((None,), "callback_instance_id"),
}
"""Ids whose object depends on the row's column ``kind``."""
NOT_HERE = {"processes": {"rmw"}, "executor_intervals": {"cpu_ns"}}
"""Columns that the reference model does not have."""

Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def differences(
    raw: Mapping[str, pl.DataFrame],
    losses: pl.DataFrame | None = None,
    *,
    synchronisation: str | None = None,
) -> dict[str, str]:
    """Return, per differing table, a text on how roslens and the reference model differ."""
    ours = build_tables(raw, losses, synchronisation=synchronisation)
    rows = [] if losses is None else losses.to_dicts()
    recorded = {name: frame.iter_rows(named=True) for name, frame in raw.items()}
    bounds = clock_bounds(raw)
    theirs = reference_model.tables(recorded, rows, synchronisation, bounds)
    return compared({name: ours[name].to_dicts() for name in theirs}, theirs)


def clock_bounds(raw: Mapping[str, pl.DataFrame]) -> dict[tuple[str, str], int]:
    """Return the bounds that roslens finds; ``test_host_clocks.py`` tests them."""
    crossings = find_crossings(raw)
    hosts = {*crossings["from_host"], *crossings["to_host"]}
    fit = fit_clocks(crossings, sorted(hosts)) if hosts else None
    bounds = {} if fit is None else fit.bounds(aligned=False)
    return {hosts: bound for hosts, ((_, bound),) in bounds.items()}


def compared(ours: Tables, theirs: Tables) -> dict[str, str]:
    """Compare two sets of tables, and return a text for each table that differs."""
    names = {name: {c.name for c in TABLES[name].columns} - NOT_HERE.get(name, set())
             for name in theirs}  # fmt: skip
    tallies = [
        {name: _said(tables, name, sorted(names[name])) for name in theirs}
        for tables in (ours, theirs)
    ]
    faults = {}
    for name in theirs:
        ours_only, theirs_only = (tallies[i][name] - tallies[1 - i][name] for i in (0, 1))
        if ours_only or theirs_only:
            faults[name] = _told(ours_only, theirs_only)
    return faults


def _said(tables: Tables, name: str, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple((column, _cell(tables, row, column)) for column in columns) for row in tables[name]
    )


def _cell(tables: Tables, row: Mapping[str, Any], column: str) -> Any:
    value = row[column]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if value is None:
        return None
    if column in ROLES:
        column = ROLES[column][row.get("kind")]
    if column not in IDENTITY:
        return value
    table, keys = IDENTITY[column]
    thing = _by_number(tables, table, column)[value]
    return tuple(thing.get(key) for key in ("host", "vpid", *keys, "created_ns"))


_INDEX: dict[tuple[int, str], tuple[Any, dict[int, Mapping[str, Any]]]] = {}


def _by_number(tables: Tables, table: str, column: str) -> dict[int, Mapping[str, Any]]:
    rows = tables[table]
    held = _INDEX.get((id(rows), column))
    if held is None or held[0] is not rows:
        _INDEX.clear() if len(_INDEX) > 60 else None
        held = _INDEX[id(rows), column] = (rows, {row[column]: row for row in rows})
    return held[1]


def _told(ours: Counter[Any], theirs: Counter[Any], at_most: int = 4) -> str:
    """Describe the differences: each of our rows beside the most similar of theirs."""
    lines = [f"{ours.total()} of our rows, {theirs.total()} of theirs"]
    left: list[Any] = list(theirs.elements())
    for row in list(ours.elements())[:at_most]:
        if not left:
            lines.append(f"  ours alone: {_short(row)}")
            continue
        near = max(
            left[:200],
            key=lambda candidate: sum(a == b for a, b in zip(row, candidate, strict=True)),
        )
        left.remove(near)
        cells = [
            f"{a[0]}: {a[1]} here, {b[1]} there" for a, b in zip(row, near, strict=True) if a != b
        ]
        lines += [f"  {_short(row)}", *(f"      {cell}" for cell in cells)]
    lines += [f"  theirs alone: {_short(row)}" for row in left[:at_most]]
    return "\n".join(lines)


def _short(row: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row if value is not None)
