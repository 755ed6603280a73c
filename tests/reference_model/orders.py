"""Check the two orders that functions guarantee: a broken one shows that events are missing.

* A ``callback_end`` has an open start of its callback on its thread, unless it is the first event
  of the thread's executions and executor. The interval begins with the thread's last event.
* The places of a ring buffer are filled one after the other, and the first again after the highest
  one seen. The interval begins with the enqueue before.
"""

from __future__ import annotations

from typing import Any

from reference_model.callbacks import Callbacks
from reference_model.events import Event
from reference_model.objects import Objects, Row


class Orders:
    """The last event of each thread, and the last filled place of each ring buffer."""

    def __init__(self, objects: Objects, callbacks: Callbacks) -> None:
        self.objects, self.callbacks = objects, callbacks
        self._last: dict[Any, int] = {}
        self._executes: set[Any] = set()
        """Threads with a recorded execution or executor event."""
        self._filled: dict[Any, tuple[Row | None, int, int, int]] = {}
        """Per buffer: the object, the last index, the highest index, and the last time."""

    def broken_since(self, e: Event) -> int | None:
        """Return since when events are missing if this one breaks an order; must get it first."""
        name, thread = e["event"], e["thread"]
        if name.startswith("lttng_ust_libc:"):
            return None
        last, self._last[thread] = self._last.get(thread), e["time_ns"]
        if name == "callback_start" or name.startswith(("rclcpp_executor_", "executor_wait_")):
            self._executes.add(thread)
        elif name == "callback_end" and thread in self._executes:
            return last if self.callbacks.open_one(e) is None else None
        elif name == "rclcpp_ring_buffer_clear":
            self._filled.pop((e["proc"], e["buffer"]), None)
        elif name == "rclcpp_ring_buffer_enqueue":
            return self._left_out(e)
        return None

    def _left_out(self, e: Event) -> int | None:
        at, index = (e["proc"], e["buffer"]), e["index"] or 0
        buffer = self.objects.now("buffer", *at)
        before = self._filled.get(at)
        if before is None or before[0] is not buffer:
            self._filled[at] = (buffer, index, index, e["time_ns"])
            return None
        _, last, highest, since = before
        self._filled[at] = (buffer, index, max(index, highest), e["time_ns"])
        in_turn = index == last + 1 or (index == 0 and last == highest)
        return None if in_turn else since
