"""Summarise runs, topics and graph edges: health, rates, latency and loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from roslens.analysis.estimate import short_labels
from roslens.analysis.measures.loss import TracerLoss, loss_of
from roslens.analysis.measures.pauses import recorded_time
from roslens.analysis.measures.samples import (
    ARRIVED,
    CLOCK_BOUND_NS,
    LATENCY_NS,
    LOST,
    beyond_clocks,
    rate_hz,
    with_cells,
)
from roslens.analysis.runs import Run
from roslens.analysis.statistics.quantiles import (
    mean_quantile_expression,
    quantile_of,
    supported_quantile_of,
)
from roslens.collectors.topics import is_of_application

RUN_SCHEMA = pl.Schema(
    {
        "run": pl.String,
        "cell": pl.String,
        "status": pl.String,
        "seconds": pl.Float64,
        "events": pl.Int64,
        "processes": pl.Int64,
        "discarded": pl.Int64,
        "messages": pl.Int64,
        "lost": pl.Int64,
        "errors": pl.Int64,
        "warnings": pl.Int64,
    }
)

_COUNTS = ("not_arrived", "unknown", "not_matched", "known", "delivered")


def runs_overview(
    losses: Sequence[TracerLoss],
    processes: pl.LazyFrame,
    messages: pl.LazyFrame,
    health: pl.LazyFrame,
) -> pl.DataFrame:
    """Return one row per run, with columns `RUN_SCHEMA`.

    Parameters
    ----------
    losses
        Losses of every run, in the order of the rows to return.
    processes, messages, health
        The tables of those names with ``run``.
    """
    of_run = pl.DataFrame(
        [
            (
                loss.run.name,
                loss.run.label,
                loss.run.status or "no manifest",
                loss.discarded_events + loss.lost_packets,
            )
            for loss in losses
        ],
        schema={"run": pl.String, "cell": pl.String, "status": pl.String, "discarded": pl.Int64},
        orient="row",
    ).lazy()
    span = processes.group_by("run").agg(
        seconds=(pl.col("end_ns").max() - pl.col("begin_ns").min()) / 1e9,
        events=pl.col("events").sum().cast(pl.Int64),
        processes=pl.len().cast(pl.Int64),
    )
    sent = messages.group_by("run").agg(
        messages=pl.len().cast(pl.Int64),
        lost=pl.col("outcome").is_in(LOST).sum().cast(pl.Int64),
    )
    problems = health.group_by("run").agg(
        errors=(pl.col("severity") == "error").sum().cast(pl.Int64),
        warnings=(pl.col("severity") == "warning").sum().cast(pl.Int64),
    )
    joined = of_run
    for part in (span, sent, problems):
        joined = joined.join(part, on="run", how="left", maintain_order="left")
    return joined.select(
        pl.col(name).fill_null(0) if kind.is_integer() else pl.col(name)
        for name, kind in RUN_SCHEMA.items()
    ).collect()


def topics_overview(
    messages: pl.LazyFrame,
    losses: pl.LazyFrame | None = None,
    cells: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return one row per topic and pair of nodes of all runs: application first, slowest first.

    Parameters
    ----------
    messages, losses
        The tables of these names with ``run``; without losses, no recording paused. Messages may
        have the ``size`` [B] of their publication.
    cells
        Cells by run, from `cells_in_words`: only these runs count, with a row for each cell and
        ``cell`` as first column.

    Returns
    -------
    ``topic``, ``from``, ``to``, ``messages``, ``rate_hz`` (publications per recorded second from
    the first to the last; null where a run has fewer than 10), ``bytes_per_s`` (rate times mean
    size; null without sizes), ``p50_ms``, ``p99_ms``, ``worst_ms`` (publish to callback, of
    delivered messages; means over runs, except for the worst), ``lost`` (part of the messages of
    all runs that did not arrive; null where unknown outcomes forbid it in a run), ``not_arrived``
    and ``unknown`` (numbers of messages, of unknown outcome in the second), ``not_matched`` (number
    published before the subscription first took one), ``known`` (number of those that arrived or
    did not), ``delivered`` (number with a latency), ``apart_ms`` (the most by which the clocks of
    hosts can make these times wrong; 0 within a host, null if that is not known). A percentile is
    null where a run has fewer latencies than its interval needs (6 for P50, 299 for P99), and each
    time where hosts' clocks forbid saying it (`beyond_clocks`). The slowest row is that with the
    highest P99, or among rows without P99 that with the longest latency.
    """
    latency, apart = LATENCY_NS / 1e6, pl.col("apart_ms").max()

    cell: list[str] = []
    if cells is not None:
        messages, cell = with_cells(messages, cells), ["cell"]
    is_sized = "size" in messages.collect_schema()
    size = pl.col("size").mean() if is_sized else pl.lit(None, pl.Float64)
    topics = (
        messages.filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .pipe(recorded_time, losses, "publish_ns", host="publisher_host")
        .sort(latency)
        .group_by("run", *cell, "topic", "publisher_node", "subscription_node")
        .agg(
            messages=pl.len(),
            rate=rate_hz("publish_ns"),
            size=size,
            p50_ms=supported_quantile_of(latency, 0.5, ordered=True),
            p99_ms=supported_quantile_of(latency, 0.99, ordered=True),
            worst_ms=latency.max(),
            apart_ms=CLOCK_BOUND_NS / 1e6,
            told=loss_of("outcome").is_not_null(),
            known=pl.col("outcome").is_in((*LOST, *ARRIVED)).sum(),
            not_arrived=pl.col("outcome").is_in(LOST).sum(),
            unknown=(pl.col("outcome") == "unknown").sum(),
            not_matched=(pl.col("outcome") == "not_matched").sum(),
            delivered=latency.count(),
        )
        .group_by(
            *cell,
            pl.col("topic").cast(pl.String),
            pl.col("publisher_node").cast(pl.String).alias("from"),
            pl.col("subscription_node").cast(pl.String).alias("to"),
        )
        .agg(
            pl.col("messages").sum(),
            rate_hz=_of_all_runs("rate", pl.col("rate").mean()),
            bytes_per_s=_of_all_runs("rate", (pl.col("rate") * pl.col("size")).mean()),
            p50_ms=_beyond_clocks(mean_quantile_expression("p50_ms")),
            p99_ms=_beyond_clocks(mean_quantile_expression("p99_ms")),
            worst_ms=_beyond_clocks(pl.col("worst_ms").max()),
            lost=pl.when(pl.col("told").all()).then(
                pl.col("not_arrived").sum() / pl.col("known").sum()
            ),
            **{name: pl.col(name).sum() for name in _COUNTS},
            apart_ms=pl.when(apart.is_finite()).then(apart),
        )
        .collect()
    )
    return slowest_first(topics)


def with_sizes(messages: pl.LazyFrame, publications: pl.LazyFrame) -> pl.LazyFrame:
    """Add the ``size`` [B] of each message's publication."""
    key = ["run", "message_id"]
    return messages.join(publications.select(*key, "size"), on=key, how="left")


def _of_all_runs(name: str, value: pl.Expr) -> pl.Expr:
    """Return a value over runs; null where a run has none, which would leave that run out."""
    return pl.when(pl.col(name).null_count() == 0).then(value)


def _beyond_clocks(value_ms: pl.Expr) -> pl.Expr:
    """Return null for a value over runs where the clocks of hosts forbid saying it."""
    apart = pl.col("apart_ms").max()
    return pl.when(beyond_clocks(value_ms, apart)).then(value_ms)


def with_several(topics: pl.DataFrame, end: str) -> set[tuple[str, str]]:
    """Return the cells and topics with several nodes at an end, ``from`` or ``to``."""
    ends = topics.group_by("cell", "topic").agg(pl.col(end).n_unique())
    return set(ends.filter(pl.col(end) > 1).select("cell", "topic").iter_rows())


def slowest_first(topics: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `topics_overview` in their order: application first, slowest first."""
    return topics.sort(
        is_of_application(),
        pl.coalesce("p99_ms", "worst_ms"),
        "topic",
        "from",
        "to",
        descending=[True, True, False, False, False],
        nulls_last=True,
        maintain_order=True,
    )


def cells_in_words(runs: Sequence[Run]) -> dict[str, str]:
    """Return the cell of each run as text, by run; empty where all runs are of one cell."""
    labels = short_labels([run.cell for run in runs])
    several = len(set(labels)) > 1
    return {run.name: label * several for run, label in zip(runs, labels, strict=True)}


def by_cell(cells: Mapping[str, str], made: Callable[[pl.Expr], pl.DataFrame]) -> pl.DataFrame:
    """Concatenate the frames made of the runs of each cell, with ``cell`` as first column.

    Parameters
    ----------
    cells
        Cells by run, from `cells_in_words`.
    made
        Returns a frame, given an expression that selects rows by ``run``.
    """
    parts = []
    for cell in dict.fromkeys(cells.values()) or [""]:
        runs = [name for name, label in cells.items() if label == cell]
        parts.append(made(pl.col("run").is_in(runs)).select(pl.lit(cell).alias("cell"), pl.all()))
    return pl.concat(parts)


def topics_by_cell(
    messages: pl.LazyFrame, losses: pl.LazyFrame, cells: Mapping[str, str]
) -> pl.DataFrame:
    """Return `topics_overview` with a row for each cell: factors are never pooled."""
    topics = topics_overview(messages, losses, cells)
    order = {cell: place for place, cell in enumerate(dict.fromkeys(cells.values()))}
    place = pl.col("cell").replace_strict(order, return_dtype=pl.Int64)
    return slowest_first(topics.sort(place, maintain_order=True))


def graph_edges(messages: pl.LazyFrame, losses: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return one row per edge of the graph, averaged over runs.

    Parameters
    ----------
    messages, losses
        As in `topics_overview`.

    Returns
    -------
    polars.DataFrame
        ``node``, ``topic``, ``publishes`` (else the node receives), ``messages``, ``rate_hz``
        (publications per recorded second from the first to the last; null where a run has fewer
        than 10), and for receiving nodes
        ``p50_ms``, ``p99_ms`` (publish to callback_start, of delivered messages; null where no
        longer than hosts' clocks may be apart) and ``lost`` (part of the messages sent to the
        node). Sorted by topic, publishers first.
    """
    with_topic = messages.filter(pl.col("topic").is_not_null())
    latency = LATENCY_NS / 1e6
    sent = (
        with_topic.unique(["run", "publisher_node", "topic", "publish_ns"])
        .pipe(recorded_time, losses, "publish_ns", host="publisher_host")
        .group_by("run", pl.col("publisher_node").alias("node"), "topic")
        .agg(
            publishes=pl.lit(value=True),
            messages=pl.len(),
            rate_hz=rate_hz("publish_ns"),
        )
    )
    received = (
        with_topic.filter(pl.col("outcome") != "no_subscriber")
        .pipe(recorded_time, losses, "publish_ns", host="publisher_host")
        .sort(latency)
        .group_by("run", pl.col("subscription_node").alias("node"), "topic")
        .agg(
            publishes=pl.lit(value=False),
            messages=pl.len(),
            rate_hz=rate_hz("publish_ns"),
            p50_ms=quantile_of(latency, 0.5, ordered=True),
            p99_ms=quantile_of(latency, 0.99, ordered=True),
            apart_ms=CLOCK_BOUND_NS / 1e6,
            lost=loss_of("outcome"),
        )
    )
    return (
        pl.concat([sent, received], how="diagonal")
        .drop_nulls("node")
        .group_by("node", "topic", "publishes")
        .agg(
            pl.col("messages").sum(),
            _of_all_runs("rate_hz", pl.col("rate_hz").mean()).alias("rate_hz"),
            *(_beyond_clocks(pl.col(name).mean()).alias(name) for name in ("p50_ms", "p99_ms")),
            pl.col("lost").mean(),
        )
        .sort("topic", pl.col("publishes").not_(), "node")
        .collect()
    )
