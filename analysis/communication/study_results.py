"""Runs of the original study's tool, as messages: what it could not see is counted here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from roslens.analysis.communication.backlog import with_publications_behind
from roslens.analysis.communication.periods import pairs, publisher_periods, subscription_periods
from roslens.analysis.communication.published import QUEUE_DEPTH
from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import ReportTable
from roslens.collectors.results.rclcpp_communication import StudyRun, read_study


def study_messages(run: StudyRun) -> pl.DataFrame:
    """One row per publication and subscription of its publisher, as in the messages table.

    A subscription is one of a publisher's if it received any message of it: of a pair in which
    nothing arrived the files tell nothing. The callback's entry stands for the take.
    """
    published = run.published.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("number"),
        (pl.col("publish_us") * 1000).alias("publish_ns"),
    )
    pair = ["publisher_id", "subscription_id"]
    known = run.received.select(pair).unique()
    arrived = run.received.with_columns((pl.col("callback_us") * 1000).alias("callback_start_ns"))
    return (
        published.join(known, on="publisher_id", how="left")
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
    """Every run in a folder of the tool's results, with the losses that it did not count.

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
