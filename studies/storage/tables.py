"""Build the tables of the storage report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import polars as pl

from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import ReportTable
from roslens.studies.storage.clocks import TOLERANCE, TOLERANCE_NS, Agreement
from roslens.studies.storage.statements import STATEMENTS

_MOST_ROWS = 60


def compared_table(compared: pl.DataFrame, statement: str) -> ReportTable:
    """Return the comparisons of one statement, with the answers of other methods."""
    rows = compared.filter(statement=statement)
    columns = ["machine", "messages", "batch", "first", "second", "[MB/s]", "[MB/s]", "ratio"]
    columns += ["95 % interval", "p (Holm)", "p (paired)", "p (equivalent)", "answer"]
    return ReportTable(
        columns,
        [
            [
                r["machine"],
                r["messages"],
                r["batch_size"],
                r["new"],
                r["base"],
                significant(r["mean_new"] / 1e6),
                significant(r["mean_base"] / 1e6),
                f"{r['ratio']:.3f}",
                f"[{r['low']:.3f}, {r['high']:.3f}]",
                _p(r["p_holm"]),
                _p(r["p_paired"]),
                _p(r["p_equivalent"]),
                r["answer"] + (" *" if r["disagree"] else ""),
            ]
            for r in rows.iter_rows(named=True)
        ],
        f"{STATEMENTS[statement]}: throughput of the second over that of the first",
        notes=[
            (
                "Above 1 the first is slower. p (Holm): Welch's test, adjusted; "
                "p (paired): the same by blocks; p (equivalent): of one beyond the threshold."
            ),
            *(
                ["* the methods disagree; the declared one's answer stands."]
                if rows["disagree"].any()
                else []
            ),
        ],
        marked=frozenset(i for i, a in enumerate(rows["answer"]) if a == "false"),
        left=frozenset({"machine", "messages", "batch", "first", "second", "answer"}),
    )


def bounds_table(bounds: pl.DataFrame) -> ReportTable:
    """Return the mean of each cell in the digests, and its bound with the close time included."""
    rows = bounds.sort("mean", descending=True)
    shown = rows.filter(pl.col("mean") / pl.col("at_most") > 1.02).head(_MOST_ROWS)
    return ReportTable(
        [
            "machine",
            "messages",
            "batch",
            "configuration",
            "mean [MB/s]",
            "close [ms]",
            "at most",
        ],
        [
            [
                r["machine"],
                r["messages"],
                r["batch_size"],
                r["plugin_config"],
                significant(r["mean"] / 1e6),
                f"{1e3 * r['close_time']:.2f}",
                significant(r["at_most"] / 1e6) if r["is_bound"] else "no bound",
            ]
            for r in shown.iter_rows(named=True)
        ],
        f"Cells in which the close time alone takes more than 2 % off ({shown.height} of "
        f"{rows.height}; all in bounds.csv)",
        notes=[
            (
                "All bytes over all time is refused: the rows are digests. At most: 1 / (1 / "
                "mean + close / bytes), the mean over runs; the true throughput lies at or "
                "below it. With mixed sizes calls differ in size, and there is no bound."
            )
        ],
        left=frozenset({"machine", "messages", "batch", "configuration"}),
    )


def agreement_table(found: Sequence[Agreement]) -> ReportTable:
    """Return self-timed against traced write calls, cell by cell."""
    cells: dict[str, list[Agreement]] = {}
    for a in found:
        cells.setdefault(a.live.run.label, []).append(a)
    marked = frozenset(
        i for i, members in enumerate(cells.values()) if not all(a.agrees for a in members)
    )
    rows = []
    for label, members in cells.items():
        matched = sum(a.matched for a in members)
        within = 1 - sum(a.beyond for a in members) / matched
        rows.append(
            [
                label,
                str(len(members)),
                f"{matched:,} of {sum(a.calls for a in members):,}",
                significant(fmean([a.self_ns for a in members]) / 1e3),
                f"{fmean([a.median_difference_ns for a in members]):,.0f}",
                f"{fmean([a.difference_ns for a in members]):,.0f}",
                f"{100 * within:.2f}",
            ]
        )
    columns = ["cell", "runs", "calls", "self-timed [µs]", "median apart [ns]", "means apart [ns]"]
    return ReportTable(
        [*columns, "within [%]"],
        rows[:_MOST_ROWS],
        "A write call by tracepoints against the program's own clock",
        notes=[
            (
                f"Tolerance of a call: {100 * TOLERANCE:g} % or {TOLERANCE_NS:g} ns, if larger. "
                "Apart: traced - self-timed. On a busy machine a thread may lose the CPU between "
                "the two readings: such calls lie beyond and bend means, not medians."
            )
        ],
        marked=marked,
        left=frozenset({"cell"}),
    )


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)
