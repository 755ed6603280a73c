"""Count messages by time and latency for the picture below the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from roslens.analysis.measures.samples import LOST, quantile_within_clocks
from roslens.collectors.topics import INFRASTRUCTURE
from roslens.recording.arrays import Ints, NDArray, np

ROWS = 36
"""Number of steps of the latency axis, equal on a logarithmic scale."""


@dataclass(frozen=True)
class LatencyGrid:
    """Messages of one topic by time of publication and latency.

    Attributes
    ----------
    counts
        Delivered messages, shape (columns, `ROWS`), the shortest latency first.
    lost
        Messages that did not arrive, shape (columns,).
    low_ns, high_ns
        Ends of the latency axis, the same for every window of a recording.
    p50_ns, p99_ns
        Quantiles of all delivered messages of the topic; None if they are fewer than its interval
        needs (6 and 299), and where the clocks of the hosts may be more than half as far apart as
        that.
    """

    counts: NDArray[np.int32]
    lost: NDArray[np.int32]
    low_ns: float
    high_ns: float
    p50_ns: float | None
    p99_ns: float | None


@dataclass(frozen=True)
class _Topic:
    publish_ns: Ints
    latency_ns: Ints
    ids: Ints
    lost_ns: Ints
    low_ns: float
    high_ns: float
    p50_ns: float | None
    p99_ns: float | None


class Latencies:
    """Latencies (publish to callback_start) of one run, by topic.

    Parameters
    ----------
    messages
        ``messages`` of one run; nothing is read before the first query.
    """

    def __init__(self, messages: pl.LazyFrame) -> None:
        self._messages = messages
        self._known: dict[str, _Topic] = {}

    @cached_property
    def topics(self) -> list[str]:
        """Topics with latencies, the busiest first; topics that every node has come last."""
        counted = (
            self._messages.filter(pl.col("latency_ns").is_not_null())
            .group_by("topic")
            .len()
            .drop_nulls()
            .sort(
                pl.col("topic").is_in(INFRASTRUCTURE),
                "len",
                "topic",
                descending=[False, True, False],
            )
            .collect()
        )
        return counted["topic"].to_list()

    def grid(self, topic: str, begin_ns: int, end_ns: int, columns: int) -> LatencyGrid:
        """Return the counts of a window that is `columns` wide."""
        messages = self._topic(topic)
        first, last = np.searchsorted(messages.publish_ns, (begin_ns, end_ns))
        span = max(1, end_ns - begin_ns)
        place = (messages.publish_ns[first:last] - begin_ns) * columns // span
        height = np.log(messages.high_ns / messages.low_ns)
        level = (
            np.log(np.maximum(messages.latency_ns[first:last], 1) / messages.low_ns) / height * ROWS
        )
        cell = np.clip(place, 0, columns - 1) * ROWS + np.clip(level, 0, ROWS - 1).astype(np.int64)
        counts = np.bincount(cell, minlength=columns * ROWS).reshape(columns, ROWS)
        window = slice(*np.searchsorted(messages.lost_ns, (begin_ns, end_ns)))
        lost = np.clip((messages.lost_ns[window] - begin_ns) * columns // span, 0, columns - 1)
        return LatencyGrid(
            counts.astype(np.int32),
            np.bincount(lost, minlength=columns).astype(np.int32),
            messages.low_ns,
            messages.high_ns,
            messages.p50_ns,
            messages.p99_ns,
        )

    def nearest(
        self, topic: str, time_ns: int, latency_ns: float, within_ns: int, factor: float
    ) -> int | None:
        """Return the callback that received the message closest to a point of the picture.

        Parameters
        ----------
        within_ns, factor
            Greatest distance from the point: in time, and in latency as a ratio.
        """
        messages = self._topic(topic)
        first, last = np.searchsorted(
            messages.publish_ns, (time_ns - within_ns, time_ns + within_ns)
        )
        away_x = (messages.publish_ns[first:last] - time_ns) / max(within_ns, 1)
        latencies = np.maximum(messages.latency_ns[first:last], 1)
        away_y = np.log(latencies / max(latency_ns, 1)) / np.log(factor)
        away = np.hypot(away_x, away_y)
        away[np.abs(away_y) > 1] = np.inf
        if not away.size or not np.isfinite(away.min()):
            return None
        return int(messages.ids[first + int(away.argmin())])

    def _topic(self, topic: str) -> _Topic:
        if topic not in self._known:
            self._known[topic] = self._read(topic)
        return self._known[topic]

    def _read(self, topic: str) -> _Topic:
        of_topic = self._messages.filter(pl.col("topic") == topic)
        arrived, lost, quantiles = pl.collect_all(
            [
                of_topic.select("publish_ns", "latency_ns", "callback_instance_id")
                .drop_nulls()
                .sort("publish_ns"),
                of_topic.filter(pl.col("outcome").is_in(LOST)).select("publish_ns").drop_nulls(),
                of_topic.select(quantile_within_clocks(q).alias(f"{q}") for q in (0.5, 0.99)),
            ]
        )
        latency = arrived["latency_ns"]
        summary = arrived.select(
            low=latency.min(),
            high=latency.max(),
        ).row(0)
        low, high = (
            (1.0, 10.0) if summary[0] is None else (max(1, summary[0]) * 0.9, summary[1] * 1.1)
        )
        return _Topic(
            arrived["publish_ns"].to_numpy(),
            latency.to_numpy(),
            arrived["callback_instance_id"].to_numpy(),
            lost["publish_ns"].sort().to_numpy(),
            float(low),
            float(max(high, low * 2)),
            *quantiles.row(0),
        )
