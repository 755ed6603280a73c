"""Determine the measured part of each run, without its start-up and what follows its work."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.runs import Run
from roslens.collectors.topics import SYSTEM_TOPICS

_PART = (
    "the measured part: from when the workload was ready (timing.ready_ns) to the end of its work, "
    "else from the first to the last message, else from the first to the last"
)
MEASURED = f"{_PART} sample"
CALLBACKS_MEASURED = f"{_PART} callback"
_SCHEMA = {"run": pl.String, "begin_ns": pl.Int64, "end_ns": pl.Int64, "ready": pl.Boolean}


def start_up_s(duration_s: float) -> float:
    """Return the seconds left out at the start of a run (loading, discovery) by default."""
    return min(5.0, duration_s / 10)


def measured_parts(messages: pl.LazyFrame, runs: Sequence[Run]) -> pl.DataFrame:
    """Return per run ``run``, ``begin_ns``, ``end_ns``, ``ready`` (whether the workload said so).

    The work ends when the time that the run was to work is over; if the run counts messages
    instead, with its last publication. Null where neither is known.

    Parameters
    ----------
    messages
        ``run``, ``topic``, ``publish_ns``; messages on system or unknown topics do not count.
    """
    own = pl.col("topic").is_in(SYSTEM_TOPICS).not_()
    spans = (
        messages.filter(own)
        .group_by("run")
        .agg(first=pl.col("publish_ns").min(), last=pl.col("publish_ns").max())
        .collect()
    )
    of_run = {name: (first, last) for name, first, last in spans.iter_rows()}
    rows: list[tuple[str, int | None, int | None, bool]] = []
    for run in runs:
        first, last = of_run.get(run.name, (None, None))
        if run.ready_ns is None:
            rows.append((run.name, first, last, False))
        elif run.work_s is None:
            rows.append((run.name, run.ready_ns, last, True))
        else:
            rows.append((run.name, run.ready_ns, run.ready_ns + round(run.work_s * 1e9), True))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
