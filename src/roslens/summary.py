"""The short table that ends ``roslens report``, made from metrics.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from roslens.analysis.estimate import Estimate, cell_label, shared_levels, short_labels
from roslens.analysis.metrics import Metrics, read_metrics
from roslens.analysis.reports.numbers import shown_unit, value_and_interval

_MOST_ROWS = 40

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
"""Per notebook that says most with a few metrics of each cell: a title, and their headings."""

_WITHOUT_RECORDINGS = {
    "calibration": "from simulations",
    "tool": "from result files of other tools",
}

_SIMULATED = "calibration"
"""The notebook whose estimates are of simulations, by what was simulated."""


def summary_table(metrics: Path, notebook: str) -> Table:
    """What a report found, in short, and what the tracer lost.

    One row per cell for the notebooks of which a few metrics say most; one row per estimate for
    any other.

    Parameters
    ----------
    metrics
        A metrics.json or its folder.
    notebook
        Name of the notebook that wrote it.

    Raises
    ------
    UsageError
        It cannot be read.
    """
    found = read_metrics(metrics)
    notes: list[str] = []
    if notebook == _SIMULATED:
        table = _by_section(found.estimates)
    elif notebook in _COLUMNS:
        table = _by_cell(found.estimates, *_COLUMNS[notebook], notes)
    else:
        table = _by_estimate(found.estimates, f"{notebook}: estimates", notes)
    table.caption = Text("\n".join([_runs_and_loss(found, notebook), *notes]))
    return table


def _by_cell(
    estimates: Sequence[Estimate], title: str, headings: Mapping[str, str], notes: list[str]
) -> Table:
    of_cell: dict[str, dict[str, Estimate]] = {}
    known = [e for e in estimates if e.metric in headings]
    # Where no work topic is named, each topic has a row.
    own = any("topic" not in e.cell and e.metric.startswith("latency") for e in known)
    for estimate in known:
        if not own or "topic" not in estimate.cell:
            of_cell.setdefault(cell_label(estimate.cell), {})[estimate.metric] = estimate
    cells = [next(iter(of_metric.values())).cell for of_metric in of_cell.values()]
    verdicts = [{e.verdict for e in x.values() if e.verdict} for x in of_cell.values()]
    judged = any(verdicts)
    table = _table(title, "runs", *headings.values(), *["verdict"] * judged)
    reasons: list[str] = []
    for label, of_metric, verdict in zip(
        short_labels(cells), of_cell.values(), verdicts, strict=True
    ):
        shown = [_short(of_metric.get(name), reasons) for name in headings]
        runs = max(e.runs for e in of_metric.values())
        if judged:
            shown.append(Text(", ".join(sorted(verdict)).replace("_", " ")))
        table.add_row(Text(label.replace(", ", "\n")), str(runs), *shown)
    common = shared_levels(cells)
    if common and len(cells) > 1:
        notes.append(f"in all cells: {common}")
    notes += _numbered(reasons)
    return table


def _by_section(estimates: Sequence[Estimate]) -> Table:
    """Fractions of simulated experiments: the least and the largest of each kind."""
    table = _table("Calibration: what was simulated, and the fractions found", "what", "found [%]",
                   "cells", "verdict")  # fmt: skip
    groups: dict[tuple[str, str], list[Estimate]] = {}
    for estimate in estimates:
        groups.setdefault((str(estimate.cell.get("section", "")), estimate.metric), []).append(
            estimate
        )
    for (section, metric), members in groups.items():
        values = [100 * e.value for e in members if e.value is not None]
        verdicts = Counter(e.verdict for e in members if e.verdict)
        told = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
        span = f"{min(values):.1f} to {max(values):.1f}" if values else "-"
        table.add_row(Text(section), metric.replace("_", " "), span, str(len(members)), Text(told))
    return table


def _by_estimate(estimates: Sequence[Estimate], title: str, notes: list[str]) -> Table:
    judged = any(e.verdict for e in estimates)
    table = _table(title, "metric", "value [interval]", "unit", "runs", *["verdict"] * judged)
    table.columns[1].justify = "left"
    reasons: list[str] = []
    before = None
    for e in estimates[:_MOST_ROWS]:
        label = cell_label(e.cell).replace(", ", "\n") if e.cell else ""
        verdict = [e.verdict or ""] if judged else []
        value = _short(e, reasons)
        unit = shown_unit(e.unit)[1]
        table.add_row(
            Text("" if label == before else label), Text(e.metric), value, unit, str(e.runs),
            *map(Text, verdict),
        )  # fmt: skip
        before = label
    hidden = len(estimates) - _MOST_ROWS
    if hidden > 0:
        more = "1 more estimate is" if hidden == 1 else f"{hidden:,} more estimates are"
        notes.append(f"{more} in metrics.json")
    notes += _numbered(reasons)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    for heading in headings:
        table.add_column(Text(heading), justify="right")
    return table


def _runs_and_loss(found: Metrics, notebook: str) -> str:
    if not found.recordings:
        return _WITHOUT_RECORDINGS.get(notebook, "from published figures")
    discarded = sum(r["discarded_events"] or 0 for r in found.recordings)
    packets = sum(r["lost_packets"] or 0 for r in found.recordings)
    cut = sum(r.get("truncated") or 0 for r in found.recordings)
    failed = sum(not r["counts"] for r in found.recordings)
    lost = (
        f"the tracer lost {discarded:,} events and {packets:,} packets"
        if discarded or packets
        else "the tracer lost nothing"
    )
    lost += f", {cut:,} stretches of streams are not there" if cut else ""
    count = len(found.recordings)
    parts = sum("excerpt" in r for r in found.recordings)
    part = f"; only part of {parts} of the recordings was looked at" if parts else ""
    return f"{count} run{'s' * (count != 1)} ({failed} left out); {lost}{part}"


def _numbered(reasons: Sequence[str]) -> list[str]:
    return [f"({i}) {reason}" for i, reason in enumerate(reasons, 1)]


def _short(estimate: Estimate | None, reasons: list[str]) -> Text:
    if estimate is None:
        return Text("-")
    value, interval = value_and_interval(estimate)
    if estimate.refused is None:
        return Text(f"{value}\n{interval}")
    if estimate.refused not in reasons:
        reasons.append(estimate.refused)
    number = reasons.index(estimate.refused) + 1
    known = estimate.value is not None and math.isfinite(estimate.value)
    return Text(f"{value if known else ''}\nrefused ({number})".strip())
