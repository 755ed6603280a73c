"""Plot executors: figures against the load, pairs as a grid, effects as a forest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from roslens.analysis.estimate import Estimate, cell_label, not_none
from roslens.analysis.figures import style
from roslens.analysis.figures.grid import column_headings, label_squares
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.numbers import shown_unit
from roslens.analysis.statistics.factorial import BY_BLOCK, FactorEffect
from roslens.analysis.verdicts.pairs import Pair

_COLUMNS = 3
_MOST_PANELS = 12
_MOST_PAIRS = 10
_WITH_INTERVAL = 6
"""Greatest number of columns with room for an interval in a square."""
_FEW_PAIRS = 2
"""Greatest number of pairs with room for an axis each."""
PAIR_COLOURS: Mapping[str, str] = {
    "more": style.LOUD,
    "less": "#0072B2",
    "no_difference": "#009E73",
    "not_enough_evidence": style.FAINT,
}


@style.styled
def load_plot(estimates: Sequence[Estimate], factor: str, load: str, title: str) -> Plot:
    """Plot one metric against the load, one line per executor, one panel per other condition.

    Parameters
    ----------
    estimates
        Estimates of one metric.
    factor
        Factor that distinguishes the lines.
    load
        Factor on the axis; one point per line where no factor is a load.
    """
    # Where the factor was not varied, there is one line without a name.
    levels = list(dict.fromkeys(str(e.cell.get(factor, "")) for e in estimates))
    panels: dict[str, list[Estimate]] = {}
    for e in estimates:
        rest = {k: v for k, v in e.cell.items() if k not in {factor, load}}
        panels.setdefault(cell_label(rest) if rest else "", []).append(e)
    shown = list(panels.items())[:_MOST_PANELS]
    columns = 2 if len(shown) == 4 else _COLUMNS
    lines = max(style.wrapped(label).count("\n") for label, _ in shown)
    figure, grid = style.panels(len(shown), columns, 2.2 + 0.13 * lines, 0.5, sharey=True)
    scale, unit = shown_unit(estimates[0].unit)
    drawn = [e for _, members in shown for e in members]
    high = _spans_decades(drawn)
    for axes, (label, members) in zip(grid.flat, shown, strict=False):
        _lines(axes, members, levels, (factor, load), scale)
        axes.set_title(style.wrapped(label), fontsize=7.5, fontweight="normal")
    # All panels share this axis.
    if high:
        grid[0][0].set_yscale("log")
        style.plain_numbers(grid[0][0], "y")
    else:
        grid[0][0].set_ylim(bottom=0)
    for row in grid:
        row[0].set_ylabel(f"{title} [{unit}]")
    loaded = any(_is_number(e, load) for e in estimates)
    for axes in grid.flat:
        if not loaded:
            axes.set_xticks([])
            axes.margins(x=0.5)
    for axes in grid[-1]:
        axes.set_xlabel(load if loaded else "")
    style.legend_of(figure, levels, marker="o")
    return Plot(
        figure,
        f"{title}: mean over runs with its {100 * estimates[0].level:g} % interval, "
        f"{sum(e.runs for e in drawn)} runs; hollow: no interval, the table says why. "
        f"{style.sentence(estimates[0].definition)}",
        left_out=style.left_out(len(shown), len(panels), "conditions", "; the table has all"),
    )


def _spans_decades(estimates: Sequence[Estimate]) -> bool:
    """Return whether a linear axis would flatten the smaller values."""
    values = [
        value
        for e in estimates
        for value in (e.value, e.low)
        if value is not None and math.isfinite(value)
    ]
    return bool(values) and min(values) > 0 and max(values) > 30 * min(values)


def _lines(
    axes: Axes,
    members: Sequence[Estimate],
    levels: Sequence[str],
    names: tuple[str, str],
    scale: float,
) -> None:
    factor, load = names
    loads = sorted({float(e.cell[load]) for e in members if _is_number(e, load)})
    wide = len(loads) > 1 and loads[0] > 0 and loads[-1] / loads[0] > 50
    if wide:
        axes.set_xscale("log")
        axes.set_xticks(loads, list(map(style.short, loads)))
        axes.minorticks_off()
    for index, level in enumerate(levels):
        points = sorted(
            (
                (float(e.cell[load]) if _is_number(e, load) else 0.0, e)
                for e in members
                if str(e.cell.get(factor, "")) == level and e.value is not None
                and math.isfinite(e.value)
            ),
            key=lambda point: point[0],
        )  # fmt: skip
        # Points are shifted apart, as intervals at one place would hide each other.
        aside = 1.06 ** (index - 1) if wide else 1.0
        span = loads[-1] - loads[0] if loads else 0.0
        nudge = 0.0 if wide else 0.02 * (index - 1) * (span or 1.0)
        xs = [x * aside + nudge for x, _ in points]
        ys = [not_none(e.value) * scale for _, e in points]
        axes.plot(xs, ys, "-", lw=1, color=style.colour(index), alpha=0.7)
        for x, y, (_, e) in zip(xs, ys, points, strict=True):
            shade, face = style.colour(index), "white"
            if e.low is not None and e.high is not None:
                axes.plot([x, x], [e.low * scale, e.high * scale], "-", lw=1.6, color=shade)
                face = shade
            axes.plot([x], [y], "o", ms=4, mfc=face, mec=shade)


def _is_number(estimate: Estimate, name: str) -> bool:
    value = estimate.cell.get(name)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@style.styled
def pairs_plot(found: Sequence[Pair], factor: str, most_rows: int = 40) -> Plot:
    """Plot the verdicts of all pairs: one row per condition and metric, one column per pair.

    Parameters
    ----------
    found
        Pairs in the order of the rows; the pairs that differ most make the columns.
    """
    row = partial(_row, averaged=_averaged(found))

    def column(p: Pair) -> tuple[str, str]:
        return str(p.level), str(p.reference)

    every = list(dict.fromkeys(map(row, found)))
    rows = every[:most_rows]
    farthest: dict[tuple[str, str], float] = {}
    for p in found:
        distance = 0.0 if p.ratio is None else abs(math.log(p.ratio))
        farthest[column(p)] = max(farthest.get(column(p), 0.0), distance)
    kept = sorted(farthest, key=lambda c: -farthest[c])[:_MOST_PAIRS]
    columns = [c for c in dict.fromkeys(column(p) for p in sorted(found, key=column)) if c in kept]
    labels = [f"{metric}  {style.wrapped(label, 30)}" for metric, label in rows]
    placed = [(columns.index(column(p)), rows.index(row(p)), p) for p in found
              if row(p) in rows and column(p) in columns]  # fmt: skip
    if len(columns) <= _FEW_PAIRS:
        heads = [f"{a} / {b}" for a, b in columns]
        return _forest(placed, labels, heads, f"{factor} {_range_text(found)}", len(every))
    intervals = len(columns) <= _WITH_INTERVAL
    heads = column_headings([f"{a}\n/ {b}" for a, b in columns])
    high = max(0.36 if intervals else 0.24, 0.14 * max(label.count("\n") + 1 for label in labels))
    figure = style.new_figure(
        high * len(rows) + 0.14 * max(head.count("\n") + 1 for head in heads) + 0.6
    )
    axes = figure.subplots()
    for x, y, p in placed:
        shade = PAIR_COLOURS[p.by_itself]
        sure = p.verdict == p.by_itself != "not_enough_evidence"
        axes.add_patch(
            Rectangle((x, y), 0.96, 0.9, color=shade, alpha=0.45 if sure else 0.15, lw=0)
        )
        text = "refused" if p.ratio is None else _ratio(p.ratio)
        if intervals and p.low is not None and p.high is not None:
            text += f"\n[{_ratio(p.low)}, {_ratio(p.high)}]"
        axes.text(
            x + 0.48, y + 0.45, text, ha="center", va="center", size=7, linespacing=1.1,
            fontweight="bold" if sure else "normal",
        )  # fmt: skip
    label_squares(axes, heads, labels)
    style.legend_of_squares(figure, PAIR_COLOURS)
    hidden = []
    if len(rows) < len(every):
        hidden.append(f"{len(rows)} of {len(every)} metrics and conditions")
    if len(columns) < len(farthest):
        hidden.append(f"the {len(columns)} of {len(farthest)} pairs that differ most")
    return Plot(
        figure,
        f"Ratio of each pair of levels of {factor} {_range_text(found)}"
        + (", with its interval. " if intervals else "; intervals are in pairs.csv. ")
        + "Pale: the verdict of the pair by itself; strong and bold: it stands after Holm's "
        "correction over all pairs of a metric.",
        left_out=f"Drawn are {' and '.join(hidden)}; pairs.csv has all." if hidden else "",
    )


def _forest(
    placed: Sequence[tuple[int, int, Pair]],
    labels: Sequence[str],
    heads: Sequence[str],
    factor: str,
    of_rows: int,
) -> Plot:
    """Plot few pairs: the ratios with their intervals, one axis per pair.

    Parameters
    ----------
    placed
        Panel and row of each pair, and the pair.
    labels, heads
        Labels of rows and headings of panels.
    factor
        Name of the factor, and conditions under which its levels are compared.
    of_rows
        Number of rows without the limit.
    """
    high = 0.14 * max(2, *(label.count("\n") + 2 for label in labels))
    figure = style.new_figure(high * len(labels) + 1.1)
    panels = figure.subplots(1, len(heads), sharey=True, squeeze=False)[0]
    for at, y, pair in placed:
        if pair.ratio is None:
            panels[at].text(1, y, "refused", ha="center", va="center", size=8, color="#666666")
            continue
        shade = PAIR_COLOURS[pair.by_itself]
        sure = pair.verdict == pair.by_itself != "not_enough_evidence"
        if pair.low is not None and pair.high is not None:
            panels[at].plot([pair.low, pair.high], [y, y], "-", lw=2.2, color=shade)
        face = shade if sure else "white"
        panels[at].plot([pair.ratio], [y], "s", ms=6, mec=shade, mfc=face)
    for axes, head in zip(panels, heads, strict=True):
        axes.axvline(1, color="black", lw=0.8)
        axes.set_xscale("log")
        style.plain_numbers(axes)
        style.rows(axes, labels, "ratio", 8)
        axes.set_title(style.wrapped(head, 60))
    style.legend_of_squares(figure, PAIR_COLOURS)
    return Plot(
        figure,
        f"Ratio of each pair of levels of {factor} with its interval. "
        "Hollow: the verdict of the pair by itself; filled: it stands after Holm's correction over "
        "all pairs of a metric.",
        left_out=style.left_out(
            len(labels), of_rows, "metrics and conditions", "; pairs.csv has all"
        ),
    )


def _row(p: Pair, averaged: Mapping[str, str]) -> tuple[str, str]:
    """Return metric and conditions of a pair, or the number of conditions of an average."""
    if p.over > 1:
        return p.metric, averaged[p.metric]
    return p.metric, cell_label(p.conditions) if p.conditions else ""


def _averaged(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the number of conditions in the averages, by metric."""
    over: dict[str, set[int]] = {}
    for p in pairs:
        if p.over > 1:
            over.setdefault(p.metric, set()).add(p.over)
    return {
        metric: f"{f'{min(counts)} to ' * (len(counts) > 1)}{max(counts)} conditions"
        for metric, counts in over.items()
    }


def _range_text(pairs: Sequence[Pair]) -> str:
    averages = {p.over > 1 for p in pairs}
    if averages == {True}:
        return "on average over conditions that have both"
    return f"{'on average over conditions, or ' * (True in averages)}within the same conditions"


def _ratio(value: float) -> str:
    """Return a ratio in few characters, to fit a square."""
    if value >= 9999:
        return ">9999"
    if value < 0.1:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return f"{value:.2f}" if value < 10 else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


@style.styled
def effects_plot(found: Sequence[FactorEffect], metric: str) -> Plot:
    """Plot main effects and interactions as ratios with intervals."""
    shown = [e for e in found if e.value is not None and e.low is not None and e.high is not None]
    figure = style.new_figure(0.26 * len(shown) + 0.9)
    axes = figure.subplots()
    for y, e in enumerate(shown):
        clear = e.p_holm is not None and e.p_holm <= 0.05
        shade = style.LOUD if clear else style.colour(0)
        axes.plot([not_none(e.low), not_none(e.high)], [y, y], "-", lw=2, color=shade)
        axes.plot([not_none(e.value)], [y], "o" if len(e.factors) == 1 else "D", ms=5, color=shade)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    style.plain_numbers(axes)
    style.rows(axes, [e.label for e in shown], f"ratio of {metric}", 8)
    count = max((e.replications for e in shown), default=0)
    blocks = "blocks" if any(e.method == BY_BLOCK for e in shown) else "runs"
    return Plot(
        figure,
        f"Effects on {metric}: ratio with its interval over {count} {blocks}; dots: main effects, "
        "over all levels of the other factors; diamonds: by how much the first factor's effect "
        "differs at the second's level; orange: clear after Holm's correction.",
    )
