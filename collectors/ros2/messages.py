"""Messages: what became of each publication at each subscription that existed then.

Between processes a publication and a take are the same message when topic and source timestamp
are equal. Within a process the ring buffer tells. Where the middleware gives publications no
timestamp (Humble, Iron) or no take was recorded, `roslens.collectors.ros2.approximate` finds
partners and the rows say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from roslens.collectors.ros2.approximate import by_order, estimate_timestamps, without_takes
from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.clock_bounds import crossings_of, with_bounds
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.evidence import STRAYS, around_all, weigh
from roslens.collectors.ros2.joins import pick, sorted_by
from roslens.collectors.ros2.objects import DISCOVERY, Objects
from roslens.collectors.ros2.outcomes import ORDER, bounds_of, settle
from roslens.collectors.ros2.passes import firsts, places_of
from roslens.collectors.ros2.ring_buffers import PENDING
from roslens.collectors.ros2.types import I64, label

_GRACE_NS = 10**9
"""How long after its last event a process is still taken to live."""
_LARGEST = 2**62
_SUBSCRIPTIONS = 2**24
_NO_ONE = _SUBSCRIPTIONS - 1
_PAIR = (pl.col("message_id") * _SUBSCRIPTIONS + pl.col("subscription_id")).alias("pair")
"""One number for two; joins by one column are much faster."""
_KEY = ("topic", "key_ns", "key")
_PLACE = "_place"
_LINKS = ("take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns")


@dataclass(frozen=True)
class Messages:
    """The messages of a recording.

    Attributes
    ----------
    rows
        One per publication and subscription; columns of the table but for the names.
    ambiguous
        Publications that share topic and source timestamp with another one.
    takes_alone
        Takes whose publication was not recorded.
    cleared
        Messages dropped because their ring buffer was cleared.
    gone
        Publications left without a row for a subscription whose process had gone, per
        subscription: subscription_id, count.
    untaken
        Subscriptions whose callbacks ran and of which no take was recorded.
    crossings
        As of `crossings_of`.
    """

    rows: pl.DataFrame
    ambiguous: int
    takes_alone: pl.DataFrame
    cleared: int
    gone: pl.DataFrame
    untaken: pl.Series
    crossings: pl.DataFrame


@dataclass(frozen=True)
class Matched:
    """Publications and takes joined, before anything is said of the others.

    Attributes
    ----------
    publications
        Those that are not the middleware's own, with ``key_ns``.
    rows, ambiguous, takes_alone
        As `by_timestamp` gives them.
    """

    publications: pl.DataFrame
    rows: pl.DataFrame
    ambiguous: int
    takes_alone: pl.DataFrame


def match(publications: pl.DataFrame, takes: pl.DataFrame) -> Matched:
    """Join what was published and what was taken between processes."""
    inter = takes.drop("buffer", "index").filter(public() & ~pl.col("intra_process"))
    sent = publications.drop("thread", "rclcpp_publish_ns", "callback_instance_id")
    publications = estimate_timestamps(sent.filter(public()), inter)
    return Matched(publications, *by_timestamp(publications, inter))


def find_messages(
    matched: Matched,
    events: Events,
    objects: Objects,
    callbacks: Callbacks,
    *,
    takes: pl.DataFrame,
    enqueues: pl.DataFrame,
    losses: pl.DataFrame,
) -> Messages:
    """One row per publication and subscription, with its outcome."""
    publications = matched.publications
    intra = with_take(enqueues, takes, enqueues["take_id"])
    existing = existing_pairs(publications, objects, events)
    pairs, gone = without_gone(existing, first_after_end(existing))
    untaken = without_takes(callbacks.instances, takes)
    ordered = by_order(publications, pairs, callbacks.instances, untaken)
    rows = message_rows(publications, pairs, matched.rows, intra, ordered)
    rows = settle(rows, objects, events, losses, replace(bounds_of(rows, objects), untaken=untaken))
    strays = matched.takes_alone.select(list(STRAYS))
    around = around_all(rows, strays, events, objects, instances=callbacks.instances, takes=takes)
    rows = weigh(rows, objects, events, losses, around)
    crossings = crossings_of(rows, objects, events.places)
    rows = with_bounds(rows, crossings, events.places)
    return Messages(
        rows=rows,
        ambiguous=matched.ambiguous,
        takes_alone=matched.takes_alone,
        cleared=enqueues.filter(pl.col("fate") == "cleared").height,
        gone=gone,
        untaken=untaken,
        crossings=crossings,
    )


def public() -> pl.Expr:
    """Whether a publication or take is not the middleware's own."""
    return pl.col("topic").is_null() | (pl.col("topic") != DISCOVERY)


def by_timestamp(
    publications: pl.DataFrame, takes: pl.DataFrame
) -> tuple[pl.DataFrame, int, pl.DataFrame]:
    """Join publications and takes by topic and source timestamp.

    Several publications with one key are numbered, and so are the takes of one subscription with
    that key: the first belongs to the first, and the rows say that this is ambiguous.
    """
    sent = publications.select("message_id", "topic", "key_ns", "estimated").drop_nulls("key_ns")
    received = takes.select(
        *("take_id", "subscription_id", "topic", pl.col("source_timestamp_ns").alias("key_ns")),
        *("callback_instance_id", *_LINKS),
    )
    sent, received = _keyed(sent, received)
    columns = ["message_id", *(c for c in received.columns if c not in _KEY), "match"]
    key = pl.col("key")
    alone, rest = sent.select("key", "message_id", "estimated"), received
    alone = alone.filter(key.is_not_null()).sort("key")
    known = alone["key"]
    repeated = known.filter(known == known.shift(1)).unique()
    parts = []
    shared = 0
    if repeated.len():
        keys = repeated.implode()
        twice = sent.filter(key.is_in(keys))
        shared = twice.height
        both = _ranked(twice, ["key"]).join(
            _ranked(received.filter(key.is_in(keys)), ["key", "subscription_id"]).drop(
                "topic", "key_ns"
            ),
            on=["key", "rank"],
        )
        parts.append(both.with_columns(label("ambiguous").alias("match")).select(columns))
        alone = alone.filter(~key.is_in(keys))
        rest = rest.with_columns(pl.when(~key.is_in(keys)).then(key).alias("key"))
    row = places_of(rest["key"], alone["key"])
    of = pick(alone, row, "message_id", "estimated")
    # Of several takes of one subscription the first.
    first = firsts(row, rest["subscription_id"].fill_null(_NO_ONE), alone.height)
    how = pl.when(of["estimated"]).then(label("approximate")).otherwise(label("exact"))
    exact = rest.with_columns(of["message_id"], how.alias("match")).select(columns)
    matched = pl.concat([exact.filter(first), *parts])
    unmatched = _unmatched(takes["take_id"], matched)
    nameless = sent["topic"].null_count() or received["topic"].filter(unmatched).null_count()
    if nameless and unmatched.any():
        matched = pl.concat([matched, _without_topic(sent, received.filter(unmatched), matched)])
        unmatched = _unmatched(takes["take_id"], matched)
    return matched, shared, takes.filter(unmatched)


def _unmatched(takes: pl.Series, matched: pl.DataFrame) -> pl.Series:
    """Whether each take, by its number, is not matched."""
    return places_of(takes, matched["take_id"].sort()).is_null()


def _keyed(sent: pl.DataFrame, received: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add ``key``: one number for topic and timestamp, null without one of them."""
    code = pl.col("topic").to_physical().cast(I64)
    stamp = pl.col("key_ns")
    both = pl.concat([frame.select("topic", "key_ns") for frame in (sent, received)])
    first, last, most = both.select(
        stamp.min().alias("first"), stamp.max().alias("last"), code.max().alias("code")
    ).row(0)
    if first is None or most is None:
        none = pl.lit(None, dtype=I64).alias("key")
        return sent.with_columns(none), received.with_columns(none)
    if (last - first + 1) * (most + 1) >= _LARGEST:
        # Timestamps that are none: number the pairs that there are.
        pair = ["topic", "key_ns"]
        both = pl.concat([sent.select(pair), received.select(pair)]).drop_nulls().unique()
        numbers = both.with_row_index("key").with_columns(pl.col("key").cast(I64))
        keyed = (
            f.join(numbers, on=pair, how="left", maintain_order="left") for f in (sent, received)
        )
        return next(keyed), next(keyed)
    key = ((stamp - first) * (most + 1) + code).alias("key")
    return sent.with_columns(key), received.with_columns(key)


def _without_topic(
    sent: pl.DataFrame, received: pl.DataFrame, matched: pl.DataFrame
) -> pl.DataFrame:
    """Where an init event is missing, a timestamp that is unique in the recording joins alone."""
    by_time = sent.select("key_ns", "message_id", pl.col("topic").is_null().alias("nameless"))
    by_time = by_time.sort("key_ns")
    stamp = by_time["key_ns"]
    twice = (stamp == stamp.shift(1)).fill_null(value=False)
    by_time = by_time.filter(~(twice | twice.shift(-1, fill_value=False)))
    of = pick(by_time, places_of(received["key_ns"], by_time["key_ns"]), "message_id", "nameless")
    approximate = label("approximate").alias("match")
    both = received.with_columns(of["message_id"], approximate)
    return (
        both.filter(of["nameless"] | received["topic"].is_null())
        .drop_nulls("message_id")
        .select(matched.columns)
    )


def _ranked(frame: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Add ``rank`` within equal keys; rows are numbered in their order."""
    return frame.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over(key).alias("rank"))


def with_take(enqueues: pl.DataFrame, takes: pl.DataFrame, row: pl.Series) -> pl.DataFrame:
    """Messages that went through a ring buffer: message_id, subscription_id, fate, times.

    ``row`` is that of each one's take in `takes`; in all takes of a recording, the take's number.
    """
    times = pick(takes, row, "callback_instance_id", *_LINKS)
    return enqueues.select("message_id", "subscription_id", "proc", "time_ns", "fate").hstack(times)


def existing_pairs(publications: pl.DataFrame, objects: Objects, events: Events) -> pl.DataFrame:
    """Each publication with each subscription of its topic that existed then: message_id,
    subscription_id, publish_ns, gone_ns (last event of the subscription's process).

    A subscription ends when its address is given to another one.
    """  # noqa: D205
    ends = events.processes.select("proc", pl.col("end_ns").alias("gone_ns"))
    subscriptions = (
        objects.subscriptions.filter(pl.col("topic").is_not_null() & (pl.col("topic") != DISCOVERY))
        .select("subscription_id", "topic", "created_ns", "ended_ns", "proc")
        .join(ends, on="proc", how="left")
    )
    sent = publications.select("message_id", "topic", "publish_ns")
    return (
        sent.join(subscriptions.drop("proc"), on="topic", how="inner")
        .filter(
            (pl.col("created_ns") <= pl.col("publish_ns"))
            & (pl.col("publish_ns") < pl.col("ended_ns").fill_null(2**63 - 1))
        )
        .select("message_id", "subscription_id", "publish_ns", "gone_ns")
    )


def first_after_end(pairs: pl.DataFrame) -> pl.DataFrame:
    """The first publication after the last event of a subscription's process: subscription_id,
    first_ns; of those that have one.
    """  # noqa: D205
    return (
        pairs.filter(pl.col("publish_ns") > pl.col("gone_ns"))
        .group_by("subscription_id")
        .agg(pl.col("publish_ns").min().alias("first_ns"))
    )


def without_gone(pairs: pl.DataFrame, first: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Leave out the subscriptions of processes that have gone; and count, per subscription.

    A process is taken to have gone when more than a second, and more than one publication,
    follows its last event.
    """
    if first.is_empty():
        return pairs.select("message_id", "subscription_id"), _no_one()
    gone = pl.col("publish_ns") > pl.max_horizontal("first_ns", pl.col("gone_ns") + _GRACE_NS)
    gone &= pl.col("first_ns").is_not_null()
    pairs = pairs.join(first, on="subscription_id", how="left", maintain_order="left")
    pairs = pairs.with_columns(gone.fill_null(value=False).alias("gone"))
    counts = (
        pairs.filter("gone")
        .group_by("subscription_id")
        .agg(pl.len().cast(I64).alias("count"))
        .sort("subscription_id")
    )
    return pairs.filter(~pl.col("gone")).select("message_id", "subscription_id"), counts


def _no_one() -> pl.DataFrame:
    return pl.DataFrame(schema={"subscription_id": I64, "count": I64})


def message_rows(
    publications: pl.DataFrame,
    pairs: pl.DataFrame,
    matched: pl.DataFrame,
    intra: pl.DataFrame,
    ordered: pl.DataFrame,
) -> pl.DataFrame:
    """All rows, each with ``how`` it was joined; not settled yet."""
    pair = "pair"
    pairs, matched, ordered, intra = (
        f.with_columns(_PAIR) for f in (pairs, matched, ordered, intra)
    )
    known = intra.filter(pl.col("message_id").is_not_null())
    matched = pl.concat([matched, ordered], how="diagonal")
    unresolved: list[int] = []
    if known.height:
        # The copy that also came through the middleware is dropped by rclcpp: one row, the
        # intra one.
        pairs, matched = (f.join(known, on=pair, how="anti") for f in (pairs, matched))
        nowhere = known.filter(pl.col("subscription_id").is_null())
        unresolved = nowhere["message_id"].unique().to_list()
    matched_pairs = matched.select(pair).with_row_index("row").drop_nulls().sort(pair)
    row = pick(matched_pairs, places_of(pairs[pair], matched_pairs[pair]), "row").to_series()
    links = [c for c in matched.columns if c not in ("message_id", "subscription_id", pair)]
    inter = pairs.hstack(pick(matched, row, *links)).with_columns(
        pl.when(pl.col("match").is_null() & pl.col("message_id").is_in(unresolved))
        .then(label(PENDING))
        .alias("fate")
    )
    late = matched.clear()
    if inter["match"].count() < matched.height:
        late = matched.join(pairs, on=pair, how="anti")
    late = late.with_columns(
        pl.when(pl.col("subscription_id").is_not_null()).then(label("replayed")).alias("fate")
    )
    exact = pl.when(pl.col("fate") != PENDING).then(label("exact"))
    known = known.with_columns(pl.lit(value=True).alias("intra_process"), exact.alias("match"))
    replays = intra.filter(pl.col("message_id").is_null()).with_columns(
        label("replayed").alias("fate"),
        pl.lit(value=True).alias("intra_process"),
        pl.col("proc").alias("subscription_proc"),
    )
    rows = pl.concat(
        [
            part.drop("take_id", "proc", "time_ns", pair, strict=False)
            for part in (inter, late, known)
        ]
        + [replays.drop("take_id", "proc", pair, strict=False)],
        how="diagonal",
    )
    place = places_of(rows["message_id"], publications["message_id"])
    untold = pl.Series([True]).new_from_index(0, publications.height)
    untold = untold.scatter(place.drop_nulls(), False).arg_true()
    nobody = pick(publications, untold, "message_id", "topic").select(
        "message_id",
        pl.when(pl.col("topic").is_null())
        .then(label(PENDING))
        .otherwise(label("no_subscriber"))
        .alias("fate"),
    )
    rows = pl.concat([rows, nobody], how="diagonal", rechunk=True)
    place = pl.concat([place, untold])
    sent = publications.select(
        pl.col("proc").alias("publisher_proc"),
        "topic",
        "publisher_id",
        pl.col("node").alias("publisher_node"),
        "publish_ns",
        "rcl_publish_ns",
        "rmw_publish_ns",
        "key_ns",
        "source_timestamp_ns",
        "guessed",
    )
    # In order as long as they are narrow.
    rows = rows.hstack(pick(sent, place, "publish_ns")).with_columns(place.alias(_PLACE))
    rows = sorted_by(rows, *ORDER, nulls_last=True)
    rows = rows.drop(_PLACE).hstack(
        pick(sent.drop("publish_ns"), rows[_PLACE], *(c for c in sent.columns if c != "publish_ns"))
    )
    received = ("subscription_id", "take_ns", "intra_process")
    arrived = pl.any_horizontal(pl.col(name).is_not_null() for name in received)
    return rows.with_columns(
        pl.when(arrived)
        .then(pl.col("intra_process").fill_null(value=False))
        .alias("intra_process"),
        pl.col("source_timestamp_ns").fill_null(pl.col("key_ns")),
    )
