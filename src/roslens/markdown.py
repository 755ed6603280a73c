"""Text, tables and a chart of intervals as Markdown, for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from roslens.analysis.reports.table import ReportTable
from roslens.recording.text import shown

# What Markdown, or the HTML in it, would take for its own. A backslash is text before each.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@])")
_NO_TEXT_OF_MERMAID = re.compile(r"[^\w.,=/+()\[\]-]+")
_END_OF_AXIS = 5.0


def escaped(text: str) -> str:
    """Text that Markdown shows letter by letter, on one line."""
    return _SPECIAL.sub(r"\\\1", shown(" ".join(text.split())))


def markdown_rows(table: ReportTable) -> list[str]:
    """The lines of a table in Markdown, without its caption and notes."""
    sides = [":---" if name in table.left else "---:" for name in table.columns]
    rows = [list(map(escaped, row)) for row in (table.columns, *table.rows)]
    return [f"| {' | '.join(cells)} |" for cells in (rows[0], sides, *rows[1:])]


def ratio_chart(title: str, bars: Iterable[tuple[str, str, float, float]]) -> str:
    """Intervals of ratios, drawn by Mermaid: GitHub and GitLab show it, but no data URI.

    Parameters
    ----------
    bars
        Label, style (Mermaid's ``crit``, ``active``, ``done`` or none) and both ends, of which
        what is above 5 is not drawn.
    """
    lines = ["```mermaid", "gantt", f"title {title}", "dateFormat x", "axisFormat %s.%L"]
    # Its axis is time: a second is a ratio of 1.
    for label, style, low, high in bars:
        ends = [round(1000 * min(end, _END_OF_AXIS)) for end in (low, high)]
        text = _NO_TEXT_OF_MERMAID.sub(" ", label)
        lines.append(
            f"{text} :{style}{', ' if style else ''}{ends[0]}, {max(ends[1], ends[0] + 1)}"
        )
    return "\n".join([*lines, "todayMarker off", "```"])
