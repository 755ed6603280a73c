"""Messages: what became of each publication at each subscription that existed then.

Between processes a publication and a take are the same message when topic and source timestamp
are equal. Within a process the ring buffer tells. Where the middleware gives publications no
timestamp (Humble, Iron) or no take was recorded, `collectors.ros2.approximate` finds partners and
the rows say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from collectors.ros2.approximate import by_order, estimate_timestamps
from collectors.ros2.callbacks import Callbacks
from collectors.ros2.events import Events
from collectors.ros2.joins import pick
from collectors.ros2.objects import DISCOVERY, Objects
from collectors.ros2.outcomes import bounds_of, settle
from collectors.ros2.ring_buffers import PENDING
from collectors.ros2.types import I64, TEXT

_GRACE_NS = 10**9
"""How long after its last event a process is still taken to live."""
_LARGEST = 2**62
_PAIR = (pl.col("message_id") * 2**24 + pl.col("subscription_id")).alias("pair")
"""One number for two; joins by one column are much faster."""
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
    """

    rows: pl.DataFrame
    ambiguous: int
    takes_alone: pl.DataFrame
    cleared: int
    gone: pl.DataFrame


def find_messages(
    events: Events,
    objects: Objects,
    callbacks: Callbacks,
    *,
    publications: pl.DataFrame,
    takes: pl.DataFrame,
    enqueues: pl.DataFrame,
    losses: pl.DataFrame,
) -> Messages:
    """One row per publication and subscription, with its outcome."""
    publications = publications.filter(public())
    inter = takes.filter(public() & ~pl.col("intra_process"))
    publications = estimate_timestamps(publications, inter)
    matched, ambiguous, takes_alone = by_timestamp(publications, inter)
    intra = with_take(enqueues, takes, enqueues["take_id"])
    existing = existing_pairs(publications, objects, events)
    pairs, gone = without_gone(existing, first_after_end(existing))
    ordered = by_order(publications, pairs, callbacks, events)
    rows = message_rows(publications, pairs, matched, intra, ordered)
    rows = settle(rows, objects, events, losses, bounds_of(rows))
    return Messages(
        rows=rows,
        ambiguous=ambiguous,
        takes_alone=takes_alone,
        cleared=enqueues.filter(pl.col("fate") == "cleared").height,
        gone=gone,
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
    sent = publications.filter(pl.col("key_ns").is_not_null()).select(
        "message_id", "topic", "key_ns", "estimated"
    )
    received = takes.select(
        "take_id",
        "subscription_id",
        "topic",
        pl.col("source_timestamp_ns").alias("key_ns"),
        "callback_instance_id",
        *_LINKS,
    )
    sent, received = _keyed(sent, received)
    sent, shared = _ranked(sent, ["key"], "message_id")
    received, again = _ranked(received, ["key", "subscription_id"], "take_id")
    label = (
        pl.when("shared")
        .then(pl.lit("ambiguous"))
        .when("estimated")
        .then(pl.lit("approximate"))
        .otherwise(pl.lit("exact"))
        .alias("match")
    )
    # Ranks are all 0 where nothing is shared.
    on = ["key", "rank"] if shared or again else ["key"]
    mine = received.drop("topic", "key_ns", "shared", *(["rank"] if on == ["key"] else []))
    matched = sent.join(mine, on=on, how="inner").with_columns(label)
    columns = [*sent.columns, *(c for c in mine.columns if c not in sent.columns), "match"]
    matched = matched.select(columns)
    rest_sent = sent.filter(pl.col("topic").is_null())
    rest_received = received.join(matched, on="take_id", how="anti")
    if rest_received.height and (rest_sent.height or rest_received["topic"].null_count()):
        matched = pl.concat([matched, _without_topic(sent, rest_sent, rest_received, matched)])
        rest_received = rest_received.join(matched, on="take_id", how="anti")
    alone = takes.join(rest_received, on="take_id", how="semi")
    used = ("topic", "key_ns", "key", "rank", "shared", "estimated")
    return matched.drop(used), shared, alone


def _keyed(sent: pl.DataFrame, received: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add ``key``: one number for topic and timestamp, null without one of them."""
    topics = pl.concat([sent["topic"], received["topic"]]).unique().drop_nulls().sort()
    stamps = [frame["key_ns"].drop_nulls() for frame in (sent, received)]
    first = min((int(x.min()) for x in stamps if x.len()), default=0)  # type: ignore[arg-type]
    last = max((int(x.max()) for x in stamps if x.len()), default=0)  # type: ignore[arg-type]
    if topics.is_empty() or (last - first + 1) * topics.len() >= _LARGEST:
        # Timestamps that are none: number the pairs that there are.
        pair = ["topic", "key_ns"]
        both = pl.concat([sent.select(pair), received.select(pair)]).drop_nulls().unique()
        numbers = both.with_row_index("key").with_columns(pl.col("key").cast(I64))
        keyed = (
            f.join(numbers, on=pair, how="left", maintain_order="left") for f in (sent, received)
        )
        return next(keyed), next(keyed)
    code = pl.col("topic").cast(pl.Enum(topics)).to_physical().cast(I64)
    key = ((pl.col("key_ns") - first) * topics.len() + code).alias("key")
    return sent.with_columns(key), received.with_columns(key)


def _without_topic(
    sent: pl.DataFrame, nameless: pl.DataFrame, received: pl.DataFrame, matched: pl.DataFrame
) -> pl.DataFrame:
    """Where an init event is missing, a timestamp that is unique in the recording joins alone."""
    unique = ["key_ns"]
    by_time = sent.filter(~pl.struct(unique).is_duplicated())
    first = by_time.join(nameless, on="message_id", how="semi").join(
        received.drop("topic", "rank", "key", "shared"), on="key_ns"
    )
    second = by_time.join(nameless, on="message_id", how="anti").join(
        received.filter(pl.col("topic").is_null()).drop("topic", "rank", "key", "shared"),
        on="key_ns",
    )
    both = pl.concat([first, second]).with_columns(pl.lit("approximate").alias("match"))
    return both.select(matched.columns)


def _ranked(frame: pl.DataFrame, key: list[str], order: str) -> tuple[pl.DataFrame, int]:
    """Add ``rank`` within equal keys and ``shared``; and the number of rows that share."""
    first = frame[key[0]].drop_nulls()
    if first.n_unique() == first.len() or not frame.select(_shared(key).any()).item():
        return frame.with_columns(
            pl.lit(0, dtype=pl.UInt32).alias("rank"), pl.lit(value=False).alias("shared")
        ), 0
    frame = frame.sort(order).with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).over(key).alias("rank"),
        _shared(key).alias("shared"),
    )
    return frame, int(frame["shared"].sum())


def _shared(key: list[str]) -> pl.Expr:
    return pl.struct(key).is_duplicated() & pl.col(key[0]).is_not_null()


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
    # The copy that also came through the middleware is dropped by rclcpp: one row, the intra one.
    rest = pairs.join(known, on=pair, how="anti")
    unresolved = known.filter(pl.col("subscription_id").is_null())["message_id"].unique()
    matched = pl.concat([matched, ordered], how="diagonal").join(known, on=pair, how="anti")
    late = matched.join(pairs, on=pair, how="anti").with_columns(
        pl.when(pl.col("subscription_id").is_not_null()).then(pl.lit("replayed")).alias("fate")
    )
    found = matched.drop("message_id", "subscription_id")
    inter = rest.join(found, on=pair, how="left").with_columns(
        pl.when(pl.col("match").is_null() & pl.col("message_id").is_in(unresolved.to_list()))
        .then(pl.lit(PENDING))
        .alias("fate")
    )
    exact = pl.when(pl.col("fate") != PENDING).then(pl.lit("exact"))
    known = known.with_columns(pl.lit(value=True).alias("intra_process"), exact.alias("match"))
    replays = intra.filter(pl.col("message_id").is_null()).with_columns(
        pl.lit("replayed").alias("fate"),
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
    nobody = publications.join(rows, on="message_id", how="anti").select(
        "message_id",
        pl.when(pl.col("topic").is_null())
        .then(pl.lit(PENDING))
        .otherwise(pl.lit("no_subscriber"))
        .alias("fate"),
    )
    rows = pl.concat([rows, nobody], how="diagonal")
    sent = publications.select(
        "message_id",
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
    place = sent["message_id"].search_sorted(rows["message_id"].fill_null(-1))
    place = pl.select(pl.when(rows["message_id"].is_not_null()).then(place)).to_series()
    rows = rows.hstack(pick(sent, place, *sent.columns[1:]))
    inter_row = pl.col("subscription_id").is_not_null() | pl.col("take_ns").is_not_null()
    return rows.with_columns(
        pl.when(inter_row)
        .then(pl.col("intra_process").fill_null(value=False))
        .alias("intra_process"),
        pl.col("source_timestamp_ns").fill_null(pl.col("key_ns")),
        pl.col("topic").cast(TEXT),
    )
