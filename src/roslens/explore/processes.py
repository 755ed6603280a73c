"""Return the processes of runs for the first page, without the pictures of ``run.memory``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.overview.processes import processes_overview
from roslens.analysis.overview.runs_and_topics import cells_in_words

if TYPE_CHECKING:
    from roslens.analysis.runs import Run
    from roslens.runs import Runs


def processes_of(run: Runs, counting: Sequence[Run]) -> pl.DataFrame:
    """Return the CPU use of each process of runs that count, and its nodes.

    Columns as in `processes_overview`.
    """
    return processes_overview(
        run.recorded_processes,
        run.table("nodes"),
        run.resources,
        run.touching_executions,
        cells_in_words(counting),
        losses=run.table("losses"),
    )
