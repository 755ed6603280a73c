"""Know where events may be missing: gaps that the tracer reports, and broken orders.

Events that the native tracer dropped belong to the process that wrote the file; any other loss may
be of any process of its host, because threads move between CPUs. Between two events of a thread on
one CPU that are at most `ROUND_TRIP_NS` apart, no event that was lost on another CPU is missing. A
broken order (`orders`) affects only its own process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reference_model.events import Event, Proc

FOREVER = 2**63
ROUND_TRIP_NS = 5_000
_FILE = re.compile(r"ros2_(?:names_)?(\d+)_[0-9a-f]+_\d+(?:_before)?")


class Gaps:
    """All losses except the kernel's (`rows`), and the intervals of `broken` orders."""

    def __init__(self, losses: Iterable[Mapping[str, Any]]) -> None:
        self.rows = [
            loss for loss in losses if "kernel" not in (loss.get("trace") or "").split("/")
        ]
        self.broken: list[tuple[Proc, int, int]] = []
        self._losses = [
            (
                loss["host"], _writer(loss), loss["cpu_id"],
                (loss["begin_ns"], -FOREVER)[loss["begin_ns"] is None],
                (loss["end_ns"], FOREVER)[loss["end_ns"] is None],
            )
            for loss in self.rows
        ]  # fmt: skip
        self._last: dict[Any, tuple[int, int | None]] = {}

    def before(self, e: Event) -> bool:
        """Whether events of its thread may have been dropped since the one before, if any."""
        last, ran_on = self._last.get(e["thread"], (-FOREVER, None))
        now, cpu = e["time_ns"], e.get("cpu_id")
        self._last[e["thread"]] = now, cpu
        stayed = cpu is not None and ran_on == cpu and now - last <= ROUND_TRIP_NS
        return self.between(e["proc"], last, now, cpu if stayed else None)

    def between(self, proc: Proc, begin: int, end: int, cpu: int | None = None) -> bool:
        """Whether events may have been dropped between two recorded ones at these times."""
        return self.dropped(proc, begin + 1, end - 1, cpu)

    def dropped(self, proc: Proc, begin: int, end: int, cpu: int | None = None) -> bool:
        """Whether events of a process (on a CPU, if given) may have been dropped, ends included."""
        return any(
            host == proc[0] and writer in {None, proc[2]} and b <= end and e >= begin
            and (cpu is None or lost_on in {None, cpu})
            for host, writer, lost_on, b, e in self._losses
        )  # fmt: skip

    def disordered(self, proc: Proc, begin: int, end: int) -> bool:
        """Whether an order of a process was broken from one time to another."""
        return any(process == proc and b <= end and e >= begin for process, b, e in self.broken)


def _writer(loss: Mapping[str, Any]) -> int | None:
    match = _FILE.fullmatch((loss.get("stream") or "").split("/")[-1])
    return int(match[1]) if match else None
