"""What one more entity takes of memory: the slope of memory over the number of entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import estimate_of, student_t
from roslens.analysis.statistics.trends import least_squares

ENTITY, COUNT = "entity", "count"


def entity_estimates(
    memory: Mapping[str, float], runs: Sequence[Run], name: str, level: float = 0.95
) -> list[Estimate]:
    """``memory_per_entity`` for each kind of entity: a line per block, Student t over blocks.

    Parameters
    ----------
    memory
        Bytes of each run, by its name.
    runs
        Those with the factors ``entity`` and ``count`` are taken; blocks with fewer than two
        counts are left out.
    name
        Of the memory: ``rss`` or ``pss``.
    """
    metric = Metric(
        "memory_per_entity",
        f"{name.upper()} of the process (mean over the run) against the number of entities: slope "
        "of a line through each block's runs",
        "byte",
    )
    kinds: dict[str, dict[str | None, list[tuple[float, float]]]] = {}
    cells = {}
    for run in runs:
        if run.name in memory and {ENTITY, COUNT} <= run.cell.keys():
            kind = str(run.cell[ENTITY])
            cells[kind] = {k: v for k, v in run.cell.items() if k != COUNT}
            points = kinds.setdefault(kind, {}).setdefault(run.block, [])
            points.append((float(run.cell[COUNT]), memory[run.name]))
    found = []
    for kind, blocks in kinds.items():
        slopes = [
            least_squares(*np.array(points).T).slope
            for points in blocks.values()
            if len({x for x, _ in points}) > 1
        ]
        found.append(
            estimate_of(
                metric,
                cells[kind],
                student_t(slopes, level),
                level,
                runs=len(slopes),
                samples=sum(map(len, blocks.values())),
                method="least squares over the number of entities per block, Student t over blocks",
                per_run=slopes,
            )
        )
    return found
