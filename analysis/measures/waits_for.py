"""Find callbacks that wait for a service whose threads wait themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from roslens.collectors.ros2.blocked import executors_of
from roslens.collectors.times import LEAST_NS

Thread = tuple[str, int, int]
"""Host, process id and thread id."""
NEEDED = ("service_calls", "services", "callback_instances", "executor_intervals", "processes")
_THREAD = ["host", "vpid", "vtid"]


class Wait(NamedTuple):
    """A wait of a thread inside a callback for the answer to a request that it sent there.

    Attributes
    ----------
    thread
        The thread that waits.
    service
        The service whose answer it waits for.
    call
        The execution in which it waits: its row of ``callback_instances``.
    answered
        Whether the answer was sent, so that it only has to be taken.
    proven
        Whether an earlier execution of the callback took an answer of the service within itself.
        Without that, it may have sent the request without waiting for the answer.
    needed
        The threads of which one has to act next: those that ran callbacks of the serving node (of
        the asking node if the answer was sent), and all threads that share an executor with them.
    idle
        The threads of `needed` that wait for work meanwhile, if the node that has to act is the
        asking one: its callback groups keep them from the work, or the request was lost.
    nodes
        The nodes that serve the service.
    """

    thread: Thread
    service: str
    call: Mapping[str, Any]
    answered: bool
    proven: bool
    needed: frozenset[Thread]
    idle: frozenset[Thread]
    nodes: tuple[str, ...]

    def meets(self, other: Wait) -> bool:
        """Return whether the two callbacks ran at the same time."""
        begins, ends = (
            [wait.call[name] for wait in (self, other)] for name in ("start_ns", "end_ns")
        )
        return bool(max(begins) < min((end for end in ends if end is not None), default=math.inf))


def waits_for(tables: Mapping[str, pl.LazyFrame]) -> dict[Thread, list[Wait]]:
    """Return the waits of each thread in its last callback for answers that never came.

    A callback that ended counts if it ended `LEAST_NS` or more after the request, and its process
    recorded nothing `LEAST_NS` or more after that: it ends when the program does, as by Ctrl-C. For
    a callback without an end, no row of ``service_calls`` tells that the request was sent within
    it: that is assumed if its node sent the request since then and is inside no other callback. A
    callback that ended before it took the answer of a service once is not thought to wait for that
    service.

    Parameters
    ----------
    tables
        The tables named in `NEEDED`, of one run.
    """
    last = tables["callback_instances"].filter(
        pl.col("start_ns") == pl.col("start_ns").max().over(_THREAD)
    )
    asked = tables["service_calls"].filter(pl.col("response_taken_ns").is_null()).select(
        "service", "client_node", "host", "client_callback_instance_id",
        answered=pl.col("response_sent_ns").is_not_null(),
        asked_ns=pl.coalesce("request_called_ns", "request_sent_ns"),
    )  # fmt: skip
    ended = asked.join(
        last, left_on="client_callback_instance_id", right_on="callback_instance_id"
    ).join(
        tables["processes"].select("host", "vpid", process_ns="end_ns"), on=["host", "vpid"]
    ).filter(
        pl.col("end_ns") - pl.col("asked_ns") >= LEAST_NS,
        pl.col("process_ns") - pl.col("end_ns") < LEAST_NS,
    )  # fmt: skip
    open_ = last.filter(pl.col("end_ns").is_null()).filter(pl.len().over("host", "node") == 1)
    since = asked.filter(pl.col("client_callback_instance_id").is_null()).join(
        open_, left_on=["host", "client_node"], right_on=["host", "node"], coalesce=False
    ).filter(pl.col("asked_ns") >= pl.col("start_ns"))  # fmt: skip
    columns = ["service", "answered", "asked_ns", *_THREAD, "node", "kind", "name", "start_ns",
               "end_ns", "callback_id"]  # fmt: skip
    taken = tables["service_calls"].join(
        tables["callback_instances"].select("callback_id", "callback_instance_id", "end_ns"),
        left_on="client_callback_instance_id", right_on="callback_instance_id",
    ).select(
        "callback_id", "service", within=pl.col("response_taken_ns") <= pl.col("end_ns")
    )  # fmt: skip
    went_on, waited = taken.filter(~pl.col("within")), taken.filter("within").unique()
    unanswered = (
        pl.concat([ended.select(columns), since.select(columns)])
        .join(went_on, on=["callback_id", "service"], how="anti")
        .join(waited, on=["callback_id", "service"], how="left")
        .collect()
    )
    if unanswered.is_empty():
        return {}
    nodes = tables["services"].select("service", "host", "node").drop_nulls().unique().collect()
    threads = tables["callback_instances"].select(*_THREAD, "node", "callback_id")
    ran = threads.drop_nulls().unique().collect()
    executors = executors_of([((a, b, c), callback) for a, b, c, _, callback in ran.rows()])
    of_node: dict[tuple[str, str], set[Thread]] = {}
    for host, vpid, vtid, node, _ in ran.rows():
        of_node.setdefault((host, node), set()).update(executors[host, vpid, vtid])
    waits: dict[Thread, list[Wait]] = {}
    for row in unanswered.sort("asked_ns").iter_rows(named=True):
        thread = (row["host"], row["vpid"], row["vtid"])
        serving = nodes.filter(pl.col("service") == row["service"]).select("host", "node").rows()
        acting = [(row["host"], row["node"])] if row["answered"] else serving
        needed = frozenset(member for key in acting for member in of_node.get(key, ()))
        names = tuple(sorted({node for _, node in serving}))
        own_node = set(acting) == {(row["host"], row["node"])}
        idle = needed & _idle_threads(tables, row["asked_ns"]) if own_node else frozenset()
        proven = row["within"] is not None
        wait = Wait(thread, row["service"], row, row["answered"], proven, needed, idle, names)
        waits.setdefault(thread, []).append(wait)
    return waits


def _idle_threads(tables: Mapping[str, pl.LazyFrame], asked_ns: int) -> frozenset[Thread]:
    """Return threads that waited for work within `LEAST_NS` of `asked_ns` and ran no callback."""

    def threads_of(table: str, begin: str, condition: pl.Expr) -> set[Thread]:
        then = pl.col("end_ns").fill_null(asked_ns + LEAST_NS) > asked_ns
        rows = tables[table].filter(condition & then, pl.col(begin) < asked_ns + LEAST_NS)
        return set(rows.select(pl.col("host").cast(pl.String), "vpid", "vtid").collect().rows())

    waited = threads_of("executor_intervals", "begin_ns", pl.col("state").cast(pl.String) == "wait")
    return frozenset(waited - threads_of("callback_instances", "start_ns", pl.lit(value=True)))


def deadlocked(waits: Mapping[Thread, list[Wait]]) -> set[Thread]:
    """Return the threads none of which can go on before another of them does."""
    stuck = set(waits)

    def held(wait: Wait) -> bool:
        acting = wait.needed - wait.idle
        return bool(acting) and acting <= {
            thread for thread in stuck if any(map(wait.meets, waits[thread]))
        }

    while True:
        free = {thread for thread in stuck if not any(map(held, waits[thread]))}
        if not free:
            return stuck
        stuck -= free


def in_words(
    wait: Wait, waits: Mapping[Thread, list[Wait]], stuck: set[Thread], *, idle: bool | None
) -> str:
    """Say, e.g., ``it waits for the answer of /add of /node, which only this thread could serve``.

    Parameters
    ----------
    idle
        Whether its process used hardly any CPU meanwhile, and so waits; None if unknown.
    """
    waiting = idle and wait.proven
    certain = idle and all(other.proven for thread in stuck for other in waits[thread])
    servers = f" of {' and '.join(wait.nodes)}" if wait.nodes else ""
    claim = f"it {'waits for' if waiting else 'has not got'} the answer of {wait.service}{servers}"
    deadlock = "a deadlock" if certain else "a deadlock, if it waits for that"
    act = "take" if wait.answered else "serve"
    if not wait.nodes and not wait.answered:
        return f"{claim}, which no recorded node serves"
    if not wait.needed or wait.thread not in stuck or not wait.needed - wait.idle <= stuck:
        return claim
    if wait.idle:
        numbers = " and ".join(str(vtid) for _, _, vtid in sorted(wait.idle))
        who = f"threads {numbers} wait" if len(wait.idle) > 1 else f"thread {numbers} waits"
        return (
            f"{claim}, which no thread has {'taken' if wait.answered else 'served'} although {who} "
            "for work: a deadlock, if it waits for that and one mutually exclusive group has both"
        )
    if wait.needed == {wait.thread}:
        return f"{claim}, which only this thread could {act}: {deadlock}"
    other_threads = sorted(wait.needed - {wait.thread})
    numbers = " and ".join(str(vtid) for _, _, vtid in other_threads)
    theirs = " and ".join(sorted({w.service for thread in other_threads for w in waits[thread]}))
    who = f"threads {numbers}" if len(other_threads) > 1 else f"thread {numbers}"
    return f"{claim}, which only {who} could {act}, which has not got that of {theirs}: {deadlock}"
