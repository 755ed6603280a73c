"""Pass each event to the method ``on_<event>`` of every part that has one.

A part is one concern with its state (per thread, per object, per key). Parts get an event in the
order in which they are given, so that a later part finds what an earlier one made of it.
``on_event`` gets every event, first. What only the end of the recording can decide is left to the
methods ``finish`` of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from reference_model.events import INIT, Event

if TYPE_CHECKING:
    from reference_model.gaps import Gaps
    from reference_model.orders import Orders

ABOUT_OBJECTS = frozenset({*INIT, "rcl_lifecycle_transition"})


class Walk:
    """The dispatch of events to the parts of a model.

    Nothing that a thread had begun continues if events of it may have been dropped, or an order is
    broken: ``on_gap`` of all parts that have it is called before the next event.
    """

    def __init__(self, *parts: Any, gaps: Gaps, orders: Orders) -> None:
        self.parts, self.gaps, self.orders = parts, gaps, orders
        self._steps_of_all = sum(hasattr(part, "on_event") for part in parts)
        self._steps: dict[str, list[Callable[[Event], None]]] = {}

    def take(self, event: Event) -> None:
        """Process one event."""
        name = event["event"]
        if name not in self._steps:
            methods = ("on_event", "on_" + name.replace(":", "_"))
            self._steps[name] = [
                getattr(part, method)
                for method in methods
                for part in self.parts
                if hasattr(part, method)
            ]
        counts = name not in ABOUT_OBJECTS and len(self._steps[name]) > self._steps_of_all
        if counts:
            self._cut_before(event)
        for step in self._steps[name]:
            step(event)

    def _cut_before(self, event: Event) -> None:
        proc, now = event["proc"], event["time_ns"]
        dropped, since = self.gaps.before(event), self.orders.broken_since(event)
        # An order that a reported gap can explain does not count as broken.
        broken = since is not None and not self.gaps.between(proc, since, now)
        if broken:
            self.gaps.broken.append((proc, since, now))
        if dropped or broken:
            for part in self.parts:
                if hasattr(part, "on_gap"):
                    part.on_gap(event)

    def through(self, events: Iterable[Event]) -> None:
        """Process all events."""
        for event in events:
            self.take(event)


def place(event: Event) -> dict[str, Any]:
    """Return what every row begun by an event has: where it was, as columns and as keys."""
    return {
        "host": event["host"],
        "vpid": event.get("vpid"),
        "vtid": event.get("vtid"),
        "_proc": event["proc"],
        "_thread": event["thread"],
    }
