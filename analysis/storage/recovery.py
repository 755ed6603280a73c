"""How many messages a crash or a power loss leaves, by configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs

RECOVERED = Metric(
    "storage_recovered",
    "messages that a plain reader gives back as written, of those whose write call had returned "
    "(at most 1: what was being written may come back too)",
    "1",
    "higher",
    "fraction",
)
WITH_TOOL = Metric(
    "storage_recovered_with_tool",
    "the same with the best means of recovery (SQLite: PRAGMA writable_schema, sqlite3 .recover; "
    "MCAP: none was there)",
    "1",
    "higher",
    "fraction",
)

_BACK = (
    "Back: as written, by a reader that is not the library that wrote. Lost: acknowledged messages "
    "that did not come back. Wrong: came back with another content."
)
_POWER = (
    "power_dropped: nothing after a file's last sync is on the disk; power_torn: each 4 KiB block "
    "of each later write is, or is not, with equal chances, the last one cut at a sector. SQLite "
    "with synchronous=OFF and MCAP never sync before they close."
)


@dataclass(frozen=True)
class RecoveryRun:
    """A run of the suite storage-resilience: its trials (`read_recovery`)."""

    run: Run
    trials: pl.DataFrame


def recovery_estimates(runs: Sequence[RecoveryRun], level: float) -> list[Estimate]:
    """Fractions that came back: the mean over a run's trials, Student t over runs."""
    of_run = {found.run.name: found for found in runs}
    estimates = []
    for members in cells_of([found.run for found in runs]).values():
        trials = [of_run[run.name].trials for run in members]
        count = sum(t.height for t in trials)
        for metric, column in ((RECOVERED, "recovered"), (WITH_TOOL, "recovered_with_tool")):
            values = [_mean(_fraction(t, column)) for t in trials]
            estimates.append(value_over_runs(metric, members[0].cell, values, count, level))
    return estimates


def recovery_table(runs: Sequence[RecoveryRun]) -> ReportTable:
    """Per cell: what came back, at worst and on average, and how many were lost."""
    of_run = {found.run.name: found for found in runs}
    names = list(dict.fromkeys(name for found in runs for name in found.run.cell))
    rows: list[list[str]] = []
    marked: set[int] = set()
    for members in cells_of([found.run for found in runs]).values():
        trials = pl.concat([of_run[run.name].trials for run in members])
        lost = (trials["acknowledged"] - trials["recovered"]).clip(0)
        wrong = int(trials["wrong"].sum())
        if wrong:
            marked.add(len(rows))
        rows.append(
            [
                *(str(members[0].cell.get(name, "-")) for name in names),
                str(len(members)),
                str(trials.height),
                f"{100 * _mean(_fraction(trials, 'recovered')):.1f}",
                f"{100 * _mean(_fraction(trials, 'recovered_with_tool')):.1f}",
                f"{_mean(lost):,.1f}",
                f"{max(lost.to_list()):,}",
                f"{wrong:,}",
                f"{100 * _mean(trials['whole']):.0f}",
            ]
        )
    columns = [*names, "runs", "trials", "back [%]", "with a tool [%]", "lost, mean", "lost, most"]
    return ReportTable(
        [*columns, "wrong", "without complaint [%]"],
        rows,
        "Messages that came back of those acknowledged",
        notes=[_BACK, _POWER],
        marked=frozenset(marked),
        left=frozenset(names),
    )


def _fraction(trials: pl.DataFrame, column: str) -> pl.Series:
    return (trials[column] / trials["acknowledged"]).clip(0.0, 1.0)


def _mean(values: pl.Series) -> float:
    return float(sum(values.to_list())) / len(values)
