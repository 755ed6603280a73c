"""The last seconds at a glance: topics, callbacks and threads."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.analysis.measures.callbacks import CALLBACK, readable
from roslens.analysis.overview.runs_and_topics import slowest_first, topics_overview
from roslens.analysis.statistics.quantiles import quantile_of

PAIR = ("topic", "from", "to")
_LEAST_S = 1.0
"""A rate is known after so long, or a window where that is shorter."""
_MS = pl.col("duration_ns") / 1e6
_OF_CALLBACKS = {
    "p50_ms": quantile_of(_MS, 0.5, ordered=True),
    "p99_ms": quantile_of(_MS, 0.99, ordered=True),
    "worst_ms": _MS.max(),
}


@dataclass(frozen=True)
class LastSeconds:
    """Figures of a stretch of time.

    Attributes
    ----------
    begin_ns, end_ns
        The stretch, ns since the epoch.
    topics
        As of `topics_overview`, of the messages that were published in it; those without any, too,
        if there were some before. ``rate_hz`` is over the stretch, or since the first message if
        that is in it; null until a second after that.
    callbacks
        ``kind``, ``name``, ``node``, ``count`` (executions that began in it), ``p50_ms``,
        ``p99_ms``, ``worst_ms`` (of those that ended).
    threads
        ``host``, ``vpid``, ``vtid``, ``nodes``, ``busy`` (its part in callbacks).
    since
        ``topic``, ``from``, ``to`` and ``since_ns``, the first publication that there was.
    """

    begin_ns: int
    end_ns: int
    topics: pl.DataFrame
    callbacks: pl.DataFrame
    threads: pl.DataFrame
    since: pl.DataFrame | None = None


def last_seconds(
    messages: pl.DataFrame,
    instances: pl.DataFrame,
    begin_ns: int,
    end_ns: int,
    since: pl.DataFrame | None = None,
) -> LastSeconds:
    """Figures of what happened from one time to another.

    Parameters
    ----------
    messages, instances
        The tables ``messages`` and ``callback_instances``.
    since
        That of figures before, where `messages` may have forgotten some; all later ones are there.
    """
    published = messages.filter(pl.col("publish_ns").is_between(begin_ns, end_ns))
    first = _first_of(messages.filter(pl.col("publish_ns") <= end_ns), since)
    began = instances.filter(pl.col("start_ns").is_between(begin_ns, end_ns))
    callbacks = (
        began.sort("duration_ns")
        .group_by(CALLBACK)
        .agg(count=pl.len(), **_OF_CALLBACKS)
        .with_columns(name=readable(pl.col("name").cast(pl.String)))
        .sort("p99_ms", *CALLBACK, descending=[True, False, False, False], nulls_last=True)
    )
    return LastSeconds(
        begin_ns=begin_ns,
        end_ns=end_ns,
        topics=_topics(published, first, begin_ns, end_ns),
        callbacks=callbacks,
        threads=_threads(instances, begin_ns, end_ns),
        since=first,
    )


def _first_of(messages: pl.DataFrame, since: pl.DataFrame | None) -> pl.DataFrame:
    first = (
        messages.lazy()
        .filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .group_by("topic", "publisher_node", "subscription_node")
        .agg(since_ns=pl.col("publish_ns").min())
        .select(
            pl.col("topic").cast(pl.String),
            pl.col("publisher_node").cast(pl.String).alias("from"),
            pl.col("subscription_node").cast(pl.String).alias("to"),
            "since_ns",
        )
        .collect()
    )
    if since is None:
        return first
    return pl.concat([since, first]).group_by(PAIR).agg(pl.col("since_ns").min())


def _topics(
    published: pl.DataFrame, first: pl.DataFrame, begin_ns: int, end_ns: int
) -> pl.DataFrame:
    topics = topics_overview(published.lazy().with_columns(run=pl.lit("")))
    topics = topics.with_columns(pl.col(PAIR).cast(pl.String))
    span = (end_ns - pl.col("since_ns").clip(begin_ns)) / 1e9
    # The first message begins the time that the others are counted in.
    counted = pl.col("messages") - (pl.col("since_ns") >= begin_ns).cast(pl.Int64)
    enough = span >= min(_LEAST_S, (end_ns - begin_ns) / 1e9)
    found = (
        first.join(topics, on=PAIR, how="left", nulls_equal=True)
        .with_columns(pl.col("messages").fill_null(0))
        .with_columns(rate_hz=pl.when(enough & (span > 0)).then(counted / span))
        .select(topics.columns)
    )
    return slowest_first(found)


def _threads(instances: pl.DataFrame, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """What part of the time each thread was in callbacks; the inner ones of several count once.

    Of an execution whose end is not known it counts up to the next one on its thread.
    """
    thread = ("host", "vpid", "vtid")
    end = pl.coalesce("end_ns", pl.col("start_ns").shift(-1).over(thread), pl.lit(end_ns))
    recent = pl.col("end_ns").is_null() | (pl.col("end_ns") > begin_ns)
    ran = instances.filter(recent).sort("start_ns").with_columns(end=end.clip(begin_ns, end_ns))
    begin = pl.col("start_ns").clip(begin_ns, end_ns)
    before = pl.col("end").cum_max().shift(1).over(thread)
    own = (pl.col("end") - pl.max_horizontal(begin, before)).clip(0)
    there = (pl.col("start_ns") <= end_ns) & (pl.col("end") > begin_ns)
    return (
        ran.with_columns(own=own)
        .filter(there)
        .group_by(thread)
        .agg(
            nodes=pl.col("node").cast(pl.String).drop_nulls().unique().sort().str.join(", "),
            busy=pl.col("own").sum() / max(end_ns - begin_ns, 1),
        )
        .sort("busy", *thread, descending=[True, False, False, False])
    )
