"""Plot chains: where the time goes, and how response times are distributed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from roslens.analysis.chains.estimates import FollowedChain
from roslens.analysis.figures import style
from roslens.analysis.figures.distributions import DOTTED, ccdf, ecdf, together
from roslens.analysis.figures.over_time import dots_over_time
from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.waterfall import shortened
from roslens.analysis.flow.chains import ChainInstances, mean_parts
from roslens.analysis.statistics.quantiles import mean_quantile_over_runs, quantile

MOST_DRAWN = 8
_PLOT_WIDTH, _LETTER = 0.6, 0.065
"""The least part of a figure's width that the axes have; inches that a letter of 7 points takes."""
_KINDS = {
    "callback": ("in callbacks", 0),
    "transport": ("transport, and waiting for the executor", 4),
    "held": ("held until a declared publication", 3),
    "other": ("publishing, taking, dispatching", 5),
}


def kind_of_part(part: str) -> str:
    """Return the key of `_KINDS` for a part; joined parts count as the first that is known."""
    names = part.split("+")
    return next((name for name in ("transport", "held", "callback") if name in names), "other")


@style.styled
def where_time_goes(bars: Sequence[tuple[str, ChainInstances]]) -> Plot:
    """Plot mean response times by kind of part, with the P99 as a mark: a bar each, longest first.

    Parameters
    ----------
    bars
        Chains in one cell each, by name, with complete instances; at most `MOST_DRAWN` are drawn.
    """
    ranked = sorted(bars, key=lambda bar: -_mean_ns(bar[1]))
    drawn = ranked[:MOST_DRAWN]
    names = [style.wrapped(shortened(name, 110), 46) for name, _ in drawn]
    lines = max(name.count("\n") for name in names)
    figure = style.new_figure(1.1 + (0.46 + 0.12 * lines) * len(drawn))
    axes = figure.subplots()
    used: set[str] = set()
    labels: list[tuple[float, int, float, str, str]] = []
    for row, (_, instances) in enumerate(drawn):
        at = 0.0
        for part in mean_parts(instances).iter_rows(named=True):
            kind = kind_of_part(part["part"])
            used.add(kind)
            axes.barh(
                row, part["duration_ms"], left=at, height=0.62, color=style.colour(_KINDS[kind][1]),
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
            name = part["node"] if kind in ("callback", "held") else part["topic"]
            labels.append((at, row, part["duration_ms"], name or "", kind))
            at += part["duration_ms"]
        p99 = mean_quantile_over_runs(instances.times_of_runs(), 0.99)
        if p99 is not None:
            axes.plot([p99 / 1e6] * 2, [row - 0.36, row + 0.36], color="black", lw=2)
    style.rows(axes, names, "mean time since the chain's first publication [ms]")
    axes.set_xlim(left=0)
    axes.margins(x=0.04)
    inches = figure.get_figwidth() * _PLOT_WIDTH / axes.get_xlim()[1]
    for at, row, width, name, kind in labels:
        text = shortened(name, 24)
        if len(text) * _LETTER < width * inches:
            axes.text(
                at + width / 2, row, text, ha="center", va="center", fontsize=7,
                color="white" if kind == "callback" else "black",
            )  # fmt: skip
    handles: list[Line2D | Patch] = [
        Patch(color=style.colour(index), label=label)
        for kind, (label, index) in _KINDS.items()
        if kind in used
    ]
    label = "P99, mean over runs (each of 299 or more)"
    handles.append(Line2D([], [], color="black", lw=2, label=label))
    style.legend_above(figure, handles)
    return Plot(
        figure,
        "Mean response time of each chain in each cell and the parts that it is made of, in order, "
        "over all instances that reached the end. Wide parts have their topic, in callbacks their "
        "node.",
        left_out=style.left_out(len(drawn), len(bars), "chains and cells", ", the slowest"),
    )


def _mean_ns(instances: ChainInstances) -> float:
    return float(instances.complete.select(pl.col("latency_ns").mean()).item())


@style.styled
def response_times_plot(chains: Sequence[FollowedChain]) -> Plot:
    """Plot the distribution of each chain's response times, for up to seven chains."""
    drawn = list(chains[:7])
    figure = style.new_figure(3.8)
    left, right = figure.subplots(1, 2)
    for index, chain in enumerate(drawn):
        runs = [times.to_numpy() for times in chain.instances.times_of_runs() if times.len()]
        steps, limit = together(runs)
        ecdf(left, steps, style.colour(index), 1.5, 1.0)
        ccdf(right, steps, style.colour(index), 1.5, 1.0, limit=limit)
    for axes, title in ((left, "ECDF"), (right, "CCDF (the tail)")):
        axes.set(xscale="log", xlabel="response time [ms]", title=title)
        style.plain_numbers(axes)
    left.set_ylabel("fraction of instances at most so late")
    right.set(yscale="log", ylabel="fraction of instances at least so late")
    style.plain_numbers(right, "y")
    style.legend_of(figure, [shortened(chain.named.name, 46) for chain in drawn], lw=1.8)
    count = sum(chain.instances.complete.height for chain in drawn)
    more = len(chains) - len(drawn)
    hidden = f" {more} faster chains are not drawn." if more else ""
    return Plot(
        figure,
        f"Response times of {count:,} instances, all runs together, {DOTTED}.{hidden}",
    )


def over_time_plot(chain: FollowedChain) -> Plot:
    """Plot each instance of one chain at its begin, and instances that did not reach the end."""
    instances = chain.instances.instances
    first = pl.col("begin_ns").min().over("run")
    return dots_over_time(
        instances.select((pl.col("begin_ns") - first) / 1e9).to_series(),
        instances["latency_ns"],
        "response time",
        "the first instance",
        f"{chain.named.name}: each instance when it began; the line: the median.",
        median_ns=quantile(instances["latency_ns"].drop_nulls().to_numpy(), 0.5),
    )
