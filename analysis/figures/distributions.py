"""Draw the distribution of latency: ECDF, and CCDF on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from matplotlib.axes import Axes

from roslens.analysis.estimate import telling_factors
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.samples import RunSamples
from roslens.analysis.reports.numbers import counted
from roslens.analysis.runs import by_cell
from roslens.analysis.statistics.autocorrelation import effective_samples_of_quantile
from roslens.analysis.statistics.distributions import Distribution, distribution, tail_limit, thin
from roslens.recording.arrays import Floats, np

SIDE_BY_SIDE = 6
"""Most cells that are distinguished by colour; more cells get a panel each."""

_MOST_PANELS = 24

DOTTED = "dotted where fewer than 20 effective samples lie beyond"
_AT_MOST = "fraction of messages at most so late"
_AT_LEAST = "fraction of messages at least so late"


@dataclass(frozen=True)
class _Cell:
    """All runs of a cell; below `limit` the tail of `whole` is thin evidence."""

    members: list[RunSamples]
    all_runs: Distribution
    limit: float

    def runs(self, most: int) -> list[Distribution]:
        return [thin(distribution(s.delivered_ns / 1e6), most) for s in self.members]


def distribution_plots(samples: Sequence[RunSamples], definition: str) -> list[Plot]:
    """Draw ECDF and log-log CCDF of delivered messages per cell: runs thin, whole cells bold.

    Without runs of which the clocks of the hosts forbid saying any latency; `samples` has at least
    one other. One figure if colours can distinguish the cells, else two with a panel
    per cell.
    """
    cells = [_cell(members) for members in by_cell([s for s in samples if s.is_told])]
    untold = sum(s.delivered_ns.size > 0 and not s.is_told for s in samples)
    if untold:
        definition += (
            f"; {untold} more run{'s are' if untold > 1 else ' is'} not drawn, as the clocks of "
            "the hosts may be more than half as far apart as the latencies are long"
        )
    if len(cells) <= SIDE_BY_SIDE:
        return [_side_by_side(cells, definition)]
    return [_panels(cells, definition, tail=False), _panels(cells, definition, tail=True)]


def _cell(members: list[RunSamples]) -> _Cell:
    return _Cell(members, *together([s.delivered_ns for s in members]))


def together(runs: Sequence[Floats]) -> tuple[Distribution, float]:
    """Return the distribution (ms) of all runs' times (ns), and where its tail gets thin."""
    effective = sum(effective_samples_of_quantile(times, 0.9) for times in runs)
    return thin(distribution(np.concatenate(runs) / 1e6)), tail_limit(effective)


@style.styled
def _side_by_side(cells: Sequence[_Cell], definition: str) -> Plot:
    figure = style.new_figure(4.3)
    left, right = figure.subplots(1, 2)
    for index, cell in enumerate(cells):
        for steps in cell.runs(2000):
            ecdf(left, steps, style.colour(index), 0.6, 0.35)
            ccdf(right, steps, style.colour(index), 0.6, 0.35)
        ecdf(left, cell.all_runs, style.colour(index), 1.8, 1.0)
        ccdf(right, cell.all_runs, style.colour(index), 1.8, 1.0, limit=cell.limit)
    _label_ecdf(left)
    _label_ccdf(right)
    style.legend_of(figure, [cell.members[0].run.label for cell in cells], lw=1.8)
    return Plot(figure, _caption(cells, definition))


@style.styled
def _panels(cells: Sequence[_Cell], definition: str, *, tail: bool) -> Plot:
    shown = cells[:_MOST_PANELS]
    columns = 4
    rows = math.ceil(len(shown) / columns)
    figure = style.new_figure(0.6 + 2.2 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    telling = telling_factors([cell.members[0].run.cell for cell in cells])
    background = [thin(cell.all_runs, 300) for cell in shown]
    draw = ccdf if tail else ecdf
    for panel, cell in zip(grid.flat, shown, strict=False):
        for other in background:
            draw(panel, other, style.FAINT, 0.5, 0.3)
        for steps in cell.runs(500):
            draw(panel, steps, style.colour(0), 0.6, 0.4)
        if tail:
            ccdf(panel, cell.all_runs, style.colour(0), 1.8, 1.0, limit=cell.limit)
        else:
            ecdf(panel, cell.all_runs, style.colour(0), 1.8, 1.0)
    # Panels share their axes: one is labelled for all.
    _label_ccdf(grid[0][0]) if tail else _label_ecdf(grid[0][0])
    low, high = grid[0][0].get_xlim()
    if math.ceil(math.log10(low)) <= math.floor(math.log10(high)):
        # Minor ticks take most of the drawing time, and beside a power of ten need not be seen.
        for panel in grid.flat:
            panel.minorticks_off()
    for panel, cell in zip_longest(grid.flat, shown):
        panel.set(xlabel="", ylabel="")
        panel.set_visible(cell is not None)
        levels = {k: cell.members[0].run.cell.get(k, "-") for k in telling} if cell else {}
        title = "\n".join(style.wrapped(f"{k}={v}", 28) for k, v in levels.items())
        panel.set_title(title, fontsize=7.5, fontweight="normal")
    figure.supxlabel("latency [ms]", fontsize=9.5)
    figure.supylabel(_AT_LEAST if tail else _AT_MOST, fontsize=9.5)
    caption = _caption(cells, definition)
    return Plot(
        figure,
        f"{'CCDF' if tail else 'ECDF'}. {caption} Grey: the other cells.",
        left_out=style.left_out(len(shown), len(cells), "cells", "; the tables have all"),
    )


def ecdf(axes: Axes, steps: Distribution, color: str, width: float, alpha: float) -> None:
    """Draw the fraction of samples that are at most so late."""
    x = np.concatenate([steps.values[:1], steps.values])
    y = np.concatenate([[0.0], steps.at_most])
    axes.step(x, y, where="post", color=color, lw=width, alpha=alpha)


def ccdf(
    axes: Axes,
    steps: Distribution,
    color: str,
    width: float,
    alpha: float,
    *,
    limit: float | None = None,
) -> None:
    """Draw the fraction of samples that are at least so late, dotted below `limit`."""
    x, y = steps.values, steps.at_least
    if x.size == 1:  # No line: all samples took the same time.
        axes.plot(x, y, ".", color=color, alpha=alpha)
        return
    if limit is None:
        axes.step(x, y, where="pre", color=color, lw=width, alpha=alpha)
        return
    supported = int(np.searchsorted(-y, -limit, side="right"))
    axes.step(x[:supported], y[:supported], where="pre", color=color, lw=width, alpha=alpha)
    beyond = slice(max(0, supported - 1), None)
    axes.step(x[beyond], y[beyond], where="pre", color=color, lw=width * 0.7, ls=":", alpha=alpha)


def _label_ecdf(axes: Axes) -> None:
    axes.set(
        xscale="log",
        xlabel="latency [ms]",
        ylabel=_AT_MOST,
        title="ECDF",
        ylim=(0, 1.01),
    )
    style.plain_numbers(axes)


def _label_ccdf(axes: Axes) -> None:
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="latency [ms]",
        ylabel=_AT_LEAST,
        title="CCDF (the tail)",
    )
    style.plain_numbers(axes)
    style.plain_numbers(axes, "y")


def _caption(cells: Sequence[_Cell], definition: str) -> str:
    runs = sum(len(cell.members) for cell in cells)
    count = sum(cell.all_runs.samples for cell in cells)
    return (
        f"Latency of {counted(count, 'delivered message')} in {counted(runs, 'run')}; thin: each "
        f"run, bold: all runs of a cell together, {DOTTED}. {style.sentence(definition)}"
    )
