"""Draw which functions a callback's CPU time goes to, as bars."""

from __future__ import annotations

import polars as pl
from matplotlib.patches import Patch

from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.style import COLOURS, FAINT, new_figure, styled, wrapped
from roslens.analysis.measures.stacks import LEAST_SHARE
from roslens.analysis.reports.numbers import counted

_MOST_ROWS = 25
_WIDTH = 60
_ALL = 0.995


@styled
def function_shares(shares: pl.DataFrame, callback: str, *, waits: bool = False) -> Plot:
    """Draw self and total share [%] of a callback's functions, the total's interval as a line.

    Parameters
    ----------
    shares
        From `roslens.analysis.measures.stacks.shares`, of one callback; at least one row.
    callback
        The callback in words, for the caption.
    waits
        Whether these are shares of the time in which the callback waits.
    """
    # Callers of the callback have all of its time.
    candidates = shares.filter((pl.col("total_share") < _ALL) | (pl.col("self_share") > 1 - _ALL))
    rows = candidates.sort("total_share", "self_share", descending=True).head(_MOST_ROWS)
    rows = rows.filter((pl.col("total_share") >= LEAST_SHARE) | (pl.int_range(pl.len()) == 0))
    figure = new_figure(1.2 + 0.27 * rows.height)
    axes = figure.subplots()
    places = range(rows.height)
    total, own = (100 * rows[column] for column in ("total_share", "self_share"))
    axes.barh(places, total, color=FAINT, height=0.7)
    axes.barh(places, own, color=COLOURS[0], height=0.7)
    axes.hlines(places, 100 * rows["low"], 100 * rows["high"], color="#333333", lw=1)
    axes.set_yticks(places, [wrapped(name, _WIDTH) for name in rows["function"]], fontsize=7)
    axes.set_ylim(rows.height - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"share of the callback's {'waiting' if waits else 'CPU'} time [%]")
    axes.grid(visible=False, axis="y")
    handles = [
        Patch(color=COLOURS[0], label="the function itself"),
        Patch(color=FAINT, label="and what it calls"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    about = rows.row(0, named=True)
    hidden = candidates.height - rows.height
    return Plot(
        figure,
        f"{callback}: {about['samples']:,} {'waits' if waits else 'samples'} in "
        f"{about['executions']:,} executions of "
        f"{counted(about['runs'], 'run')}; line: interval of the total "
        f"({about['method']}). Functions that all of it goes through are not drawn.",
        left_out=f"{hidden} functions with less are not drawn." if hidden > 0 else "",
    )
