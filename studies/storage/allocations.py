"""Estimate allocations of write calls and resident memory, from runs that are not timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import by_cell
from roslens.studies.storage.live import MEMORY, LiveRun, Measure, estimates_per_run
from roslens.studies.storage.pairs import cells_table

PER_CALL = Metric(
    "storage_allocations_per_call",
    "calls of malloc, calloc, realloc and their like in a write call, mean over the run's calls",
    "1/call",
)
PER_MESSAGE = Metric(
    "storage_allocations_per_message",
    "the same of all write calls and of the close, per message",
    "1/message",
)
PER_BYTE = Metric(
    "storage_allocated_per_byte",
    "bytes that those calls asked for, per byte of messages",
    "byte/byte",
)


def _sum(live: LiveRun, column: str, calls: int | None = None) -> int:
    """Return the sum over the first write calls; None: over all, and the close."""
    assert live.storage.allocations is not None
    return int(live.storage.allocations[column][:calls].sum())


def _per_call(live: LiveRun) -> float:
    calls = live.storage.facts.write_calls
    return _sum(live, "allocations", calls) / calls


_MEASURES: Mapping[Metric, Measure] = {
    PER_CALL: _per_call,
    PER_MESSAGE: lambda live: _sum(live, "allocations") / live.storage.facts.message_count,
    PER_BYTE: lambda live: _sum(live, "allocated_bytes") / live.storage.facts.bytes,
    MEMORY: lambda live: live.memory,
}


def allocation_estimates(runs: Sequence[LiveRun], level: float) -> list[Estimate]:
    """Estimate allocations and peak memory, cell by cell, as means over runs."""
    return [e for members in by_cell(runs) for e in estimates_per_run(members, _MEASURES, level)]


def allocation_sentences(found: Sequence[Estimate]) -> list[str]:
    """Name the configurations that allocate least and most, then each with its memory."""
    counts, memory = (_by_config(found, metric) for metric in (PER_MESSAGE, MEMORY))
    by_most = sorted(counts, key=lambda config: max(counts[config]))
    least, most = by_most[0], by_most[-1]
    extremes = f"{least} allocates least ({_range(counts[least])} times) and {most} most"
    sentences = [f"Per message {extremes} ({_range(counts[most])}); nothing was timed."]
    for config in by_most:
        resident = [value / 1e6 for value in memory.get(config, [])]
        more = f"; at most {_range(resident)} MB more are resident" if resident else ""
        sentences.append(f"{config}: {_range(counts[config])} allocations per message{more}.")
    return sentences


def _by_config(estimates: Sequence[Estimate], metric: Metric) -> dict[str, list[float]]:
    """Return the values of all cells of each configuration."""
    values: dict[str, list[float]] = {}
    for e in estimates:
        if e.metric == metric.name and e.value is not None:
            values.setdefault(str(e.cell.get("plugin_config")), []).append(e.value)
    return values


def _range(values: Sequence[float]) -> str:
    low, high = (significant(value, 2) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def allocations_table(found: Sequence[Estimate]) -> ReportTable:
    """Return allocations and memory, one row per cell."""
    headings = {
        PER_CALL: ("allocations per call", 1.0),
        PER_MESSAGE: ("per message", 1.0),
        PER_BYTE: ("bytes per byte", 1.0),
        MEMORY: ("peak memory [MB]", 1e-6),
    }
    return cells_table(
        found,
        headings,
        "What write calls allocate, and the memory that is resident at most",
        "Allocations: calls of malloc, calloc, realloc and their like by any thread; per "
        "message and per byte: the close as well; bytes: those asked for. Memory: resident "
        "at most beyond that before the file was opened. Messages are there before they are "
        "written and do not count.",
    )
