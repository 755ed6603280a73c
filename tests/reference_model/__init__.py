"""The ROS 2 model a second time: slow, plain, to be read beside docs/model.md.

Events are walked through in the order of time (`walk.Walk`); each concern is one module with one
class, whose methods ``on_<event>`` say what an event changes, and whose ``finish`` says what only
the end decides. Rows are dicts: what begins with ``_`` refers to other rows or is a key, the rest
are the columns of docs/tables.md. Only Python's standard library is used, and nothing of roslens.

Not here: tables about the tracer or the machine (``losses``, ``health``, scheduling, ``rmw`` of
processes), and what is joined from tables afterwards (actions and their goals, states of lifecycle
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
    """Every table that is made of events alone.

    Parameters
    ----------
    recorded
        Raw events by name (``ros2:rmw_take``), as docs/events.md describes them: a name that is
        there was enabled, even if nothing happened.
    losses
        Rows of the table ``losses``.
    synchronisation
        How the clocks of the hosts were synchronised, as the manifest says.
    bounds_of
        What is known of their clocks by the messages between them.

    Returns
    -------
    dict
        Table name to rows. ``..._id`` are numbers; two rows name the same object by the same one.
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
"""What the numbers of a table's rows are called."""
_REFERENCES = {
    f"_{noun}": f"{noun}_id"
    for noun in (*_NUMBERED.values(), "client_callback_instance", "owner")
    if noun != "message"
} | {"_call": "message_id"}


def _number(rows_by_table: Mapping[str, list[Row]]) -> None:
    """Give rows their numbers, and the numbers of the rows that they refer to."""
    numbers = {}
    for name, noun in _NUMBERED.items():
        for number, row in enumerate(rows_by_table[name]):
            numbers[id(row)] = row[f"{noun}_id"] = number
    for rows in rows_by_table.values():
        for row in rows:
            for key, column in _REFERENCES.items():
                if key in row:
                    row[column] = None if row[key] is None else numbers[id(row[key])]
