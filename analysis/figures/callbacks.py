"""Figure of callback durations."""

from __future__ import annotations

import polars as pl

from roslens.analysis.figures.style import (
    Plot,
    colour,
    finish,
    new_figure,
    plain_numbers,
    styled,
    wrapped,
)
from roslens.analysis.measures.samples import INFRASTRUCTURE

_MOST = 30


@styled
def durations_plot(durations: pl.DataFrame) -> Plot:
    """P50, P90, P99 and maximum per callback and cell; from `callbacks.durations`."""
    known = durations.filter(
        pl.col("p50_ns").is_not_null()
        & ~pl.col("name").is_in(INFRASTRUCTURE).fill_null(value=False)
    )
    shown = known.sort("max_ns", descending=True).head(_MOST).sort("kind", "name", "node", "cell")
    figure = new_figure(1.0 + 0.42 * max(shown.height, 2))
    axes = figure.subplots()
    kinds = {kind: i for i, kind in enumerate(("subscription", "timer", "service", None))}
    labels = []
    floor = 1e-4  # 0.1 us: a logarithmic axis has no zero
    for y, row in enumerate(shown.iter_rows(named=True)):
        c = colour(kinds[row["kind"]])
        p50, p90, p99, top = (
            max(row[k] / 1e6, floor) for k in ("p50_ns", "p90_ns", "p99_ns", "max_ns")
        )
        axes.plot([p50, top], [y, y], "-", lw=0.8, color=c, alpha=0.6)
        axes.plot([p50, p99], [y, y], "-", lw=2.0, color=c, alpha=0.6)
        axes.plot([p50, p90], [y, y], "-", lw=4.5, color=c, solid_capstyle="butt")
        axes.plot([p50], [y], "o", ms=6, color=c)
        axes.plot([top], [y], "|", ms=8, color=c)
        labels.append(f"{row['kind'] or '?'} {row['name'] or '?'}\n{wrapped(row['cell'], 48)}")
    axes.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set(xscale="log", xlabel="duration [ms]")
    plain_numbers(axes)
    axes.grid(visible=False, axis="y")
    finish(axes)
    hidden = known.height - shown.height
    return Plot(
        figure,
        f"Durations of {int(known['count'].sum()):,} callback executions: dot P50, bars to P90 "
        f"and P99, tick the longest; without those of {' and '.join(INFRASTRUCTURE)}. "
        + (
            f"The {shown.height} with the longest maximum; {hidden} more are not drawn. "
            if hidden
            else ""
        )
        + "From callback_start to callback_end in one thread, all runs of a cell together.",
    )
