"""Summarise the last seconds: topics, nodes, callbacks, threads, and chains."""

from __future__ import annotations

from collections.abc import Mapping
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
    """First times ``since_ns`` of each pair of nodes on a topic, each node, and its executions."""

    topics: pl.DataFrame
    nodes: pl.DataFrame
    ran: pl.DataFrame


@dataclass(frozen=True)
class LastSeconds:
    """Figures of one stretch of time.

    Attributes
    ----------
    begin_ns, end_ns
        The stretch, ns since the epoch.
    topics
        Rows as in `topics_overview`, of the messages published in the stretch, including topics
        that had messages only before. ``rate_hz`` counts publications, whatever became of them,
        over the stretch, or since the first message if that is in the stretch; null until a second
        after that message.
    nodes
        ``node``, ``rate_hz`` (executions that began in the stretch; likewise, since its first
        execution or its first message), ``busy`` (the part of the time in its callbacks, with what
        runs within them; more than 1 where several threads run them; null where that is not known,
        such as before anything was read), ``p99_ms`` (of at least 299) and ``worst_ms`` (of
        executions that ended), ``lost`` (part of the messages to it that did not arrive), ``cpu``
        (CPUs) and ``rss_bytes`` of its process; includes nodes that were active only before.
    callbacks
        ``kind``, ``name``, ``node``, ``count`` (executions that began in the stretch), ``p50_ms``,
        ``p99_ms``, ``worst_ms`` (of executions that ended); percentiles of fewer than 6 and 299 are
        null, the slowest callbacks come first.
    threads
        ``host``, ``vpid``, ``vtid``, ``nodes``, ``busy`` (the part of the time in callbacks; null
        where that is not known).
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
    alive: Mapping[int, bool] | None = None,
    is_whole: bool = True,
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
    alive
        By process number, whether the process lives: its execution without an end then still runs.
        Of others that is not known. None: all live.
    is_whole
        Whether no execution can have begun before the first one in any of the tables so far.
    """
    published = messages.filter(pl.col("publish_ns").is_between(begin_ns, end_ns))
    pairs = _first_of(messages.filter(pl.col("publish_ns") <= end_ns))
    ran = instances.filter(pl.col("start_ns") <= end_ns)
    executed = _first_executions(ran)
    first = Since(pairs, _first_of_nodes(pairs, executed), executed)
    if since is not None:
        first = Since(
            _earliest(PAIR, since.topics, first.topics),
            _earliest("node", since.nodes, first.nodes),
            _earliest("node", since.ran, first.ran),
        )
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
    in_callbacks = _in_callbacks(instances, begin_ns, end_ns, alive)
    span_ns = max(end_ns - begin_ns, 1)
    busy = _busy(in_callbacks, "node", span_ns=span_ns)
    # What a node does that was never seen to run anything is known only if nothing is missing.
    seen = first.nodes if is_whole else first.ran
    return LastSeconds(
        begin_ns=begin_ns,
        end_ns=end_ns,
        topics=_topics(published, first.topics, begin_ns, end_ns),
        nodes=_nodes(
            published, began, busy, first.nodes, seen, begin_ns=begin_ns, end_ns=end_ns
        ).join(pl.DataFrame(schema=USED) if used is None else used, on="node", how="left"),
        callbacks=callbacks,
        threads=_busy(in_callbacks, span_ns=span_ns).sort(
            "busy", *_THREAD, descending=[True, False, False, False], nulls_last=True
        ),
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


def _first_executions(ran: pl.DataFrame) -> pl.DataFrame:
    first = ran.group_by("node").agg(since_ns=pl.col("start_ns").min())
    return first.with_columns(pl.col("node").cast(pl.String)).drop_nulls()


def _first_of_nodes(pairs: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    ends = [pairs.select(node=end, since_ns="since_ns") for end in ("from", "to")]
    return _earliest("node", executed, *ends).drop_nulls()


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
    # A receiver that is gone or not there yet does not stop who publishes.
    publications = (
        published.filter(pl.col("topic").is_not_null())
        .select("topic", pl.col("publisher_node").alias("from"), "publish_ns")
        .unique()
        .with_columns(pl.col("topic", "from").cast(pl.String))
        .join(first, on=("topic", "from"), nulls_equal=True)
        .filter(pl.col("publish_ns") >= pl.col("since_ns"))
        .group_by(PAIR)
        .agg(publications=pl.len())
    )
    rows = (
        first.join(topics, on=PAIR, how="left", nulls_equal=True)
        .join(publications, on=PAIR, how="left", nulls_equal=True)
        .with_columns(pl.col("messages", "publications").fill_null(0))
        .with_columns(rate_hz=_rate("publications", begin_ns, end_ns))
        .select(topics.columns)
    )
    return slowest_first(rows)


def _nodes(
    published: pl.DataFrame,
    began: pl.DataFrame,
    busy: pl.DataFrame,
    first: pl.DataFrame,
    seen: pl.DataFrame,
    *,
    begin_ns: int,
    end_ns: int,
) -> pl.DataFrame:
    parts = (
        began.group_by("node").agg(count=pl.len(), p99_ms=_P99_MS, worst_ms=_MS.max()),
        # A thread in doubt makes the sum null.
        busy.group_by("node").agg(
            busy=pl.when(pl.col("busy").null_count() == 0).then(pl.col("busy").sum()),
            is_busy=pl.lit(True),
        ),
        published.filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .group_by(node="subscription_node")
        .agg(lost=loss_of("outcome")),
    )
    for each in parts:
        first = first.join(each.with_columns(pl.col("node").cast(pl.String)), on="node", how="left")
    rate = _rate("count", begin_ns, end_ns)
    return (
        first.with_columns(
            pl.col("count").fill_null(0),
            busy=pl.when(pl.col("is_busy").is_null() & pl.col("node").is_in(seen["node"].implode()))
            .then(0.0)
            .otherwise("busy"),
        )
        .select(
            "node", rate_hz=rate, busy="busy", p99_ms="p99_ms", worst_ms="worst_ms", lost="lost"
        )
        .sort("busy", "node", descending=[True, False], nulls_last=True)
    )


def _in_callbacks(
    instances: pl.DataFrame, begin_ns: int, end_ns: int, alive: Mapping[int, bool] | None
) -> pl.DataFrame:
    """Return executions in the stretch, from ``begin`` to ``end``; ``doubt`` if that is unknown.

    An execution without an end whose callback began again on its thread ended by the next one
    there. Any other still runs if its process lives, and else ran to the process's last event. But
    if others began on its thread meanwhile, and none within earlier executions of its callback, an
    exception may have ended it.
    """
    start, end = pl.col("start_ns"), pl.col("end_ns")
    lives = pl.lit(alive is None)
    gone = pl.lit(False)
    if alive is not None:
        lives, gone = (
            pl.col("vpid").is_in([vpid for vpid, it_lives in alive.items() if it_lives is which])
            for which in (True, False)
        )
    last = pl.max_horizontal(start, end).max().over("host", "vpid")
    limit = pl.when(gone).then(last).otherwise(end_ns)
    after = pl.col("after")
    again = start.shift(-1).over(*_THREAD, *CALLBACK)
    is_open = end.is_null() & again.is_null()
    spins = (after < end).any().over(*_THREAD, *CALLBACK)
    return (
        # This precedes the filter: the next execution may have ended before the time, too.
        instances.sort("start_ns")
        .with_columns(after=start.shift(-1).over(_THREAD))
        .with_columns(
            end=pl.coalesce(end, pl.when(is_open).then(limit).otherwise(after)),
            doubt=is_open & ((after.is_not_null() & ~spins) | ~(lives | gone)),
        )
        .with_columns(begin=start.clip(begin_ns, end_ns), end=pl.col("end").clip(begin_ns, end_ns))
        .filter(start <= end_ns, pl.col("end") > begin_ns)
    )


def _busy(ran: pl.DataFrame, *by: str, span_ns: int) -> pl.DataFrame:
    """Return the part of the time on each thread with an execution, null where one is in doubt.

    Executions within others count once. ``nodes`` has the names of the nodes.
    """
    key = (*_THREAD, *by)
    before = pl.col("end").cum_max().shift(1).over(key)
    own_ns = (pl.col("end") - pl.max_horizontal("begin", before)).clip(0)
    return (
        ran.with_columns(own=own_ns)
        .group_by(key)
        .agg(
            nodes=pl.col("node").cast(pl.String).drop_nulls().unique().sort().str.join(", "),
            busy=pl.when(~pl.col("doubt").any()).then(pl.col("own").sum() / span_ns),
        )
    )
