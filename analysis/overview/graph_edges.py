"""The graph of nodes and topics with what its edges carry: rates, latency, loss."""

from __future__ import annotations

import polars as pl

from roslens.analysis.measures.loss import loss_of
from roslens.analysis.measures.samples import rate_hz
from roslens.analysis.statistics.quantiles import quantile_of


def graph_edges(messages: pl.LazyFrame) -> pl.DataFrame:
    """One row per edge of the graph, mean over runs.

    Parameters
    ----------
    messages
        The table of that name with ``run``.

    Returns
    -------
    polars.DataFrame
        ``node``, ``topic``, ``publishes`` (else the node receives), ``messages``, ``rate_hz``
        (publications or messages per second from the first to the last publication), and of what
        is received ``p50_ms``, ``p99_ms`` (publish to callback_start, delivered ones) and ``lost``
        (part of those sent to it). Sorted by topic, publishers first.
    """
    known = messages.filter(pl.col("topic").is_not_null())
    latency = pl.col("latency_ns") / 1e6
    none = pl.lit(None, dtype=pl.Float64)
    sent = (
        known.unique(["run", "publisher_node", "topic", "publish_ns"])
        .group_by("run", pl.col("publisher_node").alias("node"), "topic")
        .agg(
            publishes=pl.lit(value=True),
            messages=pl.len(),
            rate_hz=rate_hz("publish_ns"),
            p50_ms=none,
            p99_ms=none,
            lost=none,
        )
    )
    received = (
        known.filter(pl.col("outcome") != "no_subscriber")
        .sort("latency_ns")
        .group_by("run", pl.col("subscription_node").alias("node"), "topic")
        .agg(
            publishes=pl.lit(value=False),
            messages=pl.len(),
            rate_hz=rate_hz("publish_ns"),
            p50_ms=quantile_of(latency, 0.5, ordered=True),
            p99_ms=quantile_of(latency, 0.99, ordered=True),
            lost=loss_of("outcome"),
        )
    )
    return (
        pl.concat([sent, received])
        .drop_nulls("node")
        .group_by("node", "topic", "publishes")
        .agg(pl.col("messages").sum(), pl.col("rate_hz", "p50_ms", "p99_ms", "lost").mean())
        .sort("topic", pl.col("publishes").not_(), "node")
        .collect()
    )
