"""Partners for messages that no key joins; every row made here is labelled approximate."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.types import I64, NAME, label

TOLERANCE_NS = 10_000_000

ORDERED = {
    "message_id": I64,
    "subscription_id": I64,
    "match": NAME,
    "callback_instance_id": I64,
    "callback_start_ns": I64,
    "callback_end_ns": I64,
}


def estimate_timestamps(publications: pl.DataFrame, takes: pl.DataFrame) -> pl.DataFrame:
    """Add ``key_ns``, the source timestamp, and ``estimated``, whether it is a guess.

    On Humble and Iron `rmw_publish` does not hold it. The middleware stamps a message just after
    that event. So each timestamp that was taken, and that no publication is known to have got,
    belongs to the latest publication without one on its topic, at most 10 ms before it; of
    several timestamps that claim one publication, the nearest keeps it. Event times are
    wall-clock times as of the start of the trace, source timestamps of the moment.
    """
    known = publications.select("topic", pl.col("source_timestamp_ns").alias("key_ns"))
    called = pl.coalesce("rmw_publish_ns", "rcl_publish_ns")
    sent = (
        publications.filter(pl.col("source_timestamp_ns").is_null() & pl.col("topic").is_not_null())
        .select("message_id", "topic", called.alias("time_ns"))
        .drop_nulls()
        .sort("time_ns")
    )
    key = pl.col("source_timestamp_ns")
    if sent.is_empty() or takes.is_empty():
        return publications.with_columns(
            key.alias("key_ns"), pl.lit(value=False).alias("estimated")
        )
    claims = (
        takes.select("topic", key.alias("key_ns"))
        .drop_nulls()
        .unique()
        .join(known, on=["topic", "key_ns"], how="anti")
        .sort("key_ns")
        .join_asof(
            sent,
            left_on="key_ns",
            right_on="time_ns",
            by="topic",
            strategy="backward",
            tolerance=TOLERANCE_NS,
            check_sortedness=False,
        )
        .drop_nulls("message_id")
        .sort("key_ns")
        .unique("message_id", keep="first", maintain_order=True)
        .select("message_id", pl.col("key_ns").alias("guess_ns"))
    )
    return (
        publications.join(claims, on="message_id", how="left", maintain_order="left")
        .with_columns(
            key.fill_null(pl.col("guess_ns")).alias("key_ns"),
            pl.col("guess_ns").is_not_null().alias("estimated"),
        )
        .drop("guess_ns")
    )


def ran(instances: pl.DataFrame) -> pl.DataFrame:
    """Executions for messages between processes whose subscription is known: owner_id is that."""
    return instances.filter(
        (pl.col("kind") == "subscription") & ~pl.col("intra") & pl.col("owner_id").is_not_null()
    )


def without_takes(instances: pl.DataFrame, takes: pl.DataFrame) -> pl.Series:
    """Subscriptions whose callbacks ran though no take of theirs was recorded.

    Middleware does not trace every way of taking: loaned messages are taken without an event up to
    Kilted, serialized ones in Humble.
    """
    taken = takes.filter(~pl.col("intra_process"))["subscription_id"].unique()
    runs = ran(instances)["owner_id"].unique().sort().alias("subscription_id")
    return runs.filter(~runs.is_in(taken.implode()))


def by_order(
    publications: pl.DataFrame,
    pairs: pl.DataFrame,
    instances: pl.DataFrame,
    untaken: pl.Series,
) -> pl.DataFrame:
    """Publications and callbacks of subscriptions without takes, joined in order for each.

    With as many callbacks as publications the first belongs to the first, if none starts before
    its publication. Otherwise a callback belongs to the latest publication before it, if no
    other callback does. Where neither holds for the whole of a subscription, nothing is joined.

    Returns
    -------
    polars.DataFrame
        message_id, subscription_id, match, callback_instance_id, callback_start_ns,
        callback_end_ns.
    """
    if untaken.is_empty() or pairs.is_empty():
        return pl.DataFrame(schema=ORDERED)
    pairs = pairs.filter(pl.col("subscription_id").is_in(untaken.implode()))
    starts = (
        ran(instances)
        .filter(pl.col("owner_id").is_in(untaken.implode()))
        .select(
            pl.col("owner_id").alias("subscription_id"),
            "callback_instance_id",
            pl.col("start_ns").alias("callback_start_ns"),
            pl.col("end_ns").alias("callback_end_ns"),
        )
        .sort("callback_start_ns", "callback_instance_id")
    )
    intra = publications.filter(pl.col("intra_publish_ns").is_not_null())
    sent = (
        pairs.join(intra, on="message_id", how="anti")
        .join(publications.select("message_id", "publish_ns"), on="message_id")
        .sort("publish_ns", "message_id")
    )
    place = pl.int_range(pl.len()).over("subscription_id").alias("place")
    counted = sent.with_columns(place, pl.len().over("subscription_id").alias("sent")).join(
        starts.with_columns(place, pl.len().over("subscription_id").alias("ran")),
        on=["subscription_id", "place"],
        how="inner",
    )
    whole = (
        (pl.col("sent") == pl.col("ran")) & (pl.col("callback_start_ns") >= pl.col("publish_ns"))
    ).all()
    first = counted.filter(whole.over("subscription_id"))
    latest = starts.join(first, on="subscription_id", how="anti").join_asof(
        sent,
        left_on="callback_start_ns",
        right_on="publish_ns",
        by="subscription_id",
        strategy="backward",
        check_sortedness=False,
    )
    once = pl.col("message_id").is_not_null().all() & ~pl.col("message_id").is_duplicated().any()
    second = latest.filter(once.over("subscription_id"))
    how = label("approximate").alias("match")
    return pl.concat(
        [part.with_columns(how).select(list(ORDERED)) for part in (first, second)]
    ).cast(pl.Schema(ORDERED))
