"""Extract the latency samples and delivery outcomes of each run from the messages table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import polars as pl

from roslens.analysis.runs import Run
from roslens.analysis.statistics.quantiles import supported_quantile_of
from roslens.collectors.topics import is_of_application
from roslens.recording.arrays import Floats, np
from roslens.recording.manifest import Level

LOST = ("lost", "replaced", "overwritten")
ARRIVED = ("delivered", "taken")
"""Outcomes of messages that arrived. Messages sent are those that arrived and those that did
not: lost on the way, or dropped at the reader for newer ones. ``replayed`` ones were sent before,
``no_subscriber`` ones had nowhere to go, and of ``not_matched`` ones nothing shows that they had:
they are counted and shown, but enter no fraction. Whether ``unknown`` ones arrived cannot be known:
they set the bounds of what can be said."""


_OF_SAMPLES = ("run", "topic", "outcome", "publish_ns", "latency_ns", "clock_bound_ns")
_READ_AT_ONCE = 10
"""Number of topics: more of them need fewer passes over the messages, but more memory."""
LEAST_FOR_RATE = 10
"""Number of publications; fewer came in a burst or at isolated moments, and have no rate."""
LATENCY_NS = pl.when(pl.col("outcome") == "delivered").then(
    pl.coalesce("latency_ns", "clock_bound_ns")
)
"""The latency of a delivered message. The table lacks those within their clock bound: they are the
shortest, so leaving them out would make the others' percentiles too long, and taking the bound errs
by it at most."""
CLOCK_BOUND_NS = (
    pl.when(
        ((pl.col("outcome") == "delivered") & pl.col("publish_ns").is_not_null())
        .and_(pl.coalesce("latency_ns", "clock_bound_ns").is_null())
        .any()
    )
    .then(math.inf)
    .otherwise(pl.col("clock_bound_ns").max().fill_null(0))
)
"""The most by which clocks can make a quantile or mean of `LATENCY_NS` of a group wrong; 0 within a
host."""


@overload
def beyond_clocks(time: float, bound: float) -> bool: ...
@overload
def beyond_clocks(time: pl.Expr, bound: pl.Expr) -> pl.Expr: ...
def beyond_clocks(time: float | pl.Expr, bound: float | pl.Expr) -> bool | pl.Expr:
    """Return whether a time is twice what the clocks of its hosts may be apart (0: one host).

    The bound comes from the fastest messages, so most times are a little longer than the bound: of
    those the clocks still forbid to say whether they are a few times longer or next to nothing.
    """
    return (bound == 0) | (time - bound >= bound)


def quantile_within_clocks(q: float) -> pl.Expr:
    """Return a quantile of `LATENCY_NS` of a group.

    It is null if there are too few messages for its interval, and where the clocks forbid saying it
    (`beyond_clocks`).
    """
    time = supported_quantile_of(LATENCY_NS, q)
    return pl.when(beyond_clocks(time, CLOCK_BOUND_NS)).then(time)


def rate_hz(column: str) -> pl.Expr:
    """Return the publications per second of a group, from its first to its last; null for few.

    A publication to several subscriptions counts once. The rows come from
    `roslens.analysis.measures.pauses.recorded_time`.
    """
    at = pl.col(column).filter(~pl.col("paused")).unique()
    span = (at.max() - at.min()) / 1e9
    return pl.when((span > 0) & (at.len() >= LEAST_FOR_RATE)).then((at.len() - 1) / span)


@dataclass(frozen=True)
class RunSamples:
    """The deliveries of one run on some topics, in order of publication.

    Attributes
    ----------
    delivered_ns
        Latency of each delivered message, shape (n,).
    sent_ns
        Latency of each message sent, infinite if it did not arrive, in order of publication.
    outcomes
        Number of rows of the messages table by outcome.
    seconds
        Time from the first to the last publication.
    left_out
        Number of rows left out as warm-up.
    clock_bound_ns
        The most by which clocks can make a latency between hosts wrong; 0 if there is none.
    """

    run: Run
    delivered_ns: Floats
    sent_ns: Floats
    outcomes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: int = 0
    clock_bound_ns: float = 0.0

    @property
    def is_told(self) -> bool:
        """Whether the clocks of the hosts allow to say a latency (`beyond_clocks`)."""
        longest = self.delivered_ns.max(initial=-math.inf)
        return self.delivered_ns.size > 0 and beyond_clocks(float(longest), self.clock_bound_ns)

    @property
    def lost(self) -> int:
        """Number of messages lost, replaced or overwritten."""
        return sum(self.outcomes.get(name, 0) for name in LOST)

    @property
    def sent(self) -> int:
        """Number of messages of which it is known whether they arrived."""
        return self.lost + sum(self.outcomes.get(name, 0) for name in ARRIVED)

    @property
    def unknown(self) -> int:
        """Number of messages that may or may not have arrived."""
        return self.outcomes.get("unknown", 0)


WORK_TOPIC = "the work topic "
"""How the scope of a work topic begins, before its name."""
Headline = Literal["busiest", "slowest"]
"""Which topic a report presents first where no work topic is named: the one with the most
messages, or the one with the highest median latency."""


@dataclass(frozen=True)
class TopicGroup:
    """A topic, or the named topic of each run, whose messages are analysed together.

    Attributes
    ----------
    topic
        The topic; None if each run's manifest names it.
    scope
        Words for definitions that say which messages these are.
    """

    topic: str | None
    scope: str
    topics_of_run: Mapping[str, frozenset[str]]

    def cell(self, run: Run) -> dict[str, Level]:
        """Return the run's cell, with the topic as a part of it."""
        return {**run.cell, **({} if self.topic is None else {"topic": self.topic})}


def labels_of(runs: Sequence[Run]) -> dict[str, str]:
    """Return the label of each run's cell, by the run's name."""
    return {run.name: run.label for run in runs}


def with_cells(rows: pl.LazyFrame, cells: Mapping[str, str]) -> pl.LazyFrame:
    """Return the rows of the runs in `cells`, with the label of the run's cell as ``cell``."""
    label = pl.col("run").replace_strict(cells, return_dtype=pl.String)
    return rows.filter(pl.col("run").is_in(list(cells))).with_columns(cell=label)


def topic_traffic(messages: pl.LazyFrame, runs: Sequence[Run]) -> pl.DataFrame:
    """Summarise what became of the messages of each topic, over all `runs`.

    Parameters
    ----------
    messages
        Columns ``run``, ``topic``, ``outcome``, ``publish_ns``, ``latency_ns`` and
        ``clock_bound_ns``.

    Returns
    -------
    ``topic``, ``own`` (whether it is the application's), ``run`` (names of the runs in which
    somebody subscribes, or of all runs if nobody does in any), counts of rows: ``messages``,
    ``heard`` (with a subscription), ``delivered`` (with a known latency), ``arrived``, ``lost``,
    and of these ``replaced`` and ``overwritten``; ``latency_ns`` (of the slowest cell: as in
    estimates the mean of its runs' medians), ``longest_ns``; null where nothing was delivered, and
    where the clocks of the hosts forbid saying it. The application's topics come first, and
    delivered ones before others.
    """
    outcome, bound = pl.col("outcome"), pl.col("clock_bound_ns").fill_null(0)
    latency = pl.when(outcome == "delivered").then("latency_ns")
    heard = outcome != "no_subscriber"
    messages = with_cells(messages, labels_of(runs))
    median = (
        messages
        .group_by(pl.col("topic").cast(pl.String), "cell", "run")
        .agg(LATENCY_NS.median(), apart=CLOCK_BOUND_NS)
        .group_by("topic", "cell").agg(pl.col("latency_ns").mean(), pl.col("apart").max())
        .filter(beyond_clocks(pl.col("latency_ns"), pl.col("apart")))
        .group_by("topic").agg(pl.col("latency_ns").max())
    )  # fmt: skip
    return (
        messages.filter(pl.col("topic").is_not_null())
        .group_by(pl.col("topic").cast(pl.String))
        .agg(
            pl.when(heard.any()).then(pl.col("run").filter(heard).unique().implode())
            .otherwise(pl.col("run").unique().implode()).alias("run"),
            messages=pl.len(),
            heard=heard.sum(),
            delivered=latency.count(),
            arrived=outcome.is_in(ARRIVED).sum(),
            lost=outcome.is_in(LOST).sum(),
            replaced=(outcome == "replaced").sum(),
            overwritten=(outcome == "overwritten").sum(),
            longest_ns=latency.filter(beyond_clocks(latency, bound)).max(),
        )
        .join(median, on="topic", how="left")
        .with_columns(own=is_of_application())
        .sort(~pl.col("own"), pl.col("delivered") == 0, -pl.col("heard").cast(pl.Int64), "topic")
        .collect()
    )  # fmt: skip


def topic_groups(
    messages: pl.LazyFrame,
    runs: Sequence[Run],
    topics: Sequence[str] = (),
    headline: Headline = "busiest",
) -> list[TopicGroup]:
    """Return the groups to analyse, one per topic: topics are never pooled.

    First comes the work topic if every run's manifest names one; then the application's topics,
    those that a manifest names before others, delivered ones before others, ordered by `headline`;
    then those of the system. Topics without a subscriber are left out, unless the application has
    no others: that nobody heard it is then all there is to say. With `topics`, only those are
    returned. There is at least one group, which may have no runs.

    Parameters
    ----------
    messages
        Columns ``run``, ``topic``, ``outcome``, ``publish_ns``, ``latency_ns`` and
        ``clock_bound_ns``.
    """
    if topics:
        everywhere = {run.name for run in runs}
        return [_group_of(topic, everywhere) for topic in topics]
    traffic = topic_traffic(messages, runs)
    own_heard = not traffic.filter(pl.col("own") & (pl.col("heard") > 0)).is_empty()
    named = {run.work_topic for run in runs}
    groups = []
    if named and None not in named:
        of_run = {run.name: frozenset((str(run.work_topic),)) for run in runs}
        groups.append(TopicGroup(None, WORK_TOPIC + ", ".join(sorted(map(str, named))), of_run))
    measure = "heard" if headline == "busiest" else "latency_ns"
    order = traffic.filter((pl.col("heard") > 0) | (pl.col("own") & (not own_heard))).sort(
        ~pl.col("own"),
        pl.col("topic").is_in([topic for topic in named if topic]).not_(),
        pl.col("delivered") == 0,
        pl.col(measure).cast(pl.Float64).fill_null(-1).neg(),
        "topic",
    )
    # Runs in which it was already analysed as the work topic are left out.
    done = {run.name: run.work_topic for run in runs} if groups else {}
    for topic, in_runs in order.select("topic", "run").iter_rows():
        run_names = {name for name in in_runs if done.get(name) != topic}
        if run_names:
            groups.append(_group_of(topic, run_names))
    return groups or [TopicGroup(None, "there is no topic with a subscription", {})]


def _group_of(topic: str, runs: Iterable[str]) -> TopicGroup:
    return TopicGroup(topic, f"topic {topic}", dict.fromkeys(runs, frozenset((topic,))))


def rows_of_group(
    messages: pl.LazyFrame, runs: Sequence[Run], group: TopicGroup, warm_up_s: float = 0.0
) -> pl.LazyFrame:
    """Return the messages on the topics of `group`, in order of publication.

    Parameters
    ----------
    messages
        ``run``, ``topic``, ``publish_ns`` and any other columns that are wanted.
    warm_up_s
        See `run_samples`.

    Returns
    -------
    The rows with ``since_ns`` (ns after the first publication of the run on these topics) and
    ``warm`` (whether the row is outside of the warm-up).
    """
    of_run = group.topics_of_run
    wanted = pl.DataFrame(
        [(run.name, topic) for run in runs for topic in sorted(of_run.get(run.name, ()))],
        schema={"run": pl.String, "topic": pl.String},
        orient="row",
    )
    return (
        messages.join(wanted.lazy(), on=["run", "topic"])
        .with_columns(since_ns=pl.col("publish_ns") - pl.col("publish_ns").min().over("run"))
        .with_columns(warm=(pl.col("since_ns") >= round(warm_up_s * 1e9)).fill_null(value=True))
        .sort("publish_ns", nulls_last=True, maintain_order=True)
    )


def samples_of_each(
    messages: pl.LazyFrame,
    runs: Sequence[Run],
    groups: Sequence[TopicGroup],
    warm_up_s: float = 0.0,
) -> Iterator[tuple[TopicGroup, list[RunSamples]]]:
    """Yield each group with its `run_samples`; a few groups are read at a time."""
    for at in range(0, len(groups), _READ_AT_ONCE):
        batch = groups[at : at + _READ_AT_ONCE]
        topics = {
            topic for group in batch for names in group.topics_of_run.values() for topic in names
        }
        read = messages.select(_OF_SAMPLES).filter(pl.col("topic").is_in(topics)).collect().lazy()
        yield from ((group, run_samples(read, runs, group, warm_up_s)) for group in batch)


def run_samples(
    messages: pl.LazyFrame, runs: Sequence[Run], group: TopicGroup, warm_up_s: float = 0.0
) -> list[RunSamples]:
    """Return the samples of each run that has topics of `group`, in the order of `runs`.

    Parameters
    ----------
    messages
        Columns ``run``, ``topic``, ``outcome``, ``publish_ns``, ``latency_ns``,
        ``clock_bound_ns``.
    warm_up_s
        Publications in the first `warm_up_s` seconds of a run (after its first on these topics) are
        left out, and counted.
    """
    chosen = [run for run in runs if group.topics_of_run.get(run.name)]
    rows = rows_of_group(messages.select(_OF_SAMPLES), chosen, group, warm_up_s).collect()
    by_run = rows.partition_by("run", as_dict=True)
    empty = rows.clear()
    return [_run_samples(run, by_run.get((run.name,), empty)) for run in chosen]


def _run_samples(run: Run, rows: pl.DataFrame) -> RunSamples:
    warm = rows.filter("warm")
    bound_ns = float(warm.select(CLOCK_BOUND_NS).item())
    sent = warm.filter(LATENCY_NS.is_not_null() | pl.col("outcome").is_in(LOST)).select(
        LATENCY_NS.cast(pl.Float64).fill_null(np.inf)
    )
    sent_ns = sent.to_series().to_numpy().astype(np.float64)
    counts = dict(warm["outcome"].value_counts().iter_rows())
    span = warm["since_ns"].drop_nulls()
    seconds = (int(span[-1]) - int(span[0])) / 1e9 if span.len() > 1 else 0.0
    return RunSamples(
        run=run,
        delivered_ns=sent_ns[np.isfinite(sent_ns)],
        sent_ns=sent_ns,
        outcomes=counts,
        seconds=seconds,
        left_out=rows.height - warm.height,
        clock_bound_ns=bound_ns,
    )
