"""Draw figures of memory: series with slopes, verdicts as a grid, and why a peak says nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from scipy import signal

from roslens.analysis.figures import style
from roslens.analysis.figures.grid import Grid
from roslens.analysis.figures.plot import Plot
from roslens.analysis.leaks.leak import Leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.reports.numbers import significant
from roslens.analysis.statistics.trends import least_squares
from roslens.recording.arrays import np

_MOST_CELLS = 24
_COLUMNS = 4
VERDICT_COLOURS: Mapping[str, str] = {
    "climbs": style.LOUD,
    "levels_off": "#E69F00",
    "steep_start_then_stable": "#56B4E9",
    "stable": "#009E73",
    "not_enough_evidence": style.FAINT,
}


def verdict_text(verdict: str) -> str:
    """Return a verdict such as ``levels_off`` in words."""
    return verdict.replace("_", " ")


@style.styled
def memory_plot(
    leaks: Sequence[Leak], series: Sequence[Mapping[str, Series]], labels: Sequence[str], name: str
) -> Plot:
    """Draw memory over time, one picture per cell, one line per run, with the judged slope.

    Parameters
    ----------
    leaks, series, labels
        For each cell: its leak, its runs by name, and its label.
    name
        Name of the series, such as ``rss``.
    """
    shown = [i for i, runs in enumerate(series) if runs][:_MOST_CELLS]
    lines = max((style.wrapped(labels[i], 30).count("\n") for i in shown), default=0)
    figure, grid = style.panels(len(shown), _COLUMNS, 2.0 + 0.14 * lines, 0.5)
    for axes, index in zip(grid.flat, shown, strict=False):
        _cell(axes, leaks[index], list(series[index].values()))
        axes.set_title(style.wrapped(labels[index], 30), fontsize=7.5, fontweight="normal")
    for row in grid:
        row[0].set_ylabel(f"{name.upper()} [MB]")
    for axes in grid[-1]:
        axes.set_xlabel("time [s]")
    style.legend_above(figure)
    measured = sum(1 for runs in series if runs)
    samples = sum(run.values.size for i in shown for run in series[i].values())
    return Plot(
        figure,
        f"{name.upper()} of all recorded processes of a run, "
        f"{sum(len(series[i]) for i in shown)} runs, {samples:,} samples; dashed: the mean slope "
        "over runs, drawn over the part of the time it was taken from; each picture has its own "
        "scale.",
        left_out=style.left_out(len(shown), measured, "cells", "; the table has all"),
    )


def _cell(axes: Axes, leak: Leak, runs: Sequence[Series]) -> None:
    for number, run in enumerate(runs):
        shade = style.colour(number)
        axes.plot(run.seconds, run.values / 1e6, lw=0.9, color=shade, alpha=0.8, label="runs")
    begin, end = leak.looked_at_s
    start = begin if leak.bend_s is None or leak.bend_s.value is None else leak.bend_s.value
    slope = leak.per_second.value
    parts = [run.part(start, end) for run in runs]
    parts = [part for part in parts if part.values.size]
    if slope is not None and parts:
        middle = (start + end) / 2
        level = float(np.mean([np.median(part.values) for part in parts]))
        at = np.array([start, end])
        line = (level + slope * (at - middle)) / 1e6
        label = "slope of the part that is judged"
        axes.plot(at, line, color="black", lw=1.6, ls="--", label=label)
    text = verdict_text(leak.verdict)
    if slope is not None:
        text += f"\n{slope / 1e3:+,.3g} kB/s"
    axes.text(
        0.03,
        0.97,
        text,
        transform=axes.transAxes,
        va="top",
        fontsize=8,
        fontweight="bold",
        color=VERDICT_COLOURS[leak.verdict],
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
    values = np.concatenate([run.part(begin, end).values for run in runs]) / 1e6
    # Memory from before (loading, discovery) may lie outside of the picture.
    low, high = float(values.min()), float(values.max())
    # A flat series must not look like a mountain range.
    least = 0.02 * max(abs(high), abs(low))
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    room = high - low
    axes.set_ylim(low - 0.1 * room, high + 0.45 * room)
    axes.tick_params(labelsize=8)


@style.styled
def verdict_grid(leaks: Sequence[Leak]) -> Plot:
    """Draw verdicts with slopes; rows and columns are the two factors with the most levels."""
    cells = [leak.per_second.cell for leak in leaks]
    whole = len(leaks) <= _MOST_CELLS
    grid = Grid(cells, _COLUMNS + 2) if whole else Grid(cells)
    figure = style.new_figure(grid.height(0.7 if whole else 0.26))
    axes = figure.subplots()
    for leak, cell in zip(leaks, cells, strict=True):
        x, y = grid.place(cell)
        axes.add_patch(
            Rectangle((x, y), 0.96, 0.92, color=VERDICT_COLOURS[leak.verdict], alpha=0.25, lw=0)
        )
        axes.add_patch(Rectangle((x, y), 0.03, 0.92, color=VERDICT_COLOURS[leak.verdict], lw=0))
        if whole:
            texts = (verdict_text(leak.verdict), *_slope_texts(leak))
            for place, text in zip((0.2, 0.47, 0.73), texts, strict=False):
                size = 8.5 if place < 0.3 else 7.5
                axes.text(x + 0.49, y + place, text, ha="center", va="center", size=size)
        else:
            slope = leak.per_second.value
            text = "refused" if slope is None else significant(slope / 1e3, 2)
            axes.text(x + 0.49, y + 0.46, text, ha="center", va="center", size=6.5)
    grid.label(axes)
    axes.set_xlabel(f"{axes.get_xlabel()}: slope of memory [kB/s]".removeprefix(": "))
    verdicts = {leak.verdict for leak in leaks}
    style.legend_of_squares(figure, {v: c for v, c in VERDICT_COLOURS.items() if v in verdicts})
    return Plot(
        figure,
        "Verdict of each cell, with slope and interval in kB/s; "
        "MD: the least slope that would have been found."
        if whole
        else "Verdict of each cell by colour, with its slope in kB/s; intervals are in the table.",
    )


def _slope_texts(leak: Leak) -> tuple[str, ...]:
    slope = leak.per_second
    if slope.value is None:
        return ("refused",)
    if slope.low is None or slope.high is None:
        return (f"{slope.value / 1e3:.3g}, no interval",)
    # Only as exact as the interval, or the text does not fit into its cell.
    half = (slope.high - slope.low) / 2e3
    decimals = max(0, -math.floor(math.log10(half))) if half > 0 else 3
    if decimals < 2 and max(-slope.low, slope.high) < 10e3:
        decimals += 1
    value, low, high = (
        f"{round(number / 1e3, decimals) + 0.0:.{decimals}f}"
        for number in (slope.value, slope.low, slope.high)
    )
    text = f"{value} [{low}, {high}]"
    least = slope.minimum_detectable
    return (text,) if least is None else (text, f"MD {significant(least / 1e3, 2)}")


@style.styled
def peak_plot() -> Plot:
    """Show why a peak is refused: simulated stationary memory, and its peak, which never falls."""
    runs, phi = 2000, 0.9
    rng = np.random.default_rng(1)
    seconds = np.arange(600.0)
    innovations = rng.normal(0, 300e3 * math.sqrt(1 - phi**2), (runs, 1100))
    current = signal.lfilter([1], [1, -phi], innovations, axis=1)[:, 500:] + 50e6
    peak = np.maximum.accumulate(current, axis=1)
    slopes = {
        "current size": np.array([least_squares(seconds, run).slope for run in current]),
        "peak": np.array([least_squares(seconds, run).slope for run in peak]),
    }
    figure = style.new_figure(2.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.plot(seconds, current[0] / 1e6, lw=0.9, color=style.colour(0), label="current size")
    left.plot(seconds, peak[0] / 1e6, lw=1.6, color=style.LOUD, label="its peak (ru_maxrss)")
    left.set_xlabel("time [s]")
    left.set_ylabel("memory [MB]")
    left.legend(loc="lower right")
    edges = np.linspace(-1.5, 3, 60)
    for (label, values), shade in zip(slopes.items(), (style.colour(0), style.LOUD), strict=True):
        right.hist(values / 1e3, edges, histtype="step", color=shade, lw=1.4, label=label)
    right.axvline(0, color="black", lw=0.8)
    right.set_xlabel("slope [kB/s]")
    right.set_ylabel("runs")
    positive = {name: float(np.mean(values > 0)) for name, values in slopes.items()}
    return Plot(
        figure,
        f"Simulated, {runs:,} runs without a leak (AR(1), phi {phi:g}, sd 300 kB, 10 min at 1 Hz): "
        f"the slope is above zero in {100 * positive['current size']:.0f} % of the current sizes "
        f"and in {100 * positive['peak']:.0f} % of the peaks.",
    )
