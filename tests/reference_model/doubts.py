"""Executions that seem to have ended, and of which later events make that doubtful.

* Places of a ring buffer are emptied in turn. Where some were left out between two dequeues, none
  was pushed out meanwhile, and fewer callbacks began without a dequeue: what began since the first
  of the two ended nobody knows when, and what its thread began may be of another message.
* Where an order was broken anywhere: an execution within which one publisher published twice,
  though of those of its callback within which it published fewer than one of `RARE` had that.
* Where an order was broken anywhere: an execution during which a message was published of which
  only the take was recorded, on a topic on which its callback published on its thread; unless that
  is not fewer than half as many as those that were recorded. When it was published is told by its
  timestamp, as that of the latest recorded one before it (or the first one) tells.

Decided at the end: such executions have no end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from reference_model.callbacks import Callbacks, within
from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.publications import Publications
from reference_model.ring_buffers import RingBuffers
from reference_model.sequence import Succession
from reference_model.takes import Takes

DEQUEUE = "rclcpp_ring_buffer_dequeue"
MOST = 64
RARE = 20


class Doubts:
    """What left each buffer last. To be told after `RingBuffers`."""

    def __init__(
        self,
        objects: Objects,
        callbacks: Callbacks,
        takes: Takes,
        buffers: RingBuffers,
        sequence: Succession,
    ) -> None:
        self.objects, self.callbacks, self.takes = objects, callbacks, takes
        self.buffers, self.sequence = buffers, sequence
        self._out: dict[Any, dict[str, Any]] = {}
        self._of: dict[Any, Any] = {}
        """The buffer that a callback had its messages of."""
        self._doubted: list[Row] = []

    def on_rclcpp_ring_buffer_dequeue(self, e: Event) -> None:
        if e["buffer"] is None or e["index"] is None:
            return
        buffer = self.objects.now("buffer", e["proc"], e["buffer"])
        last = self._out.get((e["proc"], e["buffer"]))
        self._out[e["proc"], e["buffer"]] = {
            "buffer": buffer,
            "index": e["index"],
            "time_ns": e["time_ns"],
            "take": self.takes.current(e["thread"]),
            "pushed": False,
            "begun": [],
            "without": 0,
        }
        if last is None or last["buffer"] is not buffer or last["pushed"]:
            return
        skipped = e["index"] - last["index"] - 1
        if skipped < 0:
            skipped = e["index"] + max(self.buffers.highest(e, buffer) - last["index"], 0)
        if skipped <= last["without"]:
            return
        self._doubted += last["begun"]
        last["take"]["_doubted"] = last["take"]["_first"]
        self.sequence.missing.append((e["host"], last["time_ns"], e["time_ns"]))
        self.sequence.broken = True

    def on_callback_start(self, e: Event) -> None:
        taken, callback = self.sequence.taken, (e["proc"], e["callback"] or 0)
        led = taken is not None and taken[0] == DEQUEUE
        if led:
            self._of[callback] = taken[1]
        elif not e["is_intra_process"]:
            return
        out = self._out.get((e["proc"], self._of.get(callback)))
        if out is not None:
            out["without"] += not led
            if len(out["begun"]) < MOST:
                out["begun"].append(self.callbacks.latest[e["thread"]])

    def on_rclcpp_ring_buffer_enqueue(self, e: Event) -> None:
        out = self._out.get((e["proc"], e["buffer"] or 0))
        if out is not None and e["overwritten"]:
            out["pushed"] = True

    def on_rclcpp_ring_buffer_clear(self, e: Event) -> None:
        self._out.pop((e["proc"], e["buffer"] or 0), None)

    def decide(self, publications: Publications) -> None:
        """Take the ends of doubtful executions away, before anything else is decided."""
        self.buffers.broken = self.sequence.broken
        if not self.sequence.broken:
            return
        for instance in self._doubted:
            instance["end_ns"] = None
        publications.finish()
        times: dict[Any, int] = defaultdict(int)
        instances = {}
        for call in publications.rows:
            instance, publisher = within(call["_running"]), call["_publisher"]
            if instance is not None:
                instances[id(instance)] = instance
                times[id(instance), id(publisher)] += 1
        of_callback = defaultdict(list)
        for (instance, publisher), count in times.items():
            callback = instances[instance]["_callback"]
            of_callback[id(callback), publisher].append((instance, count))
        for counts in of_callback.values():
            twice = [instance for instance, count in counts if count > 1]
            if len(twice) * RARE < len(counts):
                for instance in twice:
                    instances[instance]["end_ns"] = None

    def decide_unseen(self, alone: Iterable[Row], publications: Publications) -> None:
        """The same by messages of which only the takes were recorded."""
        unseen, seen = defaultdict(set), defaultdict(list)
        callbacks = defaultdict(set)
        for take in alone:
            unseen[take["topic"]].add(take["source_timestamp_ns"])
        for call in publications.rows:
            stamp, topic = call["source_timestamp_ns"], call["topic"]
            if stamp is not None and call["rmw_publish_ns"] is not None:
                seen[topic].append((stamp, stamp - call["rmw_publish_ns"]))
                instance = call["_callback_instance"]
                if instance is not None:
                    callbacks[topic].add((instance["_thread"], id(instance["_callback"])))
        moments = defaultdict(list)
        for topic in unseen.keys() - {None}:
            found = _moments(unseen[topic] - {None}, sorted(seen[topic]))
            for callback in callbacks[topic]:
                moments[callback] += found
        for instance in self.callbacks.instances:
            of = (instance["_thread"], id(instance["_callback"]))
            start, end = instance["start_ns"], instance["end_ns"]
            if end is not None and any(start <= moment <= end for moment in moments[of]):
                instance["end_ns"] = None


def _moments(unseen: set[int], seen: list[tuple[int, int]]) -> list[int]:
    """When messages with these timestamps were published, as those of others tell."""
    if len(unseen) * 2 >= len(seen):
        return []
    places = {stamp: bisect_right(seen, stamp, key=lambda pair: pair[0]) for stamp in unseen}
    return [stamp - seen[max(place - 1, 0)][1] for stamp, place in places.items()]
