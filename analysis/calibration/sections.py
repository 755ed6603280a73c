"""All that is simulated, by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roslens.analysis.calibration import designs, intervals, losses, verdicts, zoo
from roslens.analysis.calibration.results import Section

SECTIONS: Mapping[str, Callable[[int], Section]] = {
    "means": intervals.means,
    "skewed": intervals.skewed,
    "positive": intervals.positive_runs,
    "percentiles": intervals.percentiles,
    "spreads": intervals.spreads,
    "one_run": intervals.one_run,
    "ratios": intervals.ratios,
    "positive_ratios": intervals.positive_ratios,
    "losses": losses.loss,
    "factors": designs.factors,
    "comparisons": verdicts.comparisons,
    "unequal": verdicts.unequal,
    "leaks": verdicts.leaks,
    "injected_leaks": designs.injected_leaks,
    "shapes": zoo.shapes,
}
"""Each takes the number of simulations per cell."""
