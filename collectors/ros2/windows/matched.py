"""Publications and takes of equal topic and timestamp, found among those of nearby timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.approximate import TOLERANCE_NS, estimate_timestamps
from roslens.collectors.ros2.messages import by_timestamp, public
from roslens.collectors.ros2.types import I64
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.calls import OfPublications
from roslens.collectors.ros2.windows.run import Run, number_of
from roslens.collectors.work import State

_SENT = ("message_id", "topic", "source_timestamp_ns", "rmw_publish_ns", "rcl_publish_ns")
_RECEIVED = (
    "take_id", "subscription_id", "topic", "source_timestamp_ns", "callback_instance_id",
    "take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns",
)  # fmt: skip
_MANY = 1000


@dataclass(frozen=True)
class Matches:
    """What belongs together.

    Attributes
    ----------
    keys
        Guessed timestamps, by stretch of the publication: message_id, key_ns; None without any.
    rows
        As `by_timestamp` gives them, by stretch of the publication.
    takes
        Their takes, by stretch of the take: take_id.
    shared
        As `by_timestamp` counts them.
    """

    keys: Buckets | None
    rows: Buckets
    takes: Buckets
    shared: int


def find_matches(run: Run, of: OfPublications, takes: list[int]) -> Matches:
    """Join all publications and takes by topic and source timestamp."""
    edges = _edges(run)
    sent = Buckets(run.work, "sent", "key_ns", edges)
    received = Buckets(run.work, "received", "source_timestamp_ns", edges)
    unstamped = Buckets(run.work, "unstamped", "called_ns", edges)

    def spread(number: int, state: State) -> State:
        calls = run.publications.read(number).filter(public()).select(_SENT)
        key = pl.col("source_timestamp_ns")
        known = calls.filter(key.is_not_null()).select(
            "message_id", "topic", key.alias("key_ns"), pl.lit(value=False).alias("estimated")
        )
        sent.add(known, number)
        called = pl.coalesce("rmw_publish_ns", "rcl_publish_ns").alias("called_ns")
        if not of.stamps:
            unstamped.add(
                calls.filter(key.is_null() & pl.col("topic").is_not_null())
                .with_columns(called)
                .filter(pl.col("called_ns").is_not_null()),
                number,
            )
        inter = run.takes.read(number).filter(public() & ~pl.col("intra_process"))
        received.add(inter.select(_RECEIVED).filter(key.is_not_null()), number)
        return state

    run.work.stage("timestamps", len(run.windows), spread)
    keys = None
    if not of.stamps:
        keys = _estimated(run, of, edges, sent=sent, received=received, unstamped=unstamped)
    rows = Buckets(run.work, "matched", "message_id", of.counts[1:-1])
    matched_takes = Buckets(run.work, "matched_takes", "take_id", takes[1:-1])

    def match(number: int, state: State) -> State:
        mine = sent.read(number).sort("message_id")
        theirs = received.read(number)
        found, shared, _ = by_timestamp(mine, theirs)
        rows.add(found, number)
        matched_takes.add(found.select("take_id"), number)
        return {"shared": number_of(state, "shared") + shared}

    state = run.work.stage("matches", len(edges) + 1, match, {"shared": 0})
    for rows_used in (sent, received, unstamped):
        rows_used.drop()
    return Matches(keys, rows, matched_takes, number_of(state, "shared"))


def _edges(run: Run) -> list[int]:
    """Where to cut source timestamps, so that about as many are in each part as in a stretch.

    They are of another clock than the events: what lies between the two is taken from a few.
    """
    takes = run.events.scan("rmw_take")
    if takes is None or not run.events.has_column("rmw_take", "source_timestamp"):
        return list(run.windows.edges)
    some = takes.head(_MANY).select("time_ns", "source_timestamp").collect()
    between = (some["source_timestamp"].cast(I64) - some["time_ns"]).median()
    shift = int(between) if isinstance(between, int | float) else 0
    return [edge + shift for edge in run.windows.edges]


def _estimated(
    run: Run,
    of: OfPublications,
    edges: Sequence[int],
    *,
    sent: Buckets,
    received: Buckets,
    unstamped: Buckets,
) -> Buckets:
    """Guess timestamps that publications do not have, each from what is near it."""
    keys = Buckets(run.work, "keys", "message_id", of.counts[1:-1])

    def guess(number: int, state: State) -> State:
        begin = edges[number - 1] if number else None
        end = edges[number] if number < len(edges) else None
        mine = unstamped.read(number)["message_id"]
        after = None if end is None else end + TOLERANCE_NS
        before = None if begin is None else begin - TOLERANCE_NS
        calls = _between(unstamped, "called_ns", edges, before, after).drop("called_ns")
        known = _between(sent, "key_ns", edges, begin, after).filter(~pl.col("estimated"))
        known = known.select(
            "message_id", "topic", pl.col("key_ns").alias("source_timestamp_ns"),
            pl.lit(None, dtype=I64).alias("rmw_publish_ns"),
            pl.lit(None, dtype=I64).alias("rcl_publish_ns"),
        )  # fmt: skip
        takes = _between(received, "source_timestamp_ns", edges, begin, after)
        both = estimate_timestamps(pl.concat([calls, known]), takes)
        found = both.filter("estimated").filter(pl.col("message_id").is_in(mine.implode()))
        found = found.select("message_id", "topic", "key_ns", "estimated")
        keys.add(found.select("message_id", "key_ns"), number)
        guessed.add(found, number)
        return state

    guessed = Buckets(run.work, "guessed", "key_ns", edges)
    run.work.stage("guesses", len(edges) + 1, guess)

    def join(number: int, state: State) -> State:
        # Not before all are guessed: known timestamps are told by not being guesses.
        sent.put(guessed.read(number), number, step=len(run.windows) + number)
        return state

    run.work.stage("guessed", len(edges) + 1, join)
    return keys


def _between(
    rows: Buckets, column: str, edges: Sequence[int], begin: int | None, end: int | None
) -> pl.DataFrame:
    """Rows of whatever buckets of which a column is between two times, both included."""
    cuts = pl.Series(edges, dtype=pl.Int64)
    first = 0 if begin is None else cuts.search_sorted(begin, side="right")
    last = len(edges) if end is None else cuts.search_sorted(end, side="right")
    frame = pl.concat([rows.read(number) for number in range(first, last + 1)])
    if begin is not None:
        frame = frame.filter(pl.col(column) >= begin)
    return frame if end is None else frame.filter(pl.col(column) <= end)
