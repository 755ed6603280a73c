"""Draw a trend: each night with its interval, the levels, and where they changed."""

from __future__ import annotations

import math

import matplotlib.dates as mdates
from matplotlib.axes import Axes

from roslens.analysis.estimate import cell_label
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.numbers import shown_unit, significant
from roslens.analysis.verdicts.trend import Series, Trends
from roslens.recording.arrays import np

_MOST_PANELS = 12
_MOST_SOFTWARE = 3


@style.styled
def trend_plot(trends: Trends) -> Plot:
    """Draw one panel per series."""
    shown = trends.series[:_MOST_PANELS]
    figure = style.new_figure(0.6 + 2.3 * max(1, len(shown)))
    rows = figure.subplots(max(1, len(shown)), 1, squeeze=False)[:, 0]
    for axes, series in zip(rows, shown, strict=False):
        _panel(axes, series)
    left = len(trends.series) - len(shown)
    more = f" {left} further series are not drawn." if left > 0 else ""
    return Plot(
        figure,
        "Mean of each campaign over its runs, with its 95 % interval where it has three or more; "
        "lines are the levels between changes. Triangles are campaigns far from their level, which "
        "count less; with a number, beyond the picture. A set of series without any change would "
        f"show one with probability {trends.false_alarms:g} at most.{more}",
    )


def _panel(axes: Axes, series: Series) -> None:
    factor, unit = shown_unit(series.unit)
    times = mdates.date2num([night.start for night in series.nights])  # type: ignore[no-untyped-call]
    means = np.array([np.mean(night.values) for night in series.nights]) * factor
    near = [n for n in range(len(times)) if n not in series.odd]
    for time, night in ((times[n], series.nights[n]) for n in near):
        interval = night.interval
        if interval.low is not None and interval.high is not None:
            axes.plot(
                [time, time],
                [interval.low * factor, interval.high * factor],
                color=style.FAINT,
                lw=1.2,
            )
    axes.plot(times[near], means[near], "o", ms=3.5, color=style.COLOURS[0])
    # A series that is too short has no levels.
    ends = [*(begin for begin, _ in series.levels), len(times)][1:]
    for (begin, mean), end in zip(series.levels, ends, strict=True):
        span = [times[begin], times[end - 1]]
        axes.plot(span, [mean * factor] * 2, "-", color=style.COLOURS[6], lw=1.4)
    bottom, top = axes.get_ylim()
    for n in series.odd:
        high, place = means[n] > top, float(np.clip(means[n], bottom, top))
        axes.plot(times[n], place, "^" if high else "v", ms=6, color=style.LOUD)
        if place != means[n]:
            text, shift = significant(float(means[n])), (5, -9 if high else 3)
            axes.annotate(
                text,
                (times[n], place),
                shift,
                textcoords="offset points",
                fontsize=7.5,
                color=style.LOUD,
            )
    axes.set_ylim(bottom, top)
    for change in series.changes:
        colour = style.LOUD if change.verdict == "regression" else style.COLOURS[2]
        place = (times[change.index - 1] + times[change.index]) / 2
        axes.axvline(place, color=colour, lw=1.4, ls="--")
        ratio = change.effect.value if change.effect is not None else math.inf
        text = f" {100 * (ratio - 1):+.1f} %" if math.isfinite(ratio) else " from 0"
        lines = [text, *(f" {name}" for name, _, _ in change.software[:_MOST_SOFTWARE])]
        axes.text(place, top, "\n".join(lines), fontsize=7.5, color=colour, va="top")
    axes.set_title(style.wrapped(f"{series.metric}: {cell_label(series.cell)}", 90))
    axes.set_ylabel(unit)
    locator = mdates.AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
