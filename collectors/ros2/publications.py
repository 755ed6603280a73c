"""Publications: the publish events of one publish() call, put together.

On one thread, in this order: ``rclcpp_intra_publish``, ``rclcpp_publish``, ``rcl_publish``,
``rmw_publish``; each of them may be absent. Message addresses are compared between neighbours
only. rclpy cannot know the address: there neighbours alone decide.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks, enclosing
from roslens.collectors.ros2.events import Events, proc
from roslens.collectors.ros2.joins import as_of, inverse, pick, sorted_by
from roslens.collectors.ros2.objects import DISCOVERY, ROSOUT, Objects
from roslens.collectors.ros2.passes import Previous
from roslens.collectors.ros2.types import I64

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


def find_publications(events: Events, objects: Objects) -> pl.DataFrame:
    """One row per publication.

    Returns
    -------
    polars.DataFrame
        ``message_id``, proc, thread, publisher_id, topic, node, publish_ns (first event), the
        four times, source_timestamp_ns, guessed (whether the publisher follows only from what
        else the process could publish).
    """
    calls = with_publisher(group(events), events, objects).with_row_index("message_id")
    return calls.with_columns(pl.col("message_id").cast(I64))


def within_callbacks(publications: pl.DataFrame, callbacks: Callbacks) -> pl.DataFrame:
    """Add callback_instance_id, the execution that published."""
    moments = publications.select("thread", pl.col("publish_ns").alias("time_ns"))
    return publications.with_columns(enclosing(callbacks.instances, moments))


def group(events: Events, python: list[int] | None = None) -> pl.DataFrame:
    """Publish events put together: one row per publication, by time, thread, kind of its first.

    Parameters
    ----------
    python
        The processes in which rcl never sees the address that rclcpp tells; found where None.
    """
    frames = [events[name] for name in EVENTS.values()]
    # In order as long as they are narrow.
    rows = sorted_by(_rows_of_calls(frames, python), "publish_ns", "thread")
    times = {name: pick(frames[k], rows[name], "time_ns").to_series() for k, name in TIMES.items()}
    handles = [
        pick(frames[k], rows[TIMES[k]], "publisher_handle").to_series()
        for k in (RCL, INTRA, RCLCPP)
    ]
    rmw = pick(frames[RMW], rows[TIMES[RMW]], "rmw_publisher_handle", "timestamp")
    return rows.select(
        "thread",
        proc().alias("proc"),
        "publish_ns",
        pl.coalesce(handles),
        rmw["rmw_publisher_handle"],
        rmw["timestamp"].alias("source_timestamp_ns"),
        *(time.alias(name) for name, time in times.items()),
    )


def _rows_of_calls(frames: list[pl.DataFrame], python: list[int] | None) -> pl.DataFrame:
    """The rows of each call's events, in columns named as their times; thread and publish_ns."""
    intra, rclcpp, rcl, _ = frames
    before = Previous(frames)
    rclcpp_before_rcl = before.rows(RCL, RCLCPP)
    rcl_before_rmw = before.rows(RMW, RCL)

    def same(kind: int, of: int, rows: pl.Series, column: str) -> pl.Series:
        return (frames[kind][column] == _at(frames[of][column], rows)).fill_null(value=False)

    # What a call of rcl belongs to.
    paired = rclcpp_before_rcl.is_not_null()
    same_message = same(RCL, RCLCPP, rclcpp_before_rcl, "message")
    of_rclcpp = same_message | _of_python(rcl["thread"], paired, same_message, python)
    rcl_of_rclcpp = _followers(rclcpp_before_rcl, of_rclcpp, rclcpp.height)
    of_rcl = same(RMW, RCL, rcl_before_rmw, "message")
    rmw_of_rcl = _followers(rcl_before_rmw, of_rcl, rcl.height)
    of_intra, continues = (pl.repeat(value=False, n=f.height, eager=True) for f in (rcl, rclcpp))
    rcl_of_intra = rclcpp_of_intra = pl.Series(dtype=pl.UInt32)
    if intra.height:
        intra_before_rcl, intra_before_rclcpp = (before.rows(k, INTRA) for k in (RCL, RCLCPP))
        of_intra = same(RCL, INTRA, intra_before_rcl, "publisher_handle")
        rcl_of_intra = _followers(intra_before_rcl, of_intra, intra.height)
        # What one of rclcpp does: rcl tells the publisher, if it comes next.
        then_rcl = inverse(rclcpp_before_rcl, rclcpp.height)
        publisher = _at(rcl["publisher_handle"], then_rcl)
        same_publisher = publisher == _at(intra["publisher_handle"], intra_before_rclcpp)
        told = then_rcl.is_not_null() & intra_before_rclcpp.is_not_null()
        continues = same(RCLCPP, INTRA, intra_before_rclcpp, "message").zip_with(
            ~told, same_publisher.fill_null(value=False)
        )
        rclcpp_of_intra = _followers(intra_before_rclcpp, continues, intra.height)

    every = pl.int_range(intra.height, dtype=pl.UInt32, eager=True)
    firsts = (every, *((~x).arg_true() for x in (continues, of_rclcpp | of_intra, of_rcl)))
    parts = []
    for kind, first in enumerate(firsts):
        rows: dict[int, pl.Series] = {kind: first}
        if kind == INTRA:
            rows[RCLCPP] = rclcpp_of_intra
            after = _at(rcl_of_rclcpp, rclcpp_of_intra)
            rows[RCL] = after.zip_with(after.is_not_null(), rcl_of_intra)
        if kind == RCLCPP:
            rows[RCL] = _at(rcl_of_rclcpp, first)
        if kind < RMW:
            rows[RMW] = _at(rmw_of_rcl, rows[RCL])
        parts.append(
            frames[kind].select(
                pl.col("thread").gather(first),
                pl.col("time_ns").gather(first).alias("publish_ns"),
                *(
                    rows[k].alias(name) if k in rows else pl.lit(None, pl.UInt32).alias(name)
                    for k, name in TIMES.items()
                ),
            )
        )
    return pl.concat(parts, rechunk=True)


def _at(values: pl.Series, rows: pl.Series) -> pl.Series:
    return pick(values.to_frame("x"), rows, "x").to_series()


def _followers(rows: pl.Series, joined: pl.Series, length: int) -> pl.Series:
    """By row, the one that follows it and is joined to it."""
    return inverse(rows.zip_with(joined, rows.clear(rows.len())), length)


def _of_python(
    threads: pl.Series, paired: pl.Series, same: pl.Series, known: list[int] | None
) -> pl.Series:
    """Which calls of rcl are of a process in which it never sees the address that rclcpp tells.

    rclpy's rclcpp_publish holds the number of the Python object.
    """
    if known is not None:
        return paired & threads.to_frame().select(proc().is_in(known)).to_series()
    pairs = pl.DataFrame({"thread": threads, "same": same}).filter(paired)
    found = pairs.group_by("thread").agg(pl.col("same").any()).with_columns(proc().alias("proc"))
    python = found.filter(~pl.col("same").any().over("proc"))["thread"]
    return paired & threads.is_in(python.implode())


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
    calls = calls.with_columns(pl.col("by_rmw").fill_null(pl.col("by_rcl")).alias("publisher_id"))
    # Objects are numbered in their order.
    calls = calls.hstack(pick(objects.publishers, calls["publisher_id"], "topic", "node"))
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

    Fast DDS announces the publisher of these with an rmw event, Cyclone DDS does not. What went
    through rcl is of a publisher of which rcl's event is missing.
    """
    if not events.declared("rcl_publish"):
        return calls
    above = ("intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns")
    own = pl.all_horizontal(pl.col(name).is_null() for name in (*above, "publisher_id"))
    other = pl.any_horizontal(pl.col(name).is_not_null() for name in above)
    topic = pl.when(~(other & (pl.col("topic") == DISCOVERY)).fill_null(value=False)).then("topic")
    return calls.with_columns(pl.when(own).then(pl.lit(DISCOVERY)).otherwise(topic).alias("topic"))


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
    there = only_publishers(objects).rename({"since_ns": "created_ns"})
    there = there.join(
        objects.publishers.select(
            pl.col("publisher_id").alias("guess_id"), pl.col("node").alias("guess_node")
        ),
        on="guess_id",
        how="left",
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


def only_publishers(objects: Objects) -> pl.DataFrame:
    """Since when a process could publish on one topic only: proc, since_ns, guess_topic, guess_id.

    rosout never goes through rclcpp; a process publishes on /parameter_events while its nodes
    start, so that topic counts while there is no other. Null where there are several.
    """
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
            pl.len().alias("publishers"),
        )
    )
    one_topic, one = pl.col("topics") == 1, pl.col("publishers") == 1
    return there.select(
        "proc",
        pl.col("created_ns").alias("since_ns"),
        pl.when(one_topic).then("topic").alias("guess_topic"),
        pl.when(one).then("publisher_id").alias("guess_id"),
    )
