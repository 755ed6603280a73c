"""Follow one message or call hop by hop, with what led to it and what followed from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Literal

import polars as pl

from roslens.analysis.path.kinds import in_words
from roslens.analysis.path.path import Paths
from roslens.collectors.ros2.services import begin_of
from roslens.recording.arrays import np

_NUMBER = "callback_instance_id"
_CALL_STEPS = {
    "request_called_ns": "request_called",
    "request_sent_ns": "request_sent",
    "request_taken_ns": "request_taken",
    "callback_start_ns": "callback_start",
    "callback_end_ns": "callback_end",
    "response_called_ns": "response_called",
    "response_sent_ns": "response_sent",
    "response_taken_ns": "response_taken",
}
_OF_MESSAGE = (
    *("message_id", "topic", "publisher_node", "subscription_node", "outcome", "latency_ns"),
    *("publish_ns", _NUMBER),
)


@dataclass(frozen=True)
class Hop:
    """One part of a message's way.

    Attributes
    ----------
    name
        Text for people: for a message what happened and who held it up, for a call the step at its
        begin and at its end.
    begin_ns, end_ns
        Times of the begin and the end.
    """

    name: str
    begin_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Duration of the hop in ns."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Journey:
    """A message from its publication to the end of one callback, or a call there and back.

    Attributes
    ----------
    kind
        ``message`` or ``call``.
    message_id
        Number of the message; for a call the number of the request at its client; -1 without one.
    topic
        Topic or service.
    publisher_node, subscription_node
        Sender and receiver; for a call the client and the server.
    latency_ns
        publish to callback_start; for a call request_sent to response_taken.
    callback_instance_id
        The callback that received the message.
    hops
        In order; each begins where the one before ended, so they add up to the whole. Empty for a
        message without a path.
    """

    kind: Literal["message", "call"]
    message_id: int
    topic: str
    publisher_node: str
    subscription_node: str
    outcome: str
    latency_ns: int | None
    callback_instance_id: int | None
    hops: Sequence[Hop]


def journey_of(
    messages: pl.LazyFrame,
    callback_instance_id: int,
    paths: Callable[[], Paths],
    calls: pl.LazyFrame | None = None,
) -> Journey | None:
    """Return the way of the message or request that a callback instance received; None without one.

    Parameters
    ----------
    messages, calls
        The tables ``messages`` and ``service_calls`` of one run.
    paths
        Returns the paths of this run; called only where there is a message.
    """
    journeys = journeys_to(messages, [callback_instance_id], paths)
    if journeys:
        return journeys[0]
    received = pl.col(_NUMBER) == callback_instance_id
    begin = begin_of("request_called_ns", "request_sent_ns", "request_taken_ns")
    calls = None if calls is None else calls.filter(received).head(1).with_columns(begin_ns=begin)
    rows = pl.DataFrame() if calls is None else calls.collect()
    return _journey_of_call(rows.row(0, named=True)) if rows.height else None


def journeys_to(
    messages: pl.LazyFrame, callback_instance_ids: Sequence[int], paths: Callable[[], Paths]
) -> list[Journey]:
    """Return the messages that callbacks, such as those of `Flows.way`, received, in time order."""
    received = pl.col(_NUMBER).is_in(list(callback_instance_ids))
    rows = messages.filter(received).select(*_OF_MESSAGE).sort("publish_ns", nulls_last=True)
    unique_rows = rows.unique(_NUMBER, keep="first", maintain_order=True).collect()
    if unique_rows.is_empty():
        return []
    of_run = paths()
    with_path = of_run.messages.with_row_index("row").filter(received).unique(_NUMBER, keep="first")
    with_path = with_path.sort("row")
    path = of_run.segments_of(with_path["row"].to_numpy().astype(np.int64))
    number = with_path.select(pl.col("row").cast(pl.Int64).alias("message"), _NUMBER)
    path = path.join(number, on="message", maintain_order="left")
    return [
        Journey(
            "message",
            -1 if row["message_id"] is None else row["message_id"],
            row["topic"] or "",
            row["publisher_node"] or "",
            row["subscription_node"] or "",
            row["outcome"] or "",
            row["latency_ns"],
            row[_NUMBER],
            _segments(path.filter(pl.col(_NUMBER) == row[_NUMBER])),
        )
        for row in unique_rows.iter_rows(named=True)
    ]


def _segments(path: pl.DataFrame) -> list[Hop]:
    """Merge consecutive segments with the same text into one hop."""
    segments = [
        (in_words(kind, who), begin, end)
        for kind, who, begin, end in path.select("kind", "who", "begin_ns", "end_ns").iter_rows()
    ]
    alike = (list(group) for _, group in groupby(segments, key=itemgetter(0)))
    return [Hop(group[0][0], group[0][1], group[-1][2]) for group in alike]


def _journey_of_call(row: Mapping[str, Any]) -> Journey:
    sent, taken = row["begin_ns"], row["response_taken_ns"]
    return Journey(
        "call",
        -1 if row["sequence_number"] is None else row["sequence_number"],
        row["service"] or "",
        row["client_node"] or "",
        row["server_node"] or "",
        "unanswered" if taken is None else "answered",
        None if sent is None or taken is None else taken - sent,
        row[_NUMBER],
        _hops(row),
    )


def _hops(row: Mapping[str, Any]) -> list[Hop]:
    """Return hops in the order in which they happened, without steps that were not recorded."""
    steps = [(step, row[name]) for name, step in _CALL_STEPS.items() if row[name] is not None]
    steps.sort(key=lambda step: step[1])
    return [Hop(f"{a[0]} -> {b[0]}", a[1], b[1]) for a, b in pairwise(steps)]
