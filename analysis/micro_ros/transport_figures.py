"""Figures of measured transports: directions with their uncertainty, round trips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.lines import Line2D

from roslens.analysis.figures.style import (
    Plot,
    colour,
    finish,
    legend_above,
    new_figure,
    plain_numbers,
    styled,
)
from roslens.analysis.micro_ros.transports import TransportRun
from roslens.analysis.statistics.distributions import distribution, thin


@styled
def directions_plot(runs: Sequence[TransportRun]) -> Plot:
    """Median latency by direction of each run, with what synchronisation leaves open."""
    shown = [r for r in runs if r.directions is not None]
    transports = list(dict.fromkeys(r.transport for r in shown))
    figure = new_figure(1.0 + 0.75 * len(transports))
    axes = figure.subplots()
    for y, transport in enumerate(transports):
        members = [r for r in shown if r.transport == transport]
        for i, run in enumerate(members):
            assert run.directions is not None
            shift = 0.05 * (i - (len(members) - 1) / 2)
            width = float(np.median(run.directions.uncertainty_ns)) / 1e6
            for side, (values, base) in enumerate(
                ((run.directions.client_ns, -0.18), (run.directions.agent_ns, 0.0))
            ):
                axes.errorbar(
                    [float(np.median(values)) / 1e6],
                    [y + base + shift],
                    xerr=[width],
                    fmt="os"[side],
                    ms=4,
                    lw=1.4,
                    color=colour(0 if side == 0 else 5),
                )
            median = float(np.median(run.rtt_ns)) / 1e6
            axes.plot([median], [y + 0.18 + shift], "D", ms=4, color=colour(1))
    axes.set_xscale("log")
    plain_numbers(axes)
    axes.set_yticks(range(len(transports)), transports)
    axes.set_ylim(len(transports) - 0.5, -0.5)
    axes.set_xlabel("median of a run [ms]")
    axes.grid(visible=False, axis="y")
    finish(axes)
    legend_above(
        figure,
        [
            Line2D([], [], ls="", marker="o", color=colour(0), label="client to agent"),
            Line2D([], [], ls="", marker="s", color=colour(5), label="agent to client"),
            Line2D([], [], ls="", marker="D", color=colour(1), label="round trip"),
        ],
    )
    return Plot(
        figure,
        "Latency by direction, one mark per run. Bars: what the synchronisation of the clocks "
        "leaves open (hard bounds; if one direction is longer, the other is shorter by as much). "
        "A round trip needs one clock and has no such bar.",
    )


@styled
def round_trip_plot(runs: Sequence[TransportRun]) -> Plot:
    """Distribution of the round trip, one line per run, a colour per transport."""
    transports = list(dict.fromkeys(r.transport for r in runs))
    figure = new_figure(3.6)
    axes = figure.subplots()
    for run in runs:
        steps = thin(distribution(run.rtt_ns))
        axes.plot(
            steps.values / 1e6,
            steps.at_most,
            lw=1.1,
            alpha=0.8,
            drawstyle="steps-post",
            color=colour(transports.index(run.transport)),
        )
    axes.set_xscale("log")
    plain_numbers(axes)
    axes.set(xlabel="round trip [ms]", ylabel="part of exchanges", ylim=(0, 1))
    finish(axes)
    handles = [Line2D([], [], color=colour(i), label=name) for i, name in enumerate(transports)]
    legend_above(figure, handles)
    total = sum(r.rtt_ns.size for r in runs)
    return Plot(
        figure,
        f"Round trips of {total:,} exchanges in {len(runs)} runs, on the client's stopwatch, the "
        "agent's turnaround included; one line per run.",
    )
