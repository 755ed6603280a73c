"""How far latencies between hosts may be wrong, by the messages that went between them.

What was published at s by one host's clock and taken at t by another's says that the second clock
is at most t - s ahead: the least of these over all messages is one bound of the offset, messages
the other way give the other one (`roslens.collectors.ros2.host_clocks`). Event times are used as
they are, so a latency is wrong by no more than the bound that is farther from zero; and where zero
is not between the bounds, it is wrong by at least the nearer one.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.joins import pick
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import I64, TEXT

CROSSINGS = {"from_host": TEXT, "to_host": TEXT, "bound_ns": I64, "count": I64}


def crossings_of(rows: pl.DataFrame, objects: Objects, places: pl.DataFrame) -> pl.DataFrame:
    """The least that messages took from one host to another: columns of `CROSSINGS`.

    Parameters
    ----------
    rows
        Messages, settled or not.
    objects
        Of the same recording.
    places
        As `Events.places`: host by number of the process.
    """
    if places["host"].n_unique() < 2:
        return pl.DataFrame(schema=CROSSINGS)
    exact = rows.filter(
        (pl.col("match") == "exact") & pl.col("rmw_publish_ns").is_not_null()
    ).drop_nulls("take_ns")
    # Objects and processes are numbered in their order.
    taker = pick(objects.subscriptions, exact["subscription_id"], "proc").to_series()
    found = exact.select(
        (pl.col("take_ns") - pl.col("rmw_publish_ns")).alias("bound_ns"),
        pl.lit(1, dtype=I64).alias("count"),
        _host(places, exact["publisher_proc"]).alias("from_host"),
        _host(places, taker).alias("to_host"),
    )
    return joined(found.filter(pl.col("from_host") != pl.col("to_host")))


def joined(crossings: pl.DataFrame) -> pl.DataFrame:
    """Crossings of several parts of a recording as those of all of it."""
    return (
        crossings.group_by("from_host", "to_host")
        .agg(pl.col("bound_ns").min(), pl.col("count").sum())
        .select(list(CROSSINGS))
        .sort("from_host", "to_host")
    )


def offsets(crossings: pl.DataFrame) -> pl.DataFrame:
    """Of hosts between which messages went, how far the second's clock is ahead of the first's.

    Returns
    -------
    polars.DataFrame
        from_host, to_host, low_ns, high_ns (null where nothing came back), drift: whether the
        bounds contradict each other, as they do when clocks drift apart.
    """
    back = crossings.select(
        pl.col("to_host").alias("from_host"),
        pl.col("from_host").alias("to_host"),
        (-pl.col("bound_ns")).alias("low_ns"),
    )
    found = crossings.join(back, on=["from_host", "to_host"], how="left", maintain_order="left")
    high = pl.col("bound_ns").alias("high_ns")
    drift = (pl.col("low_ns") > pl.col("bound_ns")).fill_null(value=False).alias("drift")
    return found.select("from_host", "to_host", "low_ns", high, drift)


def _host(places: pl.DataFrame, processes: pl.Series) -> pl.Series:
    return pick(places, processes, "host").to_series().cast(TEXT)


def with_bounds(rows: pl.DataFrame, crossings: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Add clock_bound_ns to message rows."""
    if crossings.is_empty():
        return rows.with_columns(pl.lit(None, dtype=I64).alias("clock_bound_ns"))
    most = pl.max_horizontal(pl.col("low_ns").abs(), pl.col("high_ns").abs())
    known = ~pl.col("drift") & pl.col("low_ns").is_not_null()
    bounds = offsets(crossings).select(
        "from_host", "to_host", pl.when(known).then(most).alias("clock_bound_ns")
    )
    hosts = pl.DataFrame(
        {
            "from_host": _host(places, rows["publisher_proc"]),
            "to_host": _host(places, rows["subscription_proc"]),
        }
    )
    found = hosts.join(bounds, on=["from_host", "to_host"], how="left", maintain_order="left")
    bound = pl.when(pl.col("latency_ns").is_not_null()).then(found["clock_bound_ns"])
    return rows.with_columns(bound.alias("clock_bound_ns"))
