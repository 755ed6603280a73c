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

Events that are missing leave traces, too:

* an execution for a message that no take began, or what rcl or rclcpp took though rmw is not known
  to: if that is of the subscription, or of its process, a message that seems lost may be the one
  (``unknown``);
* a message out of a ring buffer that nobody published, after others were taken of it, is no late
  joiner's: its publication was not recorded (``unknown``);
* a publication of which rcl's event is the first one, by a publisher whose others have one before:
  its latency may be too short, and its ``match`` is ``approximate``.

This works on finished rows, in whatever way these were made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from roslens.collectors.ros2.approximate import TOLERANCE_NS, ran, without_takes
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import pick
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.outcomes import with_tracer_loss
from roslens.collectors.ros2.types import I64, NAME, label

WAY = ("publisher_id", "subscription_id")
FOLLOWED = {"thread": I64, "time_ns": I64}
ATTEMPTS = {"thread": I64, "time_ns": I64, "message": pl.UInt64(), "taken": I64}
BEFORE = {"publisher_id": I64, "subscription_id": I64, "before_ns": I64}
AFTER = {"publisher_id": I64, "subscription_id": I64, "after_ns": I64}
AHEAD = {"publisher_id": I64, "subscription_id": I64, "push_ns": I64}
STRAYS = {"topic": NAME, "source_timestamp_ns": I64}
HINTS = {"subscription_id": I64, "hint_ns": I64}
OF_PROCESS = {"sub_proc": I64, "hint_ns": I64}
ORDINARY = {"subscription_id": I64, "ordinary_ns": I64}
ABOVE = {"publisher_id": I64}
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
    hints, hints_of_process
        When something was taken that no take tells of: subscription_id or sub_proc, hint_ns.
    ordinary
        When a message that was published was first taken of a ring buffer: subscription_id,
        ordinary_ns.
    above
        Publishers of which events of rclcpp come first: publisher_id.
    """

    longest: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_LONGEST))
    strays: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STRAYS))
    before: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=BEFORE))
    after: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=AFTER))
    ahead: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=AHEAD))
    hints: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HINTS))
    hints_of_process: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=OF_PROCESS))
    ordinary: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ORDINARY))
    above: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ABOVE))


def around_all(
    rows: pl.DataFrame,
    strays: pl.DataFrame,
    events: Events,
    objects: Objects,
    *,
    instances: pl.DataFrame,
    takes: pl.DataFrame,
) -> Around:
    """What is known beside all rows of a recording.

    Parameters
    ----------
    rows, strays
        Settled messages, and as of `Around`.
    events, objects, instances, takes
        Of the same recording; as of `Callbacks.instances` and `find_takes`.
    """
    if not rows.select(_open().any()).item():
        # Nothing else costs anything, and nothing else matters.
        return Around(ordinary=ordinary(rows), above=above(rows))
    untaken = without_takes(instances, takes)
    none = pl.Series([], dtype=I64)
    nothing = pl.DataFrame(schema=FOLLOWED)
    return Around(
        longest=waits(rows),
        strays=strays,
        hints=hints(instances, takes, untaken, linked=none),
        hints_of_process=hints_of_process(
            events, objects, takes, untaken, followed=nothing, tried=pl.DataFrame(schema=ATTEMPTS)
        ),
        ordinary=ordinary(rows),
        above=above(rows),
    )


def waits(rows: pl.DataFrame) -> pl.DataFrame:
    """`Around.longest` of all rows of a recording."""
    taken = pl.coalesce("take_ns", "callback_start_ns")
    return (
        rows.filter(pl.col("outcome") != "replayed")
        .group_by("subscription_id")
        .agg((taken - pl.col("publish_ns")).max().alias("longest_ns"))
    )


def ordinary(rows: pl.DataFrame) -> pl.DataFrame:
    """`Around.ordinary` of some rows."""
    inside = pl.col("intra_process").fill_null(value=False) & pl.col("publish_ns").is_not_null()
    return (
        rows.filter(inside)
        .drop_nulls(["take_ns", "subscription_id"])
        .group_by("subscription_id")
        .agg(pl.col("take_ns").min().alias("ordinary_ns"))
    )


def above(rows: pl.DataFrame) -> pl.DataFrame:
    """`Around.above` of some rows."""
    first = pl.col("publish_ns") < pl.coalesce("rcl_publish_ns", "rmw_publish_ns")
    return rows.filter(first).select("publisher_id").drop_nulls().unique()


def hints(
    instances: pl.DataFrame, takes: pl.DataFrame, untaken: pl.Series, *, linked: pl.Series
) -> pl.DataFrame:
    """`Around.hints`: executions for messages between processes that no take began.

    Parameters
    ----------
    instances, takes, untaken
        As of `Callbacks.instances`, `find_takes` and `without_takes`.
    linked
        Further executions that a take began.
    """
    known = pl.concat([takes["callback_instance_id"].drop_nulls(), linked.cast(I64)])
    alone = ~pl.col("callback_instance_id").is_in(known.implode())
    return (
        ran(instances)
        .filter(alone & ~pl.col("owner_id").is_in(untaken.implode()))
        .select(pl.col("owner_id").alias("subscription_id"), pl.col("start_ns").alias("hint_ns"))
    )


def hints_of_process(
    events: Events,
    objects: Objects,
    takes: pl.DataFrame,
    untaken: pl.Series,
    *,
    followed: pl.DataFrame,
    tried: pl.DataFrame,
) -> pl.DataFrame:
    """`Around.hints_of_process`: what rcl or rclcpp took though no take of rmw is known to be it.

    Where a subscription takes in a way that rmw does not tell of, this tells nothing of the others
    of its process. Nor does an attempt for which rmw had nothing, which rcl and rclcpp call a take.

    Parameters
    ----------
    events, objects, takes, untaken
        As of `hints`, and of the same recording.
    followed
        Further ones of which the take is known: thread, time_ns.
    tried
        Attempts before those of `events`, as of `attempts`.
    """
    found = pl.concat(
        events[name].select("proc", "thread", "time_ns", "message")
        for name in ("rcl_take", "rclcpp_take")
    )
    last = found.sort("time_ns").join_asof(
        pl.concat([tried, attempts(events)]).sort("time_ns"),
        on="time_ns",
        by="thread",
        check_sortedness=False,
    )
    nothing = (pl.col("taken") == 0) & (pl.col("message") == pl.col("message_right"))
    found = last.filter(~nothing.fill_null(value=False))
    untold = pick(objects.subscriptions, untaken.cast(I64), "proc").to_series().unique()
    known = [
        takes.select("thread", pl.col(name).alias("time_ns")).drop_nulls()
        for name in ("rcl_take_ns", "rclcpp_take_ns")
    ]
    return (
        found.filter(~pl.col("proc").is_in(untold.implode()))
        .join(pl.concat([*known, followed]), on=["thread", "time_ns"], how="anti")
        .select(pl.col("proc").cast(I64).alias("sub_proc"), pl.col("time_ns").alias("hint_ns"))
    )


def attempts(events: Events) -> pl.DataFrame:
    """When rmw was asked for a message, and whether it had one: thread, time_ns, message, taken."""
    return events["rmw_take"].select(list(ATTEMPTS)).cast(ATTEMPTS)  # type: ignore[arg-type]


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
    rows = _partial(_late(rows, around), around)
    open_ones = on_ways(rows.with_row_index("row").filter(_open()))
    if open_ones.is_empty():
        return rows
    line = _in_line(rows, open_ones, objects, around)
    lost = _lost(line.filter(pl.col("outcome") == "unknown"), events, losses, around)
    line = line.filter((pl.col("outcome") == "lost") | pl.col("row").is_in(lost.implode()))
    doubtful = line.filter(_doubtful(line, objects, around))["row"]
    replaced = line.filter(_replaced(line, objects, events))["row"]
    number = pl.int_range(pl.len())
    return rows.with_columns(
        pl.when(number.is_in(doubtful.implode()))
        .then(label("unknown"))
        .when(number.is_in(replaced.implode()))
        .then(label("replaced"))
        .when(number.is_in(lost.implode()))
        .then(label("lost"))
        .otherwise("outcome")
        .alias("outcome")
    )


def _open() -> pl.Expr:
    """Of which rows order may tell more: those lost, and those without timestamp.

    One of which rmw's event is missing may not have been handed to the middleware.
    """
    stampless = pl.col("source_timestamp_ns").is_null() & pl.col("rmw_publish_ns").is_not_null()
    return (pl.col("outcome") == "lost") | ((pl.col("outcome") == "unknown") & stampless)


def _late(rows: pl.DataFrame, around: Around) -> pl.DataFrame:
    """What seems to be for a late joiner, though others of its buffer were taken before."""
    if around.ordinary.is_empty():
        return rows
    seems = (pl.col("outcome") == "replayed") & pl.col("intra_process").fill_null(value=False)
    first = rows.select("subscription_id").join(
        around.ordinary, on="subscription_id", how="left", maintain_order="left"
    )["ordinary_ns"]
    late = seems & pl.col("publish_ns").is_null() & (pl.col("take_ns") > first)
    unknown = pl.when(late.fill_null(value=False)).then(label("unknown"))
    return rows.with_columns(unknown.otherwise("outcome").alias("outcome"))


def _partial(rows: pl.DataFrame, around: Around) -> pl.DataFrame:
    """Publications that lack their first event."""
    began = pl.col("publish_ns") == pl.coalesce("rcl_publish_ns", "rmw_publish_ns")
    partial = (
        (pl.col("match") == "exact")
        & ~pl.col("intra_process").fill_null(value=False)
        & began
        & pl.col("publisher_id").is_in(around.above["publisher_id"].implode())
    )
    how = pl.when(partial.fill_null(value=False)).then(label("approximate"))
    return rows.with_columns(how.otherwise("match").alias("match"))


def _doubtful(line: pl.DataFrame, objects: Objects, around: Around) -> pl.Series:
    """Whether something was taken while a message was open of which nobody knows what it was."""
    until = pl.col("after_ns").fill_null(2**63 - 1)
    line = line.with_columns(
        pick(objects.subscriptions, line["subscription_id"], "proc")
        .to_series()
        .cast(I64)
        .alias("sub_proc")
    )
    found = pl.Series([False]).new_from_index(0, line.height)
    for told, by in ((around.hints, "subscription_id"), (around.hints_of_process, "sub_proc")):
        if told.is_empty():
            continue
        order = line.with_row_index("_place").sort("publish_ns", maintain_order=True)
        near = order.join_asof(
            told.sort("hint_ns"),
            left_on="publish_ns",
            right_on="hint_ns",
            by=by,
            strategy="forward",
            check_sortedness=False,
        ).sort("_place")
        found |= near.select((pl.col("hint_ns") <= until).fill_null(value=False)).to_series()
    return found


def _in_line(
    rows: pl.DataFrame, open_ones: pl.DataFrame, objects: Objects, around: Around
) -> pl.DataFrame:
    """The open rows, with ``row``; before_ns and after_ns, when others of the way were taken;
    full_ns, when as many newer ones as the history holds had been published; longest_ns.
    """  # noqa: D205
    ways = open_ones.select(WAY).unique()
    line = on_ways(rows.with_row_index("row")).join(ways, on=WAY, how="semi", maintain_order="left")
    ahead = around.ahead.join(ways, on=WAY, how="semi", maintain_order="left")
    line = pl.concat([line, ahead], how="diagonal")
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
