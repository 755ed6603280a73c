"""Summarise the last seconds: topics, nodes, callbacks, threads, and chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from roslens.analysis.measures.callbacks import CALLBACK, readable
from roslens.analysis.measures.loss import loss_of
from roslens.analysis.overview.runs_and_topics import slowest_first, topics_overview
from roslens.analysis.statistics.quantiles import supported_quantile_of

PAIR = ("topic", "from", "to")
_THREAD = ("host", "vpid", "vtid")
_LEAST_S = 1.0
"""Least time after which a rate is known, or the window where that is shorter."""
_MS = pl.col("duration_ns") / 1e6
_P50_MS, _P99_MS = (supported_quantile_of(_MS, q, ordered=True) for q in (0.5, 0.99))
USED = {"node": pl.String, "cpu": pl.Float64, "rss_bytes": pl.Int64}


class Since(NamedTuple):
    """First times ``since_ns`` of each pair of nodes on a topic, and of each node."""

    topics: pl.DataFrame
    nodes: pl.DataFrame


@dataclass(frozen=True)
class LastSeconds:
    """Figures of one stretch of time.

    Attributes
    ----------
    begin_ns, end_ns
        The stretch, ns since the epoch.
    topics
        Rows as in `topics_overview`, of the messages published in the stretch, including topics
        that had messages only before. ``rate_hz`` is over the stretch, or since the first message
        if that is in the stretch; null until a second after that message.
    nodes
        ``node``, ``rate_hz`` (executions that began in the stretch; likewise, since its first
        execution or its first message), ``busy`` (the part of the time in its callbacks; more than
        1 where several threads run them), ``p99_ms`` (of at least 299) and ``worst_ms`` (of
        executions that ended), ``lost`` (part of the messages to it that did not arrive), ``cpu``
        (CPUs) and ``rss_bytes`` of its process; includes nodes that were active only before.
    callbacks
        ``kind``, ``name``, ``node``, ``count`` (executions that began in the stretch), ``p50_ms``,
        ``p99_ms``, ``worst_ms`` (of executions that ended); percentiles of fewer than 6 and 299 are
        null, the slowest callbacks come first.
    threads
        ``host``, ``vpid``, ``vtid``, ``nodes``, ``busy`` (the part of the time in callbacks).
    since
        First times that the next figures need.
    chains
        Rows of `roslens.live.chains.chain_figures`; None where no chain was asked for.
    """

    begin_ns: int
    end_ns: int
    topics: pl.DataFrame
    nodes: pl.DataFrame
    callbacks: pl.DataFrame
    threads: pl.DataFrame
    since: Since | None = None
    chains: pl.DataFrame | None = None


def last_seconds(
    messages: pl.DataFrame,
    instances: pl.DataFrame,
    begin_ns: int,
    end_ns: int,
    since: Since | None = None,
    *,
    used: pl.DataFrame | None = None,
) -> LastSeconds:
    """Return the figures of the time between two moments.

    Parameters
    ----------
    messages, instances
        The tables ``messages`` and ``callback_instances``.
    since
        `since` of earlier figures, where tables may have dropped old rows; later rows are complete.
    used
        Resources that processes use, columns `USED`; None where they are not sampled.
    """
    published = messages.filter(pl.col("publish_ns").is_between(begin_ns, end_ns))
    pairs = _first_of(messages.filter(pl.col("publish_ns") <= end_ns))
    ran = instances.filter(pl.col("start_ns") <= end_ns)
    first = Since(pairs, _first_of_nodes(pairs, ran))
    if since is not None:
        first = Since(_earliest(PAIR, since.topics, pairs), _earliest("node", *since[1:], first[1]))
    began = ran.filter(pl.col("start_ns") >= begin_ns).sort("duration_ns")
    callbacks = (
        began.group_by(CALLBACK)
        .agg(
            count=pl.len(),
            p50_ms=_P50_MS,
            p99_ms=_P99_MS,
            worst_ms=_MS.max(),
        )
        .with_columns(name=readable(pl.col("name").cast(pl.String)))
        .sort(
            pl.coalesce("p99_ms", "worst_ms"),
            *CALLBACK,
            descending=[True, False, False, False],
            nulls_last=True,
        )
    )
    own_time = _time_by_node(instances, begin_ns, end_ns)
    return LastSeconds(
        begin_ns=begin_ns,
        end_ns=end_ns,
        topics=_topics(published, first.topics, begin_ns, end_ns),
        nodes=_nodes(
            published, began, own_time, first.nodes, begin_ns=begin_ns, end_ns=end_ns
        ).join(pl.DataFrame(schema=USED) if used is None else used, on="node", how="left"),
        callbacks=callbacks,
        threads=_threads(own_time, max(end_ns - begin_ns, 1)),
        since=first,
    )


def _first_of(messages: pl.DataFrame) -> pl.DataFrame:
    return (
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


def _first_of_nodes(pairs: pl.DataFrame, ran: pl.DataFrame) -> pl.DataFrame:
    signs = [
        ran.group_by("node").agg(since_ns=pl.col("start_ns").min()),
        *(pairs.select(node=end, since_ns="since_ns") for end in ("from", "to")),
    ]
    text = pl.col("node").cast(pl.String)
    return _earliest("node", *(frame.with_columns(text) for frame in signs)).drop_nulls()


def _earliest(key: str | tuple[str, ...], *frames: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(frames).group_by(key).agg(pl.col("since_ns").min())


def _rate(count: str, begin_ns: int, end_ns: int) -> pl.Expr:
    """Return the count per second, since ``since_ns`` if that is later than the begin."""
    span = (end_ns - pl.col("since_ns").clip(begin_ns)) / 1e9
    # The first message begins the time over which the others are counted.
    counted = pl.col(count).cast(pl.Int64) - (pl.col("since_ns") >= begin_ns).cast(pl.Int64)
    enough = span >= min(_LEAST_S, (end_ns - begin_ns) / 1e9)
    return pl.when(enough & (span > 0)).then(counted.clip(0) / span)


def _topics(
    published: pl.DataFrame, first: pl.DataFrame, begin_ns: int, end_ns: int
) -> pl.DataFrame:
    topics = topics_overview(published.lazy().with_columns(run=pl.lit("")))
    topics = topics.with_columns(pl.col(PAIR).cast(pl.String))
    rows = (
        first.join(topics, on=PAIR, how="left", nulls_equal=True)
        .with_columns(pl.col("messages").fill_null(0))
        .with_columns(rate_hz=_rate("messages", begin_ns, end_ns))
        .select(topics.columns)
    )
    return slowest_first(rows)


def _nodes(
    published: pl.DataFrame,
    began: pl.DataFrame,
    own_time: pl.DataFrame,
    first: pl.DataFrame,
    *,
    begin_ns: int,
    end_ns: int,
) -> pl.DataFrame:
    parts = (
        began.group_by("node").agg(count=pl.len(), p99_ms=_P99_MS, worst_ms=_MS.max()),
        own_time.group_by("node").agg(busy=pl.col("own").sum() / max(end_ns - begin_ns, 1)),
        published.filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .group_by(node="subscription_node")
        .agg(lost=loss_of("outcome")),
    )
    for each in parts:
        first = first.join(each.with_columns(pl.col("node").cast(pl.String)), on="node", how="left")
    rate = _rate("count", begin_ns, end_ns)
    return (
        first.with_columns(pl.col("count", "busy").fill_null(0))
        .select(
            "node", rate_hz=rate, busy="busy", p99_ms="p99_ms", worst_ms="worst_ms", lost="lost"
        )
        .sort("busy", "node", descending=[True, False])
    )


def _time_by_node(instances: pl.DataFrame, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the time of each node on each thread, ``own``; inner executions count once.

    An execution without a known end ran up to the next one on its thread.
    """
    end = pl.coalesce("end_ns", pl.col("start_ns").shift(-1).over(_THREAD), pl.lit(end_ns))
    ran = (
        # This precedes the filter: the next execution may have ended before the time, too.
        instances.sort("start_ns")
        .with_columns(end=end.clip(begin_ns, end_ns))
        .filter(pl.col("start_ns") <= end_ns, pl.col("end") > begin_ns)
    )
    begin = pl.col("start_ns").clip(begin_ns, end_ns)
    before = pl.col("end").cum_max().shift(1).over(_THREAD)
    own_ns = (pl.col("end") - pl.max_horizontal(begin, before)).clip(0)
    return ran.with_columns(own=own_ns).group_by(*_THREAD, "node").agg(pl.col("own").sum())


def _threads(own_time: pl.DataFrame, span_ns: int) -> pl.DataFrame:
    """Return the part of the time that each thread was in callbacks."""
    return (
        own_time.group_by(_THREAD)
        .agg(
            nodes=pl.col("node").cast(pl.String).drop_nulls().unique().sort().str.join(", "),
            busy=pl.col("own").sum() / span_ns,
        )
        .sort("busy", *_THREAD, descending=[True, False, False, False])
    )
