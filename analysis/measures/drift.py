"""Estimate whether a result drifts with the order in which runs were made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import Interval, estimate_of
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import np

ORDER_EFFECT = Metric(
    "order_effect",
    "slope of the per-run median latency, as a fraction of its cell's mean, per place in the "
    "order of execution",
    "1/run",
    better=None,
)


def order_effect(runs: Sequence[Run], values: Sequence[float], level: float = 0.95) -> Estimate:
    """Estimate the slope of per-run values over execution order, cells centred on their means.

    Least squares of (value - cell mean) / cell mean on (order - cell mean order), one slope for
    all cells; the runs are the independent units, so the Student t interval with
    (runs - cells - 1) degrees of freedom holds (analysis of covariance; Montgomery, "Design and
    Analysis of Experiments", 8th ed., chapter 15.3).

    Parameters
    ----------
    runs, values
        Runs of one campaign and one positive finite value for each; runs without a known order
        are left out.
    """
    pairs = [(r, v) for r, v in zip(runs, values, strict=True) if r.order is not None]
    cells: dict[str, list[int]] = {}
    for index, (run, _) in enumerate(pairs):
        cells.setdefault(run.label, []).append(index)
    order = np.array([float(run.order or 0) for run, _ in pairs])
    relative = np.array([float(v) for _, v in pairs])
    refused: str | None = None
    if not np.isfinite(relative).all() or (relative <= 0).any():
        refused = "a run has no positive finite value"
    elif len({(run.suite, run.campaign) for run, _ in pairs}) > 1:
        refused = "runs of several campaigns have no common order"
    freedom = len(pairs) - len(cells) - 1
    if refused is None and freedom < 1:
        refused = f"{len(pairs)} runs in {len(cells)} cells; at least one run per cell and two more"
    slope = low = high = None
    if refused is None:
        for members in cells.values():
            relative[members] = relative[members] / relative[members].mean() - 1
            order[members] -= order[members].mean()
        spread = float((order**2).sum())
        if spread == 0:
            refused = "all runs of a cell have the same place in the order"
        else:
            slope = float((order * relative).sum()) / spread
            residual = float(((relative - slope * order) ** 2).sum())
            half = t_quantile((1 + level) / 2, freedom) * math.sqrt(residual / freedom / spread)
            low, high = slope - half, slope + half
    return estimate_of(
        ORDER_EFFECT,
        {},
        Interval(slope, low, high, refused),
        level,
        runs=len(pairs),
        samples=len(pairs),
        method="least squares over runs, cells centred, Student t",
    )
