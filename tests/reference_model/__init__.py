"""A second implementation of the ROS 2 model: slow and plain, to be read beside docs/model.md.

Events are processed in order of time (`walk.Walk`); each concern is one module with one class,
whose methods ``on_<event>`` handle events, and whose method ``finish`` decides what only the end
can decide. Rows are dicts: keys that begin with ``_`` refer to other rows or are internal, the
others are the columns of docs/tables.md. Only Python's standard library is used, and no roslens.

Not included are tables about the tracer or the machine (``losses``, ``health``, scheduling, ``rmw``
of processes), and those joined from tables afterwards (actions and their goals, states of lifecycle
nodes, declared links).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reference_model import timers
from reference_model.callbacks import Callbacks
from reference_model.clocks import BoundsOf
from reference_model.events import in_order
from reference_model.executors import Executors
from reference_model.gaps import Gaps
from reference_model.heap import Heap
from reference_model.messages import Messages
from reference_model.objects import Objects, Row
from reference_model.one_sided import one_sided
from reference_model.orders import Orders
from reference_model.publications import Publications
from reference_model.ring_buffers import RingBuffers
from reference_model.services import Services
from reference_model.takes import Takes
from reference_model.walk import Walk

__all__ = ["tables"]

OBJECTS = (
    "contexts", "nodes", "publishers", "subscriptions", "services", "clients", "timers",
    "callbacks", "ring_buffers",
)  # fmt: skip


def tables(
    recorded: Mapping[str, Iterable[Mapping[str, Any]]],
    losses: Sequence[Mapping[str, Any]] = (),
    synchronisation: str | None = None,
    bounds_of: BoundsOf = lambda _: {},
) -> dict[str, list[Row]]:
    """Make every table that depends on events alone.

    Parameters
    ----------
    recorded
        Raw events by name (``ros2:rmw_take``), as docs/events.md describes them: a name that is
        there was enabled, even if no such event happened.
    losses
        Rows of the table ``losses``.
    synchronisation
        How the clocks of the hosts were synchronised, as the manifest says.
    bounds_of
        Returns the bounds on the hosts' clocks from the messages between them.

    Returns
    -------
    dict
        Table name to rows. ``..._id`` are numbers, which are equal for the same object.
    """
    declared = {name.removeprefix("ros2:") for name in recorded}
    events = in_order(recorded)
    objects = Objects(declared)
    callbacks = Callbacks(objects)
    publications = Publications(objects, callbacks)
    takes = Takes(objects, callbacks)
    gaps = Gaps(losses)
    buffers = RingBuffers(objects, publications, takes, gaps)
    services = Services(objects, callbacks)
    executors, heap = Executors(callbacks, gaps), Heap(callbacks)
    parts = (objects, callbacks, publications, takes, buffers, services, executors, heap)
    Walk(*parts, gaps=gaps, orders=Orders(objects, callbacks)).through(events)
    for part in parts:
        part.finish()
    messages = Messages(
        objects, publications=publications.rows, takes=takes.rows, enqueues=buffers.rows,
        instances=callbacks.instances, gaps=gaps, happened={e["event"] for e in events},
        bounds_of=bounds_of,
    )  # fmt: skip
    one_sided_messages = one_sided(
        messages.takes_alone, publications.rows, objects, synchronisation
    )
    rows_by_table = {
        "processes": list(objects.processes.values()),
        **{name: objects.rows[name] for name in OBJECTS},
        "callback_instances": [*callbacks.instances, *callbacks.functions],
        "publications": publications.rows,
        "takes": takes.rows,
        "messages": messages.rows,
        "one_sided_messages": one_sided_messages,
        "service_calls": services.rows,
        "timer_activations": timers.activations(callbacks.instances, gaps),
        "executor_intervals": executors.rows,
        "heap": heap.processes(),
        "callback_heap": heap.by_callback(),
        "callback_allocations": heap.instances(),
    }
    _number(rows_by_table)
    return rows_by_table


_NUMBERED = {name: name.removesuffix("s") for name in (*OBJECTS, "callback_instances", "takes")}
_NUMBERED |= {"publications": "message", "processes": "process"}
"""The noun in the name of the id column of each table."""
_REFERENCES = {
    f"_{noun}": f"{noun}_id"
    for noun in (*_NUMBERED.values(), "client_callback_instance", "owner")
    if noun != "message"
} | {"_call": "message_id"}


def _number(rows_by_table: Mapping[str, list[Row]]) -> None:
    """Number rows, and add the numbers of the rows that they refer to."""
    numbers = {}
    for name, noun in _NUMBERED.items():
        for number, row in enumerate(rows_by_table[name]):
            numbers[id(row)] = row[f"{noun}_id"] = number
    for rows in rows_by_table.values():
        for row in rows:
            for key, column in _REFERENCES.items():
                if key in row:
                    row[column] = None if row[key] is None else numbers[id(row[key])]
