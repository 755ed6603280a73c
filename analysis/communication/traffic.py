"""The messages that a communication report looks at, and the callbacks that took them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from roslens.analysis.communication.backlog import with_publications_behind
from roslens.analysis.communication.hops import with_hops
from roslens.analysis.reports.given import Tables
from roslens.analysis.runs import Run
from roslens.collectors.topics import INTERNAL


@dataclass(frozen=True)
class Traffic:
    """Messages and receptions on the topics looked at.

    Attributes
    ----------
    messages
        Rows of the messages table with ``run``, ``behind`` (`backlog`) and the durations of the
        `hops`. Replayed deliveries are left out: they were published before. Sorted by
        publication.
    callbacks
        One row per execution of a subscription's callback: ``run``, ``topic``,
        ``subscription_id``, ``start_ns``, ``linked`` (whether its message is known).
    topics
        ``run``, ``topic``.
    signatures
        ``run``, ``topic``, ``subscription_id``, ``symbol`` of the callback.
    queues
        ``run``, ``subscription_id``, ``queue_depth``.
    """

    messages: pl.DataFrame
    callbacks: pl.DataFrame
    topics: pl.DataFrame
    signatures: pl.DataFrame
    queues: pl.DataFrame


_MESSAGE = (
    *("run", "message_id", "topic", "publisher_id", "subscription_id", "publisher_node"),
    *("subscription_node", "publisher_vpid", "subscription_vpid", "intra_process", "publish_ns"),
    *("rmw_publish_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns"),
    *("latency_ns", "outcome", "match", "callback_instance_id"),
)


def traffic(
    tables: Tables, runs: Sequence[Run], topics: Sequence[str] = (), warm_up_s: float = 0.0
) -> Traffic:
    """What the runs published and received.

    Parameters
    ----------
    topics
        None: the work topic of each run's manifest, else all of the application that somebody
        subscribes to.
    warm_up_s
        Publications (and callbacks) so soon after the run's first one are left out.
    """
    chosen = _topics(tables, runs, topics)
    on = ["run", "topic"]
    rows = (
        tables.table("messages")
        .select(*_MESSAGE)
        .join(chosen.lazy(), on=on)
        .sort("run", "publish_ns", "message_id", "subscription_id")
        .collect()
    )
    of_callbacks = (
        tables.table("callbacks")
        .select("run", "callback_id", "kind", "owner_id", "name", "symbol")
        .filter(pl.col("kind") == "subscription")
        .rename({"name": "topic", "owner_id": "subscription_id"})
        .join(chosen.lazy(), on=on)
        .collect()
    )
    published = rows.select("run", "callback_instance_id", "publish_ns").drop_nulls()
    callbacks = (
        tables.table("callback_instances")
        .select("run", "callback_instance_id", "callback_id", "start_ns", "intra_process")
        .join(of_callbacks.lazy(), on=["run", "callback_id"])
        .join(
            published.unique(["run", "callback_instance_id"]).lazy(),
            on=["run", "callback_instance_id"],
            how="left",
        )
        .select(
            "run", "topic", "subscription_id", "start_ns", "intra_process", "publish_ns",
            linked=pl.col("publish_ns").is_not_null(),
            at=pl.coalesce("publish_ns", "start_ns"),
        )
        .sort("run", "start_ns")
        .collect()
    )  # fmt: skip
    times = [rows.select("run", at="publish_ns"), callbacks.select("run", "at")]
    first = pl.concat(times).group_by("run").agg(pl.col("at").min().alias("first_ns"))
    warm = pl.col("first_ns") + round(warm_up_s * 1e9)
    messages = (
        rows.filter(pl.col("outcome") != "replayed")
        .join(first, on="run", maintain_order="left")
        .filter((pl.col("publish_ns") >= warm).fill_null(value=True))
        .drop("first_ns")
    )
    callbacks = (
        callbacks.join(first, on="run", maintain_order="left")
        .filter(pl.col("at") >= warm)
        .drop("first_ns", "at", "publish_ns")
    )
    queues = (
        tables.table("subscriptions")
        .select("run", "subscription_id", "topic", "queue_depth")
        .join(chosen.lazy(), on=on)
    )
    return Traffic(
        with_hops(with_publications_behind(messages, rows)),
        callbacks,
        chosen,
        of_callbacks.select("run", "topic", "subscription_id", "symbol").unique(),
        queues.select("run", "subscription_id", "queue_depth").collect(),
    )


def _topics(tables: Tables, runs: Sequence[Run], topics: Sequence[str]) -> pl.DataFrame:
    if topics:
        pairs = [(run.name, topic) for run in runs for topic in topics]
        return pl.DataFrame(pairs, schema=_TOPICS, orient="row")
    found = (
        pl.concat(
            [
                tables.table("messages")
                .filter(pl.col("outcome") != "no_subscriber")
                .select("run", "topic"),
                tables.table("callback_instances")
                .filter(pl.col("kind") == "subscription")
                .select("run", topic=pl.col("name")),
            ]
        )
        .drop_nulls()
        .unique()
        .collect()
    )
    of_run: dict[str, list[str]] = {}
    for run, topic in found.iter_rows():
        of_run.setdefault(run, []).append(topic)
    pairs = []
    for run in runs:
        own = (
            [run.work_topic]
            if run.work_topic
            else sorted({*of_run.get(run.name, [])} - {*INTERNAL})
        )
        pairs += [(run.name, topic) for topic in own]
    return pl.DataFrame(pairs, schema=_TOPICS, orient="row")


_TOPICS = {"run": pl.String, "topic": pl.String}
