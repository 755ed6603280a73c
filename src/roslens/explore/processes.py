"""Return the processes of runs for the first page, without the pictures of ``run.memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.overview.processes import processes_overview
from roslens.analysis.overview.runs_and_topics import cells_in_words

if TYPE_CHECKING:
    from roslens.runs import Runs


def processes_of(run: Runs) -> pl.DataFrame:
    """Return the CPU use of each process, and its nodes, as in `processes_overview`."""
    return processes_overview(
        run.recorded_processes,
        run.table("nodes"),
        run.resources,
        run.touching_executions,
        cells_in_words(run.runs),
        losses=run.table("losses"),
    )
