"""Processes of runs; without the pictures of ``run.memory``, for the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.overview.processes import processes_overview
from roslens.analysis.overview.runs_and_topics import cells_in_words

if TYPE_CHECKING:
    from roslens.runs import Runs


def processes_of(run: Runs) -> pl.DataFrame:
    """What each process used of the CPU, and which nodes are in it; as of `processes_overview`."""
    return processes_overview(
        run.recorded_processes,
        run.table("nodes"),
        run.resources,
        run.table("callback_instances"),
        cells_in_words(run.runs),
        losses=run.table("losses"),
    )
