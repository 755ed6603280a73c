"""Figure of CPU and memory over time."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.lines import Line2D

from roslens.analysis.figures.style import Plot, colour, finish, legend_above, new_figure, styled
from roslens.analysis.runs import Run, cells_of

_MOST_CELLS = 6


@styled
def usage_plot(usage: pl.DataFrame, runs: Sequence[Run]) -> Plot:
    """CPU and PSS of each process over time, one column per cell, one line per run.

    Parameters
    ----------
    usage
        From `resources.usage_over_time`.
    """
    sampled = set(usage["run"].unique())
    cells = {
        label: [run for run in members if run.name in sampled]
        for label, members in cells_of(runs).items()
    }
    cells = {label: members for label, members in cells.items() if members}
    shown = list(cells.items())[:_MOST_CELLS]
    processes = usage["process"].unique(maintain_order=True).to_list()
    # Processes without a name differ in every run: colour the first, second, ... of a run.
    named = not any(name.startswith("pid ") for name in processes) and len(processes) <= 7
    memory = "pss_bytes" if usage["pss_bytes"].count() else "rss_bytes"
    figure = new_figure(4.4)
    grid = figure.subplots(2, len(shown), sharex=True, sharey="row", squeeze=False)
    for column, (label, members) in enumerate(shown):
        cpu, mem = grid[0][column], grid[1][column]
        for run in members:
            of_run = usage.filter(pl.col("run") == run.name)
            parts = of_run.partition_by("process", "vpid", maintain_order=True)
            for number, part in enumerate(parts):
                c = colour(processes.index(part["process"][0]) if named else number)
                seconds = part["seconds"].to_numpy()
                cpu.plot(seconds, part["cpu"].to_numpy(), lw=0.8, color=c, alpha=0.7)
                megabytes = part[memory].cast(pl.Float64).to_numpy() / 1e6
                mem.plot(seconds, megabytes, lw=0.8, color=c, alpha=0.7)
        cpu.set_title("\n".join(label.split(", ")), fontsize=8)
        mem.set_xlabel("time since the first sample [s]" if len(shown) <= 3 else "time [s]")
        for axes in (cpu, mem):
            axes.set_ylim(bottom=0)
            finish(axes)
    grid[0][0].set_ylabel("CPU [cores]")
    grid[1][0].set_ylabel(f"{memory[:3].upper()} [MB]")
    if named:
        handles = [Line2D([], [], color=colour(i), label=n) for i, n in enumerate(processes)]
        legend_above(figure, handles)
    hidden = len(cells) - len(shown)
    return Plot(
        figure,
        f"CPU time per time between two samples, and {memory[:3].upper()}, of each process; one "
        f"line per process and run, {sum(len(m) for _, m in shown)} runs, {usage.height:,} samples."
        + (f" {hidden} more cells are not drawn." if hidden else ""),
    )
