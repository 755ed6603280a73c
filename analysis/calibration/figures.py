"""Figures of a calibration: fractions against their bars, and why the run is the unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from roslens.analysis.calibration.results import Result
from roslens.analysis.calibration.series import Floats, autoregressive, generator
from roslens.analysis.figures.style import (
    COLOURS,
    FAINT,
    LOUD,
    Plot,
    finish,
    new_figure,
    styled,
    wrapped,
)
from roslens.analysis.statistics.over_runs import student_t

EXPERIMENTS = 50


@styled
def fractions_plot(results: Sequence[Result]) -> Plot:
    """A dot for each cell with two Monte Carlo errors, one row per kind; bars shaded."""
    kinds: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        kinds.setdefault((r.section, r.what), []).append(r)
    figure = new_figure(0.9 + 0.7 * len(kinds))
    axes = figure.subplots()
    for y, group in enumerate(kinds.values()):
        _row(axes, y, group)
    labels = [wrapped(f"{title}, {what}", 46) for title, what in kinds]
    axes.set_yticks(range(len(kinds)), labels)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    left = min(r.fraction - 3 * r.error for r in results)
    right = max(r.fraction + 3 * r.error for r in results)
    bars = [bar for r in results for bar in (r.low, r.high) if bar is not None]
    axes.set_xlim(max(0, min([left, *bars]) - 0.01), min(1.003, max([right, *bars]) + 0.01))
    axes.set_xlabel("fraction of simulated experiments")
    axes.grid(visible=False, axis="y")
    finish(axes)
    missed = sum(r.holds is False for r in results)
    return Plot(
        figure,
        f"{len(results)} fractions of simulated experiments, each with two Monte Carlo errors to "
        f"either side; green: what it must lie within; {missed} miss it, drawn in red as squares. "
        "Grey: published as it is, without a bar.",
    )


def _row(axes: Axes, y: int, group: Sequence[Result]) -> None:
    bars = {(r.low, r.high) for r in group if r.holds is not None}
    for low, high in bars:
        begin, end = low if low is not None else 0.0, high if high is not None else 1.0
        axes.fill_betweenx([y - 0.4, y + 0.4], begin, end, color="#dcefe6", lw=0, zorder=0)
    places = y + np.linspace(-0.3, 0.3, len(group)) if len(group) > 1 else [float(y)]
    for place, r in zip(places, group, strict=True):
        colour = FAINT if r.holds is None else COLOURS[0] if r.holds else LOUD
        axes.plot(
            [r.fraction - 2 * r.error, r.fraction + 2 * r.error], [place] * 2, color=colour, lw=0.8
        )
        marker = "s" if r.holds is False else "o"
        axes.plot([r.fraction], [place], marker, color=colour, ms=3)


@styled
def examples_plot(between: float = 0.2, phi: float = 0.5) -> Plot:
    """Intervals of fifty experiments of five runs, over pooled samples and over runs."""
    runs, samples = 5, 200
    rng = generator("examples", between, phi)
    z = autoregressive(rng, (EXPERIMENTS, runs, samples), phi)
    x = z + between * rng.standard_normal((EXPERIMENTS, runs, 1))
    figure = new_figure(3.6)
    both = figure.subplots(1, 2, sharey=True)
    titles = ("all samples, as if independent", "over runs")
    hits = []
    for axes, title, unit in zip(
        both, titles, (x.reshape(EXPERIMENTS, -1), x.mean(-1)), strict=True
    ):
        hits.append(_intervals(axes, unit))
        axes.set_title(f"{title}\n{hits[-1]} of {EXPERIMENTS} hold the truth")
        axes.set_xlabel("experiment")
        finish(axes)
    both[0].set_ylabel("mean, and its 95 % interval")
    return Plot(
        figure,
        f"{EXPERIMENTS} simulated experiments of {runs} runs of {samples} samples with "
        f"autocorrelation {phi:g}; runs differ by a standard deviation of {between:g} of that of "
        f"the samples; the truth is 0. Of intervals that hold what they claim about "
        f"{round(0.95 * EXPERIMENTS)} hold the truth. Orange: those that do not.",
    )


def _intervals(axes: Axes, experiments: Floats) -> int:
    hits = 0
    axes.axhline(0, color="#666666", lw=0.8)
    for place, values in enumerate(experiments):
        found = student_t(values)
        if found.value is None or found.low is None or found.high is None:
            continue
        holds = found.low <= 0 <= found.high
        hits += holds
        colour = COLOURS[0] if holds else LOUD
        axes.plot([place] * 2, [found.low, found.high], color=colour, lw=1.2)
        axes.plot([place], [found.value], "o" if holds else "s", color=colour, ms=2.5)
    return hits
