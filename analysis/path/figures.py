"""Plot where the time of late messages went."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.style import FAINT, colour
from roslens.analysis.path.kinds import KINDS
from roslens.analysis.path.late import Late
from roslens.analysis.reports.numbers import counted
from roslens.recording.arrays import np
from roslens.recording.text import shown

MOST_DRAWN = 12
_LEAST_SEEN = 0.002
"""Least part of all drawn time that a kind needs for an entry in the legend."""
_LOOKS = {
    "publishing": (colour(0), ""), "transport": (colour(5), ""), "queue": (colour(4), ""),
    "callback_group": (colour(1), ""), "executor": (colour(2), ""), "lock": (colour(3), ""),
    "preempted": (colour(1), "////"), "interrupt": (colour(4), "////"),
    "futex": (colour(3), "////"), "syscall": (colour(0), "////"),
    "page_fault": (colour(2), "////"), "disk": (colour(5), "////"), "throttled": (colour(6), ""),
    "running": (FAINT, ""), "transport_or_waiting": (colour(5), "...."),
    "unexplained": (FAINT, "////"),
}  # fmt: skip
"""Colour and hatch of each kind."""


@style.styled
def causes_plot(late: Sequence[Late]) -> Plot:
    """Plot one bar per topic and node: mean excess of its late messages [ms], by cause.

    Parameters
    ----------
    late
        Late messages of each run; at least one message in all.
    """
    bars: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in late:
        names = run.messages.select("topic", "subscription_node").rows()
        for (topic, node), excess in zip(names, run.excess, strict=True):
            bars.setdefault((topic or "?", node or "?"), []).append(excess / 1e6)
    means = {name: np.mean(rows, axis=0) for name, rows in bars.items()}
    longest = sorted(means, key=lambda name: -means[name].sum())
    drawn = longest[:MOST_DRAWN]
    figure = style.new_figure(1.3 + 0.46 * len(drawn))
    axes = figure.subplots()
    total = np.sum([means[name] for name in drawn], axis=0)
    least = _LEAST_SEEN * total.sum()
    causes = [kind for kind, ms in zip(KINDS, total, strict=True) if ms > least]
    for row, name in enumerate(drawn):
        at = 0.0
        for kind, ms in zip(KINDS, means[name], strict=True):
            if ms > 0:
                _draw_segment(axes, row, kind, at, float(ms))
                at += float(ms)
        axes.annotate(counted(len(bars[name]), "message"), (at, row), (4, 0),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    labels = [style.wrapped(f"{shown(topic)} at {shown(node)}", 40) for topic, node in drawn]
    _finish(figure, axes, labels, causes, "beyond the usual, mean of the late messages [ms]")
    return Plot(
        figure,
        "What late messages took beyond the usual from publish to callback_end, by cause; a "
        f"bar for each topic and node that receives it, of {counted(len(late), 'run')}.",
        left_out=style.left_out(len(drawn), len(longest), "bars", ", the longest"),
    )


@style.styled
def path_plot(late: Sequence[Late]) -> Plot:
    """Plot the path of the worst messages, one bar each: segments since publication [ms].

    Parameters
    ----------
    late
        Late messages of each run; at least one message in all.
    """
    messages = [(by, number, run) for run in late for number, by in enumerate(run.late_by)]
    drawn = sorted(messages, key=lambda entry: -entry[0])[:MOST_DRAWN]
    figure = style.new_figure(1.3 + 0.3 * len(drawn))
    axes = figure.subplots()
    spent = np.sum([run.spent[number] for _, number, run in drawn], axis=0)
    kinds = [kind for kind, ns in zip(KINDS, spent, strict=True) if ns > _LEAST_SEEN * spent.sum()]
    labels = []
    for row, (by, number, run) in enumerate(drawn):
        path = run.path.filter(pl.col("message") == number)
        message = run.messages.row(number, named=True)
        for kind, begin, ns in path.select("kind", "begin_ns", "duration_ns").iter_rows():
            _draw_segment(axes, row, kind, (begin - message["publish_ns"]) / 1e6, ns / 1e6)
        axes.vlines((message["latency_ns"] - by) / 1e6, row - 0.45, row + 0.45, color="black")
        labels.append(f"{shown(message['topic'] or '?')} {message['message_id']}")
    _finish(figure, axes, labels, kinds, "since publish [ms]")
    return Plot(
        figure,
        "The worst messages from publish to callback_end, by what went on; beyond its black "
        "line each was late.",
        left_out=style.left_out(len(drawn), len(messages), "messages"),
    )


def _draw_segment(axes: Axes, row: int, kind: str, begin_ms: float, ms: float) -> None:
    fill, hatch = _LOOKS[kind]
    axes.barh(row, ms, left=begin_ms, height=0.62, color=fill, hatch=hatch, edgecolor="white",
              linewidth=0)  # fmt: skip


def _finish(
    figure: Figure, axes: Axes, labels: Sequence[str], kinds: Collection[str], axis: str
) -> None:
    style.rows(axes, labels, axis)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    patches = [
        Patch(facecolor=_LOOKS[kind][0], hatch=_LOOKS[kind][1], edgecolor="white",
              label=kind.replace("_", " "))
        for kind in KINDS if kind in kinds
    ]  # fmt: skip
    style.legend_above(figure, patches)
