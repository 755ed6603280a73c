"""One message's whole way, hop by hop, and the arrows of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

MOST_ARROWS = 500
"""More arrows than this are a carpet: none is drawn, and their number is told."""

_TIMES = ("publish_ns", "rcl_publish_ns", "rmw_publish_ns", "take_ns", "rclcpp_take_ns",
          "callback_start_ns", "callback_end_ns")  # fmt: skip


@dataclass(frozen=True)
class Hop:
    """A part of a message's way.

    Attributes
    ----------
    name
        For people: from one step to the next.
    begin_ns, end_ns
        When.
    """

    name: str
    begin_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """How long."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Journey:
    """A message from its publication to the end of one callback.

    Attributes
    ----------
    hops
        In order; each begins where the one before ended, so they add up to the whole.
    """

    message_id: int
    topic: str
    publisher_node: str
    subscription_node: str
    outcome: str
    latency_ns: int | None
    hops: Sequence[Hop]


def journey_of(messages: pl.LazyFrame, callback_instance_id: int) -> Journey | None:
    """The way of the message that a callback instance received; None where it received none.

    Parameters
    ----------
    messages
        The table of that name, of one run.
    """
    rows = messages.filter(pl.col("callback_instance_id") == callback_instance_id).collect()
    if not rows.height:
        return None
    return _journey(rows.row(0, named=True))


def _journey(row: dict[str, object]) -> Journey:
    known = [(name, row[name]) for name in _TIMES if isinstance(row.get(name), int)]
    # The steps in the order in which they happened; what was not recorded is not a step.
    steps = sorted(((name, int(str(t))) for name, t in known), key=lambda step: step[1])
    hops = [Hop(_between(a[0], b[0]), a[1], b[1]) for a, b in pairwise(steps)]
    latency = row.get("latency_ns")
    return Journey(
        int(str(row["message_id"])) if row.get("message_id") is not None else -1,
        str(row.get("topic") or ""),
        str(row.get("publisher_node") or ""),
        str(row.get("subscription_node") or ""),
        str(row.get("outcome") or ""),
        latency if isinstance(latency, int) else None,
        hops,
    )


_STEP = {
    "publish_ns": "publish",
    "rcl_publish_ns": "rcl_publish",
    "rmw_publish_ns": "rmw_publish",
    "take_ns": "take",
    "rclcpp_take_ns": "rclcpp_take",
    "callback_start_ns": "callback_start",
    "callback_end_ns": "callback_end",
}


def _between(first: str, second: str) -> str:
    return f"{_STEP[first]} -> {_STEP[second]}"


@dataclass(frozen=True)
class Arrows:
    """Messages that were under way in a window.

    Attributes
    ----------
    from_id, to_id
        Callback instances in which they were published (-1: outside of callbacks) and received.
    begin_ns, end_ns
        Publication and start of the callback.
    count
        How many there are; the arrays are empty beyond `MOST_ARROWS`.
    """

    from_id: NDArray[np.int64]
    to_id: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    count: int


class Flows:
    """Messages from callback to callback, for arrows.

    Parameters
    ----------
    messages
        ``messages`` of one run; delivered ones are taken.
    publications
        ``publications`` of the run: message_id, callback_instance_id.
    """

    def __init__(self, messages: pl.LazyFrame, publications: pl.LazyFrame) -> None:
        known = messages.select(
            "message_id", "publish_ns", "callback_start_ns", "callback_instance_id"
        ).drop_nulls()
        inside = publications.select(
            "message_id", pl.col("callback_instance_id").alias("from_id")
        ).drop_nulls("message_id")
        frame = known.join(inside, on="message_id", how="left").sort("publish_ns").collect()
        self._begin = frame["publish_ns"].to_numpy()
        self._end = frame["callback_start_ns"].to_numpy()
        self._to = frame["callback_instance_id"].to_numpy()
        self._from = frame["from_id"].fill_null(-1).to_numpy()
        self._latest = np.maximum.accumulate(self._end) if self._end.size else self._end

    def arrows(self, begin_ns: int, end_ns: int, most: int = MOST_ARROWS) -> Arrows:
        """Those that touch a window."""
        last = int(np.searchsorted(self._begin, end_ns, side="right"))
        first = int(np.searchsorted(self._latest[:last], begin_ns, side="left"))
        inside = np.flatnonzero(self._end[first:last] >= begin_ns) + first
        chosen = inside if inside.size <= most else inside[:0]
        return Arrows(
            self._from[chosen],
            self._to[chosen],
            self._begin[chosen],
            self._end[chosen],
            int(inside.size),
        )
