"""Tables of what was measured: symbols, clocks, sums of directions, captures, what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from roslens.analysis.micro_ros.slopes import Slope
from roslens.analysis.micro_ros.transports import TransportRun
from roslens.analysis.reports.table import ReportTable

_BOUNDS = (
    "Bounds, not an interval: no message arrives before it was sent, and the truth lies within "
    "whatever the delays are. They narrow with the shortest round trip and, for the drift, with "
    "the length of the run."
)
_TESTED = (
    "The round trip is read off a stopwatch of the client, apart from the clock whose stamps give "
    "the directions. Allowed: how long reading took, the clocks' resolution, and their drift. An "
    "error of the offset cancels out in any such sum; what is tested are stamps, units and drift."
)


def history_table(rows: Sequence[tuple[str, int, Slope]]) -> ReportTable:
    """Slopes of histories with slots of different size.

    Parameters
    ----------
    rows
        Name, MTU x depth, slope of the static memory.
    """
    return ReportTable(
        ["history", "MTU x depth [B]", "slope [B/slot]", "beyond MTU x depth [B/slot]"],
        [
            [
                name,
                f"{expected:,}",
                "-" if s.estimate.value is None else f"{s.estimate.value:,.1f}",
                "-" if s.estimate.value is None else f"{s.estimate.value - expected:+,.1f}",
            ]
            for name, expected, s in rows
        ],
        "Static memory of a slot against MTU x depth",
        notes=["What a slot takes beyond its data is what the implementation keeps with it."],
        left=frozenset({"history"}),
    )


def static_table(static: pl.DataFrame, most: int = 20) -> ReportTable:
    """What static memory beyond the baseline is made of, at the largest number of entities.

    Parameters
    ----------
    static
        As `roslens.collectors.results.micro_ros.STATIC`.
    """
    memory = static.filter(pl.col("section").str.contains(r"^\.(data|bss)(\.|$)"))
    largest = memory.filter(pl.col("count") == pl.col("count").max().over("entity"))
    one = largest.filter(pl.col("source") == pl.col("source").first().over("entity"))
    rows = one.sort("entity", pl.col("difference_bytes").abs(), descending=[False, True])
    return ReportTable(
        ["entity", "number", "section", "object", "symbol", "baseline [B]", "difference [B]"],
        [
            [
                r["entity"],
                f"{r['count']:,}",
                r["section"],
                r["object"],
                r["symbol"],
                f"{r['baseline_bytes']:,}",
                f"{r['difference_bytes']:+,}",
            ]
            for r in rows.head(most).iter_rows(named=True)
        ],
        "Static memory beyond the baseline, by symbol of the ELF file",
        left=frozenset({"entity", "section", "object", "symbol"}),
    )


def clocks_table(runs: Sequence[TransportRun]) -> ReportTable:
    """Offset and drift of each run with their bounds."""
    rows, marked, notes = [], set(), []
    for index, run in enumerate(runs):
        fit = run.fit
        lost = "-" if run.lost is None else f"{run.lost:,}"
        row = [run.transport, run.source, f"{fit.exchanges:,}", lost]
        if fit.refused is not None:
            marked.add(index)
            notes.append(f"{run.transport}, {run.source}: {fit.refused}")
            rows.append([*row, "refused", "-", "refused", "-"])
            continue
        value, low, high = fit.offset_ns
        slow, fast = (1e6 * d for d in fit.drift)
        rows.append(
            [
                *row,
                f"{value / 1e6:,.4f}",
                f"+-{(high - low) / 2e3:,.1f}",
                f"{(slow + fast) / 2:,.1f}",
                f"+-{(fast - slow) / 2:,.1f}",
            ]
        )
    return ReportTable(
        [
            *("transport", "run", "exchanges", "without answer", "offset [ms]"),
            *("bounds [us]", "drift [ppm]", "bounds [ppm]"),
        ],
        rows,
        "Client's clock against the agent's, in the middle of the run",
        notes=[_BOUNDS, *notes],
        marked=frozenset(marked),
        left=frozenset({"transport", "run"}),
    )


def sums_table(runs: Sequence[TransportRun]) -> ReportTable:
    """Whether the measured directions add up to the measured round trip."""
    rows = []
    for run in runs:
        if run.residual_ns is None or run.allowed_ns is None:
            rows.append([run.transport, run.source, "refused", "-", "-", "-"])
            continue
        rows.append(
            [
                run.transport,
                run.source,
                f"{run.adds_up:,} of {run.residual_ns.size:,}",
                f"{float(np.median(run.residual_ns)):,.0f}",
                f"{float(np.abs(run.residual_ns).max()):,.0f}",
                f"{float(np.median(run.allowed_ns)):,.0f}",
            ]
        )
    return ReportTable(
        [
            *("transport", "run", "add up", "median residual [ns]", "largest [ns]"),
            "median allowed [ns]",
        ],
        rows,
        "client + turnaround + agent - round trip, on measured values",
        notes=[_TESTED],
        left=frozenset({"transport", "run"}),
    )


def captures_table(captures: pl.DataFrame) -> ReportTable:
    """Bytes per second on the line, from captures."""
    return ReportTable(
        ["run", "capture", "channel", "frames", "bytes", "seconds", "kB/s"],
        [
            [
                r["source"],
                r["capture"],
                r["channel"],
                f"{r['frames']:,}",
                f"{r['bytes']:,}",
                f"{r['seconds']:.3f}",
                "-" if r["bytes_per_s"] is None else f"{r['bytes_per_s'] / 1e3:,.2f}",
            ]
            for r in captures.iter_rows(named=True)
        ],
        "Captures of lines",
        left=frozenset({"run", "capture", "channel"}),
    )


def findings_table(findings: pl.DataFrame) -> ReportTable:
    """What could not be used, and why."""
    found = findings.unique(maintain_order=True)
    return ReportTable(
        ["run", "left out"],
        [[r["source"], r["what"]] for r in found.iter_rows(named=True)],
        "What could not be used",
        marked=frozenset(range(found.height)),
        left=frozenset({"run", "left out"}),
    )
