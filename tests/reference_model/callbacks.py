"""Find the executions of callbacks, with a stack per thread.

Decided when the event comes:

* ``callback_start`` begins an execution of the callback that its address names now.
* ``callback_end`` ends the execution of that callback that began last on that thread, if it has not
  ended. Others that began on top of it stay open: an exception may have left them. An execution
  that began before another one of its callback on its thread never ends: its end was not recorded.

* If events of the thread may be missing, no execution that is open then has an end, nor is
  anything later within it.

Decided at the end, because only then it is known which executions ended:

* ``function_entry`` begins an execution of a probed function, ``function_exit`` with the same stack
  pointer ends it. The stack grows downwards: if another entry or exit comes from the same place or
  above it, all executions open from there on were left in another way, and never end. Nothing is
  within an execution of a probed function.

* An event is within the execution of its thread that began last, among those that had begun and
  ended no sooner than the event. An execution that never ended does not count: it may have returned
  by then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.walk import place

Stack: TypeAlias = tuple[Row, ...]
"""The open executions of a thread, the innermost last."""


class Callbacks:
    """All executions, and the open ones on each thread."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.instances: list[Row] = []
        self.functions: list[Row] = []
        self.ends_alone = 0
        self.latest: dict[Any, Row] = {}
        self._open: dict[Any, Stack] = defaultdict(tuple)
        self._entered: dict[Any, list[Row]] = defaultdict(list)

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
        self.latest[e["thread"]] = instance
        remaining = (i for i in self._open[e["thread"]] if i["_address"] != e["callback"])
        self._open[e["thread"]] = (*remaining, instance)

    def on_function_entry(self, e: Event) -> None:
        self._leave(e)
        call = {
            **place(e),
            "start_ns": e["time_ns"],
            "end_ns": None,
            "_callback": self.objects.now("callback", e["proc"], e["function"]),
            "_function": e["function"],
            "_stack": e["stack"],
        }
        self.functions.append(call)
        self._entered[e["thread"]].append(call)

    def on_function_exit(self, e: Event) -> None:
        for call in self._leave(e):
            if (call["_stack"], call["_function"]) == (e["stack"], e["function"]):
                call["end_ns"] = e["time_ns"]

    def _leave(self, e: Event) -> list[Row]:
        entered = self._entered[e["thread"]]
        self._entered[e["thread"]] = [i for i in entered if i["_stack"] > e["stack"]]
        return [i for i in entered if i["_stack"] <= e["stack"]]

    def on_callback_end(self, e: Event) -> None:
        instance = self.open_one(e)
        if instance is None:
            self.ends_alone += 1
            return
        if not instance["_cut"]:
            instance["end_ns"] = e["time_ns"]
        self._open[e["thread"]] = tuple(i for i in self._open[e["thread"]] if i is not instance)

    def open_one(self, e: Event) -> Row | None:
        """Return the open execution of the event's callback on its thread."""
        executions = (i for i in self._open[e["thread"]] if i["_address"] == e["callback"])
        return next(executions, None)

    def on_gap(self, e: Event) -> None:
        for instance in self._open[e["thread"]]:
            instance["_cut"] = True
        self._entered[e["thread"]] = []

    def running(self, thread: Any) -> Stack:
        """Return the open executions of a thread now, for `within`."""
        stack = self._open[thread]
        return () if stack and stack[-1]["_cut"] else stack

    def finish(self) -> None:
        for instance in (*self.instances, *self.functions):
            callback = instance["_callback"] or {}
            for name in ("kind", "name", "node", "symbol"):
                instance[name] = callback.get(name)
            instance["_owner"] = callback.get("_owner")
            end, of_message = instance["end_ns"], instance["kind"] in {None, "subscription"}
            instance["duration_ns"] = None if end is None else end - instance["start_ns"]
            of_message = of_message and "_intra" in instance
            instance["intra_process"] = instance["_intra"] != 0 if of_message else None


def within(stack: Stack) -> Row | None:
    """Return the execution that encloses the moment of a stack; valid only at the end."""
    ended = (instance for instance in reversed(stack) if instance["end_ns"] is not None)
    return next(ended, None)
