"""What kept a thread from a message that had been published."""

from __future__ import annotations

import polars as pl

from roslens.analysis.flow.chain import Tables, flow_tables, run_keys


def blocking(tables: Tables) -> pl.DataFrame:
    """What the receiving thread did between a message's publication and the start of its callback.

    Returns
    -------
    polars.DataFrame
        run (of several), ``message_id``, ``subscription_id``, ``callback_instance_id`` (that
        waited), ``blocking_id`` (execution in its way), ``kind``, ``name``, ``node`` (of that
        one), ``duration_ns`` (how much of it lay between). Executions within another one are
        part of that one; one without an end counts for nothing.
    """
    messages, _, instances, _ = flow_tables(tables, calls=False)
    keys = run_keys(messages)
    thread = [*keys, "host", "vpid", "vtid"]
    order = [*thread, "start_ns"]
    ended = instances.filter(pl.col("end_ns").is_not_null()).sort(order)
    before = pl.col("end_ns").cum_max().shift(1).over(thread)
    outer = (
        ended.filter(before.is_null() | (pl.col("start_ns") >= before))
        .with_columns(pl.int_range(pl.len()).alias("place"))
        .with_columns(pl.col("place").min().over(thread).alias("first"))
    )
    waits = messages.filter(
        pl.col("callback_start_ns").is_not_null() & pl.col("publish_ns").is_not_null()
    ).join(
        instances.select(*thread, "callback_instance_id"),
        on=[*keys, "callback_instance_id"],
    )
    waits = waits.select(
        *thread, "message_id", "subscription_id", "callback_instance_id", "publish_ns",
        "callback_start_ns",
    )  # fmt: skip
    # The first that ends after the publication, and the last that starts before the callback.
    waits = waits.sort("publish_ns").join_asof(
        outer.sort("end_ns").select(*thread, "end_ns", pl.col("place").alias("from")),
        left_on="publish_ns", right_on="end_ns", by=thread, strategy="forward",
        allow_exact_matches=False, check_sortedness=False, coalesce=False,
    ).drop("end_ns").sort("callback_start_ns").join_asof(
        outer.sort("start_ns").select(*thread, "start_ns", pl.col("place").alias("to")),
        left_on="callback_start_ns", right_on="start_ns", by=thread, strategy="backward",
        allow_exact_matches=False, check_sortedness=False, coalesce=False,
    ).drop("start_ns")  # fmt: skip
    pairs = (
        waits.filter(pl.col("from") <= pl.col("to"))
        .with_columns(pl.int_ranges("from", pl.col("to") + 1).alias("place"))
        .explode("place")
        .join(
            outer.select(
                "place", "start_ns", "end_ns", pl.col("callback_instance_id").alias("blocking_id"),
                "kind", "name", "node",
            ),
            on="place",
        )
    )  # fmt: skip
    overlap = pl.min_horizontal("end_ns", "callback_start_ns") - pl.max_horizontal(
        "start_ns", "publish_ns"
    )
    return (
        pairs.with_columns(overlap.alias("duration_ns"))
        .select(
            *keys, "message_id", "subscription_id", "callback_instance_id", "blocking_id", "kind",
            "name", "node", "duration_ns",
        )
        .sort(*keys, "message_id", "subscription_id", "blocking_id")
    )  # fmt: skip
