"""How many messages were already waiting behind a message when it was taken.

No event marks the moment at which a sample reaches the subscription's queue, so waiting in it
and the way to it cannot be told apart. What the trace does tell is how many later messages the
same publisher had sent by then: where they reach the queue's depth, the queue was full, and the
message's latency measures its length, not the transport.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.analysis.estimate import Metric

QUEUE_DEPTH_SEEN = Metric(
    "queue_depth_seen",
    "median over received messages of the publications by the same publisher after publish_ns up "
    "to and with take_ns",
    "messages",
    None,
)

_WAY = ["run", "publisher_id"]


def with_publications_behind(messages: pl.DataFrame, published: pl.DataFrame) -> pl.DataFrame:
    """Add ``behind``: publications by the same publisher within (publish_ns, take_ns].

    Null for a message that was not taken, or of which the publisher is not known.

    Parameters
    ----------
    published
        All messages, with those that `messages` leaves out: ``run``, ``publisher_id``,
        ``message_id``, ``publish_ns``.
    """
    numbered = (
        published.select(*_WAY, "message_id", "publish_ns")
        .drop_nulls()
        .unique(["run", "message_id"])
        .sort("publish_ns")
        .with_columns(number=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_WAY))
        .select(*_WAY, "publish_ns", "number")
    )
    rows = messages.with_row_index("place")
    for name in ("publish_ns", "take_ns"):
        until = (
            rows.filter(pl.all_horizontal(pl.col(name, "publisher_id").is_not_null()))
            .sort(name)
            .join_asof(
                numbered,
                left_on=name,
                right_on="publish_ns",
                by=_WAY,
                strategy="backward",
                check_sortedness=False,
            )
            .select("place", pl.col("number").alias(f"until_{name}"))
        )
        rows = rows.join(until, on="place", how="left", maintain_order="left")
    behind = pl.col("until_take_ns") - pl.col("until_publish_ns")
    return rows.with_columns(behind.alias("behind")).drop(
        "place", "until_take_ns", "until_publish_ns"
    )


@dataclass(frozen=True)
class Backlog:
    """What one run says of its queues.

    Attributes
    ----------
    depth_seen
        Median of ``behind`` over received messages; None where none was taken.
    queue_depth
        Of the subscriptions, the smallest; None where it was not recorded.
    """

    depth_seen: float | None
    queue_depth: int | None

    @property
    def full(self) -> bool:
        """Whether at least half of the messages found a full queue behind them."""
        return (
            self.depth_seen is not None
            and self.queue_depth is not None
            and self.queue_depth > 0
            and self.depth_seen >= self.queue_depth
        )


def backlogs(messages: pl.DataFrame, queues: pl.DataFrame) -> dict[str, Backlog]:
    """The backlog of each run, from messages with ``behind``."""
    depths = dict(queues.group_by("run").agg(pl.col("queue_depth").min()).iter_rows())
    seen = dict(messages.group_by("run").agg(pl.col("behind").median()).iter_rows())
    return {run: Backlog(seen.get(run), depths.get(run)) for run in {**depths, **seen}}
