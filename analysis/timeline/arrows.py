"""Find connections between callbacks: the arrows of a window, and the way of a message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from roslens.analysis.measures.samples import LOST
from roslens.collectors.ros2.services import begin_of
from roslens.recording.arrays import Ints, np

MOST_ARROWS = 500
"""Beyond this number arrows are unreadable: none is drawn, and their number is shown."""

_NUMBER = "callback_instance_id"

MOST_JOURNEYS = 32
"""Most steps of a way in each direction; messages that go round in a circle never end."""

MESSAGE, REQUEST, RESPONSE, LOST_MESSAGE = 0, 1, 2, 3

_COLUMNS = {
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "from_id": pl.Int64,
    "to_id": pl.Int64,
    "name": pl.String,
    "from_node": pl.String,
    "to_node": pl.String,
    "kind": pl.Int32,
    "place": pl.Float64,
}


@dataclass(frozen=True)
class Arrows:
    """Messages and calls that were under way in a window.

    Attributes
    ----------
    rows
        ``begin_ns`` (publication, or sending) and ``end_ns`` (start of the callback; for a response
        the time at which the client took it), ``from_id`` and ``to_id`` (callback instances, null
        outside of callbacks), ``name`` (topic or service), ``from_node``, ``to_node``, ``kind``
        (`MESSAGE`, `REQUEST`, `RESPONSE`, `LOST_MESSAGE`, which ends where it begins), ``place``
        (fraction of its topic's messages that were faster, 0..1; null for others).
    count
        Number of arrows; beyond the allowed number there are no rows.
    """

    rows: pl.DataFrame
    count: int


class _Spans:
    """Rows with ``begin_ns`` and ``end_ns``, sorted by begin, some of which may be long."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows if rows["begin_ns"].is_sorted() else rows.sort("begin_ns")
        self._begin_ns, self._end_ns = (self.rows[n].to_numpy() for n in ("begin_ns", "end_ns"))
        self._latest = np.maximum.accumulate(self._end_ns)

    def touching(self, begin_ns: int, end_ns: int) -> Ints:
        """Return the places of the rows that touch a window."""
        last = int(np.searchsorted(self._begin_ns, end_ns, side="right"))
        first = int(np.searchsorted(self._latest[:last], begin_ns, side="left"))
        return np.flatnonzero(self._end_ns[first:last] >= begin_ns) + first


class _Index:
    """Index that finds values by key; equal keys keep their order."""

    def __init__(self, keys: pl.Series, values: pl.Series) -> None:
        ordered_keys, ordered_values = keys.to_numpy(), values.to_numpy()
        if not keys.is_sorted():
            order = np.argsort(ordered_keys, kind="stable")
            ordered_keys, ordered_values = ordered_keys[order], ordered_values[order]
        self._keys, self._values = ordered_keys, ordered_values

    def all(self, key: int) -> list[int]:
        first, last = np.searchsorted(self._keys, key), np.searchsorted(self._keys, key, "right")
        values: list[int] = self._values[first:last].tolist()
        return values

    def first(self, key: int) -> int | None:
        return next(iter(self.all(key)), None)

    def first_values(self, keys: Ints) -> Ints:
        """Return the first value of each key; -1 without one."""
        if not self._keys.size:
            return np.full(keys.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.where(self._keys[place] == keys, self._values[place], -1)


_FASTER = pl.col("latency_ns").rank("min") - 1
_PLACE = _FASTER.over("topic") / pl.col("latency_ns").count().over("topic")
"""The fraction of the topic's messages that were faster."""


class Flows:
    """Messages from callback to callback, and service calls there and back.

    Nothing is read before the first query; even then only ids and times of messages are read.

    Parameters
    ----------
    messages
        ``messages`` of one run; only delivered messages are used.
    publications
        ``publications`` of the run: message_id, callback_instance_id.
    calls
        ``service_calls`` of the run; None: without calls.
    """

    def __init__(
        self,
        messages: pl.LazyFrame,
        publications: pl.LazyFrame,
        calls: pl.LazyFrame | None = None,
    ) -> None:
        self._messages, self._publications, self._calls = messages, publications, calls

    @cached_property
    def _delivered(self) -> _Spans:
        known = {"begin_ns": "publish_ns", "end_ns": "callback_start_ns", "to_id": _NUMBER}
        return _Spans(
            self._messages.select("message_id", place=_PLACE, **known)
            .with_row_index("row")
            .drop_nulls(["message_id", *known])
            .collect()
        )

    @cached_property
    def _sent(self) -> pl.DataFrame:
        """Messages that were published inside callbacks."""
        return self._publications.select("message_id", _NUMBER).drop_nulls().collect()

    @cached_property
    def _senders(self) -> _Index:
        return _Index(self._sent["message_id"], self._sent[_NUMBER])

    @cached_property
    def _outputs(self) -> _Index:
        return _Index(self._sent[_NUMBER], self._sent["message_id"])

    @cached_property
    def _inputs(self) -> _Index:
        return _Index(self._delivered.rows["to_id"], self._delivered.rows["message_id"])

    @cached_property
    def _receivers(self) -> _Index:
        """Receiving callbacks, sorted by their begin, so that the earliest is found first."""
        rows = self._delivered.rows.sort("end_ns")
        return _Index(rows["message_id"], rows["to_id"])

    def callbacks_on_way(self, callback_instance_id: int) -> list[int]:
        """Return the callbacks that received a message on the way through one, in time order.

        A message leads to another where the callback that received it published the other; of
        several, the message whose callback began first is followed.
        """
        before: list[int] = []
        number = callback_instance_id
        while len(before) < MOST_JOURNEYS and (message := self._inputs.first(number)) is not None:
            before.append(number)
            sender = self._senders.first(message)
            if sender is None:
                break
            number = sender
        after: list[int] = []
        number = callback_instance_id
        while len(after) < MOST_JOURNEYS:
            ends = [self._receivers.first(message) for message in self._outputs.all(number)]
            callbacks = [end for end in ends if end is not None]
            if not callbacks:
                break
            number = min(callbacks, key=lambda callback: self._begins.first(callback) or 0)
            after.append(number)
        return [*reversed(before), *after]

    @cached_property
    def _begins(self) -> _Index:
        return _Index(self._delivered.rows["to_id"], self._delivered.rows["end_ns"])

    @cached_property
    def _services(self) -> _Spans:
        parts = [pl.DataFrame(schema=_COLUMNS)]
        if self._calls is not None:
            calls = self._calls.collect()
            client = pl.col("client_callback_instance_id")
            server = pl.col("callback_instance_id")
            for kind, begin, end, sides, ends in (
                (REQUEST, begin_of("request_called_ns", "request_sent_ns", "request_taken_ns"),
                 "callback_start_ns", ("client", "server"),
                 (client, server)),
                (RESPONSE, begin_of("response_called_ns", "response_sent_ns", "response_taken_ns"),
                 "response_taken_ns", ("server", "client"),
                 (server, pl.lit(None, dtype=pl.Int64))),
            ):  # fmt: skip
                rows = calls.select(
                    begin_ns=begin,
                    end_ns=end,
                    from_id=ends[0],
                    to_id=ends[1],
                    name="service",
                    from_node=f"{sides[0]}_node",
                    to_node=f"{sides[1]}_node",
                    kind=pl.lit(kind, dtype=pl.Int32),
                    place=pl.lit(None, dtype=pl.Float64),
                )
                parts.append(rows.drop_nulls(["begin_ns", "end_ns"]))
        return _Spans(pl.concat(parts).sort("begin_ns"))

    @cached_property
    def _lost(self) -> _Spans:
        """Messages that did not arrive; begin and end are both the publication."""
        frame = (
            self._messages.filter(
                pl.col("outcome").is_in(LOST) & pl.col("publish_ns").is_not_null()
            )
            .select(
                "message_id",
                begin_ns="publish_ns",
                end_ns="publish_ns",
                to_id=pl.lit(None, dtype=pl.Int64),
                name="topic",
                from_node="publisher_node",
                to_node="subscription_node",
                kind=pl.lit(LOST_MESSAGE, dtype=pl.Int32),
                place=pl.lit(None, dtype=pl.Float64),
            )
            .sort("begin_ns")
            .collect()
        )
        return _Spans(frame.with_columns(from_id=self._sent_by(frame)).select(*_COLUMNS))

    def arrows(self, begin_ns: int, end_ns: int, most: int = MOST_ARROWS) -> Arrows:
        """Return the arrows that touch a window."""
        spans = (self._delivered, self._services, self._lost)
        places = [each.touching(begin_ns, end_ns) for each in spans]
        count = sum(place.size for place in places)
        if count > most:
            return Arrows(self._services.rows.clear(), count)
        messages, *others = (
            each.rows[place.tolist()] for each, place in zip(spans, places, strict=True)
        )
        return Arrows(pl.concat([self._named(messages), *others]).sort("begin_ns"), count)

    def _sent_by(self, rows: pl.DataFrame) -> pl.Series:
        """Return the callback in which the message of each row was published; null for none."""
        senders = self._senders.first_values(rows["message_id"].fill_null(-1).to_numpy())
        return pl.Series(senders, dtype=pl.Int64).replace(-1, None)

    def _named(self, chosen: pl.DataFrame) -> pl.DataFrame:
        """Return messages with their topic, nodes and sender added to their times."""
        if chosen.is_empty():
            return self._services.rows.clear()
        first, last = chosen.select(pl.col("row").min(), last=pl.col("row").max()).row(0)
        # The rows lie close together, so little is read.
        about = (
            self._messages.select(
                name="topic", from_node="publisher_node", to_node="subscription_node"
            )
            .slice(first, last - first + 1)
            .collect()[(chosen["row"] - first).to_list()]
        )
        return (
            chosen.hstack(about)
            .with_columns(from_id=self._sent_by(chosen), kind=pl.lit(MESSAGE, dtype=pl.Int32))
            .select(*_COLUMNS)
        )
