"""Draw a comparison: the relative change of each metric in each cell."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from roslens.analysis.estimate import not_none, short_labels
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.verdicts.comparison import Comparisons
from roslens.analysis.verdicts.one_cell import METHOD, Comparison

_LOOKS = {
    "regression": (style.COLOURS[1], "s"),
    "improvement": (style.COLOURS[2], "D"),
    "no_difference": (style.COLOURS[0], "o"),
    "not_enough_evidence": (style.FAINT, "o"),
    "not_comparable": (style.FAINT, "X"),
}

_MOST_ROWS = 60


@style.styled
def comparison_plot(comparisons: Comparisons) -> Plot:
    """Draw changes in percent with their intervals, one panel per metric, the threshold shaded."""
    threshold = 100 * comparisons.threshold
    with_ratio = [
        c for c in comparisons.by_interest if c.ratio is not None and math.isfinite(c.ratio)
    ]
    first = set(map(id, with_ratio[:_MOST_ROWS]))
    shown = [c for c in comparisons.compared if id(c) in first]
    metrics = list(dict.fromkeys(c.metric for c in shown))
    panels = [[c for c in shown if c.metric == metric] for metric in metrics]
    heights = [len(panel) + 1.2 for panel in panels] or [1.0]
    labels = dict(zip(map(id, shown), short_labels([c.cell for c in shown]), strict=True))
    lines = max((style.wrapped(label, 48).count("\n") + 1 for label in labels.values()), default=1)
    figure = style.new_figure(1.1 + max(0.34, 0.16 * lines) * sum(heights))
    rows = figure.subplots(
        max(1, len(panels)), 1, squeeze=False, sharex=True, height_ratios=heights
    )[:, 0]
    finite = [100 * (b - 1) for c in shown for b in (c.low, c.high) if b and math.isfinite(b)]
    left = max(-100.0, min([-2 * threshold, *finite]))
    right = min(max([2 * threshold, *finite]), 400.0)
    for axes, metric, panel in zip(rows, metrics, panels, strict=False):
        axes.axvspan(-threshold, threshold, color="#eeeeee", lw=0)
        axes.axvline(0, color="#666666", lw=0.8)
        for y, comparison in enumerate(panel):
            _bar(axes, y, comparison, left, right)
        style.rows(axes, [style.wrapped(labels[id(c)], 48) for c in panel], "", 8)
        axes.set_title(metric)
    margin = 0.03 * (right - left)
    rows[-1].set_xlim(left - margin, right + margin)
    rows[-1].set_xlabel("change, worse to the right [%]")
    handles = [
        Line2D([], [], ls="", marker=marker, color=colour, label=verdict.replace("_", " "))
        for verdict, (colour, marker) in _LOOKS.items()
        if any(c.verdict == verdict for c in shown)
    ]
    style.legend_above(figure, handles)
    return Plot(
        figure,
        _caption(comparisons),
        left_out=style.left_out(len(shown), len(comparisons.compared), "comparisons"),
    )


def _bar(axes: Axes, y: int, comparison: Comparison, left: float, right: float) -> None:
    ratios = (comparison.low, comparison.ratio, comparison.high)
    low, change, high = (100 * (not_none(ratio) - 1) for ratio in ratios)
    colour, marker = _LOOKS[comparison.verdict]
    axes.plot([max(low, left), min(high, right)], [y, y], "-", color=colour, lw=2.2)
    if high > right:
        axes.plot([right], [y], ">", color=colour, ms=5)
    if low < left:
        axes.plot([left], [y], "<", color=colour, ms=5)
    fill = "white" if comparison.confirmed is False else colour
    axes.plot([min(max(change, left), right)], [y], marker, color=colour, ms=6, mfc=fill)


def _caption(comparisons: Comparisons) -> str:
    runs = f"{comparisons.base.runs} runs"
    direction = f"from BASE ({runs}) to NEW ({comparisons.new.runs} runs)"
    if comparisons.by is not None:
        direction = f"from one level of {comparisons.by} to another ({runs})"
    return (
        f"Change {direction} with its 95 % interval; shaded: within the threshold of "
        f"{comparisons.threshold:.3g}; "
        f"hollow: too unsure among so many (Holm's correction); an arrow: beyond the axis. "
        f"{style.sentence(METHOD)}"
    )
