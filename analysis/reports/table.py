"""Build tables of reports: escaped text in cells, with a caption, in HTML and in plain text."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Self

_CELL = "cell"


class Pictured(str):
    """The text of a cell, with a drawing before it.

    Attributes
    ----------
    svg
        One SVG element, with all text in it escaped.
    """

    __slots__ = ("svg",)
    svg: str

    def __new__(cls, text: str, svg: str) -> Self:  # noqa: D102
        pictured = super().__new__(cls, text)
        pictured.svg = svg
        return pictured


@dataclass(frozen=True)
class ReportTable:
    """A table for people to read.

    A column ``cell`` of labels such as ``payload=100, executor=Events`` is shown as one column per
    factor; a factor with the same level in all labels is stated once, below.

    Attributes
    ----------
    columns
        Headings of the columns.
    rows
        Text of the cells.
    caption
        What the table shows.
    notes
        Sentences below the table.
    marked
        Indices (from 0) of rows that must not be overlooked.
    left
        Headings of text columns; all others are aligned to the right.
    minor
        Headings of columns that a narrow terminal can do without, the most important first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    notes: Sequence[str] = ()
    marked: frozenset[int] = frozenset()
    left: frozenset[str] = field(default_factory=frozenset)
    minor: Sequence[str] = ()

    def _repr_html_(self) -> str:
        return self._by_factor()._html()

    def __str__(self) -> str:
        return self._by_factor()._text()

    def _by_factor(self) -> Self:
        if _CELL not in self.columns:
            return self
        place = self.columns.index(_CELL)
        cells = [_levels(row[place]) for row in self.rows]
        factors = list(dict.fromkeys(name for cell in cells if cell for name in cell))
        if None in cells or set(factors) & set(self.columns):
            return self
        named = [cell for cell in cells if cell]
        common = {
            name: level
            for name, level in (named[0] if len(set(map(str, named))) > 1 else {}).items()
            if all(cell.get(name) == level for cell in named)
        }
        shown = [name for name in factors if name not in common]
        if not shown:
            return self

        def split(texts: Sequence[str], instead: Sequence[str]) -> list[str]:
            return [*texts[:place], *instead, *texts[place + 1 :]]

        listed = ", ".join(f"{name}={level}" for name, level in common.items())
        return replace(
            self,
            columns=split(self.columns, shown),
            rows=[
                split(row, [(cell or {}).get(name, "") for name in shown])
                for row, cell in zip(self.rows, cells, strict=True)
            ],
            notes=[*self.notes, *([f"In all cells: {listed}."] if listed else [])],
            left=self.left | set(shown),
        )

    def _html(self) -> str:
        sides = ["left" if name in self.left else "right" for name in self.columns]

        def cells(tag: str, texts: Sequence[str]) -> str:
            return "".join(
                f'<{tag} style="text-align:{side}">{_cell(text)}</{tag}>'
                for side, text in zip(sides, texts, strict=True)
            )

        rows = "\n".join(
            f"<tr{_MARK if index in self.marked else ''}>{cells('td', row)}</tr>"
            for index, row in enumerate(self.rows)
        )
        notes = "".join(f'<p class="roslens-note">{escape(note)}</p>' for note in self.notes)
        return (
            f'<table class="roslens-table"><caption style="text-align:left">'
            f"{escape(self.caption)}</caption>\n<thead><tr>{cells('th', self.columns)}</tr>"
            f"</thead>\n<tbody>\n{rows}\n</tbody></table>{notes}"
        )

    def _text(self) -> str:
        lines = [list(self.columns), *map(list, self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = [
            "  ".join(
                cell.ljust(width) if name in self.left else cell.rjust(width)
                for cell, width, name in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *text, *self.notes])


def reference(note: str, notes: list[str]) -> int:
    """Return the number of a note below a table; a new note is added to `notes`."""
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1


def _levels(label: str) -> dict[str, str] | None:
    """Return levels by factor of a `cell_label`; None if it is no such label, {} if it is empty."""
    parts = [part.partition("=") for part in label.split(", ")] if label else []
    if not all(name and between for name, between, _ in parts):
        return None
    return {name: level for name, _, level in parts}


def _cell(text: str) -> str:
    if not isinstance(text, Pictured):
        return escape(text)
    return f'<span style="white-space:nowrap">{text.svg} {escape(text)}</span>'


_MARK = ' class="roslens-marked" style="background:#fde2d4;color:#7a2b00;font-weight:600"'


@dataclass(frozen=True)
class Sentence:
    """One sentence of a report; a loud one is a warning that must not be overlooked."""

    text: str
    loud: bool = False

    def _repr_html_(self) -> str:
        if not self.loud:
            return f"<p>{escape(self.text)}</p>"
        return (
            '<p class="roslens-loud" style="border-left:4px solid #d55e00;background:#fde2d4;'
            f'color:#7a2b00;padding:.5em .8em;font-weight:600">{escape(self.text)}</p>'
        )

    def __str__(self) -> str:
        return ("! " if self.loud else "") + self.text


@dataclass(frozen=True)
class Verbatim:
    """Text to be copied as it is, such as the lines of a file."""

    text: str

    def _repr_html_(self) -> str:
        return f'<pre class="roslens-verbatim">{escape(self.text)}</pre>'

    def __str__(self) -> str:
        return self.text
