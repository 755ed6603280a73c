"""Draw cells as a grid: one square per cell with its value, levels of factors on two sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from roslens.analysis.estimate import Cell, Estimate, cell_label, telling_factors
from roslens.analysis.figures.plot import WIDTH, Plot
from roslens.analysis.figures.style import new_figure, sentence, styled, wrapped
from roslens.analysis.reports.numbers import shown_unit, significant

_MOST_COLUMNS = 12
_WITH_INTERVAL = 6
"""Most columns that leave room for an interval in a square."""

_FEW_ROWS = 12
_ROW_LABELS = 2.4
"""Width of the row labels in inches."""


class Grid:
    """The place of each cell in a grid.

    Attributes
    ----------
    rows, columns
        The levels of each row and column, in words; empty if no factor is along it.
    along
        The factors along the columns.
    """

    def __init__(self, cells: Sequence[Cell], most_columns: int = _MOST_COLUMNS) -> None:
        names = telling_factors(cells)
        chosen = [
            subset
            for size in range(len(names) + 1)
            for subset in combinations(names, size)
            if len({_levels(cell, subset) for cell in cells}) <= most_columns
        ]
        self.along = min(chosen, key=lambda s: _layout_cost(cells, names, s))
        self._down = [name for name in names if name not in self.along]
        self.rows = list(dict.fromkeys(self._row(cell) for cell in cells))
        self.columns = list(dict.fromkeys(_levels(cell, self.along) for cell in cells))

    def _row(self, cell: Cell) -> str:
        levels = {name: cell[name] for name in self._down if name in cell}
        return cell_label(levels) if levels else ""

    def place(self, cell: Cell) -> tuple[int, int]:
        """Return column and row of a cell."""
        return self.columns.index(_levels(cell, self.along)), self.rows.index(self._row(cell))

    @property
    def headings(self) -> list[str]:
        """Headings of the columns, broken into lines that fit."""
        return column_headings(["\n".join(levels) for levels in self.columns])

    def label(self, axes: Axes) -> None:
        """Name rows, columns and the factors along them."""
        label_squares(axes, self.headings, [wrapped(row, 34) for row in self.rows])
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(", ".join(self.along), fontsize=8.5)

    def height(self, of_row: float) -> float:
        """Return a figure's height in inches for rows of `of_row`, or as high as their labels."""
        lines = max(wrapped(row, 34).count("\n") + 1 for row in self.rows)
        heads = max(heading.count("\n") + 1 for heading in self.headings)
        return max(of_row, 0.13 * lines + 0.06) * len(self.rows) + 0.75 + 0.13 * heads


def _layout_cost(
    cells: Sequence[Cell], names: Sequence[str], along: Sequence[str]
) -> tuple[int, int, int]:
    """Return the rows too many for a screen, the columns too many for intervals, and all rows."""
    columns = len({_levels(cell, along) for cell in cells})
    rows = len({_levels(cell, [n for n in names if n not in along]) for cell in cells})
    return max(0, rows - _FEW_ROWS), max(0, columns - _WITH_INTERVAL), rows


def _levels(cell: Cell, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(cell.get(name, "")) for name in names)


def label_squares(axes: Axes, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Name columns and rows of squares, without frame or ticks."""
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_xticks([i + 0.48 for i in range(len(columns))], columns, size=7.5)
    axes.set_yticks([i + 0.46 for i in range(len(rows))], rows, size=7.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def column_headings(texts: Sequence[str]) -> list[str]:
    """Break headings of equally wide columns beside row labels into lines that fit."""
    inches = (WIDTH - _ROW_LABELS) / max(1, len(texts))
    width = max(6, int(inches / 0.075))
    return ["\n".join(wrapped(line, width) for line in text.split("\n")) for text in texts]


@styled
def value_grid(estimates: Sequence[Estimate], title: str) -> Plot:
    """Draw one metric in every cell: the darker, the larger.

    Parameters
    ----------
    estimates
        Estimates of one metric, one per cell; at least one has a finite value.
    title
        Name of the metric, such as ``median latency``.
    """
    grid = Grid([e.cell for e in estimates])
    scale, unit = shown_unit(estimates[0].unit)
    values = [e.value * scale for e in estimates if e.value is not None and math.isfinite(e.value)]
    low, high = min(values), max(values)
    norm = LogNorm(low, max(high, low * 1.01)) if low > 0 else Normalize(low, high or 1.0)
    intervals = len(grid.columns) <= _WITH_INTERVAL
    figure = new_figure(grid.height(0.42 if intervals else 0.24))
    axes = figure.subplots()
    for e in estimates:
        x, y = grid.place(e.cell)
        value = None if e.value is None or not math.isfinite(e.value) else e.value * scale
        share = 0.0 if value is None else float(norm(value))
        shade = "#eeeeee" if value is None else mpl.colormaps["Blues"](0.08 + 0.72 * share)
        axes.add_patch(Rectangle((x, y), 0.96, 0.92, color=shade, lw=0))
        text = "refused" if value is None else significant(value, 3)
        if intervals and e.low is not None and e.high is not None:
            bounds = (significant(bound * scale, 3) for bound in (e.low, e.high))
            text += f"\n[{', '.join(bounds)}]"
        ink = "white" if share > 0.62 else "black"
        axes.text(x + 0.48, y + 0.46, text, ha="center", va="center", size=7, color=ink,
                  linespacing=1.1)  # fmt: skip
    grid.label(axes)
    named = f"{title[:1].upper()}{title[1:]}"
    figure.suptitle(
        f"{named} [{unit}], the darker the larger", x=0.01, ha="left", fontsize=10,
        fontweight="bold",
    )  # fmt: skip
    hint = "below it the interval" if intervals else "intervals are in the table"
    return Plot(
        figure,
        f"{named} of each of {len(estimates)} cells [{unit}]; the darker, "
        f"the larger; {hint}. {sentence(estimates[0].definition)}",
    )
