"""Return the workbench's tables of a range: its worst messages, its callbacks and its chains."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.flow.chains import ChainInstances
from roslens.analysis.statistics.quantiles import mean_quantile_over_runs
from roslens.collectors.topics import INFRASTRUCTURE

MOST_WORST = 100
"""Greatest number of messages that are listed."""


def worst_messages(messages: pl.LazyFrame, origin_ns: int) -> pl.DataFrame:
    """Return the delivered messages with the longest latency (publish to callback_start).

    Messages of topics that every node has are left out.

    Returns
    -------
    polars.DataFrame
        ``latency_ms``, ``at_s`` (publication, since `origin_ns`), ``topic``, ``from``, ``to``,
        ``callback_instance_id``, ``run``, ``publish_ns``, ``callback_start_ns``; at most
        `MOST_WORST` rows.
    """
    return (
        messages.filter(
            pl.col("latency_ns").is_not_null() & pl.col("callback_instance_id").is_not_null(),
            ~pl.col("topic").is_in(INFRASTRUCTURE),
        )
        .top_k(MOST_WORST, by="latency_ns")
        .sort("latency_ns", "publish_ns", descending=[True, False])
        .select(
            (pl.col("latency_ns") / 1e6).alias("latency_ms"),
            ((pl.col("publish_ns") - origin_ns) / 1e9).alias("at_s"),
            "topic",
            pl.col("publisher_node").alias("from"),
            pl.col("subscription_node").alias("to"),
            *("callback_instance_id", "run", "publish_ns"),
            callback_start_ns=pl.col("publish_ns") + pl.col("latency_ns"),
        )
        .collect()
    )


def callbacks_overview(
    instances: pl.DataFrame, begin_ns: int | None = None, end_ns: int | None = None
) -> pl.DataFrame:
    """Return one row per callback of a node: how often, and how long, those of a range ran.

    Parameters
    ----------
    instances
        ``node``, ``kind``, ``name`` (as in `number_namesakes`), ``start_ns``, ``duration_ns``.

    Returns
    -------
    polars.DataFrame
        ``node``, ``callback`` (with its kind, where a node has callbacks of that name of several
        kinds), ``count`` (executions that began in the range), ``total_ms``, ``mean_ms`` and
        ``max_ms`` (null if none of them has an end), ``unfinished`` (of how many no end was
        recorded); the callbacks that took most of the time come first.
    """
    if begin_ns is not None and end_ns is not None:
        instances = instances.filter(pl.col("start_ns").is_between(begin_ns, end_ns, "left"))
    took = pl.col("duration_ns") / 1e6
    kinds = pl.col("kind").n_unique().over("node", "callback")
    with_kind = pl.format("{} ({})", "callback", "kind")
    return (
        instances.with_columns(callback=pl.coalesce("name", "kind", pl.lit("callback")))
        .group_by("node", "callback", "kind")
        .agg(
            count=pl.len(),
            total_ms=pl.when(took.count() > 0).then(took.sum()),
            mean_ms=took.mean(),
            max_ms=took.max(),
            unfinished=took.null_count(),
        )
        .with_columns(callback=pl.when(kinds > 1).then(with_kind).otherwise("callback"))
        .drop("kind")
        .sort(*("total_ms", "node", "callback"), descending=[True, False, False], nulls_last=True)
    )


def chains_overview(
    found: Sequence[ChainInstances], begin_ns: int | None = None, end_ns: int | None = None
) -> pl.DataFrame:
    """Return one row per chain: the instances that began in a range, and how long they took.

    Returns
    -------
    polars.DataFrame
        ``chain``, ``instances``, ``complete`` (reached the end), ``stopped`` (did not; the rest of
        the instances may have reached it or not), ``approximate`` (number of the
        complete instances that passed a node that may have used another message), ``p50_ms``,
        ``p99_ms`` and ``worst_ms`` (of the complete ones, from the first publication to the last
        callback's end; null where the clocks of the hosts at both ends may be as far apart as that;
        a percentile is null where a run has fewer than its interval needs, 6 or 299; means over
        runs, except for the worst), ``at_least`` (whether these are lower bounds).
    """
    rows = []
    if begin_ns is not None and end_ns is not None:
        began = pl.col("begin_ns").is_between(begin_ns, end_ns)
        found = [each.only(began) for each in found]
    for each in found:
        done, of_runs = each.complete, each.times_of_runs()
        times = (
            *(mean_quantile_over_runs(of_runs, q) for q in (0.5, 0.99)),
            done["latency_ns"].max(),
        )
        told = [each.within_clocks(time) for time in times]  # type: ignore[arg-type]
        rows.append(
            (str(each.chain), each.instances.height, done.height,
             each.instances.height - done.height - each.untold,
             done.filter(match="approximate").height,
             *(None if time is None else time / 1e6 for time in told), each.at_least)
        )  # fmt: skip
    schema = {"chain": pl.String, "instances": pl.UInt32, "complete": pl.UInt32,
              "stopped": pl.UInt32, "approximate": pl.UInt32, "p50_ms": pl.Float64,
              "p99_ms": pl.Float64, "worst_ms": pl.Float64, "at_least": pl.Boolean}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row").sort(
        "worst_ms", descending=True, nulls_last=True
    )
