"""Figures over the time since a run began: single values as dots, and what became of messages."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.lines import Line2D

from roslens.analysis.figures.style import (
    COLOURS,
    FAINT,
    LOUD,
    Plot,
    colour,
    finish,
    legend_above,
    new_figure,
    plain_numbers,
    styled,
)
from roslens.analysis.statistics.quantiles import quantile

_OUTCOMES: Mapping[str, str] = {
    "delivered": COLOURS[0],
    "taken": COLOURS[5],
    "lost": LOUD,
    "replaced": COLOURS[4],
    "overwritten": COLOURS[3],
    "not_matched": FAINT,
    "unknown": FAINT,
}


@styled
def dots_over_time(
    seconds: pl.Series, values_ns: pl.Series, what: str, since: str, caption: str
) -> Plot:
    """Single values when they began, and their median as a line.

    Parameters
    ----------
    seconds, values_ns
        Of each, shape (n,), a value null where there is none; at least one is known.
    what, since
        Of the axes: ``latency`` since ``the first instance``.
    """
    figure = new_figure(2.6)
    axes = figure.subplots()
    axes.plot(seconds, values_ns / 1e6, ".", ms=2.5, color=colour(0), alpha=0.5)
    axes.set(yscale="log", xlabel=f"time since {since} [s]", ylabel=f"{what} [ms]")
    plain_numbers(axes, "y")
    finish(axes)
    axes.axhline(quantile(values_ns.drop_nulls().to_numpy(), 0.5) / 1e6, color=FAINT)
    return Plot(figure, caption)


@styled
def outcomes_over_time(messages: pl.DataFrame, title: str) -> Plot:
    """How many messages became of which outcome, by time of publication.

    Parameters
    ----------
    messages
        ``since_ns`` and ``outcome``; at least one row with both.
    title
        What they are, for the caption.
    """
    known = messages.drop_nulls(["since_ns", "outcome"])
    counts = dict(known["outcome"].value_counts().iter_rows())
    shown = [name for name in _OUTCOMES if name in counts]
    seconds = [(known.filter(pl.col("outcome") == n)["since_ns"] / 1e9).to_numpy() for n in shown]
    figure = new_figure(2.6)
    axes = figure.subplots()
    if shown:
        axes.hist(seconds, bins=80, stacked=True, color=[_OUTCOMES[n] for n in shown], linewidth=0)
    axes.set(xlabel="time since the run's first publication [s]", ylabel="messages")
    finish(axes)
    handles = [
        Line2D([], [], lw=5, color=_OUTCOMES[name], label=f"{name} ({counts[name]:,})")
        for name in shown
    ]
    legend_above(figure, handles)
    return Plot(figure, f"{title}: what became of messages, by time of publication, all runs.")
