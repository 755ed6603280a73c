"""What a program logged of its own messages, beside what the trace says of them."""

from __future__ import annotations

import polars as pl

from roslens.analysis.statistics.quantiles import quantile_of

_WITHIN_NS = 1_000_000_000
"""A publication and its line in the log lie closer than that, or they are not the same."""


def link_log(messages: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Add ``logged_publish_ns`` and ``logged_callback_ns`` to messages; null without a line.

    On each topic the k-th publication is the k-th of the log, where both have as many; the k-th
    reception of a publication (it has one per subscription) is the k-th logged one.

    Parameters
    ----------
    messages
        Of the messages table, with ``run``.
    logged
        ``run`` and the columns of `roslens.collectors.results.logged_messages`.
    """
    order = pl.int_range(pl.len(), dtype=pl.Int64)
    on = ["run", "topic"]
    seen = (
        messages.filter(pl.col("publish_ns").is_not_null())
        .group_by(*on, "message_id")
        .agg(pl.col("publish_ns").min())
        .sort("publish_ns", "message_id")
        .with_columns(order.over(on).alias("number"), pl.len().over(on).alias("count"))
    )
    lines = (
        logged.group_by(*on, "sequence")
        .agg(pl.col("publish_realtime_ns").min())
        .sort("publish_realtime_ns", "sequence")
        .with_columns(order.over(on).alias("number"), pl.len().over(on).alias("count"))
    )
    same = seen.join(lines, on=[*on, "number", "count"]).filter(
        (pl.col("publish_ns") - pl.col("publish_realtime_ns")).abs() < _WITHIN_NS
    )
    receptions = (
        logged.drop_nulls("callback_realtime_ns")
        .sort("callback_realtime_ns")
        .with_columns(order.over(*on, "sequence").alias("reception"))
        .select(*on, "sequence", "reception", "callback_realtime_ns")
    )
    rank = (
        pl.when(pl.col("callback_start_ns").is_not_null())
        .then(pl.col("callback_start_ns").rank("ordinal").over("run", "message_id") - 1)
        .cast(pl.Int64)
    )
    return (
        messages.with_columns(rank.alias("reception"))
        .join(
            same.select("run", "message_id", "sequence", "publish_realtime_ns"),
            on=["run", "message_id"],
            how="left",
            maintain_order="left",
        )
        .join(receptions, on=[*on, "sequence", "reception"], how="left", maintain_order="left")
        .drop("sequence", "reception")
        .rename(
            {
                "publish_realtime_ns": "logged_publish_ns",
                "callback_realtime_ns": "logged_callback_ns",
            }
        )
    )


def compare_with_log(linked: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Counts and latencies by the trace and by the log, per run that has one.

    Parameters
    ----------
    linked
        From `link_log`.

    Returns
    -------
    ``run``, ``publications``, ``logged_publications``, ``receptions``, ``logged_receptions``,
    ``latency_p50_ns`` and ``logged_latency_p50_ns`` (medians, each over its own messages),
    ``longer_p50_ns`` and ``longer_p99_ns`` (of logged minus traced latency, message by message).
    """
    longer = pl.col("logged_callback_ns") - pl.col("logged_publish_ns") - pl.col("latency_ns")
    seen = linked.group_by("run").agg(
        pl.col("message_id").n_unique().cast(pl.Int64).alias("publications"),
        (pl.col("outcome") == "delivered").sum().cast(pl.Int64).alias("receptions"),
        pl.col("latency_ns").median().alias("latency_p50_ns"),
        longer.median().alias("longer_p50_ns"),
        quantile_of(longer, 0.99).alias("longer_p99_ns"),
    )
    latency = pl.col("callback_realtime_ns") - pl.col("publish_realtime_ns")
    lines = logged.group_by("run").agg(
        pl.struct("topic", "sequence").n_unique().cast(pl.Int64).alias("logged_publications"),
        pl.col("callback_realtime_ns").count().cast(pl.Int64).alias("logged_receptions"),
        latency.median().alias("logged_latency_p50_ns"),
    )
    return lines.join(seen, on="run", how="left").select(
        "run", "publications", "logged_publications", "receptions", "logged_receptions",
        "latency_p50_ns", "logged_latency_p50_ns", "longer_p50_ns", "longer_p99_ns",
    ).sort("run")  # fmt: skip
