"""Draw a chain as a waterfall: when each part begins and how long it takes, on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.flow.chain_parts import part_in_words
from roslens.analysis.flow.chains import ChainInstances, mean_parts
from roslens.analysis.reports.numbers import counted, significant
from roslens.analysis.timeline.journey import Journey
from roslens.recording.text import shown


@dataclass(frozen=True)
class _Bar:
    label: str
    begin_ms: float
    duration_ms: float
    hop: int


def _bars(bars: Sequence[_Bar], axis: str) -> Figure:
    """Draw one bar below the other, each with its duration, a colour per hop."""
    figure = style.new_figure(0.9 + 0.24 * len(bars))
    axes = figure.subplots()
    axes.barh(
        range(len(bars)),
        [bar.duration_ms for bar in bars],
        left=[bar.begin_ms for bar in bars],
        color=[style.colour(bar.hop) for bar in bars],
        edgecolor=[style.colour(bar.hop) for bar in bars],  # so that the shortest is seen
        height=0.7,
    )
    for row, bar in enumerate(bars):
        axes.annotate(
            significant(bar.duration_ms, 3), (bar.begin_ms + bar.duration_ms, row), (4, 0),
            textcoords="offset points", va="center", fontsize=8,
        )  # fmt: skip
    axes.margins(x=0.08)
    axes.set_xlim(left=0)
    style.rows(axes, [shortened(bar.label) for bar in bars], axis)
    return figure


def shortened(text: str, most: int = 60) -> str:
    """Shorten a label to `most` characters by leaving out its middle."""
    text = shown(text)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


@style.styled
def chain_waterfall(found: ChainInstances) -> Plot:
    """Draw one bar per part, from the chain's begin to its end.

    Parameters
    ----------
    found
        Instances of a chain, at least one of them complete.
    """
    parts = mean_parts(found)
    told = parts.drop_nulls(["begin_ms", "duration_ms"])
    bars = [
        _Bar(f"{r['topic']}  {part_in_words(r['part'])}", r["begin_ms"], r["duration_ms"], r["hop"])
        for r in told.iter_rows(named=True)
    ]
    together = found.within_clocks(found.complete["latency_ns"].mean())  # type: ignore[arg-type]
    whole = "" if together is None else f"; together {significant(together / 1e6, 3)} ms"
    untold = parts.height - told.height
    apart = (
        f"; {counted(untold, 'part')} not drawn: the clocks of hosts may be more than half as far "
        "apart"
    )
    reached = found.complete.height
    stopped = found.instances.height - reached - found.untold
    unsure = f" Of {found.untold:,} that is not known." if found.untold else ""
    return Plot(
        _bars(bars, "time since the chain's begin [ms]"),
        f"{found.chain}: the parts of {reached:,} complete instances, mean{whole}"
        f"{apart if untold else ''}. {stopped:,} more did not reach the end.{unsure} "
        "A colour per hop.",
    )


@style.styled
def journey_waterfall(way: Sequence[Journey]) -> Plot:
    """Draw one message's way, with what led to it and followed: a bar per part and its time.

    Parameters
    ----------
    way
        Journeys in order of time, at least one, each with at least one hop.
    """
    begin = min(hop.begin_ns for journey in way for hop in journey.hops)
    end = max(hop.end_ns for journey in way for hop in journey.hops)
    bars = [
        _Bar(f"{journey.topic}  {hop.name}", (hop.begin_ns - begin) / 1e6,
             hop.duration_ns / 1e6, number)
        for number, journey in enumerate(way)
        for hop in journey.hops
    ]  # fmt: skip
    path = " -> ".join(
        [way[0].publisher_node, *(name for j in way for name in (j.topic, j.subscription_node))]
    )
    return Plot(
        _bars(bars, "time since the first publication [ms]"),
        f"{path}: one message on each topic, part by part, together "
        f"{significant((end - begin) / 1e6, 3)} ms from publish to callback_end. A colour per "
        "message.",
    )
