"""Intra-process ring buffers: what became of each message put into one."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, timeline
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import label

_MOST_PROCESSES = 2**16

PENDING, DEQUEUED, OVERWRITTEN, CLEARED = "pending", "dequeued", "overwritten", "cleared"


def find_enqueues(
    events: Events, objects: Objects, publications: pl.DataFrame, takes: pl.DataFrame
) -> pl.DataFrame:
    """One row per message put into a ring buffer.

    Returns
    -------
    polars.DataFrame
        ``message_id`` (null where no publication put it there: replayed to a late joiner), proc,
        time_ns, buffer, subscription_id, fate (dequeued, overwritten, cleared or pending),
        take_id.
    """
    enqueues = with_owner(
        events["rclcpp_ring_buffer_enqueue"].with_row_index("enqueue_id"), objects
    )
    dequeues = dequeued(takes)
    slot = slot_of(enqueues, dequeues)
    enqueues = with_publication(enqueues.with_columns(slot), publications)
    return in_order(with_fate(enqueues, dequeues.with_columns(slot), events), taken_up_to())


def with_owner(enqueues: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    """Add subscription_id and buffer_created_ns; leave out what a publisher keeps for itself."""
    owners = objects.ring_buffers
    return (
        as_of(
            enqueues.with_columns(pl.col("time_ns").alias("at")),
            owners.with_columns(pl.col("created_ns").alias("buffer_created_ns")),
            [("proc", "proc"), ("buffer", "buffer")],
            ["subscription_id", "publisher_id", "buffer_created_ns"],
        )
        .filter(pl.col("publisher_id").is_null())
        .drop("publisher_id")
    )


def dequeued(takes: pl.DataFrame) -> pl.DataFrame:
    """Of all takes those from a ring buffer."""
    return takes.filter(pl.col("intra_process")).select(
        "proc", "buffer", "index", pl.col("take_ns").alias("time_ns"), "take_id"
    )


def slot_of(enqueues: pl.DataFrame, dequeues: pl.DataFrame) -> pl.Expr:
    """One number for process and buffer."""
    buffers = pl.concat([enqueues["buffer"], dequeues["buffer"]]).unique().drop_nulls()
    code = pl.col("buffer").replace_strict(
        buffers, pl.int_range(buffers.len(), eager=True), default=None, return_dtype=pl.Int64
    )
    return (code * _MOST_PROCESSES + pl.col("proc")).alias("slot")


def with_publication(enqueues: pl.DataFrame, publications: pl.DataFrame) -> pl.DataFrame:
    """Add message_id: the last publish event on the thread, if it is an intra-process one."""
    if enqueues.is_empty():
        publications = publications.clear()
    calls = publications.select(
        "thread", "message_id", "intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns",
        "rmw_publish_ns",
    )  # fmt: skip
    intra = calls.filter(pl.col("intra_publish_ns").is_not_null())
    other = (
        calls.unpivot(
            ["rclcpp_publish_ns", "rcl_publish_ns", "rmw_publish_ns"],
            index="thread",
            value_name="time_ns",
        )
        .drop_nulls("time_ns")
        .drop("variable")
        .with_columns(pl.lit(-1, dtype=pl.Int64).alias("publication"))
    )
    line = timeline(
        [
            (
                intra.select(
                    "thread",
                    pl.col("intra_publish_ns").alias("time_ns"),
                    pl.col("message_id").alias("publication"),
                    pl.col("intra_publish_ns").alias("published_ns"),
                ),
                ["publication", "published_ns"],
            ),
            (enqueues, ["enqueue_id"]),
            (other, ["publication"]),
        ]
    )
    call = pl.when(pl.col("kind") != 1)
    of_thread = call.then("thread").forward_fill() == pl.col("thread")
    publication = call.then("publication").forward_fill()
    found = (
        line.with_columns(
            pl.when(of_thread & (publication >= 0)).then(publication).alias("message_id"),
            pl.when(of_thread).then(call.then("published_ns").forward_fill()).alias("published_ns"),
        )
        .filter(pl.col("kind") == 1)
        .sort("enqueue_id")
    )
    enqueues = enqueues.hstack(found.select("message_id", "published_ns"))
    # A buffer made after the publication, or one that has it already, is a late joiner's.
    late = pl.col("buffer_created_ns") > pl.col("published_ns")
    again = ~(pl.col("message_id") * 2**32 + pl.col("slot")).is_first_distinct()
    return enqueues.with_columns(
        pl.when(~(late | again).fill_null(value=False)).then("message_id").alias("message_id")
    ).drop("published_ns", "buffer_created_ns")


def taken_up_to() -> pl.DataFrame:
    """When the newest message was put in that was taken of each buffer: none yet."""
    return pl.DataFrame(schema={"proc": pl.Int64, "buffer": pl.UInt64, "newest_ns": pl.Int64})


def newest_taken(enqueues: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """`taken_up_to` after these, as `in_order` gives them."""
    taken = enqueues.filter(pl.col("fate") == DEQUEUED)
    here = taken.select("proc", "buffer", pl.col("time_ns").alias("newest_ns"))
    both = pl.concat([before, here.cast(before.schema)])
    return both.group_by("proc", "buffer", maintain_order=True).agg(pl.col("newest_ns").max())


def in_order(enqueues: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Messages with their fate, of which those are pending that a newer one was taken before.

    A buffer gives its messages in the order in which it got them: what is taken from the place of
    an older one is another message then, whose enqueue was not recorded.
    """
    taken = enqueues.filter(pl.col("fate") == DEQUEUED).select(
        "enqueue_id", "proc", "buffer", "time_ns", "next_ns"
    )
    if taken.is_empty():
        return enqueues
    earlier = pl.col("time_ns").cum_max().shift(1).over("slot_of", order_by="next_ns")
    taken = (
        taken.with_columns(pl.struct("proc", "buffer").rank("dense").alias("slot_of"))
        .with_columns(earlier.alias("earlier_ns"))
        .join(before, on=["proc", "buffer"], how="left", maintain_order="left")
    )
    late = taken.filter(pl.col("time_ns") < pl.max_horizontal("earlier_ns", "newest_ns"))
    wrong = pl.col("enqueue_id").is_in(late["enqueue_id"].implode())
    return enqueues.with_columns(
        pl.when(wrong).then(label(PENDING)).otherwise("fate").alias("fate"),
        pl.when(~wrong).then("take_id").alias("take_id"),
    )


def with_fate(enqueues: pl.DataFrame, dequeues: pl.DataFrame, events: Events) -> pl.DataFrame:
    """Add fate, next_ns and take_id: what came next at the same place of the same buffer."""
    place = (pl.col("slot") * 2**24 + pl.col("index").cast(pl.Int64) % 2**24).alias("place")
    line = (
        # An enqueue comes before a dequeue of the same time.
        pl.concat(
            [
                enqueues.select(place, "time_ns", "enqueue_id", "overwritten"),
                dequeues.select(place, "time_ns", "take_id"),
            ],
            how="diagonal",
        )
        .sort("time_ns", maintain_order=True)
        .sort("place", maintain_order=True)
    )
    same = pl.col("place") == pl.col("place").shift(-1)
    line = line.with_columns(
        pl.when(same).then(pl.col("time_ns").shift(-1)).alias("next_ns"),
        pl.when(same).then(pl.col("take_id").shift(-1)).alias("take_id"),
        pl.when(same).then(pl.col("overwritten").shift(-1) != 0).alias("pushed_out"),
    ).filter(pl.col("enqueue_id").is_not_null())
    enqueues = enqueues.hstack(line.sort("enqueue_id").select("next_ns", "take_id", "pushed_out"))
    clears = events["rclcpp_ring_buffer_clear"].select(
        "proc", "buffer", pl.col("time_ns").alias("clear_ns")
    )
    if clears.height and enqueues.height:
        enqueues = (
            enqueues.sort("time_ns")
            .join_asof(
                clears.sort("clear_ns"),
                left_on="time_ns",
                right_on="clear_ns",
                by=["proc", "buffer"],
                strategy="forward",
                check_sortedness=False,
            )
            .sort("enqueue_id")
        )
    else:
        enqueues = enqueues.with_columns(pl.lit(None, dtype=pl.Int64).alias("clear_ns"))
    cleared = pl.col("clear_ns") < pl.col("next_ns").fill_null(2**63 - 1)
    fate = (
        pl.when(cleared.fill_null(value=False))
        .then(label(CLEARED))
        .when(pl.col("take_id").is_not_null())
        .then(label(DEQUEUED))
        # Where the place was free again the message had been taken, which was not recorded.
        .when("pushed_out")
        .then(label(OVERWRITTEN))
        .otherwise(label(PENDING))
    )
    return enqueues.with_columns(fate.alias("fate")).with_columns(
        pl.when(pl.col("fate") == DEQUEUED).then("take_id").alias("take_id")
    )
