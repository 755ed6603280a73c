"""A chain as a waterfall: when each part begins and how long it takes, on average."""

from __future__ import annotations

import polars as pl

from analysis.figures.plot import Plot
from analysis.figures.style import colour, finish, new_figure, styled
from analysis.flow.chain import run_keys
from analysis.flow.chains import ChainInstances
from analysis.reports.numbers import significant


def mean_parts(found: ChainInstances) -> pl.DataFrame:
    """The parts of a chain's complete instances in order, mean over instances.

    Returns
    -------
    polars.DataFrame
        ``hop``, ``topic``, ``node``, ``part``, ``begin_ms`` (since the instance's begin) and
        ``duration_ms``. Instances that lack a part count with 0 for it, so the durations add up to
        the mean latency.
    """
    count = found.complete.height
    instance = [*run_keys(found.hops), "instance", "hop"]
    return (
        found.hops.with_columns(place=pl.int_range(pl.len()).over(instance))
        .group_by("hop", "topic", "node", "part")
        .agg(pl.col("place").mean(), duration_ms=pl.col("duration_ns").sum() / count / 1e6)
        .sort("hop", "place", "part")
        .with_columns(begin_ms=pl.col("duration_ms").cum_sum() - pl.col("duration_ms"))
        .select("hop", "topic", "node", "part", "begin_ms", "duration_ms")
    )


@styled
def chain_waterfall(found: ChainInstances) -> Plot:
    """One bar per part, from the chain's begin to its end.

    Parameters
    ----------
    found
        With at least one complete instance.
    """
    parts = mean_parts(found)
    figure = new_figure(0.9 + 0.24 * parts.height)
    axes = figure.subplots()
    hops = parts["hop"].to_list()
    axes.barh(
        range(parts.height),
        parts["duration_ms"].to_list(),
        left=parts["begin_ms"].to_list(),
        color=[colour(hop) for hop in hops],
        edgecolor=[colour(hop) for hop in hops],  # so that the shortest is seen
        height=0.7,
    )
    for row, (begin, took) in enumerate(parts.select("begin_ms", "duration_ms").iter_rows()):
        axes.annotate(
            significant(took, 3), (begin + took, row), (4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    axes.margins(x=0.08)
    axes.set_xlim(left=0)
    labels = [f"{topic}  {part}" for topic, part in parts.select("topic", "part").iter_rows()]
    axes.set_yticks(range(parts.height), labels)
    axes.invert_yaxis()
    axes.set_xlabel("time since the chain's begin [ms]")
    axes.grid(visible=False, axis="y")
    finish(axes)
    reached = found.complete.height
    stopped = found.instances.height - reached
    return Plot(
        figure,
        f"{found.chain}: the parts of {reached:,} complete instances, mean; together "
        f"{significant(float(parts['duration_ms'].sum()), 3)} ms. {stopped:,} more did "
        "not reach the end. A colour per hop.",
    )
