"""Draw the figures of the storage study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.recording.arrays import Floats, np

_LOOKS = {
    "holds": (style.COLOURS[2], "D"),
    "false": (style.LOUD, "s"),
    "undecided": (style.FAINT, "o"),
}


@style.styled
def bars_plot(cells: pl.DataFrame, machine: str, definition: str) -> Plot:
    """Plot one bar chart per message suite and batch size with both kinds of interval.

    Parameters
    ----------
    cells
        Cells from `roslens.studies.storage.published.cells`.
    machine
        Name of the machine whose cells are drawn.
    definition
        Definition of a bar.
    """
    bars = cells.filter(machine=machine)
    suites = bars["messages"].unique(maintain_order=True).to_list()
    batches = bars["batch_size"].unique(maintain_order=True).to_list()
    # All panels have the same order, by mean share of the fastest throughput in a panel.
    share = pl.col("mean") / pl.col("mean").max().over("messages", "batch_size")
    ranked = bars.with_columns(share=share).group_by("plugin_config").agg(pl.col("share").mean())
    configs = ranked.sort("share", "plugin_config")["plugin_config"].to_list()
    # A configuration has one colour on all machines.
    colours = {
        name: style.colour(at) for at, name in enumerate(cells["plugin_config"].unique().sort())
    }
    figure = style.new_figure(0.75 + (0.55 + 0.21 * len(configs)) * len(batches))
    panels = figure.subplots(len(batches), len(suites), squeeze=False, sharey=True)
    for row, batch in zip(panels, batches, strict=True):
        for axes, suite in zip(row, suites, strict=True):
            _bars(axes, bars.filter(messages=suite, batch_size=batch), configs, colours)
            axes.set_title(f"{suite} messages,\n{batch} batches", fontsize=9)
    figure.supxlabel(f"throughput on {machine} [MB/s]", fontsize=9.5)
    style.legend_above(figure)
    runs = max(bars["n"].to_list(), default=0)
    return Plot(
        figure,
        f"Throughput on {machine}, {runs} runs per bar, on the whole fastest on top: {definition}. "
        "Each panel has a scale of its own.",
    )


def _bars(
    axes: Axes, cells: pl.DataFrame, configs: Sequence[str], colours: Mapping[str, str]
) -> None:
    y = np.array([configs.index(name) for name in cells["plugin_config"]])
    mean = cells["mean"].to_numpy() / 1e6
    shades = [colours[name] for name in cells["plugin_config"]]
    axes.barh(y, mean, color=shades, height=0.66, alpha=0.85)
    for column, c, width, alpha, label in (
        ("half_width_published", style.FAINT, 4.0, 1.0, "as published: 3.92 sd"),
        ("half_width_t", "black", 1.6, 1.0, "95 % interval, Student t over runs"),
    ):
        half = cells[column].cast(pl.Float64).fill_null(0.0).to_numpy() / 1e6
        low = np.maximum(0.0, mean - half)
        axes.hlines(y, low, mean + half, color=c, lw=width, alpha=alpha, label=label)
    axes.set_yticks(range(len(configs)), configs, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")


@style.styled
def effects_plot(compared: pl.DataFrame, titles: Mapping[str, str], threshold: float) -> Plot:
    """Plot the ratio of each comparison with its interval, a panel per takeaway and machine.

    Parameters
    ----------
    compared
        Comparisons from `roslens.studies.storage.statements.comparisons`.
    titles
        Titles of the statements.
    threshold
        Relative slowdown that still counts as on par; shaded.
    """
    panels = [
        (statement, machine, compared.filter(statement=statement, machine=machine))
        for statement in titles
        for machine in compared["machine"].unique(maintain_order=True)
    ]
    panels = [panel for panel in panels if panel[2].height]
    heights = [panel[2].height + 1.6 for panel in panels] or [1.0]
    figure = style.new_figure(0.7 + 0.2 * sum(heights))
    rows = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights, sharex=True)
    for axes, (statement, machine, frame) in zip(rows[:, 0], panels, strict=False):
        axes.axvspan(1 / (1 + threshold), 1 + threshold, color="#e4e4e4", lw=0)
        axes.axvline(1, color="#666666", lw=0.8)
        for at, row in enumerate(frame.iter_rows(named=True)):
            c, marker = _LOOKS[row["answer"]]
            axes.plot([row["low"], row["high"]], [at, at], color=c, lw=2)
            axes.plot([row["ratio"]], [at], marker, color=c, ms=4.5, label=row["answer"])
        labels = [
            f"{r['messages']}, {r['batch_size']}: {r['new']} against {r['base']}"
            for r in frame.iter_rows(named=True)
        ]
        style.rows(axes, labels, "", 7)
        axes.set_title(f"{machine}: {titles[statement]}", fontsize=9)
        axes.set_xscale("log")
    style.plain_numbers(rows[-1, 0])
    rows[-1, 0].set_xlabel(
        "throughput of the second over that of the first (above 1: first slower)"
    )
    style.legend_above(figure)
    return Plot(
        figure,
        "Ratios of mean throughput with 95 % intervals (Fieller, Welch's degrees of freedom); the "
        "colour is the answer of the declared rule after Holm's correction. Shaded: within "
        f"{100 * threshold:g} %.",
    )


@style.styled
def write_times_plot(
    samples: Mapping[tuple[str, str], Mapping[str, Sequence[Floats]]],
) -> Plot:
    """Plot the tail of write call times: a panel per suite and batch size.

    Parameters
    ----------
    samples
        Times of the calls of each run in ns, by (message suite, batch size) and configuration.
    """
    suites = list(dict.fromkeys(suite for suite, _ in samples))
    batches = list(dict.fromkeys(batch for _, batch in samples))
    configs = sorted({config for panel in samples.values() for config in panel})
    figure = style.new_figure(0.7 + 1.9 * len(suites))
    panels = figure.subplots(len(suites), len(batches), squeeze=False, sharey=True)
    for row, suite in zip(panels, suites, strict=True):
        for axes, batch in zip(row, batches, strict=True):
            for config, runs in samples.get((suite, batch), {}).items():
                times = np.sort(np.concatenate(runs)) / 1e3
                beyond = 1 - np.arange(times.size) / times.size
                # As many marks as can be distinguished, including each of the slowest calls.
                chosen = np.unique(np.geomspace(1, times.size, 400).astype(int))
                at = np.sort(times.size - chosen)
                axes.step(times[at], beyond[at], lw=1.2, color=style.colour(configs.index(config)))
            axes.set(xscale="log", yscale="log")
            axes.set_title(f"{suite} messages, {batch} batches", fontsize=9)
            axes.tick_params(labelsize=8)
        row[0].set_ylabel("fraction of calls")
    for axes in panels[-1]:
        axes.set_xlabel("time of a write call, longer than [µs]")
    style.legend_of(figure, configs)
    return Plot(
        figure,
        "Write calls that take longer than so long (complementary distribution, calls of all runs "
        "of a cell together): how long the messages that come meanwhile have to wait.",
    )
