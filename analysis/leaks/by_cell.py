"""Compute the memory series of each run from the resources and messages tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from roslens.analysis.estimate import Estimate
from roslens.analysis.leaks.leak import MARGIN, SLOPE, Leak, leak, refused
from roslens.analysis.leaks.series import PUBLICATION, Series
from roslens.analysis.measures.pauses import lost_events, too_many_lost
from roslens.analysis.runs import Run, cells_of
from roslens.collectors.topics import internal
from roslens.collectors.work_log import WorkLog
from roslens.recording.arrays import np

MemoryName = Literal["rss", "pss", "heap"]
MEMORY: tuple[MemoryName, ...] = ("rss", "pss", "heap")
DEFAULT: MemoryName = "rss"
"""For one process PSS says the same until another that shares its libraries begins or ends."""


def memory_series(
    resources: pl.LazyFrame,
    messages: pl.LazyFrame,
    runs: Sequence[Run],
    name: MemoryName,
    work: Mapping[str, WorkLog] | None = None,
    *,
    losses: pl.LazyFrame | None = None,
) -> dict[str, Series]:
    """Return the memory of all processes of each run, added up, by name of the run.

    Processes that are sampled one after the other are brought to common times by holding their
    last value; a process that has ended adds nothing after its last sample. If it is known what the
    run did, samples after its last message (request, goal) are left out: nodes that shut down
    allocate and free memory for reasons of their own.

    Parameters
    ----------
    resources
        ``resources.parquet`` with ``run``.
    messages
        Columns ``run``, ``topic``, ``message_id``, ``publish_ns``; publications on the run's
        work topic (or, if it has neither that nor a log, on all topics of the application) are
        counted, each once however many subscriptions it has.
    name
        The size that is read.
    work
        What runs without publications on a work topic did, by name of the run.
    losses
        The ``losses`` table: publications of runs that may lack some are not counted.

    Returns
    -------
    The series of the runs in which the size was measured.
    """
    column = f"{name}_bytes"
    samples = (
        resources.select("run", "host", "vpid", "time_ns", column)
        .drop_nulls(column)
        .sort("run", "time_ns")
        .collect()
    )
    named = {run.name: run.work_topic for run in runs if run.work_topic}
    work_topic = pl.col("run").replace_strict(named, default=None, return_dtype=pl.String)
    application = ~internal() & ~pl.col("run").is_in([*(work or {})])
    published = (
        messages.select("run", "topic", "message_id", "publish_ns")
        # Without a work topic or a log, whatever the application publishes is the work.
        .filter((pl.col("topic") == work_topic).fill_null(application & work_topic.is_null()))
        .drop_nulls("publish_ns")
        .unique(["run", "message_id"])
        .sort("run", "publish_ns")
        .collect()
    )
    lost = {} if losses is None else lost_events(losses)
    by_run = {}
    for run in runs:
        of_run = samples.filter(pl.col("run") == run.name)
        if of_run.height:
            times, total = _total(of_run, column)
            at = published.filter(pl.col("run") == run.name)["publish_ns"].to_numpy()
            kind, log = PUBLICATION, (work or {}).get(run.name)
            if too_many_lost(lost.get(run.name, 0), at.size):
                # Missing publications would look like memory that grew without any work.
                at = at[:0]
            if not at.size and log is not None:
                kind, at = log.kind, log.times_ns
            seconds = (times - times[0]) / 1e9
            if not at.size:
                by_run[run.name] = Series(seconds, total)
                continue
            counted = np.searchsorted(at, times, side="right").astype(np.float64)
            working = times <= at[-1]
            by_run[run.name] = Series(seconds[working], total[working], counted[working], kind)
    return by_run


def _total(samples: pl.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    times = np.unique(samples["time_ns"].to_numpy())
    total = np.zeros(times.size)
    # A process has ended if others were sampled at least twice after it.
    patience = 2 * int(np.median(np.diff(times))) if times.size > 1 else 0
    for process in samples.partition_by("host", "vpid"):
        at = process["time_ns"].to_numpy()
        values = process[column].cast(pl.Float64).to_numpy()
        last = np.searchsorted(at, times, side="right") - 1
        alive = (last >= 0) & (times <= at[-1] + patience)
        total[alive] += values[last[alive]]
    return times, total


def how_to_record(name: MemoryName) -> str:
    """Return the end of a sentence that says that this size was not recorded."""
    return "" if name == "heap" else ": 'roslens record' samples it, unless sampler_hz is 0"


def leaks_of(
    series: Mapping[str, Series],
    name: MemoryName,
    runs: Sequence[Run],
    *,
    level: float = 0.95,
    margin: float = MARGIN,
    warm_up_s: float | None = None,
    metric: str | None = None,
    measured: bool = False,
) -> list[Leak]:
    """Judge the memory of each cell of `runs`.

    Parameters
    ----------
    series
        From `memory_series`.
    measured
        Leave out cells in which the size was not measured, instead of refusing them.
    """
    leaks = []
    for members in cells_of(runs).values():
        recorded = [series[run.name] for run in members if run.name in series]
        cell = members[0].cell
        if recorded:
            leaks.append(
                leak(
                    name,
                    cell,
                    recorded,
                    level=level,
                    margin=margin,
                    warm_up_s=warm_up_s,
                    metric=metric,
                )
            )
        elif not measured:
            reason = f"{name.upper()} was not recorded in any run of this cell{how_to_record(name)}"
            leaks.append(refused(metric or f"{SLOPE}_{name}", name, cell, level, reason))
    return leaks


def slopes_named(
    metrics: Sequence[str],
    resources: pl.LazyFrame,
    messages: pl.LazyFrame,
    runs: Sequence[Run],
    losses: pl.LazyFrame | None = None,
    *,
    level: float = 0.95,
) -> list[Estimate]:
    """Estimate both slopes of the series that `metrics` name.

    Parameters
    ----------
    metrics
        Names such as ``memory_slope_pss`` or ``memory_slope_pss_per_message``; without the name of
        a series (``memory_slope``) the series is `DEFAULT`.
    """
    estimates: list[Estimate] = []
    for name in MEMORY:
        slope = f"{SLOPE}_{name}"
        specific = any(metric.startswith(slope) for metric in metrics)
        plain = name == DEFAULT and not {SLOPE, f"{SLOPE}_per_message"}.isdisjoint(metrics)
        if not specific and not plain:
            continue
        series = memory_series(resources, messages, runs, name, losses=losses)
        for metric, asked in ((slope, specific), (SLOPE, plain)):
            if asked:
                leaks = leaks_of(series, name, runs, level=level, metric=metric, measured=True)
                estimates += [
                    e for judged in leaks for e in (judged.per_second, judged.per_message)
                ]
    return estimates
