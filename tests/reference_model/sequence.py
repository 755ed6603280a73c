"""What must follow each other on a thread, and where it does not: then something is missing.

Of the events of ROS on one thread (allocations may come anywhere):

* after ``rclcpp_publish`` comes ``rcl_publish`` or, of a loaned message, ``rmw_publish``; after
  ``rcl_publish`` comes ``rmw_publish``: if that was so before in that process; ``rmw_publish``
  comes after nothing else, if that publisher's ever came after these;
* these have one message, but for an ``rclcpp_publish`` of rclpy, which tells another one;
* after an ``rmw_take`` that took something for a subscription that rcl announced comes
  ``rcl_take`` of the same message, if that was so before of that subscription, and after this
  ``rclcpp_take``, if that was so before of that subscription; neither comes after anything else,
  if it ever came after that;
* after `LEADS`, each comes right after one of these, if it did so the first time of that
  subscription, callback, buffer or publisher;
* what `FOLLOWS` names is followed by one of these, if it was the first time of that handle or
  buffer;
* a callback that began last right after a take of a subscription or service, or of a buffer, does
  not end right after one: what was taken begins it (a callback may take, too, so of a take that no
  executor began only if an order was broken before);
* a ``callback_end`` has a start, unless it is the first that is told of the thread's executions and
  executor (the outer one of two of a callback that spins within itself seems to have none);
* a callback that starts again had ended on that thread.

Where that is not so nothing goes on that the thread had begun, but for the last rule, and something
is missing since the thread's last event; since the start that has no end, by the last rule.

An object that did not the first time need not do so. But where an order was broken anywhere, and it
does in all but fewer than one of `RARE` times (of `FOLLOWS`: in most), a message is not lost where
it does not; nor where nothing came between two ``get_next_ready`` of a thread, as seldom as that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reference_model.callbacks import Callbacks
from reference_model.events import Event
from reference_model.executors import Executors
from reference_model.objects import DISCOVERY, Objects

AFTER = {
    "rclcpp_publish": {"rcl_publish", "rmw_publish"},
    "rcl_publish": {"rmw_publish"},
    "rmw_take": {"rcl_take"},
    "rcl_take": {"rclcpp_take"},
}
LEADS = {
    "rmw_take": ("rmw_subscription_handle", {"rclcpp_executor_execute"}),
    "callback_start": (
        "callback",
        {
            "rclcpp_executor_execute",
            "rclcpp_take",
            "rclcpp_ring_buffer_dequeue",
            "rmw_take_request",
        },
    ),
    "rclcpp_ring_buffer_enqueue": (
        "buffer",
        {"rclcpp_intra_publish", "rclcpp_ring_buffer_enqueue"},
    ),
    "rcl_publish": ("publisher_handle", {"rclcpp_intra_publish", "rclcpp_publish"}),
}
FOLLOWS = {
    "rclcpp_executor_execute": ("handle", {"rmw_take", "callback_start"}),
    "rclcpp_ring_buffer_dequeue": ("buffer", {"callback_start"}),
}


READY = "rclcpp_executor_get_next_ready"
MOST, RARE = 1024, 20
TAKES = {
    "rmw_take": "rmw_subscription_handle",
    "rmw_take_request": "rmw_service_handle",
    "rclcpp_ring_buffer_dequeue": "buffer",
}


class Succession:
    """Who did what last; `missing` is host, begin and end of what is seen to be missing."""

    def __init__(self, objects: Objects, callbacks: Callbacks, executors: Executors) -> None:
        self.objects, self.callbacks, self.executors = objects, callbacks, executors
        self.missing: list[tuple[str, int, int]] = []
        self._last: dict[Any, Event] = {}
        self._due: dict[Any, Any] = {}
        """Of a thread of which process or subscription something must follow now."""
        self._kept: set[Any] = set()
        self._came: set[Any] = set()
        self._led: dict[Any, bool] = {}
        self._followed: dict[Any, bool] = {}
        self._does: dict[Any, int] = defaultdict(int)
        self._not: dict[Any, list[tuple[str, int, int]]] = defaultdict(list)
        """How often what need not be in order was, and where it was not."""
        self._taking: dict[Any, tuple[str, Any]] = {}
        self._sure: dict[Any, bool] = {}
        """What a thread took last, and of what, if it did nothing else since."""
        self._begins: dict[Any, Any] = {}
        self.taken: tuple[str, Any] | None = None
        """The same of the thread of the last ``callback_start``, right before that."""
        self.broken = False
        """Whether an order was broken anywhere so far."""

    def before(self, e: Event) -> bool:
        """Whether something is missing before an event; to be told before anyone else."""
        thread, name = e["thread"], e["event"]
        self._since = last = self._last.get(thread)
        due = self._due.pop(thread, None)
        self._last[thread] = e
        if name in {"rclcpp_publish", "rcl_publish"}:
            self._due[thread] = e["proc"]
        who = e["proc"] if name in {"rcl_take", "rclcpp_take"} else None
        if name == "rmw_publish" and e.get("rmw_publisher_handle") is not None:
            who = (e["proc"], e["rmw_publisher_handle"])
        unseen = self._begun_unseen(e)
        if last is None:
            return False
        strays = self._ends(last, e)
        strays = self._strays(last["event"], e) or strays
        if name == READY:
            self._count((READY, RARE, thread), e, does=last["event"] != READY)
        publishes = (last["event"], name) == ("rclcpp_publish", "rcl_publish")
        same = e.get("message") is not None and e.get("message") == last.get("message")
        if name in AFTER.get(last["event"], ()) and (same or publishes):
            if due is not None:
                self._kept.add((last["event"], due))
                if name == "rcl_take":
                    self._due[thread] = due
            self._came.add((name, who))
            return False
        broken = due is not None and (last["event"], due) in self._kept
        alone = who is not None and (name, who) in self._came
        self.broken |= strays or broken or alone or unseen
        return (strays or broken or alone or unseen) and self._note(e)

    def _begun_unseen(self, e: Event) -> bool:
        """Whether a callback ends of which the thread just took what it begins with."""
        thread, name = e["thread"], e["event"]
        if name in {"rcl_take", "rclcpp_take"}:
            return False
        before = self._taking.pop(thread, None)
        if name in TAKES and e.get(TAKES[name]) is not None and e.get("taken", 1):
            self._taking[thread] = (name, e[TAKES[name]])
            executed = self._since and self._since["event"] == "rclcpp_executor_execute"
            sure = bool(executed) or name == "rclcpp_ring_buffer_dequeue"
            self._sure[thread] = sure
        if name == "callback_start":
            self.taken = before
        if before is None or e.get("callback") is None:
            return False
        if name == "callback_start":
            self._begins[e["proc"], before] = e["callback"]
        began = self._begins.get((e["proc"], before))
        sure = self._sure[thread] or self.broken
        return name == "callback_end" and sure and began == e["callback"]

    def _ends(self, last: Event, e: Event) -> bool:
        """Whether what must come after an event does not, though it did the first time."""
        name = e["event"]
        column, follows = FOLLOWS.get(last["event"], ("", set()))
        if not follows or last.get(column) is None:
            return False
        key = (last["event"], last["proc"], last[column])
        does = name in follows
        must = self._followed.setdefault(key, does)
        if not must:
            self._count(("follows", 1, *key), e, does=does)
        return must and not does

    def _count(self, key: Any, e: Event, *, does: bool) -> None:
        if does:
            self._does[key] += 1
        elif len(self._not[key]) < MOST:
            self._not[key].append((e["host"], self._since["time_ns"], e["time_ns"]))

    def suspects(self) -> list[dict[str, Any]]:
        """Where what need not be in order, but nearly always was, was not, as rows of losses."""
        return [
            {"host": host, "begin_ns": begin, "end_ns": end}
            for key, places in self._not.items()
            if self.broken and len(places) < MOST and len(places) * key[1] < self._does[key]
            for host, begin, end in places
        ]

    def _strays(self, before: str, e: Event) -> bool:
        """Whether it does not come after what leads to it, though it did the first time."""
        name = e["event"]
        if name not in LEADS:
            return False
        column, leads = LEADS[name]
        of = (name, e["proc"], e.get(column) or 0)
        does = before in leads
        must = self._led.setdefault(of, does)
        if not must:
            self._count(("leads", RARE, *of), e, does=does)
        return must and not does

    def rows(self) -> list[dict[str, Any]]:
        """What is missing, as rows of losses."""
        return [
            {"host": host, "begin_ns": begin, "end_ns": end} for host, begin, end in self.missing
        ]

    def known(self, thread: Any) -> bool:
        """Whether anything is known of the executions and the executor of a thread."""
        return thread in self.callbacks.latest or thread in self.executors.current

    def after(self, e: Event) -> bool:
        """Whether something is missing before it after all, once everyone was told."""
        thread = e["thread"]
        if e["event"] == "rmw_take" and e["taken"]:
            handle = e["rmw_subscription_handle"]
            subscription = self.objects.now("rmw_subscription_handle", e["proc"], handle)
            if subscription is not None and subscription["topic"] not in {None, DISCOVERY}:
                self._due[thread] = id(subscription)
        if e["event"] == "callback_start" and self.callbacks.left is not None:
            start = self.callbacks.left["start_ns"]
            self.missing.append((e["host"], start, e["time_ns"]))
        alone = e["event"] == "callback_end" and self.callbacks.start_missing
        return alone and self.known(thread) and self._note(e)

    def _note(self, e: Event) -> bool:
        if self._since is not None:
            self.missing.append((e["host"], self._since["time_ns"], e["time_ns"]))
        return True
