"""Tabulate the statements of the published study of executors, which two reports judge."""

from __future__ import annotations

from collections.abc import Sequence

from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import statements_table
from roslens.analysis.verdicts.statement import Statement

LONG_S = 120
"""Runs of fewer measured seconds say nothing about CPU over time; the study's took ten minutes."""


def study_table(found: Sequence[Statement]) -> ReportTable:
    """Return a table of the study's statements with their verdicts."""
    return statements_table(
        found,
        {"statement": "claim", "here": "told", "because": "because"},
        "Published statements, compared with these recordings",
        notes=[
            "The study published graphs without data: its curves cannot be computed again.",
            "It compared Events with EventsCBG on one thread: other pairs say nothing of it.",
            f"Long runs are those measured for {LONG_S} s or longer; the study's took ten minutes.",
            "What was said of EventsCBG in a recorder is of its load: many publishers.",
        ],
    )
