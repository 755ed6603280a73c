"""What the order of a way's messages proves of those that were never taken.

A way is a publisher and a subscription. Middleware hands the messages of a way over in their
order, and a reader's `keep_last` history of depth n holds the newest n. So, of a message that
nothing joins to a take:

* the publication has no timestamp (up to Iron), but earlier and later ones of its way were taken:
  it was ``lost``. Not if a timestamp that nobody claims was taken soon after it: that may be its
  own. Not if the tracer dropped something at the receiver before the later one was taken.
* as many newer ones as the history holds were published, on the same host, before the subscription
  next took one of the way: these have its place, it was ``replaced``. With a depth of 1 that is
  so of every message that was overtaken; there the newer one must have come within the longest
  that any message of the subscription waited to be taken.

This works on finished rows, in whatever way these were made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from roslens.collectors.ros2.approximate import TOLERANCE_NS
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import pick
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.outcomes import with_tracer_loss
from roslens.collectors.ros2.types import I64, NAME, label

WAY = ("publisher_id", "subscription_id")
BEFORE = {"publisher_id": I64, "subscription_id": I64, "before_ns": I64}
AFTER = {"publisher_id": I64, "subscription_id": I64, "after_ns": I64}
AHEAD = {"publisher_id": I64, "subscription_id": I64, "push_ns": I64}
STRAYS = {"topic": NAME, "source_timestamp_ns": I64}
_LONGEST = {"subscription_id": I64, "longest_ns": I64}
_MOST_AHEAD = 10_000


@dataclass(frozen=True)
class Around:
    """What is known beside the rows that are looked at.

    Attributes
    ----------
    longest
        As `roslens.collectors.ros2.outcomes.Bounds.waited`.
    strays
        Timestamps that were taken and that no publication has: topic, source_timestamp_ns.
    before, after, ahead
        Of rows before and after them, by way: before_ns, when the last one before was taken;
        after_ns, when the first one after was; push_ns, when the next ones were published.
    """

    longest: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_LONGEST))
    strays: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STRAYS))
    before: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=BEFORE))
    after: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=AFTER))
    ahead: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=AHEAD))


def waits(rows: pl.DataFrame) -> pl.DataFrame:
    """`Around.longest` of all rows of a recording."""
    taken = pl.coalesce("take_ns", "callback_start_ns")
    return (
        rows.filter(pl.col("outcome") != "replayed")
        .group_by("subscription_id")
        .agg((taken - pl.col("publish_ns")).max().alias("longest_ns"))
    )


def on_ways(rows: pl.DataFrame) -> pl.DataFrame:
    """Of message rows those that went, or should have gone, through the middleware."""
    fate = pl.col("outcome" if "outcome" in rows.columns else "fate")
    return rows.filter(
        pl.all_horizontal(pl.col(name).is_not_null() for name in (*WAY, "publish_ns"))
        & ~pl.col("intra_process").fill_null(value=False)
        & (fate != "replayed").fill_null(value=True)
    ).with_columns(pl.coalesce("rmw_publish_ns", "rcl_publish_ns", "publish_ns").alias("push_ns"))


def last_taken(rows: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """`Around.before` for what follows `rows`; `before` is that for `rows`."""
    taken = on_ways(rows).drop_nulls("take_ns").select(*WAY, pl.col("take_ns").alias("before_ns"))
    return pl.concat([before, taken]).group_by(WAY, maintain_order=True).agg(
        pl.col("before_ns").max()
    )  # fmt: skip


def next_taken(rows: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """`Around.after` for what precedes `rows`; `after` is that for `rows`."""
    taken = on_ways(rows).drop_nulls("take_ns").select(*WAY, pl.col("take_ns").alias("after_ns"))
    return pl.concat([taken, after]).unique(WAY, keep="first", maintain_order=True)


def first_pushed(rows: pl.DataFrame, ahead: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    """`Around.ahead` for what precedes `rows`; `ahead` is that for `rows`."""
    return first_of_each(pl.concat([on_ways(rows).select(*WAY, "push_ns"), ahead]), objects)


def first_of_each(pushed: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    """Of each way as many of the first rows as the history of its subscription holds."""
    place = pl.int_range(pl.len()).over(WAY)
    return pushed.filter(place < _depth(objects, pushed).fill_null(0))


def _depth(objects: Objects, rows: pl.DataFrame) -> pl.Series:
    # Objects are numbered in their order. A depth of 0 is the middleware's choice, or all.
    depth = pick(objects.subscriptions, rows["subscription_id"], "queue_depth").to_series()
    return depth.cast(I64, strict=False).replace(0, None).clip(upper_bound=_MOST_AHEAD)


def weigh(
    rows: pl.DataFrame, objects: Objects, events: Events, losses: pl.DataFrame, around: Around
) -> pl.DataFrame:
    """Message rows with the outcomes that the order of their ways proves."""
    outcome = pl.col("outcome")
    untold = (outcome == "unknown") & pl.col("source_timestamp_ns").is_null()
    open_ones = rows.with_row_index("row").filter((outcome == "lost") | untold)
    open_ones = on_ways(open_ones)
    if open_ones.is_empty():
        return rows
    line = _in_line(rows, open_ones, objects, around)
    lost = _lost(line.filter(pl.col("outcome") == "unknown"), events, losses, around)
    line = line.filter((pl.col("outcome") == "lost") | pl.col("row").is_in(lost.implode()))
    replaced = line.filter(_replaced(line, objects, events))["row"]
    number = pl.int_range(pl.len())
    return rows.with_columns(
        pl.when(number.is_in(replaced.implode()))
        .then(label("replaced"))
        .when(number.is_in(lost.implode()))
        .then(label("lost"))
        .otherwise("outcome")
        .alias("outcome")
    )


def _in_line(
    rows: pl.DataFrame, open_ones: pl.DataFrame, objects: Objects, around: Around
) -> pl.DataFrame:
    """The open rows, with ``row``; before_ns and after_ns, when others of the way were taken;
    full_ns, when as many newer ones as the history holds had been published; longest_ns.
    """  # noqa: D205
    ways = open_ones.select(WAY).unique()
    line = on_ways(rows.with_row_index("row")).join(ways, on=WAY, how="semi", maintain_order="left")
    line = pl.concat([line, around.ahead.join(ways, on=WAY, how="semi")], how="diagonal")
    line = line.with_columns(
        pl.int_range(pl.len()).over(WAY).alias("place"), _depth(objects, line).alias("depth")
    ).with_columns(
        pl.col("take_ns").cum_max().forward_fill().over(WAY).alias("taken_before_ns"),
        pl.col("take_ns").backward_fill().over(WAY).alias("taken_after_ns"),
    )
    filled = line.select(
        *WAY, pl.col("place") - pl.col("depth"), pl.col("push_ns").alias("full_ns")
    )
    return (
        line.filter(pl.col("row").is_in(open_ones["row"].implode()))
        .join(filled, on=[*WAY, "place"], how="left", maintain_order="left")
        .join(around.before, on=WAY, how="left", maintain_order="left")
        .join(around.after, on=WAY, how="left", maintain_order="left")
        .join(around.longest, on="subscription_id", how="left", maintain_order="left")
        .with_columns(
            pl.max_horizontal("before_ns", "taken_before_ns").alias("before_ns"),
            pl.coalesce("taken_after_ns", "after_ns").alias("after_ns"),
        )
    )


def _replaced(line: pl.DataFrame, objects: Objects, events: Events) -> pl.Series:
    hosts = [
        pick(events.places, pick(of, line[f"{kind}_id"], "proc").to_series(), "host").to_series()
        for kind, of in (("publisher", objects.publishers), ("subscription", objects.subscriptions))
    ]
    waited = pl.col("full_ns") - pl.max_horizontal("push_ns", "before_ns")
    soon = waited <= pl.col("longest_ns")
    behind = (pl.col("depth") > 1) & pl.col("before_ns").is_not_null()
    return line.select(
        (pl.col("full_ns") < pl.col("after_ns"))
        & (behind | soon)
        & (hosts[0] == hosts[1])
    ).to_series().fill_null(value=False)  # fmt: skip


def _lost(line: pl.DataFrame, events: Events, losses: pl.DataFrame, around: Around) -> pl.Series:
    """Rows of publications without timestamp between others of their way that were taken."""
    between = line.drop_nulls(["before_ns", "after_ns"])
    strays = around.strays.drop_nulls().sort("source_timestamp_ns")
    hosts = events.processes.select(pl.col("proc").alias("subscription_proc"), "host")
    between = (
        between.drop("host", strict=False)
        .join(hosts, on="subscription_proc", how="left", maintain_order="left")
        .with_columns(pl.col("after_ns").alias("next_ns"), pl.lit(0).alias("longest_ns"))
        .sort("push_ns", maintain_order=True)
        .join_asof(
            strays.rename({"source_timestamp_ns": "stray_ns"}),
            left_on="push_ns",
            right_on="stray_ns",
            by="topic",
            strategy="forward",
            tolerance=TOLERANCE_NS,
            check_sortedness=False,
        )
        .filter(pl.col("stray_ns").is_null())
    )
    return with_tracer_loss(between, losses).filter(~pl.col("tracer_lost"))["row"]
