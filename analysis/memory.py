"""From the resources and messages tables to the memory series of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from analysis.leaks import MARGIN, Leak, Series, leak
from analysis.runs import Run, cells_of

MemoryName = Literal["rss", "pss", "heap"]
MEMORY: tuple[MemoryName, ...] = ("rss", "pss", "heap")


def memory_series(
    resources: pl.LazyFrame, messages: pl.LazyFrame, runs: Sequence[Run], name: MemoryName
) -> dict[str, Series]:
    """Memory of all processes of each run, added up, by name of the run.

    Processes that are sampled one after the other are brought to common times by holding their
    last value; one that has ended counts nothing after its last sample.

    Parameters
    ----------
    resources
        ``resources.parquet`` with ``run``.
    messages
        Columns ``run``, ``topic``, ``message_id``, ``publish_ns``; publications on the run's
        work topic are counted, each once however many subscriptions it has.
    name
        Which size.

    Returns
    -------
    Only runs in which it was measured.
    """
    column = f"{name}_bytes"
    samples = (
        resources.select("run", "host", "vpid", "time_ns", column)
        .drop_nulls(column)
        .sort("run", "time_ns")
        .collect()
    )
    topics = pl.DataFrame(
        [(run.name, run.work_topic) for run in runs if run.work_topic],
        schema={"run": pl.String, "topic": pl.String},
        orient="row",
    )
    published = (
        messages.select("run", "topic", "message_id", "publish_ns")
        .join(topics.lazy(), on=["run", "topic"])
        .drop_nulls("publish_ns")
        .unique(["run", "message_id"])
        .sort("run", "publish_ns")
        .collect()
    )
    found = {}
    for run in runs:
        of_run = samples.filter(pl.col("run") == run.name)
        if of_run.height:
            times, total = _total(of_run, column)
            at = published.filter(pl.col("run") == run.name)["publish_ns"].to_numpy()
            counted = np.searchsorted(at, times, side="right").astype(np.float64)
            seconds = (times - times[0]) / 1e9
            found[run.name] = Series(seconds, total, counted if at.size else None)
    return found


def _total(samples: pl.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    times = np.unique(samples["time_ns"].to_numpy())
    total = np.zeros(times.size)
    # A process has ended where others were sampled at least twice after it.
    patience = 2 * int(np.median(np.diff(times))) if times.size > 1 else 0
    for process in samples.partition_by("host", "vpid"):
        at = process["time_ns"].to_numpy()
        values = process[column].cast(pl.Float64).to_numpy()
        last = np.searchsorted(at, times, side="right") - 1
        alive = (last >= 0) & (times <= at[-1] + patience)
        total[alive] += values[last[alive]]
    return times, total


def leaks_by_cell(
    resources: pl.LazyFrame,
    messages: pl.LazyFrame,
    runs: Sequence[Run],
    *,
    names: Sequence[MemoryName] = MEMORY,
    level: float = 0.95,
    margin: float = MARGIN,
    warm_up_s: float | None = None,
) -> list[Leak]:
    """Slope and verdict of each memory size that was measured, cell by cell; see `leaks.leak`."""
    found = []
    for name in names:
        series = memory_series(resources, messages, runs, name)
        for members in cells_of(runs).values():
            known = [series[run.name] for run in members if run.name in series]
            if known:
                cell = members[0].cell
                found.append(
                    leak(name, cell, known, level=level, margin=margin, warm_up_s=warm_up_s)
                )
    return found
