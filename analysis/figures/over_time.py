"""Draw figures over time: single values as dots, latencies and outcomes of messages."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.colors import LogNorm

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.style import new_figure, plain_numbers, styled
from roslens.analysis.reports.numbers import counted
from roslens.recording.arrays import Floats, Ints, np

OUTCOMES: Mapping[str, str] = {
    "delivered": style.COLOURS[0],
    "taken": style.COLOURS[5],
    "lost": style.LOUD,
    "replaced": style.COLOURS[4],
    "overwritten": style.COLOURS[3],
    "not_matched": style.COLOURS[6],
    "unknown": style.FAINT,
}


@style.styled
def dots_over_time(
    seconds: pl.Series,
    values_ns: pl.Series,
    what: str,
    since: str,
    caption: str,
    *,
    median_ns: float | None,
) -> Plot:
    """Draw single values at the times when they began, and their median as a line, if known.

    Parameters
    ----------
    seconds, values_ns
        Time and value of each, shape (n,); an unknown value is null, at least one is known.
    what, since
        Words for the axes: ``latency`` since ``the first instance``.
    """
    figure = style.new_figure(2.6)
    axes = figure.subplots()
    known = values_ns.drop_nulls().to_numpy() / 1e6
    axes.set_yscale("log")
    if known.min() == known.max() > 0:  # Nothing else gives the axis a length.
        axes.set_ylim(known[0] / 2, known[0] * 2)
    axes.plot(seconds, values_ns / 1e6, ".", ms=2.5, color=style.colour(0), alpha=0.5)
    axes.set(xlabel=f"time since {since} [s]", ylabel=f"{what} [ms]")
    style.plain_numbers(axes, "y")
    if median_ns is not None:
        axes.axhline(median_ns / 1e6, color=style.FAINT, zorder=1)
    return Plot(figure, caption)


@style.styled
def outcomes_over_time(messages: pl.DataFrame, title: str) -> Plot:
    """Draw how many messages had which outcome, by time of publication.

    Parameters
    ----------
    messages
        ``since_ns`` and ``outcome``; at least one row with both.
    title
        Name of the messages, for the caption.
    """
    complete = messages.drop_nulls(["since_ns", "outcome"])
    counts = dict(complete["outcome"].value_counts().iter_rows())
    shown = [name for name in OUTCOMES if name in counts]
    seconds = [
        (complete.filter(pl.col("outcome") == n)["since_ns"] / 1e9).to_numpy() for n in shown
    ]
    figure = style.new_figure(2.6)
    axes = figure.subplots()
    if shown:
        colours, labels = [OUTCOMES[n] for n in shown], [f"{n} ({counts[n]:,})" for n in shown]
        axes.hist(seconds, bins=80, stacked=True, color=colours, linewidth=0, label=labels)
    axes.set(xlabel="time since the run's first publication [s]", ylabel="messages")
    style.legend_above(figure)
    return Plot(figure, f"{title}: what became of messages, by time of publication, all runs.")


_MOST_COLUMNS = 120
_ROWS = 40


@styled
def latency_heat(since_ns: Ints, latency_ns: Floats, since: str, title: str) -> Plot:
    """Draw messages by time of publication and latency (logarithmic).

    Parameters
    ----------
    since_ns, latency_ns
        Time of publication and latency of each delivered message, shape (n,), n > 0.
    since
        Words for the zero of the time: ``the first message``.
    title
        Name of the messages, for the caption.
    """
    seconds = since_ns / 1e9
    begin, end = float(seconds.min()), float(seconds.max())
    milliseconds = np.maximum(latency_ns, 1) / 1e6
    columns = int(np.clip(seconds.size / 20, 10, _MOST_COLUMNS))
    low, high = float(milliseconds.min()), float(milliseconds.max())
    rows = np.geomspace(low * 0.98, high * 1.02, _ROWS + 1)
    counts, times, edges = np.histogram2d(
        seconds,
        milliseconds,
        bins=(np.linspace(begin, end if end > begin else begin + 1.0, columns + 1), rows),
    )
    figure = new_figure(2.8)
    axes = figure.subplots()
    shown = np.ma.masked_equal(counts.T, 0)
    mesh = axes.pcolormesh(
        times, edges, shown, cmap="cividis", norm=LogNorm(1, max(2.0, float(counts.max())))
    )
    axes.set_yscale("log")
    plain_numbers(axes, "y")
    axes.set(xlabel=f"time since {since} [s]", ylabel="latency [ms]")
    axes.grid(visible=False)
    bar = figure.colorbar(mesh, ax=axes, label="messages", pad=0.01)
    plain_numbers(bar.ax, "y")
    return Plot(
        figure,
        f"{title}: {counted(seconds.size, 'delivered message')} by time of publication and "
        "latency (publish to callback_start), both in equal steps, latency logarithmic.",
    )
