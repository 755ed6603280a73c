"""Define the one style of all figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from roslens.analysis.figures.picture import Picture
from roslens.analysis.figures.plot import DPI, WIDTH, Plot

P = ParamSpec("P")

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinguishable with every kind of colour vision (Okabe and Ito 2008), yellow left out."""

FAINT = "#9a9a9a"
LOUD = "#D55E00"

# seaborn.axes_style("ticks") of seaborn 0.13.2 (BSD-3-Clause) written down, since importing seaborn
# takes over a second; without its colour map, which no figure uses, and what we replace below.
_TICKS = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.labelcolor": ".15",
    "axes.spines.left": True,
    "axes.spines.bottom": True,
    "axes.spines.right": True,
    "axes.spines.top": True,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.color": ".15",
    "ytick.color": ".15",
    "xtick.top": False,
    "xtick.bottom": True,
    "ytick.left": True,
    "ytick.right": False,
    "grid.linestyle": "-",
    "text.color": ".15",
    "font.family": ["sans-serif"],
    "font.sans-serif": [
        "Arial",
        "DejaVu Sans",
        "Liberation Sans",
        "Bitstream Vera Sans",
        "sans-serif",
    ],
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
}

_SETTINGS: dict[Any, Any] = {
    **_TICKS,
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 9.5,
    "axes.edgecolor": "#666666",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.solid_capstyle": "round",
    # Names of topics and nodes may hold a dollar sign; they are no formulas.
    "text.parse_math": False,
}


def styled(draw: Callable[P, Plot]) -> Callable[P, Plot]:
    """Make a function draw in the style of reports, whatever the notebook has set."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Plot:
        with mpl.rc_context(_SETTINGS):
            return draw(*args, **kwargs)

    return drawn


def new_figure(height: float) -> Picture:
    """Return a figure that only the receiver draws (not the notebook as well)."""
    return Picture((WIDTH, height), DPI, facecolor="white", layout="constrained")


def panels(
    count: int, columns: int, row: float, more: float = 0.0, *, sharey: bool = False
) -> tuple[Picture, Any]:
    """Return a figure and its grid of axes, at most `columns` side by side; spare ones are hidden.

    Parameters
    ----------
    row, more
        Inches of each row, and of what is above and below all rows.
    """
    columns = min(columns, max(1, count))
    rows = max(1, math.ceil(count / columns))
    figure = new_figure(row * rows + more)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, grid


def colour(index: int) -> str:
    """Return the colour of the index-th of several things; colours repeat after seven."""
    return COLOURS[index % len(COLOURS)]


def wrapped(label: str, width: int = 34) -> str:
    """Break the label of a cell after commas into lines of about `width` characters.

    A longer name is broken after a sign or before a capital letter.
    """
    lines = [""]
    for part in label.split(", "):
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines[-1] += ","
            lines.append(part)
    return "\n".join(_narrow_line(line, width) for line in lines)


_JOINTS = re.compile(r"(?<=[_=/.:-])|(?<= )|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _narrow_line(line: str, width: int) -> str:
    if len(line.rstrip(",")) <= width:
        return line
    lines = [""]
    for part in _JOINTS.split(line):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(text.rstrip() for text in lines)


def legend_above(figure: Figure, handles: Sequence[Artist] | None = None) -> None:
    """Add a legend above the axes, as wide as its labels allow.

    Parameters
    ----------
    handles
        Entries of the legend; None: all that was drawn with a label, each label once.
    """
    if handles is None:
        drawn: dict[str, Artist] = {}
        for axes in figure.axes:
            for handle in axes.get_legend_handles_labels()[0]:
                drawn.setdefault(str(handle.get_label()), handle)
        handles = list(drawn.values())
    if handles:
        longest = max(len(str(handle.get_label())) for handle in handles)
        columns = min(len(handles), max(1, 110 // (longest + 8)))
        figure.legend(handles=list(handles), loc="outside upper left", ncols=columns)


def legend_of(figure: Figure, names: Iterable[str], **look: Any) -> None:
    """Add a legend of names in the order of the colours, without the empty ones.

    Parameters
    ----------
    look
        Look of the lines, as `Line2D` takes it.
    """
    lines = [
        Line2D([], [], color=colour(i), label=name, **look) for i, name in enumerate(names) if name
    ]
    legend_above(figure, lines)


def legend_of_squares(figure: Figure, shades: Mapping[str, str]) -> None:
    """Add a legend of pale squares by their meaning, such as the verdicts of a grid."""
    look: dict[str, Any] = {"ls": "", "marker": "s", "ms": 9, "alpha": 0.45}
    squares = [
        Line2D([], [], color=shade, label=name.replace("_", " "), **look)
        for name, shade in shades.items()
    ]
    legend_above(figure, squares)


def rows(axes: Axes, labels: Sequence[str], measured: str, size: float | None = None) -> None:
    """Make a row for each label, the first on top; `measured` names the other axis."""
    axes.set_yticks(range(len(labels)), labels, fontsize=size)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(measured)
    axes.grid(visible=False, axis="y")


def plain_numbers(axes: Axes, which: str = "x") -> None:
    """Write a logarithmic axis as 0.1, 1, 10k instead of powers.

    Also write 2 and 5 if the axis is short, and every tick if it has hardly a decade.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis

    def between(value: float, _: object) -> str:
        low, high = sorted(axis.get_view_interval())
        if low <= 0:
            return ""
        span, powers = high / low, math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1
        leading = round(value / 10 ** math.floor(math.log10(value)), 6)
        narrow = span < 30 or powers < 2
        return short(value) if span < 4 or (narrow and leading in (2, 5)) else ""

    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(FuncFormatter(between))


def short(value: float) -> str:
    """Format a tick as ``0.1``, ``250``, ``10k`` or ``4M``."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / min(size, 1e3 if name == 'k' else size):.4g}{name}"
    return f"{value:g}"


def left_out(count: int, of: int, what: str, more: str = "") -> str:
    """Say what a picture leaves out: ``5 of 9 cells are drawn`` and `more`; empty if nothing."""
    return f"{count:,} of {of:,} {what} are drawn{more}." if count < of else ""


def sentence(definition: str) -> str:
    """Turn a definition into a sentence of a caption."""
    return definition[:1].upper() + definition[1:] + "."
