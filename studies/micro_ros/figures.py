"""Draw the figures of the micro-ROS study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.statistics.distributions import distribution, thin
from roslens.recording.arrays import np
from roslens.studies.micro_ros.hops import HOPS, OF_DEVICE
from roslens.studies.micro_ros.lines import PhysicalLine, PrintedSum
from roslens.studies.micro_ros.slopes import KINDS, Slope
from roslens.studies.micro_ros.transports import TransportRun

_MARKERS = "osD^vP"
_COLUMNS = 4


@style.styled
def memory_plot(slopes: Sequence[Slope]) -> Plot:
    """Plot bytes against number of entities, a panel per entity, a colour per kind of memory."""
    entities = list(dict.fromkeys(s.entity for s in slopes))
    figure, grid = style.panels(len(entities), _COLUMNS, 2.8, 1.1, sharey=True)
    panels = list(grid.flat)
    for axes, entity in zip(panels, entities, strict=False):
        for slope in (s for s in slopes if s.entity == entity):
            _points(axes, slope, style.colour(_kind(slope.memory)))
        axes.set_title(style.wrapped(entity.replace("_", " "), 18))
        axes.set_xticks(range(0, int(max(axes.get_xlim())) + 1, 2))
    for row in grid:
        row[0].set_ylabel("memory [kB]")
    figure.supxlabel("number of entities", fontsize="medium")
    panels[0].set_ylim(0, 1.05 * max(float(s.values.max()) for s in slopes) / 1e3)
    kinds = [k for k in KINDS if any(s.memory == k for s in slopes)]
    handles = [
        Line2D([], [], marker="o", ms=4, color=style.colour(_kind(kind)), label=kind)
        for kind in kinds
    ]
    style.legend_above(figure, handles)
    first = slopes[0].estimate
    return Plot(
        figure,
        "Memory against the number of entities (1 kB = 1,000 B); lines are least squares, their "
        f"slopes with {100 * first.level:g} % intervals are in the table.",
    )


@style.styled
def history_plot(slope: Slope, claimed: float | None, name: str = "claimed") -> Plot:
    """Plot bytes against slots of the history, and the line that MTU x depth would give.

    Parameters
    ----------
    claimed
        Claimed bytes per slot; None where nothing is claimed.
    name
        Name of the claim.
    """
    figure = style.new_figure(3.1)
    left, right = figure.subplots(1, 2)
    _points(left, slope, style.colour(0))
    x = slope.counts
    # The line goes through the first point, as the claim is about the slope.
    if claimed is not None:
        left.plot(x, (slope.values[0] + claimed * (x - x[0])) / 1e3, "--", lw=1.2, color=style.LOUD)
        beyond = slope.values - slope.values[0] - claimed * (x - x[0])
        right.plot(x, beyond, "o-", ms=4, lw=1, color=style.colour(0))
        right.axhline(0, color=style.LOUD, lw=1.2, ls="--")
    left.set(xlabel="slots of the RMW history", ylabel=f"{slope.memory} memory [kB]")
    right.set(
        xlabel="slots of the RMW history", ylabel=f"beyond {claimed or 0:,.0f} B per slot [B]"
    )
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(0, int(x.max()) + 1, 2))
    handles = [
        Line2D([], [], marker="o", ms=4, color=style.colour(0), label="measured, least squares")
    ]
    if claimed is not None:
        handles.append(
            Line2D([], [], ls="--", color=style.LOUD, label=f"{name}: {claimed:,.0f} B per slot")
        )
    style.legend_above(figure, handles)
    return Plot(
        figure,
        "Memory against slots of the RMW history. Right: what is used beyond the first point plus "
        "that many bytes per slot; with a slope of zero a slot would take just them.",
    )


@style.styled
def throughput_plot(throughput: pl.DataFrame, lines: Mapping[str, PhysicalLine]) -> Plot:
    """Plot throughput against payload, one line per transport, physical limits dashed."""
    figure = style.new_figure(4.0)
    axes = figure.subplots()
    handles = []
    for index, ((name,), group) in enumerate(throughput.group_by("transport", maintain_order=True)):
        transport, c = str(name), style.colour(index)
        points = group.group_by("payload_bytes").agg(pl.col("bytes_per_s").mean())
        points = points.sort("payload_bytes")
        marker = _MARKERS[index % len(_MARKERS)]
        axes.plot(
            points["payload_bytes"].to_numpy(),
            points["bytes_per_s"].to_numpy() / 1e3,
            f"{marker}-",
            ms=5,
            lw=1.2,
            color=c,
        )
        axes.plot(
            group["payload_bytes"].to_numpy(),
            group["bytes_per_s"].to_numpy() / 1e3,
            marker,
            ms=3,
            color=c,
            alpha=0.5,
        )
        label = transport
        if transport in lines:
            limit = lines[transport].bytes_per_s / 1e3
            axes.axhline(limit, color=c, lw=1.2, ls="--")
            label += f" (dashed: its line carries {limit:,.4g} kB/s)"
        handles.append(Line2D([], [], marker=marker, ms=5, color=c, label=label))
    axes.set(xscale="log", yscale="log")
    low, high = axes.get_ylim()
    if high < 30 * low:
        axes.set_ylim(low / 3, high * 3)
    style.plain_numbers(axes, "y")
    sizes = sorted(throughput["payload_bytes"].unique())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="payload of a message [B]", ylabel="payload throughput [kB/s]")
    style.legend_above(figure, handles)
    return Plot(
        figure,
        "Payload bytes per second against payload size (1 kB = 1,000 B, bytes, not bits). Dashed: "
        "what the physical line carries at most, drawn where its rate is known.",
    )


@style.styled
def printed_latency_plot(sums: Sequence[PrintedSum]) -> Plot:
    """Plot both directions of each printed exchange as one stacked bar."""
    figure = style.new_figure(0.9 + 0.36 * len(sums))
    axes = figure.subplots()
    y = np.arange(len(sums))
    client = np.array([s.client_ns for s in sums]) / 1e6
    agent = np.array([s.agent_ns for s in sums]) / 1e6
    axes.barh(y, client, color=style.colour(0), height=0.6, label="board to agent")
    axes.barh(y, agent, left=client, color=style.colour(5), height=0.6, label="agent to board")
    trips = [s.rtt_ns / 1e6 for s in sums]
    axes.plot(trips, y, "|", ms=14, mew=2, color=style.LOUD, label="round trip")
    style.rows(axes, [s.transport for s in sums], "ms")
    style.legend_above(figure)
    return Plot(
        figure,
        "Latency by direction, one exchange per transport: there is no interval. Bar and mark "
        "agree by construction where agent to board was computed as round trip - board to agent.",
    )


def _points(axes: Axes, slope: Slope, c: str) -> None:
    axes.plot(slope.counts, slope.values / 1e3, "o", ms=4, color=c)
    if slope.intercept is not None and slope.estimate.value is not None:
        ends = np.array([slope.counts.min(), slope.counts.max()])
        axes.plot(ends, (slope.intercept + slope.estimate.value * ends) / 1e3, lw=1, color=c)
    else:
        axes.plot(slope.counts, slope.values / 1e3, lw=0.8, ls=":", color=style.FAINT)


def _kind(memory: str) -> int:
    return KINDS.index(memory) if memory in KINDS else len(KINDS)


@style.styled
def directions_plot(runs: Sequence[TransportRun]) -> Plot:
    """Plot the median latency by direction of each run, with the uncertainty of the clocks."""
    shown = [r for r in runs if r.directions is not None]
    transports = list(dict.fromkeys(r.transport for r in shown))
    figure = style.new_figure(1.0 + 0.75 * len(transports))
    axes = figure.subplots()
    for y, transport in enumerate(transports):
        members = [r for r in shown if r.transport == transport]
        for i, run in enumerate(members):
            assert run.directions is not None
            shift = 0.05 * (i - (len(members) - 1) / 2)
            width = float(np.median(run.directions.uncertainty_ns)) / 1e6
            for side, values, base, marker, index in (
                ("client to agent", run.directions.client_ns, -0.18, "o", 0),
                ("agent to client", run.directions.agent_ns, 0.0, "s", 5),
            ):
                axes.errorbar(
                    [float(np.median(values)) / 1e6],
                    [y + base + shift],
                    xerr=[width],
                    fmt=marker,
                    ms=4,
                    lw=1.4,
                    color=style.colour(index),
                    label=side,
                )
            median = float(np.median(run.rtt_ns)) / 1e6
            place = y + 0.18 + shift
            axes.plot([median], [place], "D", ms=4, color=style.colour(1), label="round trip")
    axes.set_xscale("log")
    style.plain_numbers(axes)
    style.rows(axes, transports, "median of a run [ms]")
    style.legend_above(figure)
    return Plot(
        figure,
        "Latency by direction, one mark per run. Bars: what the synchronisation of the clocks "
        "leaves open (hard bounds; if one direction is longer, the other is shorter by as much). "
        "A round trip needs one clock and has no such bar.",
    )


@style.styled
def hops_plot(medians: pl.DataFrame) -> Plot:
    """Plot the hops of a message from the device to a node's callback and back as bars.

    Parameters
    ----------
    medians
        Medians from `roslens.studies.micro_ros.hops.hop_medians`.
    """
    figure = style.new_figure(0.9 + 0.36 * medians.height)
    axes = figure.subplots()
    y = np.arange(medians.height)
    begin = np.zeros(medians.height)
    for index, hop in enumerate(HOPS):
        width = medians[hop].to_numpy() / 1e6
        error = medians["error"].to_numpy() / 1e6 if hop in OF_DEVICE else None
        axes.barh(
            y,
            width,
            left=begin,
            height=0.6,
            color=style.colour(index),
            xerr=error,
            ecolor=style.LOUD,
        )
        begin = begin + width
    style.rows(axes, medians["transport"].to_list(), "median [ms]")
    style.legend_of(figure, HOPS, lw=6)
    return Plot(
        figure,
        "Hops of a message from the device's publisher to the callback of ROS, and of the answer "
        "back: medians over all runs. Lines: what is not known of the device's clock; what the "
        "first hop gains the last one loses.",
    )


@style.styled
def round_trip_plot(runs: Sequence[TransportRun]) -> Plot:
    """Plot the distribution of the round trip, one line per run, a colour per transport."""
    transports = list(dict.fromkeys(r.transport for r in runs))
    figure = style.new_figure(3.6)
    axes = figure.subplots()
    for run in runs:
        steps = thin(distribution(run.rtt_ns))
        axes.plot(
            steps.values / 1e6,
            steps.at_most,
            lw=1.1,
            alpha=0.8,
            drawstyle="steps-post",
            color=style.colour(transports.index(run.transport)),
        )
    axes.set_xscale("log")
    style.plain_numbers(axes)
    axes.set(xlabel="round trip [ms]", ylabel="part of exchanges", ylim=(0, 1))
    style.legend_of(figure, transports)
    total = sum(r.rtt_ns.size for r in runs)
    return Plot(
        figure,
        f"Round trips of {total:,} exchanges in {len(runs)} runs, on the client's stopwatch, the "
        "agent's turnaround included; one line per run.",
    )
