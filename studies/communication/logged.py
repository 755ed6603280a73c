"""Compare a program's log of its own messages with the trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.statistics.quantiles import quantile_of
from roslens.studies.communication.backlog import with_publications_behind
from roslens.studies.communication.periods import (
    pairs,
    publisher_periods,
    subscription_periods,
)
from roslens.studies.communication.published import QUEUE_DEPTH
from roslens.studies.communication.results import StudyRun, read_study

_WITHIN_NS = 1_000_000_000
"""Greatest distance in ns between a publication and its line in the log."""
AGREE, AGREE_NS = 0.05, 15_000
"""Greatest difference of mean latencies that agree, as part of the trace's latency, or in ns."""


def link_log(messages: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Add ``logged_publish_ns`` and ``logged_callback_ns`` to messages; null without a line.

    On each topic, the k-th publication is the k-th of the log, where both have equally many; the
    k-th reception of a publication (there is one per subscription) is its k-th logged reception.

    Parameters
    ----------
    messages
        Rows of the messages table, with ``run``.
    logged
        ``run`` and the columns of `roslens.collectors.results.logged_messages`.
    """
    order = pl.int_range(pl.len(), dtype=pl.Int64)
    on = ["run", "topic"]
    seen = (
        messages.filter(pl.col("publish_ns").is_not_null())
        .group_by(*on, "message_id")
        .agg(pl.col("publish_ns").min())
        .sort("publish_ns", "message_id")
        .with_columns(order.over(on).alias("number"), pl.len().over(on).alias("count"))
    )
    lines = (
        logged.group_by(*on, "sequence")
        .agg(pl.col("publish_realtime_ns").min())
        .sort("publish_realtime_ns", "sequence")
        .with_columns(order.over(on).alias("number"), pl.len().over(on).alias("count"))
    )
    same = seen.join(lines, on=[*on, "number", "count"]).filter(
        (pl.col("publish_ns") - pl.col("publish_realtime_ns")).abs() < _WITHIN_NS
    )
    receptions = (
        logged.drop_nulls("callback_realtime_ns")
        .sort("callback_realtime_ns")
        .with_columns(order.over(*on, "sequence").alias("reception"))
        .select(*on, "sequence", "reception", "callback_realtime_ns")
    )
    rank = (
        pl.when(pl.col("callback_start_ns").is_not_null())
        .then(pl.col("callback_start_ns").rank("ordinal").over("run", "message_id") - 1)
        .cast(pl.Int64)
    )
    return (
        messages.with_columns(rank.alias("reception"))
        .join(
            same.select("run", "message_id", "sequence", "publish_realtime_ns"),
            on=["run", "message_id"],
            how="left",
            maintain_order="left",
        )
        .join(receptions, on=[*on, "sequence", "reception"], how="left", maintain_order="left")
        .drop("sequence", "reception")
        .rename(
            {
                "publish_realtime_ns": "logged_publish_ns",
                "callback_realtime_ns": "logged_callback_ns",
            }
        )
    )


def compare_with_log(linked: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Return counts and latencies by the trace and by the log, per run that has a log.

    Parameters
    ----------
    linked
        From `link_log`.

    Returns
    -------
    ``run``, ``publications``, ``logged_publications``, ``receptions``, ``logged_receptions``,
    ``latency_p50_ns`` and ``logged_latency_p50_ns`` (medians, each over its own messages),
    ``longer_p50_ns`` and ``longer_p99_ns`` (of logged minus traced latency, message by message),
    ``differs`` (whether the counts do).
    """
    longer = pl.col("logged_callback_ns") - pl.col("logged_publish_ns") - pl.col("latency_ns")
    seen = linked.group_by("run").agg(
        pl.col("message_id").n_unique().cast(pl.Int64).alias("publications"),
        (pl.col("outcome") == "delivered").sum().cast(pl.Int64).alias("receptions"),
        pl.col("latency_ns").median().alias("latency_p50_ns"),
        longer.median().alias("longer_p50_ns"),
        quantile_of(longer, 0.99).alias("longer_p99_ns"),
    )
    latency = pl.col("callback_realtime_ns") - pl.col("publish_realtime_ns")
    lines = logged.group_by("run").agg(
        pl.struct("topic", "sequence").n_unique().cast(pl.Int64).alias("logged_publications"),
        pl.col("callback_realtime_ns").count().cast(pl.Int64).alias("logged_receptions"),
        latency.median().alias("logged_latency_p50_ns"),
    )
    return lines.join(seen, on="run", how="left").select(
        "run", "publications", "logged_publications", "receptions", "logged_receptions",
        "latency_p50_ns", "logged_latency_p50_ns", "longer_p50_ns", "longer_p99_ns",
        differs=pl.col("publications").ne_missing(pl.col("logged_publications"))
        | pl.col("receptions").ne_missing(pl.col("logged_receptions")),
    ).sort("run")  # fmt: skip


def agreement(copied: pl.DataFrame, by_reference: Collection[str]) -> pl.DataFrame:
    """Return mean latency by trace and log, over the messages that both contain, per run.

    In two cases the trace measures another interval, because a copy lies between its event and the
    program's line: a message that is published by reference with intra-process communication on is
    copied before its first event, and a callback with unique_ptr copies a message from the
    middleware after callback_start. Without these copies, trace and log have to agree.

    Parameters
    ----------
    copied
        From `roslens.studies.communication.copies.copy_hops`.
    by_reference
        Runs that publish by reference with intra-process communication on.

    Returns
    -------
    ``run``, ``messages``, and means over these: ``latency_ns``, ``logged_latency_ns``,
    ``before_ns`` and ``after_ns`` (the copies, 0 where there is none), ``rest_ns`` (logged - traced
    latency - copies), and ``agrees``.
    """
    logged = pl.col("logged_callback_ns") - pl.col("logged_publish_ns")
    before = pl.col("publish_ns") - pl.col("logged_publish_ns")
    rest = pl.col("logged_latency_ns") - pl.sum_horizontal("latency_ns", "before_ns", "after_ns")
    return (
        copied.select(
            "run",
            "latency_ns",
            logged.alias("logged_latency_ns"),
            pl.when(pl.col("run").is_in(list(by_reference))).then(before).alias("before_ns"),
            pl.col("copy_ns").alias("after_ns"),
        )
        .drop_nulls(["latency_ns", "logged_latency_ns"])
        .with_columns(pl.col("before_ns", "after_ns").fill_null(0))
        .group_by("run")
        .agg(pl.len().alias("messages"), pl.all().exclude("run").mean())
        .with_columns(rest_ns=rest)
        .with_columns(
            agrees=pl.col("rest_ns").abs()
            <= pl.max_horizontal(AGREE * pl.col("latency_ns"), pl.lit(AGREE_NS))
        )
        .sort("run")
    )


def study_messages(run: StudyRun) -> pl.DataFrame:
    """Return one row per publication and subscription of its publisher, as in the messages table.

    A subscription is one of a publisher's if it received any message from it: the files do not show
    pairs in which nothing arrived. The start of the callback stands for the take.
    """
    published = run.published.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("number"),
        (pl.col("publish_us") * 1000).alias("publish_ns"),
    )
    pair = ["publisher_id", "subscription_id"]
    pairs = run.received.select(pair).unique()
    arrived = run.received.with_columns((pl.col("callback_us") * 1000).alias("callback_start_ns"))
    return (
        published.join(pairs, on="publisher_id", how="left")
        .join(
            arrived.select(*pair, "message_id", "callback_start_ns"),
            on=[*pair, "message_id"],
            how="left",
        )
        .select(
            pl.lit(run.name).alias("run"),
            pl.lit(None, dtype=pl.String).alias("topic"),
            pl.col("number").alias("message_id"),
            *pair,
            "publish_ns",
            pl.col("callback_start_ns").alias("take_ns"),
            "callback_start_ns",
            (pl.col("callback_start_ns") - pl.col("publish_ns")).alias("latency_ns"),
            pl.when(pl.col("subscription_id").is_null())
            .then(pl.lit("unknown"))
            .when(pl.col("callback_start_ns").is_null())
            .then(pl.lit("lost"))
            .otherwise(pl.lit("delivered"))
            .alias("outcome"),
        )
    )


def study_table(folder: Path) -> ReportTable:
    """Return every run in a folder of the tool's results, with losses that the tool did not count.

    Raises
    ------
    UsageError
        The results cannot be read.
    """
    runs = read_study(folder)
    rows = [_row(run) for run in runs]
    return ReportTable(
        [
            *("run", "publisher period [ms]", "subscription period [ms]", "mean latency [ms]"),
            *("sent", "lost", "loss [%]", "queue depth seen", "latency measures"),
        ],
        rows,
        "Results of the original tool, read again",
        notes=[
            "Periods and latency as the tool takes them: latency over received messages only.",
            (
                "Depth seen: median over received messages of the publications by the same "
                f"publisher up to the callback; the tool's queues are {QUEUE_DEPTH} deep. One run "
                "each: no interval."
            ),
        ],
        marked=frozenset(i for i, row in enumerate(rows) if row[5] != "0"),
        left=frozenset({"run", "latency measures"}),
    )


def _row(run: StudyRun) -> Sequence[str]:
    messages = study_messages(run)
    callbacks = messages.drop_nulls("callback_start_ns").rename({"callback_start_ns": "start_ns"})
    of_pairs = pairs(messages)
    sent, lost = int(of_pairs["sent"].sum()), int(of_pairs["lost"].sum())
    seen = _number(with_publications_behind(messages, messages)["behind"].median())
    periods = [
        _number(publisher_periods(messages)["period_ns"].mean()),
        _number(subscription_periods(callbacks)["period_ns"].mean()),
        _number(messages["latency_ns"].mean()),
    ]
    return [
        run.name,
        *(significant(None if ns is None else ns / 1e6) for ns in periods),
        f"{sent:,}",
        f"{lost:,}",
        significant(100 * lost / sent if sent else None, 3),
        significant(seen, 3),
        "-" if seen is None else "backlog" if seen >= QUEUE_DEPTH else "latency",
    ]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
