"""Count the messages that were already waiting behind a message when it was taken.

No event of ROS marks the moment at which a sample reaches the subscription's queue (ours does, with
Fast DDS only). Every trace shows, however, how many later messages the same publisher had sent by
then. The oldest message of a full queue has depth - 1 others behind it: where that is the rule,
latency measures the queue's length, not the transport. A lost message was pushed out of a full
queue if at least depth later messages were sent before the next was taken, and that one had depth -
1 others behind it, as the oldest of a full queue has; so was each message that was overwritten or
replaced. A queue of 1 does not show it: its only message has none behind it.
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
_DELIVERY = [*_WAY, "subscription_id"]
_PUSHED_OUT = ("overwritten", "replaced")


def with_publications_behind(messages: pl.DataFrame, published: pl.DataFrame) -> pl.DataFrame:
    """Add ``behind``: publications by the same publisher within (publish_ns, take_ns].

    For a message that was not taken, the interval ends when the same subscription took the next
    message of that publisher. Null where none was taken later, or the publisher is not known.

    Parameters
    ----------
    published
        All messages, including those that `messages` leaves out: ``run``, ``publisher_id``,
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
    next_taken = (
        rows.sort("publish_ns", "place")
        .select("place", pl.col("until_take_ns").backward_fill().over(_DELIVERY))
        .sort("place")["until_take_ns"]
    )
    behind = next_taken - rows["until_publish_ns"]
    return rows.with_columns(behind.alias("behind")).drop(
        "place", "until_take_ns", "until_publish_ns"
    )


@dataclass(frozen=True)
class Backlog:
    """The backlog of one run's queues.

    Attributes
    ----------
    depth_seen
        Median of ``behind`` over received messages; None where no message was taken.
    queue_depth
        The smallest depth of the subscriptions' queues; None where it was not recorded.
    pushed_out
        Number of messages lost because a queue was full.
    largest_seen
        The largest ``behind`` of received messages; None where no message was taken.
    """

    depth_seen: float | None
    queue_depth: int | None
    pushed_out: int = 0
    largest_seen: int | None = None

    @property
    def waited(self) -> bool:
        """Whether at least half of the received messages were the oldest of a full queue."""
        return (
            self.depth_seen is not None
            and bool(self.queue_depth)
            and self.depth_seen >= (self.queue_depth or 0) - 1 > 0
        )

    @property
    def full(self) -> bool:
        """Whether the queue was full: it pushed messages out, or half of them waited in it."""
        return self.pushed_out > 0 or self.waited


def backlogs(messages: pl.DataFrame, queues: pl.DataFrame) -> dict[str, Backlog]:
    """Return the backlog of each run, from messages with ``behind``."""
    depths = dict(queues.group_by("run").agg(pl.col("queue_depth").min()).iter_rows())
    taken, behind = pl.col("take_ns").is_not_null(), pl.col("behind")
    of_taken = messages.filter(taken).group_by("run").agg(behind.median(), most=behind.max())
    seen = {run: (median, most) for run, median, most in of_taken.iter_rows()}
    depth = pl.col("queue_depth")
    behind_next = pl.when(taken).then(behind).backward_fill().over(_DELIVERY, order_by="publish_ns")
    outrun = (behind >= depth) & (pl.col("behind_next") >= depth - 1) & (depth > 1)
    outrun &= pl.col("outcome") == "lost"
    lost = (
        messages.with_columns(behind_next=behind_next)
        .filter(~taken)
        .join(queues.unique(["run", "subscription_id"]), on=["run", "subscription_id"], how="left")
        .filter(outrun | pl.col("outcome").is_in(_PUSHED_OUT))
    )
    pushed_out = dict(lost.group_by("run").len().iter_rows())
    return {
        run: Backlog(median, depths.get(run), pushed_out.get(run, 0), most)
        for run in {**depths, **seen, **pushed_out}
        for median, most in [seen.get(run, (None, None))]
    }
