"""Turn raw events into plain dicts in order of time, each with its process and thread.

Decided here, before anything else:

* Order: by time. Within the same time: init events before the events that use their objects, then
  in the order of `ORDER`, then as recorded.
* Repetitions: an init event that was recorded again (several snapshots) happened once. If two
  sessions recorded an init event of the same thread and payload within 100 ms, they recorded
  simultaneously: of events that both hold, the first record counts, and the others are renamed to
  ``recorded_again``.
* Process: a number on a host, in its pid namespace if that was recorded. Main threads of different
  names one after the other under one number are consecutive processes; main threads that alternate
  cannot be distinguished.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
Proc: TypeAlias = tuple[Any, ...]

INIT = (
    "rcl_init",
    "rcl_node_init",
    "rmw_publisher_init",
    "rcl_publisher_init",
    "rmw_subscription_init",
    "rcl_subscription_init",
    "rclcpp_construct_ring_buffer",
    "rclcpp_buffer_to_ipb",
    "rclcpp_ipb_to_subscription",
    "rclcpp_subscription_init",
    "rclcpp_subscription_callback_added",
    "rcl_service_init",
    "rclcpp_service_callback_added",
    "rmw_client_init",
    "rcl_client_init",
    "rcl_timer_init",
    "rclcpp_timer_callback_added",
    "rclcpp_timer_link_node",
    "rclcpp_callback_register",
    "function_register",
    "rcl_lifecycle_state_machine_init",
    "message_type_init",
    "message_link_periodic_async",
    "message_link_partial_sync",
)
ORDER = (
    *INIT,
    "rmw_take",
    "rclcpp_ring_buffer_dequeue",
    "rcl_take",
    "message_received",
    "rclcpp_take",
    "rmw_take_request",
    "rclcpp_executor_wait_for_work",
    "rclcpp_executor_get_next_ready",
    "rclcpp_executor_execute",
    "executor_wait_start",
    "executor_wait_end",
    "callback_start",
    "rclcpp_intra_publish",
    "rclcpp_ring_buffer_enqueue",
    "rclcpp_publish",
    "rcl_publish",
    "rmw_publish",
    "message_content",
)
_RANK = {name: rank for rank, name in enumerate(ORDER)}
_ABOUT = frozenset({"time_ns", "trace", "cpu_id", "procname", "event"})
"""Columns that are not part of an event's payload."""
AGAIN = "recorded_again"
APART_NS = 100_000_000


def in_order(recorded: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Event]:
    """Return all events, given by recorded name, with ``event``, ``proc`` and ``thread``.

    ``event`` is the name without ``ros2:``; ``proc`` and ``thread`` are only keys.
    """
    events = [
        {
            **row,
            "recorded": name,
            "event": name.removeprefix("ros2:").removeprefix("kernel:"),
        }
        for name, rows in recorded.items()
        for row in rows
    ]
    events.sort(key=lambda e: (e["time_ns"], _RANK.get(e["event"], len(ORDER))))
    _once(events)
    begins = _used_again(events)
    for e in events:
        number = _number(e)
        part = sum(e["time_ns"] >= begin for begin in begins.get(number, ()))
        e["proc"] = (*number, part)
        e["thread"] = (*e["proc"], e.get("vtid"))
    return events


def _number(e: Event) -> Proc:
    return e["host"], e.get("ctx_pid_ns") or 0, e.get("vpid")


def _once(events: list[Event]) -> None:
    """Rename events that were recorded again, because they happened once."""
    kept: dict[Any, list[tuple[Event, set[Any]]]] = defaultdict(list)
    """By payload: first records, each with the sessions that hold it."""
    at_once = _mark(events, kept, lambda e: e["event"] in INIT)
    if at_once:
        kept.clear()
        _mark(events, kept, lambda e: e["recorded"].startswith("ros2:"))


def _mark(events: Iterable[Event], kept: Any, wanted: Callable[[Event], bool]) -> bool:
    """Mark events recorded again; return whether two sessions recorded simultaneously."""
    at_once = False
    for e in events:
        if e["event"] == AGAIN or not wanted(e):
            continue
        payload = tuple(sorted((k, str(v)) for k, v in e.items() if k not in _ABOUT))
        for first, traces in reversed(kept[payload]):
            elapsed = e["time_ns"] - first["time_ns"]
            if elapsed > APART_NS:
                continue
            if (elapsed == 0 and e["event"] in INIT) or e["trace"] not in traces:
                # One for one: an event that one session holds twice happened twice.
                at_once |= elapsed > 0
                traces.add(e["trace"])
                e["event"] = AGAIN
                break
        else:
            kept[payload].append((e, {e["trace"]}))
    return at_once


def _used_again(events: list[Event]) -> dict[Proc, list[int]]:
    """Return when a number became that of another process, by the names of main threads."""
    mains: dict[Proc, list[Event]] = defaultdict(list)
    for e in events:
        if e.get("vpid") is not None and e["vpid"] == e.get("vtid") and e.get("procname"):
            mains[_number(e)].append(e)
    begins = {}
    for number, main_events in mains.items():
        starts: list[Event] = []
        for e in main_events:
            if e["event"] in INIT and (not starts or starts[-1]["procname"] != e["procname"]):
                starts.append(e)
        names = [e["procname"] for e in starts]
        if len(names) < 2 or len(set(names)) < len(names):
            continue
        ends = zip(names[:-1], [e["time_ns"] for e in starts[1:]], strict=True)
        if any(
            e["procname"] == name and e["time_ns"] >= end for name, end in ends for e in main_events
        ):
            continue
        begins[number] = [e["time_ns"] for e in starts[1:]]
    return begins
