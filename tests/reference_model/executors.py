"""What the threads of executors did: waiting for work, or not.

Decided when the event comes: ``rclcpp_executor_wait_for_work`` begins a wait, the thread's next
executor event (``rclcpp_executor_*``) ends it and begins a busy stretch, which the next wait ends.
``rclcpp_executor_execute`` counts in the stretch in which it comes. Decided at the end: the time
within callbacks, of those executions that ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from reference_model.events import Event
from reference_model.objects import Row
from reference_model.walk import place


class Executors:
    """Stretches of the threads of executors."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._current: dict[Any, Row] = {}

    def on_rclcpp_executor_wait_for_work(self, e: Event) -> None:
        self._begin(e, "wait", e["timeout"])

    def on_rclcpp_executor_get_next_ready(self, e: Event) -> None:
        self._busy(e)

    def on_rclcpp_executor_execute(self, e: Event) -> None:
        self._busy(e)
        self._current[e["thread"]]["executed"] += 1

    def _busy(self, e: Event) -> None:
        current = self._current.get(e["thread"])
        if current is None or current["state"] == "wait":
            self._begin(e, "busy", None)

    def _begin(self, e: Event, state: str, timeout_ns: int | None) -> None:
        before = self._current.get(e["thread"])
        if before is not None:
            before["end_ns"] = e["time_ns"]
        row = {
            **place(e),
            "state": state,
            "begin_ns": e["time_ns"],
            "end_ns": None,
            "timeout_ns": timeout_ns,
            "executed": 0,
        }
        self._current[e["thread"]] = row
        self.rows.append(row)

    def finish(self, instances: Iterable[Row]) -> None:
        ran = defaultdict(list)
        for instance in instances:
            if instance["end_ns"] is not None:
                ran[instance["_thread"]].append((instance["start_ns"], instance["end_ns"]))
        merged = {thread: _merged(spans) for thread, spans in ran.items()}
        for row in self.rows:
            begin, end = row["begin_ns"], row["end_ns"]
            row["duration_ns"] = None if end is None else end - begin
            until = float("inf") if end is None else end
            row["callback_ns"] = 0
            spans = merged.get(row["_thread"], [])
            # Stretches of a thread come in order: what lies before this one is done.
            while spans and spans[0][1] <= begin:
                spans.pop(0)
            for start, stop in spans:
                if start >= until:
                    break
                row["callback_ns"] += int(min(stop, until)) - max(start, begin)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Nested executions count once."""
    whole: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole
