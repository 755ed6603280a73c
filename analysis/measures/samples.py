"""From the messages table to the latency samples and delivery outcomes of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from roslens.analysis.runs import Run

Floats = NDArray[np.float64]

INFRASTRUCTURE = ("/rosout", "/parameter_events")
"""Topics of every node, of no application."""

LOST = ("lost", "overwritten")
ARRIVED = ("delivered", "taken")
"""Messages sent are those that arrived and those that were lost. Of ``unknown`` ones nobody can
say which, ``replayed`` ones were sent before, and ``no_subscriber`` ones had nowhere to go: they
are counted and shown, and enter no fraction."""


LEAST_FOR_RATE = 10
"""Messages; fewer came in a burst or at some moments, and have no rate."""


def rate_hz(column: str) -> pl.Expr:
    """Messages per second of a group, from its first to its last; null for few."""
    span = (pl.col(column).max() - pl.col(column).min()) / 1e9
    return pl.when((span > 0) & (pl.len() >= LEAST_FOR_RATE)).then((pl.len() - 1) / span)


@dataclass(frozen=True)
class RunSamples:
    """The deliveries of one run on some topics, in order of publication.

    Attributes
    ----------
    delivered_ns
        Latency of each delivered message, shape (n,).
    sent_ns
        The same with an infinity in the place of each lost or overwritten message.
    outcomes
        Rows of the messages table by outcome.
    seconds
        From the first to the last publication.
    left_out
        Rows left out as warm-up.
    """

    run: Run
    delivered_ns: Floats
    sent_ns: Floats
    outcomes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: int = 0

    @property
    def lost(self) -> int:
        """Messages lost or overwritten."""
        return sum(self.outcomes.get(name, 0) for name in LOST)

    @property
    def sent(self) -> int:
        """Messages of which it is known whether they arrived."""
        return self.lost + sum(self.outcomes.get(name, 0) for name in ARRIVED)


@dataclass(frozen=True)
class TopicGroup:
    """Topics that are analysed together.

    Attributes
    ----------
    topic
        None for what the report is about, else the one topic that is looked at beside it.
    scope
        Words for definitions: which messages these are.
    """

    topic: str | None
    scope: str
    topics_of_run: Mapping[str, frozenset[str]]


def topic_groups(
    messages: pl.LazyFrame, runs: Sequence[Run], topics: Sequence[str] = ()
) -> list[TopicGroup]:
    """What is looked at: first the main group, then one per further topic, the busiest first.

    The main group is the work topic of each run's manifest; where a run has none, all its
    topics but those of the infrastructure, which are never looked at unless asked for. With
    `topics`, only those, one group each.

    Parameters
    ----------
    messages
        Columns ``run``, ``topic`` and ``outcome``.
    """
    counted = (
        messages.filter(pl.col("topic").is_not_null() & (pl.col("outcome") != "no_subscriber"))
        .group_by("run", "topic")
        .len()
        .collect()
    )
    of_run: dict[str, list[str]] = {run.name: [] for run in runs}
    traffic: dict[str, int] = {}
    for name, topic, count in counted.iter_rows():
        if name in of_run:
            of_run[name].append(topic)
            traffic[topic] = traffic.get(topic, 0) + count
    if topics:
        everywhere = {topic: {run.name: frozenset((topic,)) for run in runs} for topic in topics}
        return [TopicGroup(t, f"topic {t}", everywhere[t]) for t in topics]
    main = {
        run.name: frozenset((run.work_topic,))
        if run.work_topic
        else frozenset(of_run[run.name]).difference(INFRASTRUCTURE)
        for run in runs
    }
    work_topics = {run.work_topic for run in runs}
    if None in work_topics:
        scope = "all topics but " + " and ".join(INFRASTRUCTURE)
        scope += " (the work topic where the manifest names one)" if len(work_topics) > 1 else ""
    else:
        scope = "the work topic " + ", ".join(sorted(t for t in work_topics if t))
    groups = [TopicGroup(None, scope, main)]
    busiest = sorted(traffic.keys() - {*INFRASTRUCTURE}, key=lambda t: (-traffic[t], t))
    for topic in busiest:
        beside = {
            run.name: frozenset((topic,))
            for run in runs
            if topic in of_run[run.name] and {topic} != main[run.name]
        }
        if beside:
            groups.append(TopicGroup(topic, f"topic {topic}", beside))
    return groups


def run_samples(
    messages: pl.LazyFrame, runs: Sequence[Run], group: TopicGroup, warm_up_s: float = 0.0
) -> list[RunSamples]:
    """Samples of each run that has topics of `group`, in the order of `runs`.

    Parameters
    ----------
    messages
        Columns ``run``, ``topic``, ``outcome``, ``publish_ns``, ``latency_ns``.
    warm_up_s
        Publications in the first so many seconds of a run (after its first on these topics) are
        left out, and counted.
    """
    chosen = [run for run in runs if group.topics_of_run.get(run.name)]
    wanted = pl.DataFrame(
        [(run.name, topic) for run in chosen for topic in sorted(group.topics_of_run[run.name])],
        schema={"run": pl.String, "topic": pl.String},
        orient="row",
    )
    rows = (
        messages.select("run", "topic", "outcome", "publish_ns", "latency_ns")
        .join(wanted.lazy(), on=["run", "topic"])
        .with_columns(since=pl.col("publish_ns") - pl.col("publish_ns").min().over("run"))
        .with_columns(warm=(pl.col("since") >= round(warm_up_s * 1e9)).fill_null(value=True))
        .sort("publish_ns", nulls_last=True, maintain_order=True)
        .collect()
    )
    by_run = rows.partition_by("run", as_dict=True)
    empty = rows.clear()
    return [_of_run(run, by_run.get((run.name,), empty)) for run in chosen]


def _of_run(run: Run, rows: pl.DataFrame) -> RunSamples:
    warm = rows.filter("warm")
    sent = warm.filter(
        ((pl.col("outcome") == "delivered") & pl.col("latency_ns").is_not_null())
        | pl.col("outcome").is_in(LOST)
    ).select(
        pl.when(pl.col("outcome") == "delivered")
        .then(pl.col("latency_ns").cast(pl.Float64))
        .otherwise(pl.lit(np.inf))
    )
    sent_ns = sent.to_series().to_numpy().astype(np.float64)
    counts = dict(warm["outcome"].value_counts().iter_rows())
    span = warm["since"].drop_nulls()
    seconds = (int(span[-1]) - int(span[0])) / 1e9 if span.len() > 1 else 0.0
    return RunSamples(
        run=run,
        delivered_ns=sent_ns[np.isfinite(sent_ns)],
        sent_ns=sent_ns,
        outcomes=counts,
        seconds=seconds,
        left_out=rows.height - warm.height,
    )
