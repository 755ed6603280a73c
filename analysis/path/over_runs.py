"""Which share each cause has in what late messages took beyond the usual, over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from roslens.analysis.estimate import Estimate, Metric, largest_first
from roslens.analysis.path.kinds import KINDS
from roslens.analysis.path.late import Late
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs


def lateness_by_cause(
    runs: Sequence[Run], late: Mapping[str, Late], level: float = 0.95
) -> list[Estimate]:
    """``lateness_<cause>`` of each cell, the largest first; causes without a share are left out.

    Parameters
    ----------
    late
        By name of the run. Runs without lateness have no shares and are left out.
    level
        Nominal coverage, 0..1.
    """
    found: list[Estimate] = []
    for members in cells_of(runs).values():
        each = [late[run.name].excess.sum(0) for run in members]
        some = [ns for ns in each if ns.sum() > 0]
        if not some:
            continue
        shares = np.stack([ns / ns.sum() for ns in some])
        count = sum(len(late[run.name].excess) for run in members)
        of_cell = [
            value_over_runs(_metric(kind), members[0].cell, shares[:, code].tolist(), count, level)
            for code, kind in enumerate(KINDS)
            if shares[:, code].any()
        ]
        found += sorted(of_cell, key=largest_first)
    return found


def _metric(kind: str) -> Metric:
    definition = (
        f"share of {kind} in what late messages took beyond the usual, publish -> callback_end"
    )
    return Metric(f"lateness_{kind}", definition, "1", None, "fraction")
