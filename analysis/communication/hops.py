"""The hops of each message; their durations add up to its latency, to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

HOPS: Mapping[str, str] = {
    "publish_call": "first publish event (rclcpp_publish, else rcl_publish) -> rmw_publish: inside "
    "publish(), before the middleware; none within a process",
    "queue_and_transport": "rmw_publish (within a process: first publish event) -> rmw_take "
    "(within a process: the ring buffer's dequeue): on its way, and waiting for the executor; no "
    "event tells the two apart",
    "take": "rmw_take -> rclcpp_take; none within a process",
    "dispatch": "rclcpp_take (within a process: the dequeue) -> callback_start",
}
"""What each hop reaches from and to. A hop whose end was not recorded goes on into the next one
that was."""

_ENDS = ("rmw_publish_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns")


def with_hops(messages: pl.DataFrame) -> pl.DataFrame:
    """Add ``hop_<hop>_ns`` for each of `HOPS`; null where there is no such hop or no event of it.

    Only for messages with a latency: for those the hops that are not null add up to
    ``latency_ns`` exactly, because each begins where the one before ended.
    """
    whole = pl.col("latency_ns").is_not_null()
    before = [pl.col("publish_ns")]
    hops = []
    for hop, end in zip(HOPS, _ENDS, strict=True):
        begin = pl.coalesce(*reversed(before))
        hops.append(pl.when(whole).then(pl.col(end) - begin).alias(f"hop_{hop}_ns"))
        before.append(pl.col(end))
    return messages.with_columns(hops)


def merged_hops(messages: pl.DataFrame) -> dict[str, int]:
    """How many messages between processes lack the end of each hop, for want of its event."""
    rows = messages.filter(
        pl.col("latency_ns").is_not_null() & ~pl.col("intra_process").fill_null(value=False)
    )
    counts = {hop: rows[end].null_count() for hop, end in zip(HOPS, _ENDS, strict=True)}
    return {hop: count for hop, count in counts.items() if count}
