"""What the tracer dropped of the events of programs, and whose events may be missing.

* A loss with a CPU is of threads that ran there: those of which the event before or the one after
  was recorded on that CPU, or one of these two somewhere that is not known.
* A loss in a file of the native tracer is of the process that wrote it.
* Any other one may be of any thread of the host.

A loss lies between two times that were recorded: events at these are not missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reference_model.events import Event

_FILE = re.compile(r"ros2_(?:names_)?(\d+)_[0-9a-f]+_\d+(?:_before)?")


class Gaps:
    """All losses but the kernel's; `rows` are these."""

    def __init__(self, losses: Iterable[Mapping[str, Any]]) -> None:
        self.rows = [x for x in losses if "kernel" not in (x.get("trace") or "").split("/")]
        self.last: dict[Any, Event] = {}
        """Of each thread its last event."""
        self.cut: dict[Any, int] = {}
        """When something was missing before an event of it the last time."""

    def before(self, e: Event) -> bool:
        """Whether something may be missing before an event, which is its thread's last one now."""
        last = self.last.get(e["thread"])
        self.last[e["thread"]] = e
        return last is not None and self.of_thread(last, e)

    def of_thread(self, last: Event, now: Event) -> bool:
        """Whether events of a thread between these two may be missing."""
        ran_on = {last.get("cpu_id"), now.get("cpu_id")}
        return any(
            loss["cpu_id"] is None or None in ran_on or loss["cpu_id"] in ran_on
            for loss in self._of(now, last["time_ns"])
        )

    def since(self, thread: Any, since: int, e: Event) -> bool:
        """Whether events of a thread may be missing between a time and another thread's event."""
        last = self.last.get(thread)
        return self.cut.get(thread, since) > since or (
            last is not None and self.of_thread(last, last | {"time_ns": e["time_ns"]})
        )

    def _of(self, e: Event, since: int) -> list[Mapping[str, Any]]:
        return [
            loss
            for loss in self.rows
            if loss["host"] == e["host"]
            and (loss["end_ns"] is None or loss["end_ns"] > since)
            and (loss["begin_ns"] or 0) < e["time_ns"]
            and _writer(loss) in {None, e.get("vpid")}
        ]


def _writer(loss: Mapping[str, Any]) -> int | None:
    found = _FILE.fullmatch((loss.get("stream") or "").split("/")[-1])
    return int(found[1]) if found else None
