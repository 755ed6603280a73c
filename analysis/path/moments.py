"""Find when messages were sent, arrived, were handed over and taken, and their callbacks ended."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.measures.message_moments import message_moments

MOMENTS = (
    "publish_ns", "sent_ns", "arrived_ns", "handed_ns", "taken_ns", "callback_start_ns",
    "callback_end_ns",
)  # fmt: skip
"""In order of time. Where the arrival of a message is not known, ``arrived_ns`` and ``handed_ns``
equal ``sent_ns``."""
_KEY = ["message_id", "subscription_id"]


def delivered_messages(
    tables: Mapping[str, pl.DataFrame], kernel: Mapping[str, pl.LazyFrame]
) -> pl.DataFrame:
    """Return delivered messages with `MOMENTS` and the threads that they depend on.

    Messages of `messages_without_times` are left out.

    Returns
    -------
    ``message_id``, ``subscription_id``, `MOMENTS`, ``arrived`` (whether the arrival is known),
    ``execution`` (row of ``callback_instances``), ``callback_instance_id``, ``callback_id``,
    ``node``, ``topic``, ``publisher_node``, ``subscription_node``, and the threads
    ``host``, ``vpid``, ``tid`` (the executor's), ``sender_host``, ``sender_vpid``, ``sender``
    (the publisher's), ``receiver`` (the middleware's), ``itself`` (whether the publisher's
    thread handed the message to the receiver), and ``clock_bound_ns`` (as in ``messages``; 0 within
    a host).
    """
    executions = tables["callback_instances"].with_row_index("execution").select(
        "callback_instance_id", "execution", "callback_id", "node", "host", "vpid",
        pl.col("vtid").cast(pl.Int64).alias("tid"),
    )  # fmt: skip
    senders = tables["publications"].select(
        "message_id", pl.col("vtid").cast(pl.Int64).alias("sender")
    ).unique("message_id", keep="none")  # fmt: skip
    messages = (
        _ended(tables)
        .filter(
            pl.col("publish_ns") <= pl.col("callback_start_ns"),
            pl.col("clock_bound_ns").is_not_null(),
        )
        .drop("host")
        .join(executions, on="callback_instance_id", maintain_order="left")
        .join(senders, on="message_id", how="left", maintain_order="left")
        .rename({"publisher_host": "sender_host", "publisher_vpid": "sender_vpid"})
    )
    messages = _with_arrival(messages, tables, kernel)
    within = pl.col("intra_process").fill_null(value=False)
    steps = {
        "sent_ns": pl.when(~within).then("rmw_publish_ns"),
        "arrived_ns": pl.when(~within).then("arrived_ns"),
        "handed_ns": pl.when(~within).then("woken_ns"),
        "taken_ns": pl.coalesce("take_ns", "callback_start_ns"),
    }
    known = within | pl.col("arrived_ns").is_not_null()
    messages = messages.with_columns(known.alias("arrived"))
    before = "publish_ns"
    for name, step in steps.items():
        moment = pl.max_horizontal(pl.col(before), pl.coalesce(step, pl.col(before)))
        messages = messages.with_columns(pl.min_horizontal(moment, "callback_start_ns").alias(name))
        before = name
    return messages.select(
        *_KEY, *MOMENTS, "arrived", "execution", "callback_instance_id", "callback_id", "node",
        "topic", "publisher_node", "subscription_node", "host", "vpid", "tid",
        "sender_host", "sender_vpid", "sender", "receiver", "itself", "clock_bound_ns",
    )  # fmt: skip


def messages_without_times(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return delivered messages between hosts of which the clocks do not tell how long they took.

    Nothing bounds how far the clocks are apart, or by them the callback began before the message
    was published. The columns are those of ``messages``.
    """
    before = pl.col("publish_ns") > pl.col("callback_start_ns")
    bound = pl.col("clock_bound_ns")
    return _ended(tables).filter(bound.is_null() | (before & (bound > 0)))


def _ended(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return delivered messages whose publication and callback end were recorded."""
    # Within a host there is a latency without a bound.
    one_host = pl.col("clock_bound_ns").is_null() & pl.col("latency_ns").is_not_null()
    return (
        tables["messages"]
        .filter(
            pl.col("outcome").cast(pl.String) == "delivered", pl.col("publish_ns").is_not_null()
        )
        .filter(pl.col("callback_start_ns") <= pl.col("callback_end_ns"))
        .with_columns(pl.when(one_host).then(0).otherwise("clock_bound_ns").alias("clock_bound_ns"))
    )


def _with_arrival(
    messages: pl.DataFrame, tables: Mapping[str, pl.DataFrame], kernel: Mapping[str, pl.LazyFrame]
) -> pl.DataFrame:
    """Add arrived_ns, woken_ns (by the receiver), receiver and itself; null where not known.

    Without kernel events, a message arrives when the middleware's reader receives it. That time
    and the source timestamp come from one system clock, if both ends are on one host.
    """
    number = pl.lit(None, dtype=pl.Int64)
    if not {"sched_switch", "sched_waking"} <= set(kernel):
        received = pl.col("rmw_publish_ns") + pl.col("received_ns") - pl.col("source_timestamp_ns")
        usable = received.is_between("rmw_publish_ns", "take_ns") & (
            pl.col("sender_host") == pl.col("host")
        )
        # Context switches alone do not show what the reader's thread waits for.
        arrived = number if "sched_switch" in kernel else pl.when(usable).then(received)
        return messages.with_columns(
            arrived.alias("arrived_ns"), arrived.alias("woken_ns"), number.alias("receiver"),
            pl.lit(value=False).alias("itself"),
        )  # fmt: skip
    moments = message_moments(
        messages.rename({"sender_host": "publisher_host", "sender_vpid": "publisher_vpid"})
        .drop("host", "vpid", "tid", "sender"),
        tables["callback_instances"], kernel["sched_switch"], kernel["sched_waking"],
        tables["publications"],
    )  # fmt: skip
    reason = pl.col("reason")
    arrived = pl.when(reason == "publisher").then("woken_ns").otherwise("arrived_ns")
    woken = pl.when(reason.is_null()).then("woken_ns")
    return messages.join(
        moments.select(
            *_KEY, arrived.alias("arrived_ns"), woken.alias("woken_ns"), "receiver", "itself"
        ).unique(_KEY, keep="none"),
        on=_KEY, how="left", maintain_order="left",
    ).with_columns(pl.col("itself").fill_null(value=False))  # fmt: skip
