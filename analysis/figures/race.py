"""Draw a race: how its interval shrank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.ticker import MaxNLocator

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.statistics.sequential import RatioInterval

_MOST_PANELS = 12
_MOST = 10.0
"""Largest ratio that is drawn: the first intervals can be of any width."""


@style.styled
def race_plot(
    intervals: Mapping[str, Sequence[RatioInterval]], metric: str, threshold: float | None
) -> Plot:
    """Draw the interval of B / A after each pair, a panel per cell, the threshold shaded.

    Parameters
    ----------
    intervals
        By label of a cell, the intervals after each pair, from the first on.
    """
    shown = list(intervals.items())[:_MOST_PANELS]
    figure = style.new_figure(0.8 + 2.6 * len(shown))
    for axes, (label, sequence) in zip(
        figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True
    ):
        bounded = [i for i in sequence if i.low > 0 and math.isfinite(i.high)]
        if threshold is not None:
            axes.axhspan(1 - threshold, 1 + threshold, color="#eeeeee", lw=0)
        axes.axhline(1, color="#666666", lw=0.8)
        places = [i.pairs for i in bounded]
        axes.vlines(
            places,
            [i.low for i in bounded],
            [i.high for i in bounded],
            color=style.COLOURS[0],
            lw=2,
        )
        axes.plot(
            [i.pairs for i in sequence], [i.value for i in sequence], ".", color=style.FAINT, ms=5
        )
        axes.plot(places, [i.value for i in bounded], "o", color=style.COLOURS[1], ms=3.5)
        ends = [
            1.0,
            *(bound for i in bounded for bound in (i.low, i.high)),
            *(i.value for i in sequence),
        ]
        axes.set_ylim(0.95 * min(ends), min(1.05 * max(ends), _MOST))
        axes.set_xlim(0.5, sequence[-1].pairs + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("pairs")
        axes.set_ylabel(f"{metric}, B / A")
        axes.set_title(style.wrapped(label, 110), fontsize=9)
    left = len(intervals) - len(shown)
    level = 100 * shown[0][1][-1].level
    return Plot(
        figure,
        f"B / A after each pair with its {level:.4g} % interval, which holds after every pair at "
        "once (confidence sequence); grey points: no interval is known yet"
        + ("." if threshold is None else f"; shaded: within the threshold of {threshold:.3g}."),
        left_out=f"{left} further cells are not drawn." if left else "",
    )
