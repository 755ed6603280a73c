"""Join a bag with a trace: how old data were at callbacks, and what the recorder missed.

A message of the bag and one of the trace are the same if their topic and source timestamp agree:
the middleware gives every message a source timestamp, and each subscriber, including the recorder,
receives it with the message.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.analysis.flow.chain import Tables

_KEY = ["topic", "source_timestamp_ns"]


def _at_callbacks(bag: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Join each message of a bag with each callback that received it.

    Parameters
    ----------
    bag
        Messages with the columns of `roslens.collectors.bag.BAG_MESSAGES`.
    tables
        The tables of the one run that the bag belongs to.

    Returns
    -------
    polars.DataFrame
        The columns of `bag`, then ``subscription_node``, ``callback_start_ns`` (of the events'
        clock) and ``age_ns``: from ``header.stamp`` to the begin of the callback, both on the
        system clock. All three are null where no callback is known; the age is also null where
        there is no stamp, or where the publisher is known to be on another host. If the publisher
        was not traced and is on another host, the age includes the difference of the clocks.
    """
    two_sided = tables.table("messages").select(
        *_KEY,
        "subscription_node",
        "callback_start_ns",
        pl.when(pl.col("publisher_host") == pl.col("subscription_host"))
        .then(pl.col("source_timestamp_ns") - pl.col("rmw_publish_ns"))
        .alias("clock_offset_ns"),
    )
    one_sided = tables.table("one_sided_messages").select(
        *_KEY, "subscription_node", "callback_start_ns", "clock_offset_ns"
    )
    callbacks = pl.concat([two_sided, one_sided]).drop_nulls([*_KEY, "callback_start_ns"])
    return (
        bag.lazy()
        .join(callbacks, left_on=["topic", "publish_ns"], right_on=_KEY, how="left")
        .with_columns(
            age_ns=pl.col("callback_start_ns") + pl.col("clock_offset_ns") - pl.col("stamp_ns")
        )
        .drop("clock_offset_ns")
        .collect()
    )


def _topics(bag: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Count the messages of each topic of a bag, and those that its recorder missed.

    Returns
    -------
    polars.DataFrame
        One row per topic of the bag: ``topic``, ``type``, ``messages``, ``bytes``; ``known``: the
        number of messages, published or taken, in the trace from the bag's first message of the
        topic to its last; ``missed``: how many of these the bag lacks. ``known`` and ``missed`` are
        null if the bag has no publication times, or the trace has no such message.
    """
    of_bag = bag.group_by("topic", maintain_order=True).agg(
        pl.col("type").first(),
        pl.len().cast(pl.Int64).alias("messages"),
        pl.col("size_bytes").sum().alias("bytes"),
        pl.col("publish_ns").min().alias("first_ns"),
        pl.col("publish_ns").max().alias("last_ns"),
    )
    traced = pl.concat(
        [tables.table(name).select(_KEY) for name in ("publications", "one_sided_messages")]
    )
    recorded = bag.lazy().select("topic", source_timestamp_ns="publish_ns", recorded=pl.lit(1))
    counted = (
        traced.drop_nulls()
        .unique()
        .join(of_bag.lazy().select("topic", "first_ns", "last_ns"), on="topic")
        .filter(pl.col("source_timestamp_ns").is_between("first_ns", "last_ns"))
        .join(recorded.unique(), on=_KEY, how="left")
        .group_by("topic")
        .agg(
            pl.len().cast(pl.Int64).alias("known"),
            pl.col("recorded").is_null().sum().cast(pl.Int64).alias("missed"),
        )
        .collect()
    )
    return of_bag.drop("first_ns", "last_ns").join(
        counted, on="topic", how="left", maintain_order="left"
    )


@dataclass(frozen=True)
class BagBeside:
    """A bag joined with the trace of one run.

    Attributes
    ----------
    name
        Name of the bag's file or folder.
    messages
        From `_at_callbacks`.
    topics
        From `_topics`.
    """

    name: str
    messages: pl.DataFrame
    topics: pl.DataFrame

    def __str__(self) -> str:
        count, of = int(self.topics["messages"].sum()), self.topics.height
        clauses = [
            f"bag {self.name}: {count:,} message{'s' * (count != 1)} of {of} topic{'s' * (of != 1)}"
        ]
        traced = self.topics.drop_nulls("known")
        if traced.height:
            clauses.append(
                f"its recorder missed {traced['missed'].sum():,} of {traced['known'].sum():,} that "
                "the trace knows of"
            )
        else:
            clauses.append("none of them is known to the trace by its time of publication")
        ages = self.messages["age_ns"].drop_nulls()
        if ages.len():
            middle = float(ages.median() or 0) / 1e6  # type: ignore[arg-type]
            clauses.append(
                f"data were {middle:,.2f} ms old at the median when a callback began "
                f"(header.stamp, {ages.len():,} callbacks)"
            )
        return "; ".join(clauses) + "."


def join_bag(name: str, bag: pl.DataFrame, tables: Tables) -> BagBeside:
    """Join a bag with what the tables of its run contain about its messages."""
    return BagBeside(name, _at_callbacks(bag, tables), _topics(bag, tables))
