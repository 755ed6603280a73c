"""Text and tables as Markdown, for pull requests."""

from __future__ import annotations

import re

from roslens.analysis.reports.table import ReportTable
from roslens.recording.text import shown

# What Markdown, or the HTML in it, would take for its own. A backslash is text before each.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@])")


def escaped(text: str) -> str:
    """Text that Markdown shows letter by letter, on one line."""
    return _SPECIAL.sub(r"\\\1", shown(" ".join(text.split())))


def markdown_rows(table: ReportTable) -> list[str]:
    """The lines of a table in Markdown, without its caption and notes."""
    sides = [":---" if name in table.left else "---:" for name in table.columns]
    rows = [list(map(escaped, row)) for row in (table.columns, *table.rows)]
    return [f"| {' | '.join(cells)} |" for cells in (rows[0], sides, *rows[1:])]
