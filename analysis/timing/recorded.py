"""Build the timing model of a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import polars as pl

from roslens.analysis.flow.chain import Tables
from roslens.analysis.measures.measured_part import start_up_s
from roslens.analysis.measures.pauses import refuse_paused_runs
from roslens.analysis.reports.numbers import duration
from roslens.analysis.runs import Run
from roslens.analysis.statistics.quantiles import quantile_of
from roslens.analysis.timing.delays import delayed, with_waits
from roslens.analysis.timing.executors import (
    grouped,
    on_wait_sets,
    recorded_executors,
    wait_set_places,
    with_executor,
)
from roslens.analysis.timing.schema import (
    LeftOut,
    Publication,
    Samples,
    Source,
    TimedCallback,
    TimingModel,
)
from roslens.collectors.ros2.callbacks import is_callback
from roslens.collectors.schema import TABLES
from roslens.recording import NotEnoughEvidenceError

_NEEDED = (
    "callback_instances", "callback_scheduling", "executor_intervals", "losses", "messages",
    "publications", "subscriptions", "timer_activations",
)  # fmt: skip
_KNOWN_OWN = 0.9
"""Least part of the executions with a kernel own time for which own times are used."""
_ON = "callback_instance_id"

Frames = Mapping[str, pl.DataFrame]


class TablesAndEvents(Tables, Protocol):
    """Tables and events, as ``rl.open`` returns them."""

    def raw_events(self, run: str) -> Mapping[str, pl.LazyFrame]: ...  # noqa: D102


def recorded_timing(
    tables: TablesAndEvents, run: Run, warm_up_s: float | None = None
) -> TimingModel:
    """Build the timing model of one run.

    Parameters
    ----------
    tables
        Tables and events of that run alone.
    warm_up_s
        Time left out at the start, s; none: a tenth of the time, at most 5 s.

    Raises
    ------
    NotEnoughEvidenceError
        No callback was recorded that ended after the start-up.
    """
    # Factors are not needed, and their columns may have the same names as columns added here.
    columns = {name: [column.name for column in TABLES[name].columns] for name in _NEEDED}
    collected = pl.collect_all([tables.table(name).select(columns[name]) for name in _NEEDED])
    frames = dict(zip(_NEEDED, collected, strict=True))
    refuse_paused_runs(frames["losses"].lazy().with_columns(run=pl.lit(run.name)), "a timing model")
    ran = frames["callback_instances"].filter(is_callback())
    whole = ran.drop_nulls(["callback_id", "vtid", "end_ns"])
    first, last = whole["start_ns"].min(), whole["end_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int):
        raise NotEnoughEvidenceError(
            f"{run.name}: no callback was recorded that ended, so nothing is timed"
        )
    start_up = round((start_up_s((last - first) / 1e9) if warm_up_s is None else warm_up_s) * 1e9)
    begin = first + start_up
    # Executions in the start-up may have kept a thread from the following ones.
    every = _executions(whole, frames)
    executions = every.drop_nulls("kind")
    heard = set(executions.filter(pl.col("kind") == "subscription")["name"].drop_nulls())
    sent = frames["publications"].filter(pl.col("topic").is_in(sorted(heard)))
    # After the last cause nothing is published any more, and queues run empty.
    causes = pl.concat([executions["ready"].fill_null(executions["start_ns"]), sent["publish_ns"]])
    latest = causes.max()
    last = min(last, latest) if isinstance(latest, int) else last
    counts = pl.col("start_ns").is_between(begin, last)
    if not executions.filter(counts).height:
        since = f"after the start-up of {duration(start_up)}"
        raise NotEnoughEvidenceError(
            f"{run.name}: no callback ran {since} while messages were published"
        )
    executors = recorded_executors(executions, frames["executor_intervals"], run)
    intervals = with_executor(on_wait_sets(frames["executor_intervals"]), executors)
    executions = with_waits(with_executor(executions, executors), intervals)
    waited = delayed(grouped(executions), intervals, executors)
    by_kernel, executions = _with_cpu_time(waited.filter(counts), frames["callback_scheduling"])
    executions = executions.with_columns(number=pl.int_range(pl.len()).over("callback_id"))
    published = _published(executions, sent, begin)
    places = wait_set_places(executions, intervals)
    callback_parts = _CallbackBuilder(frames, published, places, begin)
    callbacks = [
        callback_parts.callback(rows)
        for rows in executions.sort("callback_id", "start_ns").partition_by("callback_id")
    ]
    return TimingModel(
        run=run.name,
        start_up_ns=start_up,
        length_ns=max(1, last - begin),
        execution_time="own" if by_kernel else "duration",
        shared_cpu=0.0 if by_kernel else _shared_cpu(executions, tables.raw_events(run.name)),
        cpus=_cpus(run),
        tracer_lost=frames["losses"].height > 0,
        executors=[
            executor.model_copy(update={"polls": polls_of(executions, n, begin)})
            for n, executor in enumerate(executors)
        ],
        callbacks=callbacks,
        sources=_sources(executions, published, begin),
        left_out=[
            LeftOut(what=f"callback {callback}", why="what it serves is not known")
            for callback in every.filter(counts, pl.col("kind").is_null())["callback_id"]
            .unique()
            .sort()
        ],
    )


def _cpus(run: Run) -> int | None:
    count = (run.environment or {}).get("machine", {}).get("CPUs")
    return int(count) if count is not None and str(count).isdigit() else None


def _executions(rows: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return executions in order, with when the message was published or the timer was due.

    That time is ``ready``, null where it is not known; ``from_vpid`` and ``from_vtid`` published
    it.
    """
    same_host = pl.col("publisher_host").eq_missing(pl.col("subscription_host"))
    threads = frames["publications"].select("message_id", from_vtid="vtid")
    published = (
        frames["messages"]
        .filter((pl.col("outcome") == "delivered") & same_host)
        .drop_nulls([_ON, "publish_ns"])
        .join(threads.unique("message_id"), on="message_id", how="left")
        .sort("publish_ns")
        .group_by(_ON)
        .agg(
            pl.col("publish_ns", "subscription_id", "from_vtid").first(),
            from_vpid=pl.col("publisher_vpid").first(),
        )
    )
    due = frames["timer_activations"].drop_nulls(_ON)
    due = due.select(_ON, "release_ns", "period_ns", "jitter_ns")
    ready = pl.coalesce("publish_ns", "release_ns")
    return (
        rows.join(published, on=_ON, how="left")
        .join(due, on=_ON, how="left")
        .with_columns(ready=pl.when(ready.is_not_null()).then(pl.min_horizontal(ready, "start_ns")))
        .sort("start_ns", "end_ns")
    )


def _with_cpu_time(rows: pl.DataFrame, scheduling: pl.DataFrame) -> tuple[bool, pl.DataFrame]:
    """Return whether the kernel recorded own times, and the executions with ``took`` (ns).

    An own time is the time on a CPU and asleep, without time taken by other threads. Where own
    times are used, the few executions without one keep their duration.
    """
    duration = pl.col("end_ns") - pl.col("start_ns")
    own_ns = scheduling.select(_ON, own=pl.col("cpu_ns") + pl.col("blocked_ns"))
    rows = rows.join(own_ns, on=_ON, how="left", maintain_order="left")
    known = rows["own"].count() >= _KNOWN_OWN * rows.height
    took = pl.min_horizontal(pl.coalesce("own", duration), duration) if known else duration
    return known, rows.with_columns(took=took)


def _shared_cpu(rows: pl.DataFrame, events: Mapping[str, pl.LazyFrame]) -> float:
    """Return the part of the executions' time that others on their CPU had already begun to use."""
    started = pl.col("time_ns").alias("start_ns")
    starts = events["ros2:callback_start"].select("host", "vpid", "vtid", "cpu_id", started)
    on = ["host", "vpid", "vtid", "start_ns"]
    rows = rows.join(starts.drop_nulls("cpu_id").collect(), on=on).sort("start_ns")
    until = pl.col("end_ns").cum_max().shift(1, fill_value=0).over("host", "cpu_id")
    shared = (pl.min_horizontal("end_ns", until) - pl.col("start_ns")).clip(0).sum()
    took = (pl.col("end_ns") - pl.col("start_ns")).sum().clip(1)
    return float(rows.select(shared / took).item())


def _published(rows: pl.DataFrame, publications: pl.DataFrame, begin: int) -> pl.DataFrame:
    """Return publications after `begin`, with their execution and ``offset`` (ns).

    Where an execution's own time is shorter than its duration, offsets shrink in proportion.
    """
    executions = rows.select(_ON, "callback_id", "number", "start_ns", "end_ns", "took")
    length = (pl.col("end_ns") - pl.col("start_ns")).clip(1)
    offset = (pl.col("publish_ns") - pl.col("start_ns")) * pl.col("took") / length
    return (
        publications.drop_nulls(["publish_ns", "topic"])
        .filter(pl.col("publish_ns") >= begin)
        .join(executions, on=_ON, how="left")
        .with_columns(offset=offset.clip(0).round().cast(pl.Int64))
        .sort("publish_ns")
    )


class _CallbackBuilder:
    """Builder of callbacks from the tables of a run."""

    def __init__(
        self, frames: Frames, published: pl.DataFrame, places: Mapping[int, int], begin: int
    ) -> None:
        depths = frames["subscriptions"].drop_nulls("queue_depth").filter(pl.col("queue_depth") > 0)
        self._depths = dict(depths.select("subscription_id", "queue_depth").iter_rows())
        lost = frames["messages"].filter(
            pl.col("outcome").is_in(["replaced", "overwritten"]) & (pl.col("publish_ns") >= begin)
        )
        self._lost = dict(lost.group_by("subscription_id").len().iter_rows())
        self._published = published
        self._places = places
        self._begin = begin

    def callback(self, rows: pl.DataFrame) -> TimedCallback:
        first = rows.row(0, named=True)
        facts = rows.select(
            pl.col("subscription_id", "period_ns", "release_ns").drop_nulls().first(),
            jitter=quantile_of(pl.col("jitter_ns").abs(), 0.99).round().cast(pl.Int64),
        ).row(0, named=True)
        subscription, period, due = (
            facts[name] for name in ("subscription_id", "period_ns", "release_ns")
        )
        timed = first["kind"] == "timer" and period is not None and due is not None
        published = self._published.filter(pl.col("callback_id") == first["callback_id"])
        return TimedCallback(
            id=first["callback_id"],
            kind=first["kind"],
            name=first["name"],
            node=first["node"],
            executor=first["executor"],
            group=first["group"],
            reentrant=first["reentrant"],
            intra_process=bool(first["intra_process"]),
            queue_depth=self._depths.get(subscription),
            period_ns=period if timed else None,
            phase_ns=_phase(due - self._begin, period) if timed else None,
            jitter_ns=facts["jitter"],
            place=self._places.get(first["callback_id"]),
            lag_ns=first["lag"],
            executions=_samples(rows, "took", pl.col("start_ns"), self._begin),
            takeovers_ns=rows["takeover"].drop_nulls().to_list(),
            publications=[
                Publication(execution=number, offset_ns=offset, topic=topic)
                for number, offset, topic in published.select("number", "offset", "topic")
                .sort("number", "offset", maintain_order=True)
                .iter_rows()
            ],
            handovers=_samples(rows, "handover", pl.col("ready"), self._begin),
            gaps=_samples(rows, "gap", pl.col("start_ns") - pl.col("gap"), self._begin),
            waits_ns=(rows["start_ns"] - rows["ready"]).drop_nulls().to_list(),
            lost=self._lost.get(subscription, 0),
        )


def polls_of(rows: pl.DataFrame, executor: int, begin: int) -> Samples:
    """Return the polls of an executor, given by its number, since `begin`."""
    own = rows.filter(pl.col("executor") == executor)
    return _samples(own, "poll", pl.col("woken_ns") - pl.col("poll"), begin)


def _samples(rows: pl.DataFrame, column: str, at: pl.Expr, begin: int) -> Samples:
    """Return the samples in a column, in the order of their times `at`, since `begin`."""
    samples = rows.select(at.alias("at"), value=column).drop_nulls("value")
    samples = samples.sort("at", maintain_order=True)
    times = (samples["at"] - begin).clip(0).to_list()
    return Samples(at_ns=times, value_ns=samples["value"].to_list())


def _phase(first: int, period: int) -> int:
    """Return when a timer was first due: more than a period if it did not run before."""
    return first if first >= 0 else first % period


def _sources(rows: pl.DataFrame, published: pl.DataFrame, begin: int) -> list[Source]:
    """Return publications from outside of the model, and starts without a known cause."""
    outside = published.filter(pl.col("number").is_null())
    from_outside = [
        Source(topic=topic, node=node, at_ns=(group["publish_ns"] - begin).to_list())
        for (topic, node), group in outside.partition_by(
            "topic", "node", as_dict=True, maintain_order=True
        ).items()
    ]
    unknown = rows.filter(pl.col("ready").is_null())
    driven = rows.group_by("callback_id").agg(
        timer=(pl.col("period_ns").is_not_null() & pl.col("release_ns").is_not_null()).any()
    )
    unknown = unknown.join(driven.filter("timer"), on="callback_id", how="anti")
    return from_outside + [
        Source(
            topic=f"#{key[0]}", node=group["node"][0], at_ns=(group["start_ns"] - begin).to_list()
        )
        for key, group in unknown.sort("callback_id", "start_ns")
        .partition_by("callback_id", as_dict=True, maintain_order=True)
        .items()
    ]
