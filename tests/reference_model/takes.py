"""Find the messages taken, and the execution that each one started.

The events of a thread's take are ``rmw_take``, ``rcl_take``, ``message_received``, ``rclcpp_take``,
``callback_start``; or ``rclcpp_ring_buffer_dequeue``, ``callback_start``. Decided when the event
comes: ``rmw_take`` (whether it took something or not) and ``rclcpp_ring_buffer_dequeue`` begin the
thread's take; a ``callback_end``, an event of an executor, and a take of a request or response end
it; the first of each of the other events of the same message belongs to it, and so does the first
execution.

Decided at the end: that execution counts only if it may be one of the take's subscription, and
its message came the same way (within the process or not). If the owner of the callback or the
subscription of the take is not known, it is only the thread's next execution (``_next``). A take
without an rcl event, of an unknown subscription, is the middleware's own; a take with one is not,
even if only the rmw event of its subscription is known.
"""

from __future__ import annotations

from typing import Any

from reference_model.callbacks import Callbacks
from reference_model.events import Event
from reference_model.objects import DISCOVERY, Objects, Row
from reference_model.walk import place


class Takes:
    """Takes, and the current one of each thread. Must get events after `Callbacks`."""

    def __init__(self, objects: Objects, callbacks: Callbacks) -> None:
        self.objects, self.callbacks = objects, callbacks
        self.rows: list[Row] = []
        self._current: dict[Any, Row] = {}

    def on_rmw_take(self, e: Event) -> None:
        handle = e["rmw_subscription_handle"]
        take = self._begin(e, intra=False)
        take["source_timestamp_ns"] = e["source_timestamp"]
        take["_message"] = e["message"]
        take["_subscription"] = self.objects.now("rmw_subscription_handle", e["proc"], handle)
        if e["taken"]:
            self.rows.append(take)

    def on_rclcpp_ring_buffer_dequeue(self, e: Event) -> None:
        take = self._begin(e, intra=True)
        take["_buffer"] = self.objects.now("buffer", e["proc"], e["buffer"])
        self.rows.append(take)

    def _begin(self, e: Event, *, intra: bool) -> Row:
        take = {
            **place(e),
            "take_ns": e["time_ns"],
            "rcl_take_ns": None,
            "rclcpp_take_ns": None,
            "received_ns": None,
            "source_timestamp_ns": None,
            "intra_process": intra,
            "_message": None,
            "_first": None,
        }
        self._current[e["thread"]] = take
        return take

    def current(self, thread: Any) -> Row | None:
        """Return the current take of a thread."""
        return self._current.get(thread)

    def on_rcl_take(self, e: Event) -> None:
        self._follow(e, "rcl_take_ns", e["time_ns"])

    def on_message_received(self, e: Event) -> None:
        self._follow(e, "received_ns", e["received_timestamp"])

    def on_rclcpp_take(self, e: Event) -> None:
        self._follow(e, "rclcpp_take_ns", e["time_ns"])

    def _follow(self, e: Event, column: str, value: int) -> None:
        take = self._current.get(e["thread"])
        if take and take[column] is None and take["_message"] == e["message"] is not None:
            take[column] = value

    def on_gap(self, e: Event) -> None:
        self._current.pop(e["thread"], None)

    on_callback_end = on_rclcpp_executor_wait_for_work = on_gap
    on_rclcpp_executor_get_next_ready = on_rclcpp_executor_execute = on_gap
    on_executor_wait_start = on_executor_wait_end = on_gap
    on_rmw_take_request = on_rmw_take_response = on_gap

    def on_callback_start(self, e: Event) -> None:
        take = self._current.get(e["thread"])
        if take and take["_first"] is None:
            take["_first"] = self.callbacks.latest[e["thread"]]

    def finish(self) -> None:
        for take in self.rows:
            if take["intra_process"]:
                buffer = take["_buffer"]
                take["_subscription"] = buffer and buffer["_subscription"]
            subscription, instance = take["_subscription"], take["_first"]
            fits = (
                instance is not None
                and instance["intra_process"] == take["intra_process"]
                and (
                    instance["_owner"] is None
                    or subscription is None
                    or instance["_owner"] is subscription
                )
            )
            take["_callback_instance"] = instance if fits else None
            take["_next"] = fits and (instance["_owner"] is None or subscription is None)
            take["callback_start_ns"] = instance["start_ns"] if fits else None
            take["callback_end_ns"] = instance["end_ns"] if fits else None
            take["topic"] = subscription and subscription["topic"]
            take["node"] = subscription and subscription["node"]
            of_middleware = subscription is None and take["rcl_take_ns"] is None
            if of_middleware and not take["intra_process"] and "rcl_take" in self.objects.declared:
                take["topic"] = DISCOVERY
            elif take["rcl_take_ns"] is not None and take["topic"] == DISCOVERY:
                take["topic"] = None
