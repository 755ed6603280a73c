"""Turn raw events into plain dicts in order of time, each with its process and thread.

docs/model.md says this under "Events", "Processes and objects" and "What the tracer dropped".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]
Proc: TypeAlias = tuple[Any, ...]

FOREVER = 2**63
APART_NS = 100_000_000
INIT = (
    "rcl_init", "rcl_node_init", "rmw_publisher_init", "rcl_publisher_init",
    "rmw_subscription_init", "rcl_subscription_init", "rclcpp_construct_ring_buffer",
    "rclcpp_buffer_to_ipb", "rclcpp_ipb_to_subscription", "rclcpp_subscription_init",
    "rclcpp_subscription_callback_added", "rcl_service_init", "rclcpp_service_callback_added",
    "rmw_client_init", "rcl_client_init", "rcl_timer_init", "rclcpp_timer_callback_added",
    "rclcpp_timer_link_node", "rclcpp_callback_register", "function_register",
    "rcl_lifecycle_state_machine_init", "message_type_init", "message_link_periodic_async",
    "message_link_partial_sync",
)  # fmt: skip
"""Events about objects, which come first among those of the same time."""
EXECUTOR = (
    "rclcpp_executor_wait_for_work", "rclcpp_executor_get_next_ready", "rclcpp_executor_execute",
    "executor_wait_start", "executor_wait_end",
)  # fmt: skip
ROS = (
    *EXECUTOR, "rmw_take", "rcl_take", "message_received", "rclcpp_take",
    "rclcpp_ring_buffer_dequeue", "rmw_take_request", "callback_start", "rclcpp_intra_publish",
    "rclcpp_ring_buffer_enqueue", "rclcpp_publish", "rcl_publish", "rmw_publish",
    "message_content", "rcl_send_request", "rmw_send_request", "rcl_send_response",
    "rmw_send_response", "rmw_take_response", "client_callback_start",
    "rclcpp_ring_buffer_clear", "callback_end",
)  # fmt: skip
FREE = frozenset({*ROS[: ROS.index("callback_start") + 1], "rmw_take_response"}) - {"rmw_take"}
"""Events that show that their thread could take messages just then; the middleware's own threads
emit ``rmw_take``, too."""
ANYWHERE = (
    *(f"lttng_ust_libc:{name}"
      for name in ("malloc", "calloc", "realloc", "memalign", "posix_memalign", "free")),
    "function_entry", "function_exit",
)  # fmt: skip
"""Events of any code, at any place; these and those of ROS show that a thread runs."""
AGAIN = "recorded_again"
"""The name of an event that another record shows, too: it only counts for its process."""
_RANK = {name: rank for rank, name in enumerate((*INIT, *ROS, *ANYWHERE))}
_NO_PAYLOAD = frozenset({"time_ns", "trace", "cpu_id", "procname", "event", "proc"})


def in_order(recorded: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Event]:
    """Return all events, given by recorded name, with ``event``, ``n``, ``proc`` and ``thread``.

    ``event`` is the name without ``ros2:``, ``n`` the place in the order; the others are only keys.
    """
    events = [
        {
            **row, "recorded": name, "event": name.removeprefix("ros2:").removeprefix("kernel:"),
            "proc": (row["host"], row.get("ctx_pid_ns") or 0, row.get("vpid")),
        }
        for name, rows in recorded.items() for row in rows
    ]  # fmt: skip
    events.sort(key=lambda e: (e["time_ns"], _RANK.get(e["event"], len(_RANK))))
    if _once(e for e in events if e["event"] in INIT):
        _once(e for e in events if e["recorded"].startswith("ros2:") and e["event"] != AGAIN)
    begins = _used_again(events)
    for n, e in enumerate(events):
        part = sum(e["time_ns"] >= begin for begin in begins.get(e["proc"], ()))
        e |= {"n": n, "proc": (*e["proc"], part), "thread": (*e["proc"], part, e.get("vtid"))}
    return events


def place(e: Event) -> Row:
    """Return what every row begun by an event has: where it was, as columns and as keys."""
    keys = {"_proc": e["proc"], "_thread": e["thread"]}
    return {"host": e["host"], "vpid": e.get("vpid"), "vtid": e.get("vtid"), **keys}


def column(row: Row | Proc | None, name: Any) -> Any:
    """Return a column of a row that may not be known."""
    return None if row is None else row[name]


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return the rows of each key, in their order; of a key without any, none."""
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def first(*values: Any) -> Any:
    """Return the first value that is known."""
    return next((value for value in values if value is not None), None)


def _once(events: Iterable[Event]) -> bool:
    """Rename what was recorded again; return whether two sessions recorded simultaneously."""
    at_once = False
    kept: dict[Any, list[tuple[Event, set[Any]]]] = defaultdict(list)
    """By payload: first records, each with the sessions that hold it."""
    for e in events:
        same = kept[tuple(sorted((k, str(v)) for k, v in e.items() if k not in _NO_PAYLOAD))]
        for record, traces in reversed(same):
            elapsed = e["time_ns"] - record["time_ns"]
            # One for one: an event that one session holds twice happened twice.
            again = (elapsed == 0 and e["event"] in INIT) or e["trace"] not in traces
            if again and elapsed <= APART_NS:
                at_once |= elapsed > 0
                traces.add(e["trace"])
                e["event"] = AGAIN
                break
        else:
            same.append((e, {e["trace"]}))
    return at_once


def _used_again(events: Iterable[Event]) -> dict[Proc, list[int]]:
    """Return when a number became that of another process, by the names of main threads."""
    begins = {}
    mains = (e for e in events if e.get("vtid") is not None and e["vtid"] == e.get("vpid"))
    named = (e for e in mains if e.get("procname"))
    for number, of_main in grouped(named, itemgetter("proc")).items():
        inits = [e for e in of_main if e["event"] in INIT]
        starts = inits[:1] + [b for a, b in pairwise(inits) if a["procname"] != b["procname"]]
        last_seen = {e["procname"]: e["time_ns"] for e in of_main}
        in_turn = all(last_seen[a["procname"]] < b["time_ns"] for a, b in pairwise(starts))
        if in_turn and len({e["procname"] for e in starts}) == len(starts):
            begins[number] = [e["time_ns"] for e in starts[1:]]
    return begins
