"""Give verdicts: ``run.compare(other)`` and ``run.check(budgets)``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.estimate import cell_label
from roslens.analysis.figures.comparison import comparison_plot
from roslens.analysis.figures.picture import Picture
from roslens.analysis.verdicts.budgets import check_budgets, read_budgets
from roslens.analysis.verdicts.comparison import Comparisons, compare_sides
from roslens.check import load
from roslens.compare_shown import comparison_table, summary
from roslens.explore.noun import picture
from roslens.recording import UsageError
from roslens.recording.text import shown_lines
from roslens.sides import load_side

if TYPE_CHECKING:
    from roslens.runs import Runs


class Comparison:
    """Comparison of two sets of runs, metric by metric and cell by cell.

    Attributes
    ----------
    found
        Everything that `roslens compare --json` writes.
    """

    def __init__(self, found: Comparisons) -> None:
        self.found = found

    def frame(self) -> pl.DataFrame:
        """Return the comparisons as a frame.

        Returns
        -------
        One row per metric and cell: ``verdict``, ``metric``, ``cell``, ``ratio``, ``low``, ``high``
        (above 1: the new side is worse), ``p_holm``, ``confirmed`` (after Holm's correction),
        ``base``, ``new`` (in ``unit``), ``unit``, ``base_runs``, ``new_runs``, ``notes``.
        """
        rows = [
            {
                "verdict": c.verdict,
                "metric": c.metric,
                "cell": cell_label(c.cell),
                "ratio": c.ratio,
                "low": c.low,
                "high": c.high,
                "p_holm": c.p_holm,
                "confirmed": c.confirmed,
                "base": c.base.value,
                "new": c.new.value,
                "unit": c.base.unit,
                "base_runs": c.base.runs,
                "new_runs": c.new.runs,
                "notes": "; ".join(c.notes),
            }
            for c in self.found.compared
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def intervals(self) -> Picture:
        """Draw `frame`: the change [%] with its interval, worse to the right.

        Raises
        ------
        UsageError
            Nothing can be compared.
        """
        if not any(c.ratio is not None for c in self.found.compared):
            raise UsageError(f"nothing to draw: {summary(self.found)}")
        return picture(comparison_plot(self.found))

    def sentences(self) -> list[str]:
        """Summarize the verdicts and regressions, then add the notes that the reader must know."""
        return [summary(self.found), *self.found.notes]

    def _repr_html_(self) -> str:
        return comparison_table(self.found)._repr_html_()

    def __repr__(self) -> str:
        lines = [str(comparison_table(self.found)), *self.sentences()]
        return shown_lines("\n".join(lines))


def compared(
    base: Runs,
    new: Runs | Path,
    metrics: Sequence[str],
    threshold: float,
    *,
    across_machines: bool = False,
) -> Comparison:
    """Compare two sides as `roslens.recordings.Recordings.compare` does."""
    sides = load_side(base, metrics), load_side(new, metrics)
    comparisons = compare_sides(*sides, metrics, threshold, across_machines=across_machines)
    return Comparison(comparisons)


def checked(run: Runs, budgets: Path) -> pl.DataFrame:
    """Check budgets as `roslens.recordings.Recordings.check` does."""
    wanted = read_budgets(budgets)
    rows = [
        {
            "verdict": c.verdict,
            "budget": c.budget.text,
            "cell": cell_label(c.budget.where if c.estimate is None else c.estimate.cell),
            "value": None if c.estimate is None else c.estimate.value,
            "low": None if c.estimate is None else c.estimate.low,
            "high": None if c.estimate is None else c.estimate.high,
            "limit": c.limit,
            "unit": None if c.estimate is None else c.estimate.unit,
            "runs": 0 if c.estimate is None else c.estimate.runs,
            "notes": "; ".join(c.notes),
        }
        for c in check_budgets(wanted, load(wanted, run)).checks
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
