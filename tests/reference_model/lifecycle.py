"""States of lifecycle nodes.

Decided when the event comes, with a state per machine: ``rcl_lifecycle_state_machine_init`` makes
one that is unconfigured since its node was made. ``rcl_lifecycle_transition`` leaves its
``start_label`` and enters its ``goal_label``. Where the state that it leaves is not the one that
the machine was in, a transition was not recorded: the one state has no end, the other no begin.
"""

from __future__ import annotations

from typing import Any

from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.walk import place


class Lifecycle:
    """States, and the one that each machine is in. To be told after `Objects`."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.rows: list[Row] = []
        self._current: dict[Any, Row] = {}

    def on_rcl_lifecycle_state_machine_init(self, e: Event) -> None:
        machine = self.objects.now("state_machine", e["proc"], e["state_machine"])
        assert machine is not None
        node = machine["_node"]
        begin = node["created_ns"] if node else None
        self._current[id(machine)] = self._enter(e, machine, "unconfigured", begin)

    def on_rcl_lifecycle_transition(self, e: Event) -> None:
        machine = self.objects.now("state_machine", e["proc"], e["state_machine"])
        key = id(machine) if machine else (e["proc"], e["state_machine"])
        current = self._current.get(key)
        if current is None or current["state"] != e["start_label"]:
            current = self._enter(e, machine, e["start_label"], None)
        current["end_ns"] = e["time_ns"]
        self._current[key] = self._enter(e, machine, e["goal_label"], e["time_ns"])

    def _enter(self, e: Event, machine: Row | None, state: str, begin_ns: int | None) -> Row:
        node = machine and machine["_node"]
        row = {
            **place(e),
            "_node": node,
            "node": node and node["node"],
            "state_machine": e["state_machine"],
            "state": state,
            "begin_ns": begin_ns,
            "end_ns": None,
        }
        self.rows.append(row)
        return row

    def finish(self) -> None:
        for row in self.rows:
            both = None not in {row["begin_ns"], row["end_ns"]}
            row["duration_ns"] = row["end_ns"] - row["begin_ns"] if both else None
