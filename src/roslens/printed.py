"""Tables of verdicts for a terminal, for a log of any width, and as Markdown for a pull request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from roslens.analysis.estimate import Cell, shared_levels, short_labels
from roslens.analysis.reports.table import ReportTable
from roslens.recording.terminal import Console, say
from roslens.summary_text import escaped, markdown_rows

STYLES: Mapping[str, str] = {
    "regression": "bold red",
    "worse": "bold red",
    "exceeded": "bold red",
    "improvement": "green",
    "better": "green",
    "not_enough_evidence": "yellow",
    "not_comparable": "yellow",
    "only ": "yellow",
}
"""By what a verdict begins with."""

NO_BOUND = 1e6
"""Ratios above it come from a term that is not told apart from zero."""
_UNCHANGED = ("no_difference", "no change", "within")
_LOG_WIDTH = 200


def shown_change(ratio: float, low: float, high: float) -> str:
    """A ratio and its interval as a change in per cent."""
    least, value, most = (f"{100 * (bound - 1):+.1f}" for bound in (low, ratio, high))
    if ratio > NO_BOUND:
        # Nothing can be so many per cent above zero.
        return f"from 0, at least {least}" if low > 1 else "from 0"
    return f"{value} [{least}, {'no bound' if high > NO_BOUND else most}]"


def labels_of(cells: Sequence[Cell]) -> tuple[list[str], list[str]]:
    """Labels with the factors that tell cells apart, and a note on what all have in common."""
    common = shared_levels(cells)
    if not common or len(cells) < 2:
        return short_labels(cells), []
    labels = ["" if label == common else label for label in short_labels(cells)]
    return labels, [f"In all cells: {common}."]


def print_verdicts(
    table: ReportTable, sentence: str, console: Console, *, markdown: bool = False
) -> None:
    """Print a table whose first column is the verdict, and the sentence that sums it up."""
    if markdown:
        say(as_markdown(table, sentence))
        return
    if not sys.stdout.isatty():
        # A log has no width; a cell that is cut is of no use.
        console = Console(width=_LOG_WIDTH)
    console.print(terminal_table(table))
    say(sentence)


def terminal_table(table: ReportTable) -> Table:
    """A table for a terminal; verdicts are never cut."""
    made = Table(
        title=table.caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for name in table.columns:
        side = "left" if name in table.left else "right"
        made.add_column(Text(name), justify=side, no_wrap=name == "verdict", overflow="fold")  # type: ignore[arg-type]
    for index, row in enumerate(table.rows):
        begins = (style for verdict, style in STYLES.items() if row[0].startswith(verdict))
        style = next(begins, "bold red" if index in table.marked else "")
        made.add_row(*map(Text, row), style=style)
    if table.notes:
        made.caption = Text("\n".join(table.notes))
    return made


def as_markdown(table: ReportTable, sentence: str) -> str:
    """The sentence, then only what changed, then the notes that it needs."""
    changed = [row for row in table.rows if not row[0].startswith(_UNCHANGED)]
    lines = [f"**{escaped(sentence)}**", ""]
    if changed:
        lines += [*markdown_rows(replace(table, rows=changed)), ""]
    same = len(table.rows) - len(changed)
    if same:
        lines += [f"{same} more {'is' if same == 1 else 'are'} as before or within limits.", ""]
    lines += [f"{escaped(note)}  " for note in table.notes]
    return "\n".join(lines).rstrip()


def numbered(table: ReportTable, notes: Sequence[str], lead: Sequence[str] = ()) -> ReportTable:
    """The same table with numbered notes below it, after those of `lead`."""
    return replace(table, notes=[*lead, *(f"({i}) {note}" for i, note in enumerate(notes, 1))])
