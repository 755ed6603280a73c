"""Plot communication: a dot per publisher, subscription or pair, and one message's hops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from roslens.analysis.estimate import Estimate, cell_label, not_none
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.runs import Run, cells_of, constant_factors
from roslens.analysis.timeline.journey import Hop
from roslens.recording.manifest import Level
from roslens.studies.communication.traffic import HOPS

_SIZES = ("publishers", "subscriptions", "message_bytes", "payload", "processes")
"""Factors that group cells into panels with the same number of dots and size of messages."""

_MOST_PANELS = 12


AFTER_START = ("copy", "callback")
"""Hops that come after callback_start and are not part of the latency."""


@dataclass(frozen=True)
class MessageFlow:
    """One publication on its way to one subscription.

    Attributes
    ----------
    title
        Names of the cell and the message.
    hops
        Sections of its way, in ns since its publication.
    behind_ns
        Times at which the publisher sent its next messages, up to the take.
    """

    title: str
    hops: Sequence[Hop]
    behind_ns: Sequence[int]
    latency_ns: int


@style.styled
def entity_plot(
    values: pl.DataFrame,
    entity: Sequence[str],
    runs: Sequence[Run],
    estimates: Sequence[Estimate],
    *,
    what: str,
    of: str,
    definition: str,
) -> Plot:
    """Plot one dot per entity, as the study of 2019 did, with the interval over runs at the side.

    Parameters
    ----------
    values
        ``run``, the columns of `entity`, ``value_ms``; rows without a value are left out.
    estimates
        Estimates of the same quantity, in ns: one per cell.
    what, of
        The quantity, such as ``publisher period``, and the kind of its entities.
    """
    cells = list(cells_of(runs).values())
    constant = constant_factors(runs)
    groups: dict[str, list[list[Run]]] = {}
    for members in cells:
        sizes = {k: v for k, v in members[0].cell.items() if k in _SIZES and k not in constant}
        groups.setdefault(cell_label(sizes) if sizes else "", []).append(members)
    labels = {members[0].label: _label(members[0], constant) for members in cells}
    series: dict[str, int] = {}
    figure, grid = style.panels(len(groups), 3, 3.1, 0.7)
    total = 0
    for axes, (title, of_group) in zip(grid.flat, groups.items(), strict=False):
        total += _group(
            axes, of_group, values, entity=entity, estimates=estimates, labels=labels, series=series
        )
        axes.set_title(style.wrapped(title, 24), fontsize=9)
    for row in grid:
        row[0].set_ylabel(f"{what} [ms]")
    for axes in grid[-1]:
        axes.set_xlabel(of)
    style.legend_of(figure, [label or "all" for label in series], ls="", marker="o")
    return Plot(
        figure,
        f"Dot: one {of} (mean over the runs of its cell; grey: each run), {total:,} in all. Bar at "
        "the right: mean over runs of a run's mean with its interval, hollow without one; on a "
        "logarithmic axis one that reaches below zero is cut at a hundredth of its value. "
        + style.sentence(definition)
        + (f" In all cells: {cell_label(constant)}." if constant else ""),
        f"{what} per {of}",
    )


def _group(
    axes: Axes,
    cells: Sequence[Sequence[Run]],
    values: pl.DataFrame,
    *,
    entity: Sequence[str],
    estimates: Sequence[Estimate],
    labels: Mapping[str, str],
    series: dict[str, int],
) -> int:
    shown, drawn, most = [], 0, 1
    for members in cells:
        index = series.setdefault(labels[members[0].label], len(series))
        names = [run.name for run in members]
        rows = values.filter(pl.col("run").is_in(names)).drop_nulls("value_ms")
        ranked = rows.with_columns(
            pl.struct(entity).rank("dense").over("run").cast(pl.Int64).alias("place")
        )
        means = ranked.group_by("place").agg(pl.col("value_ms").mean()).sort("place")
        most = max(most, means.height)
        shown.append((index, ranked, means, members[0].cell))
        drawn += means.height
    step = 0.8 / max(1, len(shown))
    lowest, highest = math.inf, 0.0
    ends: list[float] = []
    for position, (index, ranked, means, cell) in enumerate(shown):
        shift = (position - (len(shown) - 1) / 2) * step if most < 20 else 0.0
        if most < 20:
            x = [p + shift for p in ranked["place"]]
            axes.plot(x, ranked["value_ms"], "o", ms=2.5, color=style.FAINT, mew=0, alpha=0.7)
        x = [p + shift for p in means["place"]]
        size = 6 if most < 20 else 2.6
        axes.plot(x, means["value_ms"], "o", ms=size, color=style.colour(index), mew=0, alpha=0.85)
        at = most + 1 + (0.06 * most + 0.25) * (position + 0.5)
        estimate = next((e for e in estimates if dict(e.cell) == dict(cell)), None)
        if estimate is not None and estimate.value is not None and math.isfinite(estimate.value):
            ends += _interval(axes, at, estimate, style.colour(index))
        if ranked.height:
            low, high = ranked["value_ms"].min(), ranked["value_ms"].max()
            lowest, highest = min(lowest, float(str(low))), max(highest, float(str(high)))
    if lowest > 0 and highest > 10 * lowest:
        axes.set_yscale("log")
        style.plain_numbers(axes, "y")
    elif highest > 0:
        lowest, highest = min([lowest, *ends]), max([highest, *ends])
        spare = max(0.15 * (highest - lowest), 0.01 * highest)
        axes.set_ylim(max(0.0, lowest - spare), highest + spare)
    axes.axvline(most + 1, color=style.FAINT, lw=0.6)
    axes.set_xticks([1] if most == 1 else sorted({1, (most + 1) // 2, most}))
    axes.set_xlim(0.3, most + 1 + (0.06 * most + 0.25) * (len(shown) + 0.5))
    axes.grid(visible=False, axis="x")
    return drawn


def _interval(axes: Axes, x: float, estimate: Estimate, shade: str) -> tuple[float, float]:
    """Draw an estimate, and return the lowest and highest value drawn."""
    value = not_none(estimate.value) / 1e6
    if estimate.low is None or estimate.high is None:
        axes.plot([x], [value], "s", ms=5, mfc="white", mec=shade)
        return value, value
    # A logarithmic axis cannot show an interval's end below zero.
    low = max(estimate.low / 1e6, value / 100)
    axes.plot([x, x], [low, estimate.high / 1e6], "-", lw=2.2, color=shade)
    axes.plot([x], [value], "s", ms=4.5, color=shade)
    return low, estimate.high / 1e6


def _label(run: Run, constant: Mapping[str, Level]) -> str:
    hidden = {*constant, *_SIZES}
    return cell_label({k: v for k, v in run.cell.items() if k not in hidden} or run.cell)


@style.styled
def flow_plot(flows: Sequence[MessageFlow], constant: Mapping[str, Level]) -> Plot:
    """Plot one publication per panel, with one row per hop.

    Parameters
    ----------
    constant
        Factors that the titles leave out, because they are the same in all cells.
    """
    shown = flows[:_MOST_PANELS]
    tallest = max(len(flow.hops) for flow in shown)
    figure, grid = style.panels(len(shown), 2, 0.55 + 0.27 * tallest + 0.35)
    for axes, flow in zip(grid.flat, shown, strict=False):
        _flow(axes, flow)
    hidden = len(flows) - len(shown)
    return Plot(
        figure,
        "One publication per panel: the one of median latency in the first run of its cell. A bar "
        "per hop, from the event at which it begins to the one at which it ends; to the right its "
        "duration. Orange marks: the same publisher's next messages, which were "
        "sent while this one waited. The blue hops, up to callback_start, add up to the latency "
        "exactly; green ones come after it."
        + (f" In all cells: {cell_label(constant)}." if constant else "")
        + (f" {hidden} more cells are not shown." if hidden > 0 else ""),
        "the hops of one publication per cell",
    )


def _flow(axes: Axes, flow: MessageFlow) -> None:
    end = max(*(hop.end_ns for hop in flow.hops), flow.latency_ns, 1)
    factor, unit = (1e-6, "ms") if end > 500_000 else (1e-3, "µs")
    for row, hop in enumerate(flow.hops):
        begin, length = hop.begin_ns * factor, hop.duration_ns * factor
        shade = style.colour(2 if hop.name in AFTER_START else 0)
        axes.barh(row, length, left=begin, height=0.62, color=shade, lw=0)
        # This line keeps a hop of microseconds visible next to one of 100 ms.
        axes.plot([begin, begin], [row - 0.31, row + 0.31], color=shade, lw=1.2)
        late = begin + length > 0.75 * end * factor
        within = late and length > 0.3 * end * factor
        axes.text(
            begin if late and not within else begin + length,
            row,
            f" {_duration(hop.duration_ns)} ",
            va="center",
            ha="right" if late else "left",
            fontsize=8,
            color="white" if within else "black",
            bbox={"facecolor": shade, "lw": 0, "pad": 0.5} if within else None,
            zorder=5,
        )
    waits = next((i for i, hop in enumerate(flow.hops) if hop.name == "queue and transport"), 0)
    for behind in flow.behind_ns:
        axes.plot([behind * factor] * 2, [waits - 0.31, waits + 0.31], color=style.LOUD, lw=1.1)
    style.rows(axes, [hop.name for hop in flow.hops], "", 8)
    axes.set_xlim(-0.01 * end * factor, end * factor * 1.02)
    axes.set_xlabel(f"since publication [{unit}]", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title(flow.title, fontsize=8)


def _duration(ns: int) -> str:
    if ns >= 1_000_000:
        return f"{ns / 1e6:,.2f} ms"
    return f"{ns / 1e3:,.1f} µs"


def median_flows(copied: pl.DataFrame, runs: Sequence[Run]) -> list[MessageFlow]:
    """Return the message of median latency in the first run of each cell that has messages.

    Parameters
    ----------
    copied
        Messages with hops, ``behind``, ``logged_callback_ns`` and ``copy_ns``.
    """
    flows = []
    hidden = constant_factors(runs)
    for members in cells_of(runs).values():
        for run in members:
            rows = copied.filter((pl.col("run") == run.name) & (pl.col("outcome") == "delivered"))
            if rows.height:
                row = rows.sort("latency_ns", "message_id").row(rows.height // 2, named=True)
                cell = {k: v for k, v in run.cell.items() if k not in hidden}
                flows.append(_flow_of(row, copied, cell_label(cell)))
                break
    return flows


def _flow_of(row: Mapping[str, Any], everything: pl.DataFrame, cell: str) -> MessageFlow:
    start = int(row["publish_ns"])
    hops, at = [], 0
    for hop in HOPS:
        duration = row[f"hop_{hop}_ns"]
        if duration is not None:
            hops.append(Hop(hop.replace("_", " "), at, at + duration))
            at += duration
    callback = row["callback_end_ns"]
    if row["copy_ns"] is not None:
        hops.append(Hop("copy", at, at + int(row["copy_ns"])))
        at += int(row["copy_ns"])
    if callback is not None and callback - start >= at:
        hops.append(Hop("callback", at, callback - start))
    behind: list[int] = []
    if row["take_ns"] is not None:
        behind = (
            everything.filter(
                (pl.col("run") == row["run"])
                & (pl.col("publisher_id") == row["publisher_id"])
                & (pl.col("publish_ns") > start)
                & (pl.col("publish_ns") <= row["take_ns"])
            )
            .select((pl.col("publish_ns") - start).unique().sort())
            .to_series()
            .to_list()
        )
    title = f"{style.wrapped(cell, 44)}\n{row['topic']}, message {row['message_id']}"
    latency = int(row["latency_ns"])
    return MessageFlow(title, hops, behind, latency)
