"""Publications: the publish events of one publish() call, put together.

On one thread, in this order: ``rclcpp_intra_publish``, ``rclcpp_publish``, ``rcl_publish``,
``rmw_publish``; each of them may be absent. Message addresses are compared between neighbours
only. rclpy cannot know the address: there neighbours alone decide.
"""

from __future__ import annotations

import polars as pl

from collectors.ros2.callbacks import Callbacks, enclosing
from collectors.ros2.events import Events, proc
from collectors.ros2.joins import as_of, follows, pick, sorted_by, timeline
from collectors.ros2.objects import DISCOVERY, ROSOUT, Objects
from collectors.ros2.types import I64

INTRA, RCLCPP, RCL, RMW = range(4)
TIMES = {
    INTRA: "intra_publish_ns",
    RCLCPP: "rclcpp_publish_ns",
    RCL: "rcl_publish_ns",
    RMW: "rmw_publish_ns",
}
EVENTS = {
    INTRA: "rclcpp_intra_publish",
    RCLCPP: "rclcpp_publish",
    RCL: "rcl_publish",
    RMW: "rmw_publish",
}
INTERNAL = (ROSOUT, "/parameter_events", DISCOVERY)


def find_publications(events: Events, objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """One row per publication.

    Returns
    -------
    polars.DataFrame
        ``message_id``, proc, thread, publisher_id, topic, node, publish_ns (first event), the
        four times, source_timestamp_ns, callback_instance_id, guessed (whether the publisher
        follows only from what else the process could publish).
    """
    calls = group(events)
    calls = with_publisher(calls, events, objects)
    calls = sorted_by(calls, "publish_ns", "thread").with_row_index("message_id")
    moments = calls.select("thread", pl.col("publish_ns").alias("time_ns"))
    return calls.with_columns(
        pl.col("message_id").cast(I64), enclosing(callbacks.instances, moments)
    )


def group(events: Events, python: list[int] | None = None) -> pl.DataFrame:
    """Publish events put together: one row per publication, in order per thread.

    Parameters
    ----------
    python
        The processes in which rcl never sees the address that rclcpp tells; found where None.
    """
    kinds = {kind: events[name] for kind, name in EVENTS.items()}
    columns = [pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"), pl.col("message")]
    line = timeline(
        [
            (frame, columns if kind == RMW else [*columns, pl.col("publisher_handle")])
            for kind, frame in kinds.items()
        ]
    )
    kind, message = pl.col("kind"), pl.col("message")
    publisher = pl.col("publisher_handle")
    previous = pl.col("kind").shift(1)
    same_message = message == message.shift(1)
    same_publisher = publisher == publisher.shift(1)
    # rclpy's rclcpp_publish holds the Python object's id, never the address that rcl sees.
    pair = follows(by=1) & (kind == RCL) & (previous == RCLCPP)
    then_rcl = follows(by=-1) & (kind.shift(-1) == RCL)
    intra_then_rclcpp = (
        pl.when(then_rcl).then(publisher.shift(-1) == publisher.shift(1)).otherwise(same_message)
    )
    joined = (
        pl.when((kind == RCLCPP) & (previous == INTRA))
        .then(intra_then_rclcpp)
        .when((kind == RCL) & (previous == RCLCPP))
        .then(same_message | _of_python(line, pair, same_message, python))
        .when((kind == RCL) & (previous == INTRA))
        .then(same_publisher)
        .when((kind == RMW) & (previous == RCL))
        .then(same_message)
        .otherwise(statement=False)
    ) & follows(by=1)
    heads = _rows_of_calls(line, line.select(joined.fill_null(value=False)).to_series())
    del line
    times = {name: pick(kinds[k], heads[name], "time_ns").to_series() for k, name in TIMES.items()}
    handles = [
        pick(kinds[k], heads[TIMES[k]], "publisher_handle").to_series()
        for k in (RCL, INTRA, RCLCPP)
    ]
    rmw = pick(kinds[RMW], heads[TIMES[RMW]], "rmw_publisher_handle", "timestamp")
    return heads.select(
        "thread",
        proc().alias("proc"),
        "publish_ns",
        pl.coalesce(handles),
        rmw["rmw_publisher_handle"],
        rmw["timestamp"].alias("source_timestamp_ns"),
        *(time.alias(name) for name, time in times.items()),
    )


def _rows_of_calls(line: pl.DataFrame, joined: pl.Series) -> pl.DataFrame:
    """The rows of each call by kind, in columns named as their times; thread and publish_ns."""
    begins = (~joined).arg_true()
    length = begins.shift(-1, fill_value=line.height) - begins
    heads = line.select(
        pl.col("thread").gather(begins), pl.col("time_ns").gather(begins).alias("publish_ns")
    )
    # Up to the next head all are of one call, each of another kind.
    for step in range(len(EVENTS)):
        at = pl.select(pl.when(length > step).then(begins + step)).to_series()
        heads = heads.hstack(
            pick(line, at, "kind", "row").rename({"kind": f"kind_{step}", "row": f"row_{step}"})
        )
    return heads.select(
        "thread",
        "publish_ns",
        *(
            pl.coalesce(
                pl.when(pl.col(f"kind_{step}") == k).then(f"row_{step}")
                for step in range(len(EVENTS))
            ).alias(name)
            for k, name in TIMES.items()
        ),
    )


def _of_python(
    line: pl.DataFrame, pair: pl.Expr, same_message: pl.Expr, known: list[int] | None
) -> pl.Expr:
    """Whether an event is of a process in which rcl never sees the address that rclcpp tells."""
    if known is not None:
        return proc().is_in(known) if known else pl.lit(value=False)
    pairs = line.select("thread", pair.alias("pair"), same_message.alias("equal")).filter("pair")
    found = pairs.group_by("thread").agg(pl.col("equal").any()).with_columns(proc().alias("proc"))
    python = found.filter(~pl.col("equal").any().over("proc"))["thread"].to_list()
    return pl.col("thread").is_in(python) if python else pl.lit(value=False)


def with_publisher(calls: pl.DataFrame, events: Events, objects: Objects) -> pl.DataFrame:
    """Add publisher_id, topic, node: by the rmw handle first, as rosout's rcl handle varies."""
    calls = as_of(
        calls,
        objects.publisher_by_rmw.rename({"publisher_id": "by_rmw"}),
        [("proc", "proc"), ("rmw_publisher_handle", "rmw_publisher_handle")],
        ["by_rmw"],
        time="publish_ns",
        since="since_ns",
    )
    calls = as_of(
        calls,
        objects.publishers.rename({"publisher_id": "by_rcl"}),
        [("proc", "proc"), ("publisher_handle", "publisher_handle")],
        ["by_rcl"],
        time="publish_ns",
    )
    known = objects.publishers.select("publisher_id", "topic", "node")
    calls = calls.with_columns(
        pl.col("by_rmw").fill_null(pl.col("by_rcl")).alias("publisher_id")
    ).join(known, on="publisher_id", how="left", maintain_order="left")
    calls = _rosout(_discovery(calls, events), objects)
    return _guess(calls, objects).select(
        "proc",
        "thread",
        "publisher_id",
        "topic",
        "node",
        "publish_ns",
        *TIMES.values(),
        "source_timestamp_ns",
        "guessed",
    )


def _discovery(calls: pl.DataFrame, events: Events) -> pl.DataFrame:
    """Name what the middleware publishes on its own: no rcl_publish, and no publisher we know.

    Fast DDS announces the publisher of these with an rmw event, Cyclone DDS does not.
    """
    if not events.declared("rcl_publish"):
        return calls
    above = ("intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns")
    own = pl.all_horizontal(pl.col(name).is_null() for name in (*above, "publisher_id"))
    return calls.with_columns(
        pl.when(own).then(pl.lit(DISCOVERY)).otherwise(pl.col("topic")).alias("topic")
    )


def _rosout(calls: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    """Without an rmw handle, an rcl publication of an unknown handle is a log message."""
    loggers = objects.publishers.filter(pl.col("topic") == ROSOUT)["proc"].unique().to_list()
    log = (
        pl.col("publisher_id").is_null()
        & pl.col("rcl_publish_ns").is_not_null()
        & pl.col("rclcpp_publish_ns").is_null()
        & pl.col("intra_publish_ns").is_null()
        & pl.col("rmw_publisher_handle").is_null()
        & pl.col("proc").is_in(loggers)
    )
    return calls.with_columns(
        pl.when(log).then(pl.lit(ROSOUT)).otherwise(pl.col("topic")).alias("topic")
    )


def _guess(calls: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    """Where only rclcpp_publish was recorded, the publisher is the only one it can be, if any.

    It has no field that names the publisher. rosout never goes through rclcpp; a process publishes
    on /parameter_events while its nodes start, so that topic counts while there is no other.
    """
    calls = calls.with_columns(pl.lit(value=False).alias("guessed"))
    alone = (
        pl.col("topic").is_null()
        & pl.col("rclcpp_publish_ns").is_not_null()
        & pl.col("rcl_publish_ns").is_null()
    )
    wanted = calls.filter(alone)
    if wanted.is_empty():
        return calls
    candidates = objects.publishers.filter(
        pl.col("topic").is_not_null() & ~pl.col("topic").is_in([ROSOUT, DISCOVERY])
    ).with_columns(pl.col("topic").is_in(INTERNAL).alias("internal"))
    # What a process could publish on changes only when it makes a publisher.
    steps = candidates.select("proc", "created_ns").unique().sort("proc", "created_ns")
    there = (
        steps.join(candidates, on="proc", suffix="_other")
        .filter(pl.col("created_ns_other") <= pl.col("created_ns"))
        .filter(pl.col("internal") == pl.col("internal").min().over("proc", "created_ns"))
        .group_by("proc", "created_ns")
        .agg(
            pl.col("topic").first(),
            pl.col("topic").n_unique().alias("topics"),
            pl.col("publisher_id").first(),
            pl.col("node").first(),
            pl.len().alias("publishers"),
        )
    )
    one_topic, one = pl.col("topics") == 1, pl.col("publishers") == 1
    there = there.select(
        "proc",
        "created_ns",
        pl.when(one_topic).then("topic").alias("guess_topic"),
        pl.when(one).then("publisher_id").alias("guess_id"),
        pl.when(one).then("node").alias("guess_node"),
    )
    bring = ["guess_topic", "guess_id", "guess_node"]
    calls = as_of(calls, there, [("proc", "proc")], bring, time="publish_ns")
    return calls.with_columns(
        (alone & pl.col("guess_topic").is_not_null()).alias("guessed"),
        *(
            pl.when(alone).then(pl.col(guess)).otherwise(pl.col(name)).alias(name)
            for name, guess in (
                ("topic", "guess_topic"),
                ("publisher_id", "guess_id"),
                ("node", "guess_node"),
            )
        ),
    ).drop(bring)
