"""Executions of callbacks: a stack per thread.

Decided when the event comes:

* ``callback_start`` begins an execution of the callback that its address names now.
* ``callback_end`` ends the execution of that callback that began last on that thread, if it has not
  ended. Others that were begun on top of it stay open: an exception may have left them. One that
  began before another of its callback on its thread never ends: its end was not recorded.

* Where events of the thread may be missing, no execution that is open then has an end, nor is
  anything later within it.

Decided at the end, as only then it is known which executions ended:

* Within which execution something happened: of those of its thread that had begun and ended
  no sooner, the one that began last. One that never ended counts for none: whether it had
  returned nobody knows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.walk import place

Stack: TypeAlias = tuple[Row, Any] | None
"""The execution on top, and what is below it."""


class Callbacks:
    """Executions, and what runs on each thread."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.instances: list[Row] = []
        self.ends_alone = 0
        self.latest: dict[Any, Row] = {}
        self._open: dict[Any, Stack] = defaultdict(lambda: None)

    def on_callback_start(self, e: Event) -> None:
        instance = {
            **place(e),
            "start_ns": e["time_ns"],
            "end_ns": None,
            "_callback": self.objects.now("callback", e["proc"], e["callback"]),
            "_address": e["callback"],
            "_intra": e["is_intra_process"],
            "_cut": False,
        }
        self.instances.append(instance)
        self._abandon(e)
        self.latest[e["thread"]] = instance
        self._open[e["thread"]] = (instance, self._open[e["thread"]])

    def _abandon(self, e: Event) -> None:
        """Leave out of the stack those of the same callback."""
        others = []
        stack = self._open[e["thread"]]
        while stack is not None:
            others.append(stack[0])
            stack = stack[1]
        for other in reversed(others):
            if other["_address"] != e["callback"]:
                stack = (other, stack)
        self._open[e["thread"]] = stack

    def on_callback_end(self, e: Event) -> None:
        above = []
        stack = self._open[e["thread"]]
        while stack is not None and stack[0]["_address"] != e["callback"]:
            above.append(stack[0])
            stack = stack[1]
        if stack is None:
            self.ends_alone += 1
            return
        if not stack[0]["_cut"]:
            stack[0]["end_ns"] = e["time_ns"]
        stack = stack[1]
        for instance in reversed(above):
            stack = (instance, stack)
        self._open[e["thread"]] = stack

    def is_open(self, e: Event) -> bool:
        """Whether an execution of the event's callback is open on its thread."""
        stack = self._open[e["thread"]]
        while stack is not None and stack[0]["_address"] != e["callback"]:
            stack = stack[1]
        return stack is not None

    def on_gap(self, e: Event) -> None:
        stack = self._open[e["thread"]]
        while stack is not None:
            stack[0]["_cut"] = True
            stack = stack[1]

    def running(self, thread: Any) -> Stack:
        """What `within` needs to know of this moment of a thread."""
        stack = self._open[thread]
        return None if stack is not None and stack[0]["_cut"] else stack

    def finish(self) -> None:
        for instance in self.instances:
            callback = instance["_callback"] or {}
            for name in ("kind", "name", "node", "symbol"):
                instance[name] = callback.get(name)
            instance["_owner"] = callback.get("_owner")
            end, of_message = instance["end_ns"], instance["kind"] in {None, "subscription"}
            instance["duration_ns"] = None if end is None else end - instance["start_ns"]
            instance["intra_process"] = instance["_intra"] != 0 if of_message else None


def within(stack: Stack) -> Row | None:
    """The execution in which a moment lies; to be asked at the end."""
    while stack is not None:
        instance, stack = stack
        if instance["end_ns"] is not None:
            return instance
    return None
