"""Lay out tables for a terminal or a log of any width, and as Markdown for a pull request."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from roslens.analysis.estimate import Cell, shared_levels, short_labels
from roslens.analysis.reports.table import ReportTable
from roslens.recording.terminal import Console, say
from roslens.recording.text import shown

MOST_ROWS = 40
"""Rows of a table of verdicts, the most interesting first if there are more: the comment on a pull
request has limited room."""
STYLES: Mapping[str, str] = {
    "regression": "bold red",
    "worse": "bold red",
    "exceeded": "bold red",
    "improvement": "green",
    "better": "green",
    "not_enough_evidence": "yellow",
    "not_comparable": "yellow",
    "perhaps ": "yellow",
}
"""Terminal styles by the beginning of a verdict."""

NO_BOUND = 1e6
"""Larger ratios come from a term that cannot be told apart from zero."""
_UNCHANGED = ("no_difference", "within")
_LOG_WIDTH, _LEAST_WIDTH = 200, 20
_MOST_LINES = 4
"""The maximum lines of a cell; a taller row reads better as a block."""
_HEAD = -1
_INTERVAL = re.compile(r"\[\S+, \S+\]")
_BEFORE_REMARK = re.compile(r" (?=\[|refused|\((?!\d+\)))")
"""The space before an interval or a remark; a note's number stays with the text before it."""
_NO_BREAK = "\0"
# Characters that Markdown, or HTML in it, would interpret; a backslash makes each one text.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@])")
_NO_TEXT_OF_MERMAID = re.compile(r"[^\w.,=/+()\[\]-]+")
_END_OF_AXIS = 5.0


def shown_change(ratio: float, low: float, high: float) -> str:
    """Format a ratio and its interval as a change in per cent."""
    least, value, most = (f"{100 * (bound - 1):+.1f}" for bound in (low, ratio, high))
    if ratio > NO_BOUND:
        # A change from zero cannot be expressed in per cent.
        return f"from 0, at least {least}" if low > 1 else "from 0"
    return f"{value} [{least}, {'no bound' if high > NO_BOUND else most}]"


def labels_of(cells: Sequence[Cell]) -> tuple[list[str], list[str]]:
    """Return labels of the factors that distinguish cells, and a note on their common factors."""
    common = shared_levels(cells)
    if not common or len(cells) < 2:
        return short_labels(cells), []
    labels = ["" if label == common else label for label in short_labels(cells)]
    return labels, [f"In all cells: {common}."]


def more_rows(verdicts: Iterable[str], where: str) -> list[str]:
    """Count the rows that a table leaves out, by verdict, in a note that says `where` they are."""
    counts = Counter(verdicts)
    parts = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    return [f"More rows, which {where}: {parts}."] if counts else []


def print_verdicts(
    table: ReportTable, sentence: str, *, markdown: bool = False, picture: str = ""
) -> None:
    """Print a summary sentence, and a table whose first column is the verdict."""
    if markdown:
        say(as_markdown(table, sentence, picture))
        return
    # As the table is printed: nobody need read either for the command to end as it would.
    _show_line(f"{shown(sentence, lines=True)}\n", "")
    show_table(table)


def terminal_width() -> int:
    """Return the terminal's columns, or ``COLUMNS``; a pipe has room for any line of a log."""
    return max(shutil.get_terminal_size((_LOG_WIDTH, 24)).columns, _LEAST_WIDTH)


def show_text(text: str, style: str = "") -> None:
    """Print a paragraph, broken only between words."""
    for line in _broken(text, terminal_width()):
        _show_line(line, style)


def show_table(table: ReportTable, *, emphasis: bool = True) -> None:
    """Print a table as `table_lines` lays it out; `emphasis` colours verdicts and marked rows."""
    for line, row in table_lines(table, terminal_width()):
        style = "bold" if row == _HEAD else ""
        if emphasis and row is not None and row >= 0:
            begins = (s for verdict, s in STYLES.items() if table.rows[row][0].startswith(verdict))
            style = next(begins, "bold red" if row in table.marked else "")
        _show_line(line, style)
    say("")


def _show_line(line: str, style: str) -> None:
    # Rich would break lines longer than the terminal, and cut names.
    Console().print(Text(line, style=style), soft_wrap=True)


def table_lines(table: ReportTable, width: int) -> list[tuple[str, int | None]]:
    """Lay out a table with its caption and notes; return lines, each with its row from 0.

    No cell is ever cut: if the columns side by side are wider than `width`, text is broken
    between words, then columns in `table.minor` are left out, and then each row becomes a block.
    A line is longer than `width` only if a single word is. Headings have row `_HEAD`, caption and
    notes None.
    """
    kept = _columns_that_fit(table, width)
    lines: list[tuple[str, int | None]] = []
    if table.caption:
        lines += [(line, _HEAD) for line in _broken(table.caption, width)]
    notes = list(table.notes)
    if kept is None:
        for index, row in enumerate(table.rows):
            lines += [(line, index) for line in _block(table, row, width)]
    else:
        columns, widths = kept
        sides = [table.columns[i] in table.left for i in columns]
        for number, row in enumerate([table.columns, *table.rows], -1):
            broken = [_broken(row[i], w) if left or number < 0 else _broken_number(row[i], w)
                      for i, w, left in zip(columns, widths, sides, strict=True)]  # fmt: skip
            place = _HEAD if number < 0 else number
            lines += [
                ("  ".join(
                    (cell[at] if at < len(cell) else "").ljust(w) if left
                    else (cell[at] if at < len(cell) else "").rjust(w)
                    for cell, w, left in zip(broken, widths, sides, strict=True)
                ).rstrip(), place)
                for at in range(max((len(cell) for cell in broken), default=0))
            ]  # fmt: skip
        hidden = [name for i, name in enumerate(table.columns) if i not in columns]
        if hidden:
            notes.append(f"Not shown in {width} columns: {', '.join(hidden)}.")
    for note in notes:
        lines += [(line, None) for line in _broken(note, width)]
    return lines


def _columns_that_fit(table: ReportTable, width: int) -> tuple[list[int], list[int]] | None:
    """Return the columns that fit side by side and their widths; None if major ones do not fit."""
    for kept in range(len(table.minor), -1, -1):
        dropped = table.minor[kept:]
        columns = [i for i, heading in enumerate(table.columns) if heading not in dropped]
        room = width - 2 * (len(columns) - 1)
        least, natural = [], []
        for i in columns:
            left = table.columns[i] in table.left
            cells = [row[i] for row in table.rows]
            words = [w for cell in cells for w in (cell.split() if left else _broken_number(cell))]
            head = max(map(len, table.columns[i].split()), default=0)
            least.append(max([head, *map(len, words)]))
            natural.append(max([least[-1], len(table.columns[i]), *map(len, cells)]))
        if sum(least) > room:
            continue
        widths = _shared_out(least, natural, room)
        tall = max((-(-n // w) for n, w in zip(natural, widths, strict=True) if w), default=1)
        if tall <= _MOST_LINES:
            return columns, widths
    return None


def _shared_out(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Share the remaining room between the least and natural widths, smallest needs first."""
    widths = list(least)
    left = room - sum(least)
    order = sorted(range(len(widths)), key=lambda i: natural[i] - least[i])
    for place, i in enumerate(order):
        more = min(natural[i] - least[i], left // (len(order) - place))
        widths[i] += more
        left -= more
    return widths


def _block(table: ReportTable, row: Sequence[str], width: int) -> list[str]:
    """Lay out a row as its first cell, with the other cells by name below it."""
    first, *rest = row
    texts = [f"{name}: {cell}" if name else cell
             for name, cell in zip(table.columns[1:], rest, strict=True) if cell]  # fmt: skip
    lines = [""]
    for text in texts:
        if lines[-1] and len(lines[-1]) + len(text) + 3 <= width - 2:
            lines[-1] += f"   {text}"
        else:
            lines += _broken(text, width - 2)
    return [*_broken(first, width), *(f"  {line}" for line in lines if line)]


def _broken(text: str, width: int) -> list[str]:
    """Break text at spaces, but not within an interval; a longer word stands alone."""
    whole = _INTERVAL.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    return [
        line.replace(_NO_BREAK, " ")
        for part in whole.split("\n")
        for line in textwrap.wrap(part, max(width, 1), break_long_words=False,
                                  break_on_hyphens=False) or [""]
    ]  # fmt: skip


def _broken_number(text: str, width: int = 0) -> list[str]:
    """Break a value that is too wide before its interval or remark."""
    return [text] if len(text) <= width else _BEFORE_REMARK.split(text)


def escaped(text: str) -> str:
    """Escape text so that Markdown shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", shown(" ".join(text.split())))


def markdown_rows(table: ReportTable) -> list[str]:
    """Return the lines of a table in Markdown, without its caption and notes."""
    sides = [":---" if name in table.left else "---:" for name in table.columns]
    rows = [list(map(escaped, row)) for row in (table.columns, *table.rows)]
    return [f"| {' | '.join(cells)} |" for cells in (rows[0], sides, *rows[1:])]


def ratio_chart(title: str, bars: Iterable[tuple[str, str, float, float]]) -> str:
    """Draw intervals of ratios with Mermaid, which GitHub and GitLab show, unlike data URIs.

    Parameters
    ----------
    bars
        Label, style (Mermaid's ``crit``, ``active``, ``done`` or none) and both ends; parts above
        5 are not drawn.
    """
    lines = ["```mermaid", "gantt", f"title {title}", "dateFormat x", "axisFormat %s.%L"]
    # The axis shows time: a second stands for a ratio of 1.
    for label, style, low, high in bars:
        ends = [round(1000 * min(end, _END_OF_AXIS)) for end in (low, high)]
        text = _NO_TEXT_OF_MERMAID.sub(" ", label)
        lines.append(
            f"{text} :{style}{', ' if style else ''}{ends[0]}, {max(ends[1], ends[0] + 1)}"
        )
    return "\n".join([*lines, "todayMarker off", "```"])


def as_markdown(table: ReportTable, sentence: str, picture: str = "") -> str:
    """Return the sentence, the picture, the changed rows, and then the notes as Markdown."""
    changed = [row for row in table.rows if not row[0].startswith(_UNCHANGED)]
    lines = [f"**{escaped(sentence)}**", "", *([picture, ""] if picture else [])]
    if changed:
        lines += [*markdown_rows(replace(table, rows=changed)), ""]
    same = len(table.rows) - len(changed)
    if same:
        lines += [f"{same} more {'is' if same == 1 else 'are'} as before or within limits.", ""]
    lines += [f"{escaped(note)}  " for note in table.notes]
    return "\n".join(lines).rstrip()


def numbered(table: ReportTable, notes: Sequence[str], lead: Sequence[str] = ()) -> ReportTable:
    """Return the table with numbered notes below it, after the notes of `lead`."""
    return replace(table, notes=[*lead, *(f"({i}) {note}" for i, note in enumerate(notes, 1))])
