"""Find what became of each message that was put into a ring buffer.

Decided when the event comes, with a state per place of each buffer:

* ``rclcpp_ring_buffer_enqueue`` belongs to the thread's publication if the thread's last publish
  event is an intra-process one, the buffer is not younger than that, and it did not get this
  message before.
* It is not known what leaves a place if events of the process may be missing since it was filled.
* The message that was at that place before is overwritten, if the event says so. If it says that
  the place was free, the message had been dequeued, which was not recorded: its fate is unknown.
* ``rclcpp_ring_buffer_dequeue`` takes the message at that place. Messages leave a buffer in order:
  if a newer one was taken before, it took another message, whose enqueue was not recorded.
* ``rclcpp_ring_buffer_clear`` drops everything in the buffer.
* ``rclcpp_construct_ring_buffer`` makes an empty buffer; the messages in the one before at that
  address were gone with it, without an event.

Decided at the end: the history that a publisher keeps for itself is no delivery. A message without
a publication came out of such a history (replayed) if the process has one,
``rclcpp_intra_publish`` was recorded, no event may be missing on the thread since it last
published, nor in the process before the message was taken, and no message of a publication was
taken before. Otherwise its publication was not recorded.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reference_model.events import Event
from reference_model.gaps import FOREVER, Gaps
from reference_model.objects import Objects, Row
from reference_model.publications import Publications
from reference_model.takes import Takes
from reference_model.walk import place

PENDING, DEQUEUED, OVERWRITTEN, CLEARED = "pending", "dequeued", "overwritten", "cleared"
REPLAYED, UNTOLD = "replayed", "untold"


class RingBuffers:
    """Messages in ring buffers. Must get events after `Takes` and `Publications`."""

    def __init__(
        self, objects: Objects, publications: Publications, takes: Takes, gaps: Gaps
    ) -> None:
        self.objects, self.publications, self.takes, self.gaps = objects, publications, takes, gaps
        self.rows: list[Row] = []
        self._held: dict[Any, dict[int, Row]] = defaultdict(dict)
        """The message at each index of each buffer."""
        self._newest: dict[Any, int] = {}
        """When the newest message that was taken from each buffer was put into it."""

    def on_rclcpp_construct_ring_buffer(self, e: Event) -> None:
        self._held.pop((e["proc"], e["buffer"]), None)

    def on_rclcpp_ring_buffer_enqueue(self, e: Event) -> None:
        before, call = self.publications.last.get(e["thread"], (None, None))
        intra = before is not None and before["event"] == "rclcpp_intra_publish"
        row = {
            **place(e),
            "time_ns": e["time_ns"],
            "_fate": PENDING,
            "_take": None,
            "_buffer": self.objects.now("buffer", e["proc"], e["buffer"]),
            "_at": (e["proc"], e["buffer"]),
            "_call": call if intra else None,
            "_sure": e["thread"] not in self.publications.cut,
        }
        self.rows.append(row)
        held = self._held[row["_at"]]
        occupant = held.get(e["index"])
        if occupant and e["overwritten"] and not self._missing(e, occupant["time_ns"]):
            occupant["_fate"] = OVERWRITTEN
        held[e["index"]] = row

    def on_rclcpp_ring_buffer_dequeue(self, e: Event) -> None:
        at = e["proc"], e["buffer"]
        row = self._held[at].pop(e["index"], None)
        if row is None or self._missing(e, row["time_ns"]):
            return
        if row["time_ns"] >= self._newest.get(at, row["time_ns"]):
            self._newest[at] = row["time_ns"]
            row["_fate"], row["_take"] = DEQUEUED, self.takes.current(e["thread"])

    def _missing(self, e: Event, since: int) -> bool:
        proc, now = e["proc"], e["time_ns"]
        return self.gaps.between(proc, since, now) or self.gaps.disordered(proc, since + 1, now)

    def on_rclcpp_ring_buffer_clear(self, e: Event) -> None:
        for row in self._held.pop((e["proc"], e["buffer"]), {}).values():
            row["_fate"] = CLEARED

    def finish(self) -> None:
        seen: set[Any] = set()
        histories = {b["_proc"] for b in self.objects.rows["ring_buffers"] if b["_publisher"]}
        self.rows = [r for r in self.rows if not (r["_buffer"] and r["_buffer"]["_publisher"])]
        for row in self.rows:
            buffer, call = row["_buffer"], row["_call"]
            if call is None:
                continue
            key = (id(call), row["_at"])
            late = buffer is not None and buffer["created_ns"] > call["intra_publish_ns"]
            if late or key in seen:
                row["_call"] = None
            seen.add(key)
        first_takes: dict[Any, int] = {}
        for row in self.rows:
            if None not in (row["_call"], row["_take"], row["_buffer"]):
                subscription, taken = id(row["_buffer"]["_subscription"]), row["_take"]["take_ns"]
                first_takes[subscription] = min(taken, first_takes.get(subscription, taken))
        for row in self.rows:
            if row["_call"] is None:
                possible = row["_sure"] and row["_proc"] in histories
                row["_fate"] = REPLAYED if possible and self._replayed(row, first_takes) else UNTOLD

    def _replayed(self, row: Row, first_takes: dict[Any, int]) -> bool:
        """Whether only a history explains a message that has no publication."""
        proc, buffer = row["_proc"], row["_buffer"]
        taken = row["_take"]["take_ns"] if row["_take"] else FOREVER
        subscription = id(buffer["_subscription"]) if buffer else None
        return (
            "rclcpp_intra_publish" in self.objects.declared
            and not self.gaps.dropped(proc, -FOREVER, taken - 1)
            and not self.gaps.disordered(proc, -FOREVER, taken - 1)
            and (row["_take"] is None or taken <= first_takes.get(subscription, FOREVER))
        )
