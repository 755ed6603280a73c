"""Runs with their health, topics with rates, latency and loss."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.measures.loss import TracerLoss, loss_of
from roslens.analysis.measures.samples import LOST, rate_hz
from roslens.analysis.statistics.quantiles import quantile_of

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


def runs_overview(
    losses: Sequence[TracerLoss],
    processes: pl.LazyFrame,
    messages: pl.LazyFrame,
    health: pl.LazyFrame,
) -> pl.DataFrame:
    """One row per run, as `RUN_SCHEMA`.

    Parameters
    ----------
    losses
        Of every run, in the order wanted.
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
    found = health.group_by("run").agg(
        errors=(pl.col("severity") == "error").sum().cast(pl.Int64),
        warnings=(pl.col("severity") == "warning").sum().cast(pl.Int64),
    )
    joined = of_run
    for part in (span, sent, found):
        joined = joined.join(part, on="run", how="left", maintain_order="left")
    return joined.select(
        pl.col(name).fill_null(0) if kind.is_integer() else pl.col(name)
        for name, kind in RUN_SCHEMA.items()
    ).collect()


def topics_overview(messages: pl.LazyFrame) -> pl.DataFrame:
    """One row per topic and pair of nodes of all runs, the slowest first.

    Returns
    -------
    ``topic``, ``from``, ``to``, ``messages``, ``rate_hz`` (messages per second from the first to
    the last publication; null for few), ``p50_ms``, ``p99_ms``, ``worst_ms`` (publish to callback,
    delivered ones), ``lost`` (part of those sent that did not arrive; null where unknown ones
    forbid it).
    """
    latency = pl.col("latency_ns") / 1e6
    return (
        messages.filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .sort("latency_ns")
        .group_by("run", "topic", "publisher_node", "subscription_node")
        .agg(
            messages=pl.len(),
            rate=rate_hz("publish_ns"),
            p50_ms=quantile_of(latency, 0.5, ordered=True),
            p99_ms=quantile_of(latency, 0.99, ordered=True),
            worst_ms=latency.max(),
            lost=loss_of("outcome"),
        )
        .group_by(
            "topic",
            pl.col("publisher_node").alias("from"),
            pl.col("subscription_node").alias("to"),
        )
        .agg(
            pl.col("messages").sum(),
            rate_hz=pl.col("rate").mean(),
            p50_ms=pl.col("p50_ms").mean(),
            p99_ms=pl.col("p99_ms").mean(),
            worst_ms=pl.col("worst_ms").max(),
            lost=pl.col("lost").mean(),
        )
        .sort("p99_ms", descending=True, nulls_last=True)
        .collect()
    )
