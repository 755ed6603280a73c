"""The picture of a report on other tools' files: each run and the interval, by metric."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from roslens.analysis.estimate import Estimate, short_labels
from roslens.analysis.figures.style import (
    COLOURS,
    FAINT,
    Plot,
    finish,
    legend_above,
    new_figure,
    styled,
    wrapped,
)
from roslens.analysis.reports.numbers import shown_unit

_MOST_PANELS = 4
_MOST_ROWS = 24
_FIRST = ("mean", "p99", "max", "loss", "cpu", "rss", "pss", "throughput")


def drawable(estimate: Estimate) -> bool:
    """Whether it has a value that can be drawn."""
    return estimate.value is not None and math.isfinite(estimate.value)


@styled
def runs_plot(estimates: Sequence[Estimate]) -> Plot:
    """Each run as a dot, the estimate with its interval, one panel per metric.

    Parameters
    ----------
    estimates
        Of `roslens.analysis.tool.estimates.tool_estimates`; the metrics that say most are
        drawn, `_MOST_PANELS` of them.

    Raises
    ------
    ValueError
        No estimate has a value.
    """
    panels: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if drawable(estimate):
            panels.setdefault(estimate.metric, []).append(estimate)
    chosen = sorted(panels, key=_place)[:_MOST_PANELS]
    if not chosen:
        raise ValueError("no estimate has a value: there is nothing to draw")
    shown = {metric: panels[metric][:_MOST_ROWS] for metric in chosen}
    heights = [len(members) + 1.6 for members in shown.values()]
    labels = {m: short_labels([e.cell for e in members]) for m, members in shown.items()}
    lines = max(wrapped(x, 48).count("\n") + 1 for of in labels.values() for x in of)
    figure = new_figure(0.7 + max(0.34, 0.16 * lines) * sum(heights))
    rows = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (metric, members) in zip(rows, shown.items(), strict=True):
        _panel(axes, metric, members, labels[metric])
    handles = [
        Line2D([], [], ls="", marker="o", color=FAINT, ms=4, label="a run"),
        Line2D([], [], color=COLOURS[0], lw=2.2, marker="D", ms=5,
               label=f"estimate and {100 * estimates[0].level:g} % interval"),
        Line2D([], [], ls="", marker="D", color=COLOURS[0], mfc="white", ms=5,
               label="interval refused"),
    ]  # fmt: skip
    legend_above(figure, handles)
    hidden = sum(len(panels[metric]) for metric in panels) - sum(map(len, shown.values()))
    more = f"{hidden:,} more estimates are in the table." if hidden else ""
    text = "What the tools' files give, each axis from zero where that is near."
    return Plot(figure, text, left_out=more)


def _place(metric: str) -> tuple[int, str]:
    words = metric.split("_")
    return next((i for i, name in enumerate(_FIRST) if name in words), len(_FIRST)), metric


def _panel(axes: Axes, metric: str, members: Sequence[Estimate], labels: Sequence[str]) -> None:
    factor, unit = shown_unit(members[0].unit)
    for y, e in enumerate(members):
        assert e.value is not None
        known = [factor * v for v in e.per_run if math.isfinite(v)]
        axes.plot(known, [y] * len(known), "o", color=FAINT, ms=4, alpha=0.8)
        if e.low is not None and e.high is not None:
            axes.plot([factor * e.low, factor * e.high], [y, y], "-", color=COLOURS[0], lw=2.2)
        face = "white" if e.refused else COLOURS[0]
        axes.plot([factor * e.value], [y], "D", color=COLOURS[0], mfc=face, ms=5)
    axes.set_yticks(range(len(members)), [wrapped(label, 48) for label in labels])
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylim(len(members) - 0.5, -0.5)
    low, high = axes.get_xlim()
    if 0 < low < 0.5 * high:
        axes.set_xlim(0, high)
    axes.set_title(metric.replace("_", " "))
    axes.set_xlabel(f"[{unit}]")
    axes.grid(visible=False, axis="y")
    finish(axes)
