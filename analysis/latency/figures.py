"""Draw the figures of the latency report: intervals, drift, callback durations, CPU and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from roslens.analysis.estimate import Estimate, cell_label, not_none, short_labels
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.callbacks import CALLBACK
from roslens.analysis.measures.stacks import callback_title
from roslens.analysis.runs import Run, cells_of
from roslens.collectors.topics import INFRASTRUCTURE
from roslens.recording.arrays import np


@style.styled
def interval_plot(estimates: Sequence[Estimate]) -> Plot:
    """Plot each statistic per cell: value, interval, and the values of the runs.

    Parameters
    ----------
    estimates
        ``latency_mean``, ``latency_p50`` and so on of one topic.
    """
    names = [n for n in dict.fromkeys(e.metric for e in estimates) if _is_plain(n)]
    labels = list(dict.fromkeys(map(_cell_of, estimates)))
    lines = max((style.wrapped(label).count("\n") for label in labels), default=0)
    figure = style.new_figure(
        0.9 + (0.36 + 0.14 * lines) * len(labels) + (0.3 if len(labels) < 4 else 0)
    )
    row = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(row, names, strict=True):
        shown = [e for e in estimates if e.metric == name and e.value is not None]
        if _spans_decades(shown):
            axes.set_xscale("log")
            style.plain_numbers(axes)
        for e in shown:
            _interval(axes, labels.index(_cell_of(e)), e)
        if not any(math.isfinite(not_none(e.value)) for e in shown):
            # Tick labels would be meaningless numbers.
            axes.set_xticks([])
            axes.text(0.5, 0.5, "refused", transform=axes.transAxes, ha="center", color=style.FAINT)
        title = name.removeprefix("latency_")
        axes.set_title(title.upper() if title[1:].replace(".", "").isdigit() else title)
        style.rows(axes, [style.wrapped(label) for label in labels], "ms", 8.5)
        axes.margins(x=0.08)
    first = estimates[0]
    return Plot(
        figure,
        f"Dot and bar: mean over runs with its {100 * first.level:g} % interval (Student t over "
        "runs); grey: each run; hollow: no interval, the table says why. "
        f"{style.sentence(first.definition)}",
    )


def _spans_decades(estimates: Sequence[Estimate]) -> bool:
    """Return whether a logarithmic axis is possible, and needed to separate the smaller values."""
    values = [e.value for e in estimates if e.value is not None]
    lows = [e.low for e in estimates if e.low is not None]
    return bool(values) and min([*values, *lows]) > 0 and max(values) > 10 * min(values)


def _is_plain(name: str) -> bool:
    return name.startswith("latency_") and not name.startswith("latency_sent_")


def _cell_of(estimate: Estimate) -> str:
    """Return the cell without the topic, which the definition names."""
    return cell_label({k: v for k, v in estimate.cell.items() if k != "topic"})


def _interval(axes: Axes, y: int, estimate: Estimate) -> None:
    values = np.array(estimate.per_run) / 1e6
    axes.plot(
        values, np.full(values.size, y + 0.22), "o", ms=3, color=style.FAINT, mew=0, alpha=0.8
    )
    if estimate.value is None or not math.isfinite(estimate.value):
        return
    value = estimate.value / 1e6
    if estimate.low is None or estimate.high is None:
        axes.plot([value], [y], "o", ms=6, mfc="white", mec=style.colour(0))
        return
    axes.plot([estimate.low / 1e6, estimate.high / 1e6], [y, y], "-", lw=2.2, color=style.colour(0))
    axes.plot([value], [y], "o", ms=6, color=style.colour(0))


@style.styled
def drift_plot(
    runs: Sequence[Run], values_ns: Mapping[str, float], effect: Estimate, definition: str
) -> Plot:
    """Plot the value of each run against order of execution, as deviation from its cell's mean.

    Parameters
    ----------
    runs
        Runs with a known order.
    values_ns
        Values by name of the run.
    """
    cells = cells_of(runs)
    blocks = list(dict.fromkeys(run.block for run in sorted(runs, key=_at)))
    markers = "osD^vPX*"
    figure = style.new_figure(3.4)
    axes = figure.subplots()
    for index, members in enumerate(cells.values()):
        mean = float(np.mean([values_ns[run.name] for run in members]))
        for run in members:
            axes.plot(
                [run.order or 0],
                [100 * (values_ns[run.name] / mean - 1)],
                markers[index % len(markers)],
                color=style.colour(blocks.index(run.block)),
                ms=6,
                mec="white",
                mew=0.5,
            )
    axes.axhline(0, color=style.FAINT, lw=1)
    axes.set(xlabel="order of execution", ylabel="P50 against its cell's mean [%]")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    shapes = [
        Line2D([], [], ls="", marker=markers[i % len(markers)], color="#444444", label=label)
        for i, label in enumerate(cells)
    ]
    if len(shapes) <= len(markers):
        style.legend_above(figure, shapes)
    if effect.value is not None and effect.low is not None and effect.high is not None:
        slope = (
            f"Slope {100 * effect.value:+.2g} % per run, {100 * effect.level:g} % interval "
            f"[{100 * effect.low:.2g}, {100 * effect.high:.2g}] %."
        )
    else:
        slope = f"No slope: {effect.refused}."
    return Plot(
        figure,
        f"Median latency of each of {len(runs)} runs in the order in which they were made; one "
        f"colour per repetition (block), one shape per cell. {slope} {style.sentence(definition)}",
    )


def _at(run: Run) -> tuple[str, int]:
    return (run.campaign or "", run.order or 0)


_MOST = 30


@style.styled
def durations_plot(durations: pl.DataFrame) -> Plot:
    """Plot P50, P90, P99 and maximum per callback and cell, from `callbacks.durations`."""
    measured = durations.filter(
        pl.col("max_ns").is_not_null()
        & ~pl.col("name").is_in(INFRASTRUCTURE).fill_null(value=False)
    )
    shown = (
        measured.sort("max_ns", descending=True).head(_MOST).sort("kind", "name", "node", "cell")
    )
    ended = int((measured["count"] - measured["unfinished"]).sum())
    labels = [
        f"{callback_title(*(row[name] for name in CALLBACK))}\n{style.wrapped(row['cell'], 48)}"
        for row in shown.iter_rows(named=True)
    ]
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    figure = style.new_figure(1.0 + max(0.42, 0.16 * lines) * max(shown.height, 2))
    axes = figure.subplots()
    order = ("subscription", "timer", "service", None, "function")
    kinds = {kind: i for i, kind in enumerate(order)}
    floor = 1e-4  # 0.1 us: a logarithmic axis has no zero
    for y, row in enumerate(shown.iter_rows(named=True)):
        c = style.colour(kinds[row["kind"]])
        # A percentile that too few executions determine is not drawn.
        p50, p90, p99, top = (
            math.nan if row[k] is None else max(row[k] / 1e6, floor)
            for k in ("p50_ns", "p90_ns", "p99_ns", "max_ns")
        )
        axes.plot([p50, top], [y, y], "-", lw=0.8, color=c, alpha=0.6)
        axes.plot([p50, p99], [y, y], "-", lw=2.0, color=c, alpha=0.6)
        axes.plot([p50, p90], [y, y], "-", lw=4.5, color=c, solid_capstyle="butt")
        axes.plot([p50], [y], "o", ms=6, color=c)
        axes.plot([top], [y], "|", ms=8, color=c)
    style.rows(axes, labels, "duration [ms]", 7.5)
    axes.set_xscale("log")
    style.plain_numbers(axes)
    return Plot(
        figure,
        f"Durations of {ended:,} callback executions: dot P50, bars to P90 "
        f"and P99, tick the longest; without those of {' and '.join(INFRASTRUCTURE)}. From "
        "callback_start to callback_end in one thread; percentiles are means over runs.",
        left_out=style.left_out(
            shown.height,
            measured.height,
            "callbacks",
            ", those with the longest maximum; the table has all",
        ),
    )


_MOST_CELLS = 6


@style.styled
def usage_plot(usage: pl.DataFrame, runs: Sequence[Run]) -> Plot:
    """Plot CPU and PSS of each process over time, one column per cell, one line per run.

    Parameters
    ----------
    usage
        Frame from `resources.usage_over_time`.
    """
    sampled = set(usage["run"].unique())
    cells = {
        label: [run for run in members if run.name in sampled]
        for label, members in cells_of(runs).items()
    }
    cells = {label: members for label, members in cells.items() if members}
    shown = list(cells.items())[:_MOST_CELLS]
    processes = usage["process"].unique(maintain_order=True).to_list()
    # Unnamed processes differ in every run, so colours follow their order within a run.
    named = not any(name.startswith("pid ") for name in processes) and len(processes) <= 7
    memory = "pss_bytes" if usage["pss_bytes"].count() else "rss_bytes"
    names = short_labels([members[0].cell for _, members in shown])
    titles = [
        "\n".join(style.wrapped(factor, 108 // len(shown)) for factor in n.split(", "))
        for n in names
    ]
    figure = style.new_figure(4.0 + 0.13 * max((t.count("\n") for t in titles), default=0))
    grid = figure.subplots(2, len(shown), sharex=True, sharey="row", squeeze=False)
    for column, (_, members) in enumerate(shown):
        cpu, mem = grid[0][column], grid[1][column]
        for run in members:
            of_run = usage.filter(pl.col("run") == run.name)
            parts = of_run.partition_by("process", "vpid", maintain_order=True)
            for number, part in enumerate(parts):
                c = style.colour(processes.index(part["process"][0]) if named else number)
                seconds = part["seconds"].to_numpy()
                cpu.plot(seconds, part["cpu"].to_numpy(), lw=0.8, color=c, alpha=0.7)
                read = part.drop_nulls(memory)
                megabytes = read[memory].cast(pl.Float64).to_numpy() / 1e6
                mem.plot(read["seconds"].to_numpy(), megabytes, lw=0.8, color=c, alpha=0.7)
        cpu.set_title(titles[column], fontsize=7.5, fontweight="normal")
        mem.set_xlabel("time since the first sample [s]" if len(shown) <= 3 else "time [s]")
        for axes in (cpu, mem):
            axes.set_ylim(bottom=0)
    grid[0][0].set_ylabel("CPU [cores]")
    grid[1][0].set_ylabel(f"{memory[:3].upper()} [MB]")
    if named:
        style.legend_of(figure, processes)
    return Plot(
        figure,
        f"CPU time per time between two samples, and {memory[:3].upper()}, of each process; one "
        f"line per process and run, {sum(len(m) for _, m in shown)} runs, {usage.height:,} "
        "samples.",
        left_out=style.left_out(len(shown), len(cells), "cells"),
    )
