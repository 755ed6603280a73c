"""Combine the publish events of one call of publish() to a publication.

A thread's call has the events ``rclcpp_intra_publish``, ``rclcpp_publish``, ``rcl_publish``,
``rmw_publish``, in this order, each of which may be absent. Decided when the event comes, by the
thread's last publish event:

* ``rclcpp_intra_publish`` begins a call.
* ``rclcpp_publish`` begins a call; after an intra event it may continue that call: see below.
* ``rcl_publish`` continues any rclcpp event (in rclpy the two have different addresses of one
  message) and an intra event of the same publisher.
* ``rmw_publish`` continues an rcl event of the same message.

Decided by the thread's next publish event: an rclcpp event continues the intra event before it if
the rcl event after it is of the same publisher or, if none comes next, if both have the same
message (the message that goes out may be a copy at another address).

Decided at the end: the publisher of a call that names none.

* A call with only an rmw event, of no known publisher, is the middleware's own. A call that went
  through rcl is not, even if only the rmw event of its publisher is known.
* A call with only an rcl event, and no rmw handle, in a process that has a publisher of
  ``/rosout`` is a log message.
* A call with only an rclcpp event is of the only publisher that the process had made by then, if
  there is only one; those that every node has (``/parameter_events``) count if there is no other,
  ``/rosout`` never. If all of them have one topic, it is of that topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reference_model.callbacks import Callbacks, within
from reference_model.events import Event
from reference_model.objects import DISCOVERY, ROSOUT, Objects, Row
from reference_model.walk import place

INTRA, RCLCPP, RCL, RMW = (
    "intra_publish_ns",
    "rclcpp_publish_ns",
    "rcl_publish_ns",
    "rmw_publish_ns",
)
KINDS = {
    "rclcpp_intra_publish": INTRA,
    "rclcpp_publish": RCLCPP,
    "rcl_publish": RCL,
    "rmw_publish": RMW,
}
INTERNAL = frozenset({ROSOUT, "/parameter_events", DISCOVERY})


def _same_message(a: Event, b: Event) -> bool:
    return a["message"] is not None and a["message"] == b["message"]


class Publications:
    """Calls of publish(), and the current one of each thread."""

    def __init__(self, objects: Objects, callbacks: Callbacks) -> None:
        self.objects, self.callbacks = objects, callbacks
        self.rows: list[Row] = []
        self.last: dict[Any, tuple[Event, Row]] = {}
        """Each thread's last publish event, and its call."""
        self._undecided: dict[Any, Row] = {}
        """The intra call that a thread's last event, one of rclcpp, may continue."""
        self.cut: set[Any] = set()
        """Threads on which publish events may be missing since the last one."""

    def on_rclcpp_intra_publish(self, e: Event) -> None:
        self._decide(e)
        self._event(e, None)

    def on_rclcpp_publish(self, e: Event) -> None:
        self._decide(e)
        before = self.last.get(e["thread"])
        self._event(e, None)
        if before and before[0]["event"] == "rclcpp_intra_publish":
            self._undecided[e["thread"]] = before[1]

    def on_rcl_publish(self, e: Event) -> None:
        self._decide(e)
        before, call = self.last.get(e["thread"], (None, None))
        goes_on = before is not None and (
            before["event"] == "rclcpp_publish"
            or (
                before["event"] == "rclcpp_intra_publish"
                and before["publisher_handle"] == e["publisher_handle"]
            )
        )
        self._event(e, call if goes_on else None)

    def on_rmw_publish(self, e: Event) -> None:
        self._decide(e)
        before, call = self.last.get(e["thread"], (None, None))
        goes_on = before and before["event"] == "rcl_publish" and _same_message(before, e)
        self._event(e, call if goes_on else None)

    def on_message_content(self, e: Event) -> None:
        before, call = self.last.get(e["thread"], (None, None))
        if (
            before
            and before["event"] in {"rcl_publish", "rmw_publish"}
            and _same_message(before, e)
        ):
            call["size"], call["header_stamp_ns"] = e["size"] or None, e["header_stamp"] or None

    def on_gap(self, e: Event) -> None:
        self._decide({"thread": e["thread"]})
        self.last.pop(e["thread"], None)
        self.cut.add(e["thread"])

    def _decide(self, e: Event) -> None:
        """Decide whether the rclcpp event before this one continues the intra event before it."""
        intra = self._undecided.pop(e["thread"], None)
        if intra is None:
            return
        rclcpp, call = self.last[e["thread"]]
        if e.get("event") == "rcl_publish":
            goes_on = intra["_handles"][INTRA] == e["publisher_handle"]
        else:
            goes_on = intra["_message"] is not None and intra["_message"] == rclcpp["message"]
        if goes_on:
            intra[RCLCPP] = rclcpp["time_ns"]
            intra["_handles"][RCLCPP] = rclcpp.get("publisher_handle")
            call["_joined"] = True
            self.last[rclcpp["thread"]] = (rclcpp, intra)

    def _event(self, e: Event, call: Row | None) -> None:
        kind = KINDS[e["event"]]
        cut = e["thread"] in self.cut and kind != INTRA
        self.cut.discard(e["thread"])
        if call is None:
            call = {
                "_cut": cut,
                **place(e),
                "publish_ns": e["time_ns"],
                **dict.fromkeys(KINDS.values()),
                **dict.fromkeys(("source_timestamp_ns", "size", "header_stamp_ns")),
                "_handles": {},
                "_publishers": {},
                "_rmw_handle": None,
                "_message": e["message"],
                "_joined": False,
                "_running": self.callbacks.running(e["thread"]),
            }
            self.rows.append(call)
        call[kind] = e["time_ns"]
        if kind == RMW:
            handle = call["_rmw_handle"] = e.get("rmw_publisher_handle")
            call["source_timestamp_ns"] = e.get("timestamp")
            publisher = self.objects.now("rmw_publisher_handle", e["proc"], handle)
        else:
            handle = call["_handles"][kind] = e.get("publisher_handle")
            publisher = self.objects.now("publisher_handle", e["proc"], handle)
        call["_publishers"][kind] = publisher
        self.last[e["thread"]] = (e, call)

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        for thread in list(self._undecided):
            self._decide({"thread": thread})
        self.rows = [call for call in self.rows if not call["_joined"]]
        publishers = defaultdict(list)
        for publisher in self.objects.rows["publishers"]:
            publishers[publisher["_proc"]].append(publisher)
        for call in self.rows:
            self._name(call, publishers[call["_proc"]])
            call["_callback_instance"] = within(call["_running"])

    def _name(self, call: Row, publishers: list[Row]) -> None:
        by_kind = call["_publishers"]
        # rcl's handle has precedence over rclcpp's, because a call has at most one publisher.
        kind = next((k for k in (RCL, INTRA, RCLCPP) if call["_handles"].get(k) is not None), None)
        publisher = by_kind.get(RMW) or (by_kind[kind] if kind else None)
        topic = publisher and publisher["topic"]
        node = publisher and publisher["_node"]
        above = any(call[column] is not None for column in (INTRA, RCLCPP, RCL))
        no_rclcpp = call[RCLCPP] is None and call[INTRA] is None
        call["_guessed"] = False
        if publisher is None and not above and "rcl_publish" in self.objects.declared:
            topic = DISCOVERY
        elif above and topic == DISCOVERY and "rcl_publish" in self.objects.declared:
            topic = None
        elif (
            publisher is None and call[RCL] is not None and no_rclcpp
            and call["_rmw_handle"] is None and any(p["topic"] == ROSOUT for p in publishers)
        ):  # fmt: skip
            topic = ROSOUT
        elif (
            topic is None and call[RCLCPP] is not None and call[RCL] is None
            and "rcl_publish" not in self.objects.declared
        ):  # fmt: skip
            candidates = [
                p
                for p in publishers
                if p["created_ns"] <= call["publish_ns"]
                and p["topic"] not in {None, ROSOUT, DISCOVERY}
            ]
            candidates = [p for p in candidates if p["topic"] not in INTERNAL] or candidates
            if len({p["topic"] for p in candidates}) == 1:
                topic, call["_guessed"] = candidates[0]["topic"], True
            if len(candidates) == 1:
                publisher, node = candidates[0], candidates[0]["_node"]
        call.update(_publisher=publisher, topic=topic, node=node and node["node"])
