"""Read the messages of a communication report with their hops, and the callbacks that took them.

The durations of a message's hops add up to its latency, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from roslens.analysis.measures.pauses import refuse_paused_runs
from roslens.analysis.reports.given import Tables
from roslens.analysis.runs import Run
from roslens.collectors.topics import INTERNAL
from roslens.studies.communication.backlog import with_publications_behind

HOPS: Mapping[str, str] = {
    "publish_call": "first publish event (rclcpp_publish, else rcl_publish) -> rmw_publish: inside "
    "publish(), before the middleware; none within a process",
    "queue_and_transport": "rmw_publish (within a process: first publish event) -> rmw_take "
    "(within a process: the ring buffer's dequeue): on its way, and waiting for the executor; no "
    "event tells the two apart",
    "take": "rmw_take -> rclcpp_take; none within a process",
    "dispatch": "rclcpp_take (within a process: the dequeue) -> callback_start",
}
"""Begin and end of each hop. A hop whose end was not recorded extends into the next recorded
one."""

_ENDS = ("rmw_publish_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns")


def with_hops(messages: pl.DataFrame) -> pl.DataFrame:
    """Add ``hop_<hop>_ns`` for each of `HOPS`; null where the hop or its event is missing.

    Applies only to messages with a latency: their hops that are not null add up to ``latency_ns``
    exactly, because each begins where the one before ended.
    """
    whole = pl.col("latency_ns").is_not_null()
    before = [pl.col("publish_ns")]
    hops = []
    for hop, end in zip(HOPS, _ENDS, strict=True):
        begin = pl.coalesce(*reversed(before))
        hops.append(pl.when(whole).then(pl.col(end) - begin).alias(f"hop_{hop}_ns"))
        before.append(pl.col(end))
    return messages.with_columns(hops)


def merged_hops(messages: pl.DataFrame) -> dict[str, int]:
    """Count the messages between processes without an event for the end of each hop."""
    rows = messages.filter(
        pl.col("latency_ns").is_not_null() & ~pl.col("intra_process").fill_null(value=False)
    )
    counts = {hop: rows[end].null_count() for hop, end in zip(HOPS, _ENDS, strict=True)}
    return {hop: count for hop, count in counts.items() if count}


@dataclass(frozen=True)
class Traffic:
    """Messages and receptions on the reported topics.

    Attributes
    ----------
    messages
        Rows of the messages table with ``run``, ``behind`` (`backlog`) and the durations of its
        `HOPS`. Replayed deliveries are left out, as they were published earlier. Sorted by
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
    *("run", "message_id", "topic", "publisher_id", "subscription_id", "publisher_vpid"),
    *("subscription_vpid", "intra_process", "publish_ns", "rmw_publish_ns", "take_ns"),
    *("rclcpp_take_ns", "callback_start_ns", "callback_end_ns", "latency_ns", "outcome", "match"),
    "callback_instance_id",
)


def traffic(
    tables: Tables, runs: Sequence[Run], topics: Sequence[str] = (), warm_up_s: float = 0.0
) -> Traffic:
    """Read messages and receptions of the runs, run by run because there may be millions.

    Parameters
    ----------
    topics
        Topics to read; none: the work topic of each run's manifest, else all topics of the
        application with a subscription.
    warm_up_s
        Publications (and callbacks) within this time after the run's first one are left out, s.
    """
    counted = pl.col("run").is_in([run.name for run in runs])
    refuse_paused_runs(tables.table("losses").filter(counted), "the study of communication")
    of_runs = [_run_frames(tables.only(run.name), run, topics, warm_up_s) for run in runs]
    if not of_runs:
        of_runs = [_topic_frames(tables, pl.DataFrame(schema=_TOPICS), warm_up_s)]
    return Traffic(*(pl.concat(frames) for frames in zip(*of_runs, strict=True)))


_Frames = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]


def _run_frames(tables: Tables, run: Run, topics: Sequence[str], warm_up_s: float) -> _Frames:
    names = topics or ([run.work_topic] if run.work_topic else _application(tables))
    chosen = pl.DataFrame([(run.name, topic) for topic in names], schema=_TOPICS, orient="row")
    return _topic_frames(tables, chosen, warm_up_s)


def _topic_frames(tables: Tables, chosen: pl.DataFrame, warm_up_s: float) -> _Frames:
    """Return the frames of `Traffic`, of at most one run."""
    on = ["run", "topic"]
    rows = (
        tables.table("messages")
        .select(*_MESSAGE)
        .join(chosen.lazy(), on=on)
        .sort("publish_ns", "message_id", "subscription_id")
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
    published = rows.select("callback_instance_id", "publish_ns").drop_nulls()
    callbacks = (
        tables.table("callback_instances")
        .select("callback_instance_id", "callback_id", "start_ns", "intra_process")
        .join(of_callbacks.lazy(), on="callback_id")
        .join(
            published.unique("callback_instance_id").lazy(), on="callback_instance_id", how="left"
        )
        .select(
            "run", "topic", "subscription_id", "start_ns", "intra_process",
            linked=pl.col("publish_ns").is_not_null(),
            at=pl.coalesce("publish_ns", "start_ns"),
        )
        .sort("start_ns")
        .collect()
    )  # fmt: skip
    times = pl.concat([rows["publish_ns"], callbacks["at"]]).drop_nulls()
    first = times.arg_min()
    warm = (0 if first is None else times[first]) + round(warm_up_s * 1e9)
    messages = rows.filter(
        pl.col("outcome") != "replayed", (pl.col("publish_ns") >= warm).fill_null(value=True)
    ).drop("callback_instance_id")
    queues = (
        tables.table("subscriptions")
        .select("run", "subscription_id", "topic", "queue_depth")
        .join(chosen.lazy(), on=on)
        .select("run", "subscription_id", "queue_depth")
        .collect()
    )
    return (
        with_hops(with_publications_behind(messages, rows)),
        callbacks.filter(pl.col("at") >= warm).drop("at"),
        chosen,
        of_callbacks.select("run", "topic", "subscription_id", "symbol").unique(),
        queues,
    )


def _application(tables: Tables) -> list[str]:
    """Return topics of one run with a subscription, without those that every node has."""
    messages = tables.table("messages").filter(pl.col("outcome") != "no_subscriber")
    callbacks = tables.table("callback_instances").filter(pl.col("kind") == "subscription")
    names = pl.concat([messages.select("topic"), callbacks.select(topic="name")])
    return sorted({*names.drop_nulls().unique().collect()["topic"]} - {*INTERNAL})


_TOPICS = {"run": pl.String, "topic": pl.String}
