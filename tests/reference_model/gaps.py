"""Know where events may be missing: gaps that the tracer reports, and broken orders.

Nothing that a thread had begun goes on where something may be missing. So the events of a thread
are split there into *stretches*, and most of the model looks at one stretch at a time. The rules
are those of docs/model.md, under "What the tracer dropped".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from reference_model.events import ANYWHERE, EXECUTOR, FOREVER, ROS, Event, Proc, first

Stretch: TypeAlias = list[Event]
"""Events of a thread between which nothing is missing; ``cut`` of the first one says whether
something may be missing before it."""

ROUND_TRIP_NS = 5_000
RUNS = frozenset({*ROS, *ANYWHERE})
_FILE = re.compile(r"(?:.*/)?ros2_(?:names_)?(\d+)_[0-9a-f]+_\d+(?:_before)?")


class Gaps:
    """All losses except the kernel's (`losses`), the intervals of broken orders, and stretches."""

    def __init__(self, losses: Iterable[Mapping[str, Any]], events: Iterable[Event]) -> None:
        self.losses = [
            (
                loss["host"], _writer(loss), loss["cpu_id"],
                first(loss["begin_ns"], -FOREVER), first(loss["end_ns"], FOREVER),
            )
            for loss in losses if "kernel" not in (loss.get("trace") or "").split("/")
        ]  # fmt: skip
        self.stretches: list[Stretch] = []
        self._broken: list[tuple[Proc, int, Event]] = []
        """Process, begin, and the event that shows it."""
        self._last_of_ros: dict[Any, int] = {}
        self._executing: set[Any] = set()
        self._open_starts: dict[Any, Event] = {}
        self._filled: dict[Any, tuple[int, int, int]] = {}
        """Per ring buffer: the last index, the highest index, and the last time."""
        self.running: set[Proc] = set()
        """Processes with an execution that has not ended, and of which no end can be missing."""
        self._split(events)

    def dropped(self, proc: Proc, begin: int, end: int, cpu: int | None = None) -> bool:
        """Whether events of a process (on a CPU, if given) may have been dropped, ends included."""
        return any(
            host == proc[0] and writer in {None, proc[2]} and b <= end and e >= begin
            and (cpu is None or lost_on in {None, cpu})
            for host, writer, lost_on, b, e in self.losses
        )  # fmt: skip

    def disordered(self, proc: Proc, begin: int, end: int, seen: Event | None = None) -> bool:
        """Whether an order was broken in a time, as far as was seen up to an event."""
        return any(
            process == proc and since <= end and e["time_ns"] >= begin
            and (seen is None or e["n"] <= seen["n"])
            for process, since, e in self._broken
        )  # fmt: skip

    def _split(self, events: Iterable[Event]) -> None:
        """Make the stretches; a ``callback_end`` gets its start (``begun``)."""
        of_thread: dict[Any, Stretch] = {}
        for e in events:
            if e["event"] not in RUNS:
                continue
            proc, now, cpu = e["proc"], e["time_ns"], e.get("cpu_id")
            stretch = of_thread.get(e["thread"])
            before = stretch[-1] if stretch else {"time_ns": -FOREVER}
            near = now - before["time_ns"] <= ROUND_TRIP_NS and before.get("cpu_id") == cpu
            cut = self.dropped(proc, before["time_ns"] + 1, now - 1, cpu if near else None)
            since = self._broken_since(e) if e["event"] in ROS else None
            # An order that a reported gap can explain does not count as broken.
            if since is not None and not self.dropped(proc, since + 1, now - 1):
                self._broken.append((proc, since, e))
                cut = True
            if stretch is None or cut:
                stretch = of_thread[e["thread"]] = []
                self.stretches.append(stretch)
            stretch.append(e)
            e |= {"cut": cut, "stretch": id(stretch)}
        self.running = {
            e["proc"] for e in self._open_starts.values()
            if e["stretch"] == id(of_thread[e["thread"]])
        }  # fmt: skip

    def _broken_since(self, e: Event) -> int | None:
        """Return since when events are missing if this one breaks an order."""
        name, thread, now = e["event"], e["thread"], e["time_ns"]
        last, self._last_of_ros[thread] = self._last_of_ros.get(thread), now
        if name == "callback_start":
            self._open_starts[thread, e["callback"]] = e
        if name == "callback_start" or name in EXECUTOR:
            self._executing.add(thread)
        if name == "callback_end":
            e["begun"] = self._open_starts.pop((thread, e["callback"]), None)
            return last if e["begun"] is None and thread in self._executing else None
        buffer = (e["proc"], e.get("buffer"), id(e["of"]))
        if name == "rclcpp_ring_buffer_clear":
            self._filled.pop(buffer, None)
        if name == "rclcpp_ring_buffer_enqueue":
            index = e["index"] or 0
            at, highest, since = self._filled.get(buffer, (index - 1, index, now))
            self._filled[buffer] = index, max(index, highest), now
            return None if index == at + 1 or (index == 0 and at == highest) else since
        return None


def _writer(loss: Mapping[str, Any]) -> int | None:
    match = _FILE.fullmatch(loss.get("stream") or "")
    return int(match[1]) if match else None
