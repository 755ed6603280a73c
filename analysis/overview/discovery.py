"""Measure how long publishers and subscriptions took to discover each other."""

from __future__ import annotations

import polars as pl

from roslens.analysis.measures.samples import ARRIVED
from roslens.collectors.ros2.losses import is_kernel_loss

_PAIR = ("run", "publisher_id", "subscription_id")


def discovery_overview(
    messages: pl.LazyFrame,
    publishers: pl.LazyFrame,
    subscriptions: pl.LazyFrame,
    losses: pl.LazyFrame,
) -> pl.DataFrame:
    """Return one row per publisher and subscription with messages through the middleware.

    Both exist from the creation of the later one. Discovery ended between then and the first take,
    and not before the last message that was published in that time and never taken.

    Parameters
    ----------
    messages, publishers, subscriptions
        The tables of those names with ``run``.
    losses
        The table of that name: where events were lost before the first take was seen, only
        ``at_least_ms`` is known.

    Returns
    -------
    ``run``, ``topic``, ``from``, ``to``, ``publisher_id``, ``subscription_id``, ``since_ns`` (when
    both existed, ns since the epoch; null where not known), ``published_ms``, ``at_least_ms`` and
    ``delivered_ms`` (from then to the first message, to the last missed message, 0 for none, and to
    the first take; null where there is none), ``missed`` (messages published from then on, before
    the first that was taken). The longest first.
    """
    created = [pl.col(f"{side}_created_ns") for side in ("publisher", "subscription")]
    sent = messages.filter(
        pl.all_horizontal(pl.col("publisher_id", "subscription_id").is_not_null())
        & ~pl.col("intra_process").fill_null(value=False)
        & (pl.col("outcome") != "no_subscriber")
    )
    for frame, name in ((publishers, "publisher"), (subscriptions, "subscription")):
        entities = frame.select(
            "run", f"{name}_id", pl.col("created_ns").alias(f"{name}_created_ns")
        )
        sent = sent.join(entities, on=["run", f"{name}_id"], how="left")

    lost = losses.filter(~is_kernel_loss()).group_by("run").agg(
        lost_ns=pl.col("begin_ns").fill_null(0).min()
    )  # fmt: skip
    known = pl.col("lost_ns").is_null() | (pl.col("first_ns") <= pl.col("lost_ns"))

    def after(name: str) -> pl.Expr:
        return (pl.col(name) - pl.col("since_ns")) / 1e6

    missed = (pl.col("outcome") == "not_matched") & (pl.col("publish_ns") >= pl.col("since_ns"))
    came = pl.col("outcome").is_in((*ARRIVED, "replayed"))
    return (
        sent.with_columns(
            since_ns=pl.when(*(time.is_not_null() for time in created)).then(
                pl.max_horizontal(created)
            )
        )
        .group_by(_PAIR)
        .agg(
            pl.col("topic").first().cast(pl.String),
            pl.col("publisher_node").first().cast(pl.String).alias("from"),
            pl.col("subscription_node").first().cast(pl.String).alias("to"),
            pl.col("since_ns").first(),
            published_ns=pl.col("publish_ns")
            .filter(pl.col("publish_ns") >= pl.col("since_ns"))
            .min(),
            last_ns=pl.col("publish_ns").filter(missed).max(),
            first_ns=pl.col("take_ns").filter(came).min(),
            missed=missed.sum(),
        )
        .join(lost, on="run", how="left")
        .select(
            *("run", "topic", "from", "to", "publisher_id", "subscription_id", "since_ns"),
            published_ms=pl.when(known).then(after("published_ns")),
            at_least_ms=pl.when(pl.col("since_ns").is_not_null()).then(
                after("last_ns").fill_null(0)
            ),
            delivered_ms=pl.when(known).then(after("first_ns")),
            missed=pl.when(known).then("missed"),
        )
        .sort("delivered_ms", *_PAIR, descending=[True, False, False, False], nulls_last=True)
        .collect()
    )
