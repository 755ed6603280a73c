"""Compute how many messages survive a crash or a power loss, by configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import Run, by_cell
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.one_cell import LEVEL
from roslens.analysis.verdicts.statement import Statement
from roslens.studies.storage.statements import verdict_over_cells

CLAIMS = {
    "sqlite_default": "MCAP gives more messages back than SQLite does",
    "sqlite_resilient": "MCAP gives more messages back than SQLite's resilient setting does",
}
"""Judged for mcap_default against each of these, in each kind of failure and batch: holds in a cell
if the mean difference over runs of the same block, with its interval by Student's t, lies above
0; false if it lies below. The compared figure is the part of acknowledged messages that a plain
reader returns."""
RESILIENCE_RULE = (
    "Judged in each kind of failure and batch: the difference of what a plain reader gives back, "
    "over runs of the same block; its whole 95 % interval above 0 holds, below 0 is false."
)
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
_MORE = Metric(
    "storage_recovered_more", "fraction recovered by MCAP less that by SQLite", "1", scale="signed"
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
    """A run of the suite storage-resilience: its machine, and its trials (`read_recovery`)."""

    run: Run
    machine: str
    trials: pl.DataFrame


def recovery_estimates(runs: Sequence[RecoveryRun], level: float) -> list[Estimate]:
    """Estimate the fractions recovered: the mean over a run's trials, Student t over runs."""
    estimates = []
    for members in by_cell(runs):
        trials = [recovery.trials for recovery in members]
        count = sum(t.height for t in trials)
        for metric, column in ((RECOVERED, "recovered"), (WITH_TOOL, "recovered_with_tool")):
            values = [fmean(_fraction(t, column)) for t in trials]
            cell = members[0].run.cell
            estimates.append(value_over_runs(metric, cell, values, count, level))
    return estimates


def resilience(runs: Sequence[RecoveryRun]) -> list[Statement]:
    """Judge whether MCAP offers better resilience to corruption: `CLAIMS`, on each machine."""
    rows = pl.DataFrame(
        [
            (
                recovery.machine,
                recovery.run.block,
                str(recovery.run.cell.get("failure")),
                str(recovery.run.cell.get("batch_size")),
                str(recovery.run.cell.get("plugin_config")),
                fmean(_fraction(recovery.trials, "recovered")),
            )
            for recovery in runs
        ],
        schema=["machine", "block", "messages", "batch_size", "plugin_config", "back"],
        orient="row",
    )
    statements = []
    for (machine,), of_machine in rows.group_by(["machine"], maintain_order=True):
        for base, claim in CLAIMS.items():
            verdict, because = verdict_over_cells(_answers(of_machine, base))
            statements.append(Statement(claim, verdict, because, str(machine)))
    return statements


def _answers(rows: pl.DataFrame, base: str) -> Iterator[tuple[object, str]]:
    """Yield the answer of each cell with enough runs of both configurations."""
    key = ["block", "messages", "batch_size"]
    mcap = rows.filter(plugin_config="mcap_default")
    joined = mcap.join(rows.filter(plugin_config=base), on=key, suffix="_base")
    for cell, pairs in joined.group_by(key[1:], maintain_order=True):
        difference = (pairs["back"] - pairs["back_base"]).to_list()
        estimate = value_over_runs(_MORE, {}, difference, len(difference), LEVEL)
        more = estimate.low is not None and estimate.low > 0
        less = estimate.high is not None and estimate.high < 0
        yield cell, "holds" if more else "false" if less else "undecided"


def recovery_table(runs: Sequence[RecoveryRun]) -> ReportTable:
    """Return per cell the messages recovered, on average and at worst, and the number lost."""
    rows: list[list[str]] = []
    marked: set[int] = set()
    for members in by_cell(runs):
        trials = pl.concat([recovery.trials for recovery in members])
        lost = (trials["acknowledged"] - trials["recovered"]).clip(0)
        wrong = int(trials["wrong"].sum())
        if wrong:
            marked.add(len(rows))
        rows.append(
            [
                members[0].run.label,
                str(len(members)),
                str(trials.height),
                f"{100 * fmean(_fraction(trials, 'recovered')):.1f}",
                f"{100 * fmean(_fraction(trials, 'recovered_with_tool')):.1f}",
                f"{fmean(lost):,.1f}",
                f"{max(lost.to_list()):,}",
                f"{wrong:,}",
                f"{100 * fmean(trials['whole']):.0f}",
            ]
        )
    columns = ["cell", "runs", "trials", "back [%]", "with a tool [%]", "lost, mean", "lost, most"]
    return ReportTable(
        [*columns, "wrong", "without complaint [%]"],
        rows,
        "Messages that came back of those acknowledged",
        notes=[_BACK, _POWER],
        marked=frozenset(marked),
        left=frozenset({"cell"}),
    )


def _fraction(trials: pl.DataFrame, column: str) -> pl.Series:
    return (trials[column] / trials["acknowledged"]).clip(0.0, 1.0)
