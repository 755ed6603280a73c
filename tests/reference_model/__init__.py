"""A second implementation of the ROS 2 model: slow and plain, to be read beside docs/model.md.

Events are put in order (`events`), and objects made of their init events (`objects`). Then the
events of each thread are split where something may be missing (`gaps`), and a function per table
goes through them. Events and rows are dicts: each step adds to an event what it finds out about it
(``proc``, ``of``, ``within``, ``call``, ...). Keys of rows that begin with ``_`` refer to other
rows or are internal, the others are the columns of docs/tables.md. Only Python's standard library
is used, and no roslens.

Not included are tables about the tracer or the machine (``losses``, ``health``, scheduling, ``rmw``
of processes), and those joined from tables afterwards (actions and their goals, states of lifecycle
nodes, declared links).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reference_model import communication, executions
from reference_model.events import Row, in_order
from reference_model.gaps import Gaps
from reference_model.messages import messages, one_sided_messages
from reference_model.objects import Objects
from reference_model.outcomes import enqueued

__all__ = ["tables"]

OBJECTS = (
    "contexts", "nodes", "publishers", "subscriptions", "services", "clients", "timers",
    "callbacks", "ring_buffers",
)  # fmt: skip
NOUNS = {name: name.removesuffix("s") for name in (*OBJECTS, "callback_instances", "takes")}
NOUNS |= {"publications": "message", "processes": "process"}
"""The noun in the name of the id column of each table."""
REFERENCES = {f"_{noun}": f"{noun}_id" for noun in NOUNS.values()} | {
    "_client_callback_instance": "client_callback_instance_id",
    "_owner": "owner_id",
    "_call": "message_id",
}


def tables(
    recorded: Mapping[str, Iterable[Mapping[str, Any]]],
    losses: Sequence[Mapping[str, Any]] = (),
    synchronisation: str | None = None,
    bounds: Mapping[tuple[str, str], int] | None = None,
) -> dict[str, list[Row]]:
    """Make every table that depends on events alone, as rows with numbers for ``..._id``.

    `recorded` has the raw events by name (``ros2:rmw_take``), as docs/events.md describes them: a
    name that is there was enabled, even if no such event happened. `losses` has the rows of that
    table, `synchronisation` is what the manifest says of the hosts' clocks, and `bounds` says how
    far the clocks of two hosts may be apart.
    """
    events = in_order(recorded)
    objects = Objects(events, {name.removeprefix("ros2:") for name in recorded})
    gaps = Gaps(losses, events)
    instances = executions.callbacks(gaps.stretches)
    publications = communication.publications(gaps.stretches, objects)
    takes = communication.takes(gaps.stretches, objects)
    message_rows, takes_alone = messages(
        objects, gaps, {e["event"] for e in events}, publications=publications, takes=takes,
        enqueued=enqueued(events, objects, gaps), instances=instances, bounds=bounds or {},
    )  # fmt: skip
    made = {
        "processes": list(objects.processes.values()),
        **{name: objects.rows[name] for name in OBJECTS},
        "callback_instances": [*instances, *executions.functions(gaps.stretches)],
        "publications": publications, "takes": takes, "messages": message_rows,
        "one_sided_messages":
            one_sided_messages(takes_alone, publications, objects, synchronisation),
        "service_calls": communication.service_calls(events, gaps.stretches, instances),
        "timer_activations": executions.timer_activations(instances, gaps),
        "executor_intervals": executions.executor_intervals(gaps, instances),
        **executions.heap_tables(events, instances),
    }  # fmt: skip
    numbers = {id(None): None}
    for name, noun in NOUNS.items():
        for number, row in enumerate(made[name]):
            numbers[id(row)] = row[f"{noun}_id"] = number
    for row in (row for rows in made.values() for row in rows):
        row.update({name: numbers[id(row[key])] for key, name in REFERENCES.items() if key in row})
    return made
