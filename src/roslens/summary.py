"""Make the short table that ends ``roslens report`` from metrics.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roslens.analysis.estimate import Estimate, cell_label, shared_levels, short_labels
from roslens.analysis.measures.loss import lost_in_words
from roslens.analysis.metrics import Metrics, read_metrics
from roslens.analysis.reports.numbers import shown_unit, value_and_interval
from roslens.analysis.reports.table import ReportTable, reference

_MOST_ROWS = 40
_LEFT = frozenset({"cell", "verdict"})

_COLUMNS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "latency": (
        "Latency, publish to callback",
        {
            "latency_mean": "mean [ms]",
            "latency_p50": "P50 [ms]",
            "latency_p99": "P99 [ms]",
            "loss": "lost [%]",
        },
    ),
    "executors": (
        "Executors",
        {
            "latency_p50": "message P50 [ms]",
            "latency_p99": "message P99 [ms]",
            "response_time_p50": "call P50 [ms]",
            "goal_time_p50": "goal P50 [ms]",
            "cpu": "CPU [cores]",
        },
    ),
    "communication": (
        "Communication; latency from the first publish event; of a full queue it is the backlog",
        {
            "publisher_period": "publisher period [ms]",
            "subscription_period": "subscription period [ms]",
            "latency_mean": "mean latency [ms]",
            "logged_latency_mean": "by the log [ms]",
            "loss": "lost [%]",
            "queue_depth_seen": "queue depth seen",
        },
    ),
    "chains": (
        "Chains, first publication to the end of the last callback",
        {
            "response_time_p50": "P50 [ms]",
            "response_time_p99": "P99 [ms]",
            "response_time_max": "max [ms]",
            "chain_complete": "complete [%]",
            "chain_rate": "rate [Hz]",
        },
    ),
    "leaks": (
        "Memory, slope over runs",
        {
            "memory_slope": "per second [B/s]",
            "memory_slope_per_message": "per message [B]",
            "memory_baseline": "baseline [MB]",
        },
    ),
}
"""For notebooks whose cells need only a few metrics: a title, and the metrics' headings."""

_WITHOUT_RECORDINGS = {
    "calibration": "from simulations",
    "tool": "from result files of other tools",
}

_SIMULATED = "calibration"
"""The notebook whose estimates come from simulations, grouped by what was simulated."""


def summary_table(metrics: Path, notebook: str) -> ReportTable:
    """Summarize a report; the table's first note tells the number of runs and the tracer's loss.

    Notebooks in `_COLUMNS` have one row per cell; other notebooks have one row per
    estimate.

    Parameters
    ----------
    metrics
        A metrics.json or its folder.
    notebook
        Name of the notebook that wrote the file.

    Raises
    ------
    UsageError
        The file cannot be read.
    """
    stored = read_metrics(metrics)
    if notebook == _SIMULATED:
        table = _by_section(stored.estimates)
    elif notebook in _COLUMNS:
        table = _by_cell(stored.estimates, *_COLUMNS[notebook])
    else:
        table = _by_estimate(stored.estimates, f"{notebook}: estimates")
    return replace(table, notes=[_runs_and_loss(stored, notebook), *table.notes])


def _by_cell(estimates: Sequence[Estimate], title: str, headings: Mapping[str, str]) -> ReportTable:
    estimates_by_cell: dict[str, dict[str, Estimate]] = {}
    listed = [e for e in estimates if e.metric in headings]
    # Without a work topic, each topic has a row.
    has_work_topic = any("topic" not in e.cell and e.metric.startswith("latency") for e in listed)
    for estimate in listed:
        if not has_work_topic or "topic" not in estimate.cell:
            estimates_by_cell.setdefault(cell_label(estimate.cell), {})[estimate.metric] = estimate
    cells = [next(iter(of_metric.values())).cell for of_metric in estimates_by_cell.values()]
    verdicts = [
        {e.verdict for e in of_metric.values() if e.verdict}
        for of_metric in estimates_by_cell.values()
    ]
    judged = any(verdicts)
    rows: list[list[str]] = []
    shown_cells = _Cells(e for of_metric in estimates_by_cell.values() for e in of_metric.values())
    for label, of_metric, verdict in zip(
        short_labels(cells), estimates_by_cell.values(), verdicts, strict=True
    ):
        shown = [shown_cells.text(of_metric.get(name)) for name in headings]
        runs = max(e.runs for e in of_metric.values())
        if judged:
            shown.append(", ".join(sorted(verdict)).replace("_", " "))
        rows.append([label, str(runs), *shown])
    common = shared_levels(cells)
    notes = [f"in all cells: {common}"] if common and len(cells) > 1 else []
    columns = ["cell", "runs", *headings.values(), *["verdict"] * judged]
    return ReportTable(columns, rows, title, notes + shown_cells.notes, left=_LEFT)


def _by_section(estimates: Sequence[Estimate]) -> ReportTable:
    """Show the smallest and largest fraction of each kind of simulated experiment."""
    groups: dict[tuple[str, str], list[Estimate]] = {}
    for estimate in estimates:
        groups.setdefault((str(estimate.cell.get("section", "")), estimate.metric), []).append(
            estimate
        )
    rows = []
    for (section, metric), members in groups.items():
        values = [100 * e.value for e in members if e.value is not None]
        verdicts = Counter(e.verdict for e in members if e.verdict)
        listing = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
        span = f"{min(values):.1f} to {max(values):.1f}" if values else "-"
        rows.append([section, metric.replace("_", " "), span, str(len(members)), listing])
    columns = ["section", "what", "found [%]", "cells", "verdict"]
    title = "Calibration: what was simulated, and the fractions found"
    return ReportTable(columns, rows, title, left=_LEFT | {"section", "what"})


def _by_estimate(estimates: Sequence[Estimate], title: str) -> ReportTable:
    judged = any(e.verdict for e in estimates)
    shown_cells = _Cells(estimates)
    rows = [
        [
            cell_label(e.cell),
            e.metric,
            shown_cells.text(e),
            shown_unit(e.unit)[1],
            str(e.runs),
            *([e.verdict or ""] if judged else []),
        ]
        for e in estimates[:_MOST_ROWS]
    ]
    hidden = len(estimates) - _MOST_ROWS
    more = "1 more estimate is" if hidden == 1 else f"{hidden:,} more estimates are"
    notes = [f"{more} in metrics.json"] if hidden > 0 else []
    columns = ["cell", "metric", "value [interval]", "unit", "runs", *["verdict"] * judged]
    return ReportTable(columns, rows, title, notes + shown_cells.notes, left=_LEFT | {"metric"})


def _runs_and_loss(metrics: Metrics, notebook: str) -> str:
    if not metrics.recordings:
        given = metrics.recorded.get("from", "published figures")
        return _WITHOUT_RECORDINGS.get(notebook, f"from {given}")
    discarded = sum(r["discarded_events"] or 0 for r in metrics.recordings)
    packets = sum(r["lost_packets"] or 0 for r in metrics.recordings)
    cut = sum(r.get("truncated") or 0 for r in metrics.recordings)
    failed = sum(not r["counts"] for r in metrics.recordings)
    lost = lost_in_words(discarded, packets, cut)
    lost = f"the tracer lost events: {lost}" if lost else "the tracer lost nothing"
    count = len(metrics.recordings)
    parts = sum("excerpt" in r for r in metrics.recordings)
    part = f"; only part of {parts} of the recordings was looked at" if parts else ""
    return f"{count} run{'s' * (count != 1)} ({failed} left out); {lost}{part}"


class _Cells:
    """Formatter of cells, with notes on missing intervals: a reason shared by all is noted once."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        reasons = {e.refused for e in estimates if _has_value(e)}
        self._of_all = reasons.pop() if len(reasons) == 1 else None
        self._reasons: list[str] = []

    def text(self, estimate: Estimate | None) -> str:
        """Return value and interval, or the number of a note that explains a refusal."""
        if estimate is None:
            return "-"
        value, interval = value_and_interval(estimate)
        if estimate.refused is None:
            return f"{value} {interval}"
        if not _has_value(estimate):
            return f"refused ({reference(estimate.refused, self._reasons)})"
        if estimate.refused == self._of_all:
            return value
        return f"{value} ({reference(f'no interval: {estimate.refused}', self._reasons)})"

    @property
    def notes(self) -> list[str]:
        """Return the notes below the table."""
        numbered = [f"({i}) {reason}" for i, reason in enumerate(self._reasons, 1)]
        return [f"no intervals: {self._of_all}"] * bool(self._of_all) + numbered


def _has_value(estimate: Estimate) -> bool:
    return estimate.value is not None and math.isfinite(estimate.value)
