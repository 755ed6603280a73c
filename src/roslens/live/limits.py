"""Budgets held against the figures of the last seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from roslens.analysis.verdicts.budgets import Budget, read_budgets
from roslens.recording import UsageError

_WATCHED: Mapping[str, tuple[str, str, float]] = {
    "latency_p50": ("p50_ms", "ns", 1e-6),
    "latency_p99": ("p99_ms", "ns", 1e-6),
    "loss": ("lost", "1", 1.0),
}
"""By metric: the column of topics, the metric's unit, and what makes the column's of it."""


class Limits:
    """Budgets of topics, in the units of the screen.

    Parameters
    ----------
    path
        The YAML file, as of ``roslens check``; None for none.

    Raises
    ------
    UsageError
        It cannot be read, or has a budget that is not watched.
    """

    def __init__(self, path: Path | None) -> None:
        self._limits = [
            (budget, *_limit(budget)) for budget in (read_budgets(path) if path else ())
        ]

    def exceeded(self, topics: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """Of rows of topics what is beyond a budget: ``topic``, ``to``, ``column``, ``budget``."""
        found: list[dict[str, object]] = []
        for row in topics:
            for budget, column, limit in self._limits:
                value = row[column]
                if budget.topic not in (None, row["topic"]) or not isinstance(value, float):
                    continue
                if value > limit if budget.upper else value < limit:
                    about = {"topic": row["topic"], "to": row["to"]}
                    found.append({**about, "column": column, "budget": budget.text})
        return found


def _limit(budget: Budget) -> tuple[str, float]:
    known = _WATCHED.get(budget.metric)
    if known is None or set(budget.where) - {"topic"}:
        raise UsageError(
            f"budget '{budget.text}': not watched while programs run; there are "
            f"{', '.join(_WATCHED)}, with or without a topic"
        )
    column, unit, factor = known
    return column, budget.limit_in(unit) * factor
