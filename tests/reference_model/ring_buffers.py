"""Ring buffers: what became of each message that was put into one.

Decided when the event comes, with a state per place of each buffer:

* ``rclcpp_ring_buffer_enqueue`` is of the thread's publication if the thread's last publish event
  is an intra-process one, the buffer is not younger than that, and it did not get this message
  before. Else a publisher's history put it there for a late joiner: replayed; or nobody knows who,
  if events of the thread may be missing since its last publish event, or places of the buffer were
  left out since the enqueue before: they are filled in turn. Then nobody knows of the next enqueues
  of that thread either, until it tells of another publication.
* Where events may be missing, since a place was filled, of a thread that ever took something out of
  that buffer, nobody knows what left it.
* What was at that place before is overwritten, if the event says so. If it says that the place
  was free, the message had been dequeued, which was not recorded: nobody knows.
* ``rclcpp_ring_buffer_dequeue`` takes what is at that place. Messages leave a buffer in order: if a
  newer one was taken before, it took another one, which was not recorded.
* ``rclcpp_ring_buffer_clear`` drops everything in the buffer.
* ``rclcpp_construct_ring_buffer`` makes an empty one; what the one before it at that address held
  went with it, unseen.

Decided at the end: the history that a publisher keeps for itself is no delivery.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reference_model.events import Event
from reference_model.gaps import Gaps
from reference_model.objects import Objects, Row
from reference_model.publications import Publications
from reference_model.takes import Takes
from reference_model.walk import place

PENDING, DEQUEUED, OVERWRITTEN, CLEARED = "pending", "dequeued", "overwritten", "cleared"
UNTOLD = "untold"


class RingBuffers:
    """Messages in ring buffers. To be told after `Takes` and `Publications`."""

    def __init__(
        self, objects: Objects, publications: Publications, takes: Takes, gaps: Gaps
    ) -> None:
        self.objects, self.publications, self.takes, self.gaps = objects, publications, takes, gaps
        self.rows: list[Row] = []
        self.broken = False
        """Whether an order was broken anywhere, once all is known."""
        self._held: dict[Any, dict[int, Row]] = defaultdict(dict)
        """By buffer and index."""
        self._filled: dict[Any, tuple[Row | None, int, int]] = {}
        """Of each buffer the object, the index that was filled last, and the highest one."""
        self._lost: dict[Any, Row | None] = {}
        """Of each thread the publication under way as it filled a place after some left out."""
        self._newest: dict[Any, int] = {}
        """When the newest one was put into each buffer that was taken of it."""
        self._takers: dict[Any, set[Any]] = defaultdict(set)

    def on_rclcpp_construct_ring_buffer(self, e: Event) -> None:
        self._held.pop((e["proc"], e["buffer"]), None)

    def on_rclcpp_ring_buffer_enqueue(self, e: Event) -> None:
        before, call = self.publications.last.get(e["thread"], (None, None))
        buffer = self.objects.now("buffer", e["proc"], e["buffer"])
        skips = self._skips(e, buffer)
        intra = before is not None and before["event"] == "rclcpp_intra_publish"
        if skips:
            self._lost[e["thread"]] = call if intra else None
        skips = skips or (intra and self._lost.get(e["thread"]) is call)
        of_call = intra and not skips
        row = {
            **place(e),
            "time_ns": e["time_ns"],
            "_fate": PENDING,
            "_take": None,
            "_buffer": buffer,
            "_at": (e["proc"], e["buffer"]),
            "_call": call if of_call else None,
            "_whose": UNTOLD if skips or e["thread"] in self.publications.cut else "replayed",
        }
        self.rows.append(row)
        held = self._held[e["proc"], e["buffer"]]
        last = held.get(e["index"])
        if last and e["overwritten"] and not self._missing(e, last["time_ns"]):
            last["_fate"] = OVERWRITTEN
        held[e["index"]] = row

    def _skips(self, e: Event, buffer: Row | None) -> bool:
        at, index = (e["proc"], e["buffer"]), e["index"] or 0
        of, last, highest = self._filled.get(at, (None, index - 1, index))
        if of is not buffer:
            last, highest = index - 1, index
        self._filled[at] = (buffer, index, max(index, highest))
        return index != last + 1 and not (index == 0 and last == highest)

    def on_rclcpp_ring_buffer_dequeue(self, e: Event) -> None:
        at = e["proc"], e["buffer"]
        row = self._held[at].pop(e["index"], None)
        self._takers[at].add(e["thread"])
        if row is None or self._missing(e, row["time_ns"]):
            return
        if row["time_ns"] >= self._newest.get(at, row["time_ns"]):
            self._newest[at] = row["time_ns"]
            row["_fate"], row["_take"] = DEQUEUED, self.takes.current(e["thread"])

    def highest(self, e: Event, buffer: Row | None) -> int:
        """The highest index of this buffer that was filled."""
        of, _, highest = self._filled.get((e["proc"], e["buffer"]), (None, 0, 0))
        return highest if of is buffer else 0

    def _missing(self, e: Event, since: int) -> bool:
        takers = self._takers[e["proc"], e["buffer"]]
        return any(self.gaps.since(thread, since, e) for thread in takers)

    def on_rclcpp_ring_buffer_clear(self, e: Event) -> None:
        self._filled.pop((e["proc"], e["buffer"]), None)
        for row in self._held.pop((e["proc"], e["buffer"]), {}).values():
            row["_fate"] = CLEARED

    def finish(self) -> None:
        deliveries, got = [], set()
        kept = {b["_proc"] for b in self.objects.rows["ring_buffers"] if b["_publisher"]}
        for row in self.rows:
            if self.broken and row["_proc"] not in kept:
                # Only a publisher's history is replayed within a process.
                row["_whose"] = UNTOLD
            buffer, call = row["_buffer"], row["_call"]
            if buffer is not None and buffer["_publisher"] is not None:
                continue
            deliveries.append(row)
            if call is None:
                continue
            key = (id(call), row["_at"])
            late = buffer is not None and buffer["created_ns"] > call["intra_publish_ns"]
            if late or key in got:
                row["_call"] = None
            got.add(key)
        self.rows = deliveries
