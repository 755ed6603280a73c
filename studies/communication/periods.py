"""Compute average periods of publishers, subscriptions and pairs as in the 2019 study of rclcpp."""

from __future__ import annotations

import polars as pl

from roslens.analysis.estimate import Metric
from roslens.analysis.measures.loss import loss_of
from roslens.analysis.measures.samples import ARRIVED, LOST

PUBLISHER_PERIOD = Metric(
    "publisher_period",
    "(last publication - first) / (publications - 1) of each publisher, first publish event of "
    "each; mean over the publishers of a run",
    "ns",
    None,
)
SUBSCRIPTION_PERIOD = Metric(
    "subscription_period",
    "(last callback_start - first) / (callbacks - 1) of each subscription; mean over the "
    "subscriptions of a run",
    "ns",
    None,
)


def publisher_periods(messages: pl.DataFrame) -> pl.DataFrame:
    """Return ``run``, ``topic``, ``publisher_id``, ``publications``, ``period_ns`` (null for one).

    A row of the messages table is one publication for one subscription: each counts once.
    """
    return _periods(
        messages.lazy().unique(["run", "message_id"]), ["run", "topic", "publisher_id"],
        "publish_ns", "publications",
    )  # fmt: skip


def subscription_periods(callbacks: pl.DataFrame) -> pl.DataFrame:
    """Return ``run``, ``topic``, ``subscription_id``, ``receptions``, ``period_ns`` (null for one).

    Includes all executions of the callback, even those without a known message.
    """
    return _periods(callbacks.lazy(), ["run", "topic", "subscription_id"], "start_ns", "receptions")


def _periods(rows: pl.LazyFrame, entity: list[str], time: str, count: str) -> pl.DataFrame:
    stamps = pl.col(time).count()
    span = (pl.col(time).max() - pl.col(time).min()).cast(pl.Float64)
    return (
        rows.group_by(entity)
        .agg(
            stamps.cast(pl.Int64).alias(count),
            pl.when(stamps > 1).then(span / (stamps - 1)).alias("period_ns"),
        )
        .sort(entity, nulls_last=True)
        .collect()
    )


def pairs(messages: pl.DataFrame) -> pl.DataFrame:
    """Return counts, loss and latency of each publisher's messages at each subscription.

    Returns
    -------
    ``run``, ``topic``, ``publisher_id``, ``subscription_id``, ``sent`` (known to have arrived or
    not to), ``received`` (its callback ran), ``lost`` (lost, replaced or overwritten), ``unknown``,
    ``loss`` (of sent; null where unknown ones forbid it), ``latency_ns`` (mean over received; null
    for none).
    """
    outcome = pl.col("outcome")
    lost = outcome.is_in(LOST)
    sent = lost | outcome.is_in(ARRIVED)
    key = ["run", "topic", "publisher_id", "subscription_id"]
    return (
        messages.lazy()
        .filter(outcome != "no_subscriber")
        .group_by(key)
        .agg(
            sent.sum().cast(pl.Int64).alias("sent"),
            (outcome == "delivered").sum().cast(pl.Int64).alias("received"),
            lost.sum().cast(pl.Int64).alias("lost"),
            (outcome == "unknown").sum().cast(pl.Int64).alias("unknown"),
            loss_of("outcome").alias("loss"),
            pl.col("latency_ns").filter(outcome == "delivered").mean(),
        )
        .sort(key, nulls_last=True)
        .collect()
    )
