"""What became of a message, and when that cannot be said."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import pick, sorted_by
from roslens.collectors.ros2.objects import DISCOVERY, Objects
from roslens.collectors.ros2.ring_buffers import CLEARED, OVERWRITTEN, PENDING
from roslens.collectors.ros2.types import label

_FOREVER = 2**63 - 1
ORDER = ("publish_ns", "take_ns", "message_id", "subscription_id")
_USUAL_WAIT_NS = 10**9
"""How long a message may be on its way where no other of the subscription shows it."""


_WAY = ["publisher_id", "subscription_id"]
_KEY = ["topic", "key_ns"]


@dataclass(frozen=True)
class Bounds:
    """What the outcome of one message takes from the others.

    Attributes
    ----------
    waited
        The longest that a message waited: subscription_id, longest_ns.
    shared
        Topic and timestamp that messages share of which nobody can say which is which, as fewer
        were taken than published: topic, key_ns.
    later
        When a message later than all rows was first taken: publisher_id, subscription_id,
        later_ns.
    untaken
        Subscriptions whose takes were not recorded.
    """

    waited: pl.DataFrame
    shared: pl.DataFrame
    later: pl.DataFrame | None = None
    untaken: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))


def fate_of(rows: pl.DataFrame, objects: Objects) -> pl.Series:
    """What is known of each row's fate.

    Of a publisher that is not known nobody could say to whom it published: its messages are
    replayed only if they are older than the subscription.
    """
    # Objects are numbered in their order.
    created = pick(objects.subscriptions, rows["subscription_id"], "created_ns").to_series()
    older = (pl.col("publish_ns") < created).fill_null(value=True)
    kept = pl.when((pl.col("fate") != "replayed") | older).then("fate")
    return rows.select(kept.alias("fate")).to_series()


def bounds_of(rows: pl.DataFrame, objects: Objects) -> Bounds:
    """The bounds that some message rows give."""
    rows = rows.with_columns(fate_of(rows, objects))
    replayed = (pl.col("fate") == "replayed").fill_null(value=False)
    waited = (
        rows.select("subscription_id", (_taken() - pl.col("publish_ns")).alias("waited"), replayed)
        .filter(~pl.col("fate"))
        .group_by("subscription_id")
        .agg(pl.col("waited").max().alias("longest_ns"))
    )
    shared = rows.select(*_KEY, "match").filter(pl.col("match") == "ambiguous")
    return Bounds(waited, shared.select(_KEY).unique())


def first_taken(rows: pl.DataFrame) -> pl.DataFrame:
    """When the first message of each way was taken, as `Bounds.later` is for those before."""
    return (
        rows.select(*_WAY, "publish_ns", _taken().alias("later_ns"))
        .drop_nulls("later_ns")
        .sort("publish_ns", maintain_order=True)
        .unique(_WAY, keep="first", maintain_order=True)
        .select(*_WAY, "later_ns")
    )


def _taken() -> pl.Expr:
    return pl.coalesce("take_ns", "callback_start_ns")


def settle(
    rows: pl.DataFrame, objects: Objects, events: Events, losses: pl.DataFrame, bounds: Bounds
) -> pl.DataFrame:
    """Add outcome, latency_ns and the subscription's names to message rows.

    A message between processes that was never taken is lost, unless the recording cannot know:

    * no later message of that publisher was taken by that subscription, and the receiver's last
      event comes sooner after the publication than the longest wait seen there (1 s where none
      was): it may have been on its way still;
    * the tracer dropped something at the receiver before the next message was taken;
    * the receiver's takes, or this publication's timestamp, were not recorded.
    """
    # Objects are numbered in their order.
    of = pick(objects.subscriptions, rows["subscription_id"], "proc", "node", "topic")
    here = [of["proc"].alias("sub_proc")]
    if "subscription_proc" in rows.columns:
        here.append(rows["subscription_proc"])
    rows = rows.with_columns(
        pl.coalesce(here).alias("subscription_proc"),
        of["node"].alias("subscription_node"),
        pl.coalesce("topic", of["topic"].replace(DISCOVERY, None).alias("sub_topic")).alias(
            "topic"
        ),
        fate_of(rows, objects),
    )
    fate = pl.col("fate")
    started = pl.col("callback_start_ns").is_not_null()
    arrived = pl.col("take_ns").is_not_null() | started
    known = ["replayed", "no_subscriber", OVERWRITTEN, CLEARED, PENDING]
    open_ones = rows.select(~arrived & ~fate.is_in(known).fill_null(value=False)).to_series()
    unknown = pl.Series("unknown", [False]).new_from_index(0, rows.height)
    if open_ones.any():
        nobody_knows = _unknown(rows, open_ones, events, losses, bounds)
        unknown = unknown.scatter(nobody_knows, [True] * nobody_knows.len())
    outcome = (
        pl.when(fate == "replayed")
        .then(label("replayed"))
        .when(started)
        .then(label("delivered"))
        .when(arrived)
        .then(label("taken"))
        .when(fate == "no_subscriber")
        .then(label("no_subscriber"))
        .when(fate.is_in([OVERWRITTEN, CLEARED]))
        .then(label("overwritten"))
        .when((fate == PENDING) | unknown)
        .then(label("unknown"))
        .otherwise(label("lost"))
    )
    rows = rows.with_columns(
        outcome.alias("outcome"),
        (pl.col("callback_start_ns") - pl.col("publish_ns")).alias("latency_ns"),
    )
    return sorted_by(rows, *ORDER, nulls_last=True)


def _unknown(
    rows: pl.DataFrame,
    open_ones: pl.Series,
    events: Events,
    losses: pl.DataFrame,
    bounds: Bounds,
) -> pl.Series:
    """Of the messages that never arrived, the rows of those of which nobody can say why."""
    ends = events.processes.select(
        pl.col("proc").alias("subscription_proc"), pl.col("end_ns").alias("receiver_end_ns"), "host"
    )
    found = with_tracer_loss(
        _with_bounds(rows, open_ones, bounds).join(ends, on="subscription_proc", how="left"), losses
    )
    edge = pl.col("next_ns").is_null() & (
        pl.col("publish_ns") + pl.col("longest_ns") > pl.col("receiver_end_ns")
    )
    blind = pl.lit(not events.happened("rmw_take"))
    blind |= pl.col("subscription_id").is_in(bounds.untaken.implode()).fill_null(value=False)
    return found.filter(
        edge
        | pl.col("tracer_lost")
        | pl.col("key_ns").is_null()
        | pl.col("shared_key").fill_null(value=False)
        | blind
    )["row"]


def _with_bounds(rows: pl.DataFrame, open_ones: pl.Series, bounds: Bounds) -> pl.DataFrame:
    """The messages that never arrived, with ``row``; next_ns, when the subscription next took a
    later message of that publisher; and longest_ns, the longest that a message waited for it.
    """  # noqa: D205
    columns = (*_WAY, "publish_ns", "key_ns", "topic", "subscription_proc")
    line = rows.select(*columns, _taken().alias("taken"), open_ones.alias("open")).with_row_index(
        "row"
    )
    if not line["publish_ns"].is_sorted():
        line = line.sort("publish_ns", maintain_order=True)
    # Numbers of objects, which are few; no number counts as one, too.
    publisher, subscription = (pl.col(name).fill_null(-1) for name in _WAY)
    line = line.with_row_index("place").with_columns(
        (publisher * 2**32 + subscription).alias("way")
    )
    missing = line.filter("open")
    taken = (
        line.filter(pl.col("taken").is_not_null())
        .filter(pl.col("way").is_in(missing["way"].unique().implode()))
        .select("place", "way", pl.col("taken").alias("next_ns"))
    )
    missing = missing.join_asof(
        taken, on="place", by="way", strategy="forward", check_sortedness=False
    )
    shared = bounds.shared.with_columns(pl.lit(value=True).alias("shared_key"))
    missing = (
        missing.join(bounds.waited, on="subscription_id", how="left", maintain_order="left")
        .join(shared, on=_KEY, how="left", maintain_order="left")
        .with_columns(pl.col("longest_ns").fill_null(_USUAL_WAIT_NS))
    )
    if bounds.later is None:
        return missing
    later = missing.join(
        bounds.later, on=_WAY, how="left", maintain_order="left", nulls_equal=True
    )["later_ns"]
    return missing.with_columns(pl.col("next_ns").fill_null(later))


def of_kernel() -> pl.Expr:
    """Whether a loss is one of the kernel's events, by the folder that LTTng puts these into."""
    return pl.col("trace").str.split("/").list.contains("kernel").fill_null(value=False)


def gaps_of(losses: pl.DataFrame) -> pl.DataFrame:
    """Host, gap_end_ns of each loss, and gap_begin_ns: the earliest begin of those from it on.

    Of all gaps that end at or after a moment, the earliest begin says whether one reaches into
    what follows the moment.
    """
    return (
        losses.select(
            "host",
            pl.col("begin_ns").fill_null(0),
            pl.col("end_ns").fill_null(_FOREVER).alias("gap_end_ns"),
        )
        .sort("host", "gap_end_ns")
        .with_columns(
            pl.col("begin_ns").reverse().cum_min().reverse().over("host").alias("gap_begin_ns")
        )
        .select("host", "gap_begin_ns", "gap_end_ns")
        .sort("gap_end_ns")
    )


def with_tracer_loss(rows: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Add whether the tracer dropped something at the receiver while a take could have come."""
    losses = losses.filter(~of_kernel())
    if losses.is_empty():
        return rows.with_columns(pl.lit(value=False).alias("tracer_lost"))
    until = pl.coalesce("next_ns", pl.col("publish_ns") + pl.col("longest_ns"))
    placed = rows.filter(pl.col("publish_ns").is_not_null()).sort("publish_ns", maintain_order=True)
    rest = rows.filter(pl.col("publish_ns").is_null())
    placed = placed.join_asof(
        gaps_of(losses),
        left_on="publish_ns",
        right_on="gap_end_ns",
        by="host",
        strategy="forward",
        check_sortedness=False,
    ).with_columns((pl.col("gap_begin_ns") <= until).fill_null(value=False).alias("tracer_lost"))
    rest = rest.with_columns(pl.lit(value=False).alias("tracer_lost"))
    return pl.concat([placed.select(rest.columns), rest])
