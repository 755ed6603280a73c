"""Another whole recording that leaves the same events, with as few more as possible.

Events that were taken out of a recording are missed where what is left cannot be all that happened.
So of what is gone put back the least that makes it whole again:

* a thread repeats itself: each event comes after others of some kind and object only (and of the
  same message, or of another), and threads begin and end with some only. No two events may follow
  each other on a thread that never do in the whole recording;
* the same for the places and fill levels of each ring buffer;
* what was taken was published: `rmw_publish` of each timestamp that `rmw_take` tells is there,
  unless "others", processes that were not recorded, may have published, too;
* init events are all there, and without others requests and responses.

The result (`Successions.completed`) is a recording that could have been made, out of which the same
events are left if the rest of what was taken out is taken out of it. Whatever is so in one of the
two and not in the other cannot be decided from what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TypeAlias

import polars as pl

AT = "_at"
"""The number of an event of the whole recording: a column to be added by `numbered`."""
_OBJECTS = (
    "callback",
    "publisher_handle",
    "rmw_publisher_handle",
    "rmw_subscription_handle",
    "rmw_service_handle",
    "rmw_client_handle",
    "buffer",
    "taken",
    "is_intra_process",
)
_BUFFERS = ("rclcpp_ring_buffer_enqueue", "rclcpp_ring_buffer_dequeue", "rclcpp_ring_buffer_clear")
_OBJECTS_OF = ("_init", "construct_", "_register", "ipb", "_added", "_link", "_transition")
_CALLS = ("_request", "_response")
_EDGE = 0
"""What threads and buffers begin and end with."""

Raw: TypeAlias = Mapping[str, pl.DataFrame]
Step: TypeAlias = tuple[int, int, int | None]
"""An event: its number, what it is, and its message."""


def numbered(raw: Raw) -> dict[str, pl.DataFrame]:
    """The events with their numbers."""
    found, first = {}, 0
    for name, frame in raw.items():
        found[name] = frame.with_columns(pl.int_range(first, first + pl.len()).alias(AT))
        first += frame.height
    return found


def _lines(raw: Raw) -> list[list[Step]]:
    """The events of each thread and of each ring buffer, in order."""
    frames = []
    for name, frame in raw.items():
        short = name.split(":")[-1]
        if "_init" in short or frame.is_empty():
            continue
        lines: list[tuple[tuple[str, ...], tuple[str, ...]]]
        lines = [(("host", "vpid", "vtid"), _OBJECTS)]
        if short in _BUFFERS:
            lines.append((("host", "vpid", "buffer"), ("index", "size", "overwritten")))
        for line, columns in lines:
            told = [pl.col(c).cast(pl.String) for c in columns if c in frame.columns]
            what = pl.concat_str([pl.lit(short), *told], separator=" ", ignore_nulls=True)
            is_thread = "vtid" in line
            message = pl.col("message") if is_thread and "message" in frame.columns else None
            frames.append(
                frame.select(
                    pl.concat_str(pl.lit(is_thread), *line, separator=" ", ignore_nulls=True)
                    .alias("line"),
                    "time_ns",
                    AT,
                    what.hash().alias("what"),
                    (pl.lit(None) if message is None else message)
                    .cast(pl.UInt64)
                    .alias("message"),
                )
            )  # fmt: skip
    rows = pl.concat(frames).sort("line", "time_ns", maintain_order=True)
    rows = rows.select("line", AT, "what", "message")
    return [
        [(at, what, message) for _, at, what, message in of]
        for _, of in groupby(rows.iter_rows(), key=lambda row: row[0])
    ]


def _way(one: Step, other: Step) -> tuple[int, int, bool]:
    return one[1], other[1], one[2] is not None and one[2] == other[2]


class Successions:
    """What follows what in a whole recording, of which the events are `numbered`."""

    def __init__(self, whole: Raw) -> None:
        self._whole = whole
        edge = (-1, _EDGE, None)
        self._lines = [[edge, *line, edge] for line in _lines(whole)]
        self._legal = {_way(*pair) for line in self._lines for pair in pairwise(line)}
        self._named, self._calls = (
            {
                at
                for name, frame in whole.items()
                if any(word in name for word in words)
                for at in frame[AT]
            }
            for words in (_OBJECTS_OF, _CALLS)
        )
        self._stamps = _numbers(whole, "ros2:rmw_publish", "timestamp")
        self._takes = _numbers(whole, "ros2:rmw_take", "source_timestamp")

    def completed(self, left: Raw, *, others: bool) -> Raw:
        """What is left, and the least of what is gone that makes it whole.

        With `others`, processes that were not recorded may have published what was taken, and
        asked and answered.
        """
        there = {at for frame in left.values() for at in frame[AT]}
        stamps = {} if others else self._stamps
        kept = self._named if others else self._named | self._calls
        back = (kept | self._published(there, stamps)) - there
        while True:
            there |= back
            more: set[int] = set()
            for line in self._lines:
                if all(at in there or at < 0 for at, *_ in line):
                    continue
                more |= self._least(line, there)
            back = more | (self._published(there | more, stamps) - there)
            if not back:
                break
        return {
            name: frame.filter(pl.col(AT).is_in(pl.Series(sorted(there)).implode()))
            for name, frame in self._whole.items()
        }

    def _published(self, there: set[int], stamps: Mapping[int, int]) -> set[int]:
        """The publications of what was taken."""
        taken = {stamp for at, stamp in self._takes.items() if at in there}
        return {at for at, stamp in stamps.items() if stamp in taken}

    def _least(self, line: Sequence[Step], there: Iterable[int]) -> set[int]:
        """The fewest events of a line to put back."""
        found: set[int] = set()
        before = 0
        for after in range(1, len(line)):
            if line[after][0] not in there and line[after][0] >= 0:
                continue
            if after > before + 1:
                found |= self._between(line[before : after + 1])
            before = after
        return found

    def _between(self, steps: Sequence[Step]) -> set[int]:
        """The fewest steps between the first and the last over which one gets to the other."""
        best: list[tuple[int, int]] = [(0, -1)]
        for to in range(1, len(steps)):
            ways = (
                (best[by][0] + 1, by)
                for by in range(to)
                if _way(steps[by], steps[to]) in self._legal
            )
            best.append(min(ways))  # As it really was is one of them.
        found, place = set(), best[-1][1]
        while place > 0:
            found.add(steps[place][0])
            place = best[place][1]
        return found


def _numbers(whole: Raw, name: str, column: str) -> dict[int, int]:
    frame = whole.get(name)
    if frame is None or column not in frame.columns:
        return {}
    return dict(frame.select(AT, column).drop_nulls().iter_rows())
