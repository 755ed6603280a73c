"""Latency over time as a heat map: how many messages took how long, when."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from numpy.typing import NDArray

from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.style import new_figure, plain_numbers, styled

_MOST_COLUMNS = 120
_ROWS = 40


@styled
def latency_heat(
    publish_ns: NDArray[np.int64], latency_ns: NDArray[np.float64], title: str
) -> Plot:
    """Messages by time of publication and latency (logarithmic).

    Parameters
    ----------
    publish_ns, latency_ns
        Of each delivered message, shape (n,), n > 0.
    title
        What they are, for the caption.
    """
    seconds = (publish_ns - publish_ns.min()) / 1e9
    milliseconds = np.maximum(latency_ns, 1) / 1e6
    columns = int(np.clip(seconds.size / 20, 10, _MOST_COLUMNS))
    low, high = float(milliseconds.min()), float(milliseconds.max())
    rows = np.geomspace(low * 0.98, high * 1.02, _ROWS + 1)
    counts, times, edges = np.histogram2d(
        seconds, milliseconds, bins=(np.linspace(0, max(seconds.max(), 1e-9), columns + 1), rows)
    )
    figure = new_figure(2.8)
    axes = figure.subplots()
    shown = np.ma.masked_equal(counts.T, 0)
    mesh = axes.pcolormesh(
        times, edges, shown, cmap="cividis", norm=LogNorm(1, max(2.0, float(counts.max())))
    )
    axes.set_yscale("log")
    plain_numbers(axes, "y")
    axes.set(xlabel="time since the first message [s]", ylabel="latency [ms]")
    axes.grid(visible=False)
    bar = figure.colorbar(mesh, ax=axes, label="messages", pad=0.01)
    plain_numbers(bar.ax, "y")
    return Plot(
        figure,
        f"{title}: {seconds.size:,} delivered messages by time of publication and latency (publish "
        "to callback_start), both in equal steps, latency logarithmic.",
    )
