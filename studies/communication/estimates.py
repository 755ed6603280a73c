"""Estimate the figures of a communication study: one value per run, Student t over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import polars as pl

from roslens.analysis.estimate import Estimate, Metric, cell_label
from roslens.analysis.measures.measured_part import MEASURED
from roslens.analysis.measures.pauses import too_many_lost
from roslens.analysis.measures.resources import usage_per_run
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.studies.communication.backlog import QUEUE_DEPTH_SEEN, Backlog
from roslens.studies.communication.copies import BEFORE_HOP, COPY_HOP, LOGGED_LATENCY
from roslens.studies.communication.evidence import Evidence
from roslens.studies.communication.periods import (
    PUBLISHER_PERIOD,
    SUBSCRIPTION_PERIOD,
    publisher_periods,
    subscription_periods,
)
from roslens.studies.communication.published import WITHIN, transport_of
from roslens.studies.communication.traffic import HOPS, Traffic

CPU_PER_PUBLICATION = Metric(
    "cpu_per_publication",
    "CPU time of all recorded processes / publications, both over "
    f"{MEASURED}: allocating, publishing, receiving and freeing a message",
    "ns",
)

FULL, NOT_FULL = "queue_full", "queue_not_full"
NOT_WHOLE = "; within a process after the copy of what is published by reference"
BACKLOG_NOTE = "; the queue was full: this measures its backlog, not the transport"
AT_TIMES_NOTE = "; the queue was full at times: this holds waiting in it"


def period_estimates(found: Traffic, runs: Sequence[Run], level: float) -> list[Estimate]:
    """Estimate ``publisher_period`` and ``subscription_period`` of each cell."""
    estimates = []
    for metric, periods, count in (
        (PUBLISHER_PERIOD, publisher_periods(found.messages), "publications"),
        (SUBSCRIPTION_PERIOD, subscription_periods(found.callbacks), "receptions"),
    ):
        of_run = periods.group_by("run").agg(pl.col("period_ns").mean(), pl.col(count).sum())
        estimates += _per_cell(metric, of_run, ("period_ns", count), runs, level)
    return estimates


def depth_estimates(
    found: Traffic, backlogs: Mapping[str, Backlog], runs: Sequence[Run], level: float
) -> list[Estimate]:
    """Estimate ``queue_depth_seen`` of each cell; the verdict says whether the queue was full."""
    taken = found.messages.filter(pl.col("take_ns").is_not_null()).group_by("run")
    of_run = taken.agg(seen=pl.col("behind").median(), behind=pl.col("behind").count())
    estimates = _per_cell(QUEUE_DEPTH_SEEN, of_run, ("seen", "behind"), runs, level)
    of_cell = cells_of(runs)
    judged = []
    for estimate in estimates:
        full, known = full_runs(of_cell[cell_label(estimate.cell)], backlogs)
        verdict = None
        if known:
            partly = f"{FULL} in {full} of {known} runs"
            verdict = FULL if full == known else partly if full else NOT_FULL
        judged.append(replace(estimate, verdict=verdict))
    return judged


def full_runs(runs: Sequence[Run], backlogs: Mapping[str, Backlog]) -> tuple[int, int]:
    """Return the number of runs with a full queue, and the number of runs for which it is known."""
    of_runs = [backlogs[run.name] for run in runs if run.name in backlogs]
    judged = [b for b in of_runs if b.full or (b.depth_seen is not None and b.queue_depth)]
    return sum(b.full for b in judged), len(judged)


def latency_measures(
    runs: Sequence[Run], backlogs: Mapping[str, Backlog]
) -> Literal["backlog", "latency and backlog", "latency", "not known"]:
    """Return what a cell's latency measures: backlog where messages waited in a full queue."""
    _, known = full_runs(runs, backlogs)
    if not known:
        return "not known"
    of_runs = [backlogs[run.name] for run in runs if run.name in backlogs]
    if sum(b.waited for b in of_runs) == known:
        return "backlog"
    # Where no message that was received had any behind it, none is known to have waited.
    return "latency and backlog" if any(b.full and b.largest_seen for b in of_runs) else "latency"


def hop_estimates(messages: pl.DataFrame, runs: Sequence[Run], level: float) -> list[Estimate]:
    """Estimate the mean duration of each hop that messages of a cell have."""
    delivered = messages.lazy().filter(pl.col("outcome") == "delivered")
    estimates = []
    for hop, definition in HOPS.items():
        metric = Metric(f"hop_{hop}", definition + "; mean over delivered messages of a run", "ns")
        column = pl.col(f"hop_{hop}_ns")
        of_run = (
            delivered.group_by("run")
            .agg(column.mean().alias("mean"), column.count().alias("count"))
            .drop_nulls("mean")
            .collect()
        )
        estimates += _per_cell(metric, of_run, ("mean", "count"), runs, level)
    return estimates


def copy_estimates(copied: pl.DataFrame, runs: Sequence[Run], level: float) -> list[Estimate]:
    """Estimate copies and latency of each cell with a log, which shows more than the trace."""
    messages = copied.lazy()
    publication = messages.unique(["run", "message_id"], keep="first", maintain_order=True)
    before = pl.col("publish_ns") - pl.col("logged_publish_ns")
    logged = pl.col("logged_callback_ns") - pl.col("logged_publish_ns")
    estimates: list[Estimate] = []
    for metric, frame, value, statistic in (
        (COPY_HOP, messages, pl.col("copy_ns"), pl.col("value").median()),
        (BEFORE_HOP, publication, before, pl.col("value").median()),
        (LOGGED_LATENCY, messages, logged, pl.col("value").mean()),
    ):
        of_run = (
            frame.select("run", value=value)
            .drop_nulls("value")
            .group_by("run")
            .agg(statistic, pl.len().alias("count"))
            .collect()
        )
        estimates += _per_cell(metric, of_run, ("value", "count"), runs, level)
    return estimates


def cpu_estimates(
    resources: pl.LazyFrame,
    parts: pl.DataFrame,
    found: Traffic,
    runs: Sequence[Run],
    level: float,
    *,
    lost: Mapping[str, float],
) -> list[Estimate]:
    """Estimate ``cpu_per_publication`` over the measured parts of each cell's sampled runs.

    Runs with too many `lost` events (`lost_events`) are left out.
    """
    used = usage_per_run(resources, parts)
    span = pl.col("end_ns") - pl.col("begin_ns")
    of_run = (
        found.messages.lazy()
        .join(used.lazy(), on="run")
        .filter(pl.col("publish_ns").is_between(pl.col("begin_ns"), pl.col("end_ns")))
        .group_by("run")
        .agg((pl.col("cpu") * span).first(), pl.col("message_id").n_unique().alias("count"))
        .with_columns((pl.col("cpu") / pl.col("count")).alias("each"))
        .drop_nulls("each")
        .collect()
    )
    whole = [
        not too_many_lost(lost.get(run, 0), count)
        for run, count in of_run.select("run", "count").iter_rows()
    ]
    of_run = of_run.filter(pl.Series(whole, dtype=pl.Boolean))
    return _per_cell(CPU_PER_PUBLICATION, of_run, ("each", "count"), runs, level)


def heap_estimates(
    heap: pl.LazyFrame, found: Traffic, runs: Sequence[Run], level: float
) -> list[Estimate]:
    """Estimate allocated blocks and bytes per publication, of each cell whose heap was recorded."""
    of_run = heap_per_publication(heap, found.messages)
    return [
        *_per_cell(ALLOCATED, of_run, ("allocated_bytes", "publications"), runs, level),
        *_per_cell(ALLOCATIONS, of_run, ("allocations", "publications"), runs, level),
    ]


def labelled(
    estimates: Sequence[Estimate],
    runs: Sequence[Run],
    backlogs: Mapping[str, Backlog],
    evidence: Mapping[str, Evidence],
) -> list[Estimate]:
    """Add to each estimate its evidence, and to latencies whether they measure backlog."""
    of_cell = cells_of(runs)
    return [
        _labelled(e, of_cell.get(cell_label(e.cell), []), backlogs, evidence) for e in estimates
    ]


def _labelled(
    estimate: Estimate,
    members: Sequence[Run],
    backlogs: Mapping[str, Backlog],
    evidence: Mapping[str, Evidence],
) -> Estimate:
    definition, method, refused = estimate.definition, estimate.method, estimate.refused
    if estimate.metric.startswith("latency") or estimate.metric == "hop_queue_and_transport":
        measured = latency_measures(members, backlogs)
        if transport_of(estimate.cell) in WITHIN:
            definition += NOT_WHOLE
        definition += {"backlog": BACKLOG_NOTE, "latency and backlog": AT_TIMES_NOTE}.get(
            measured, ""
        )
    inexact = [evidence[run.name] for run in members if run.name in evidence]
    inexact = [e for e in inexact if e.kind != "exact"]
    if inexact:
        kind = "partial" if any(e.kind == "partial" for e in inexact) else "approximate"
        method += f"; {kind} in {len(inexact)} of {len(members)} runs: {inexact[0].reasons[0]}"
        if estimate.samples == 0:
            refused = inexact[0].reasons[0]
    return replace(estimate, definition=definition, method=method, refused=refused)


def _per_cell(
    metric: Metric,
    of_run: pl.DataFrame,
    columns: tuple[str, str],
    runs: Sequence[Run],
    level: float,
) -> list[Estimate]:
    """Return one estimate per cell of which any run has a row in `of_run`.

    Parameters
    ----------
    columns
        Columns with the value of each run (null for none), and with its number of samples.
    """
    by_run: dict[str, tuple[float | None, int]] = {
        run: (value, n) for run, value, n in of_run.select("run", *columns).iter_rows()
    }
    estimates = []
    for members in cells_of(runs).values():
        present = [run for run in members if run.name in by_run]
        values = [value for run in present if (value := by_run[run.name][0]) is not None]
        if present:
            samples = sum(by_run[run.name][1] for run in present)
            estimates.append(value_over_runs(metric, members[0].cell, values, samples, level))
    return estimates


ALLOCATED = Metric(
    "allocated_per_publication",
    "bytes that all recorded processes allocated from the first publication on (to the 100 ms of "
    "the heap table) / publications of the run",
    "byte",
)
ALLOCATIONS = Metric(
    "allocations_per_publication",
    "blocks that all recorded processes allocated from the first publication on (to the 100 ms of "
    "the heap table) / publications of the run",
    "blocks",
)


def heap_per_publication(heap: pl.LazyFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """Return ``run``, ``publications``, and ``allocated_bytes``, ``allocations`` per publication.

    Parameters
    ----------
    heap
        The table of that name, with ``run``; it counts from the begin of each process.
    messages
        Messages with ``run``, ``message_id``, ``publish_ns``.
    """
    published = messages.group_by("run").agg(
        pl.col("publish_ns").min().alias("first_ns"),
        pl.col("message_id").n_unique().cast(pl.Int64).alias("publications"),
    )
    before = pl.col("time_ns") < pl.col("first_ns")
    counts = ("allocated_bytes", "allocations")
    return (
        heap.select("run", "host", "vpid", "time_ns", *counts)
        .join(published.lazy().filter(pl.col("publications") > 0), on="run")
        .group_by("run", "host", "vpid", "publications")
        .agg(
            (pl.col(name).max() - pl.col(name).filter(before).max().fill_null(0)).alias(name)
            for name in counts
        )
        .group_by("run", "publications")
        .agg(pl.col(*counts).sum())
        .with_columns(pl.col(name) / pl.col("publications") for name in counts)
        .sort("run")
        .collect()
    )
