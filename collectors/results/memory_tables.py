"""Read memory figures of benchmark scripts: per number of entities, and over time by psutil."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import (
    ToolResult,
    number,
    rows_of,
    table_rows,
)
from roslens.recording.errors import UsageError


def read_memory_benchmark(path: Path) -> ToolResult:
    """Read the CSV of ros2-performance's memory_benchmark: ``rss_peak`` by kind and number.

    Columns are Entity, N, RSS, DELTA (KB). RSS is ru_maxrss, a peak, which is right here because
    entities are only added. The largest of several rows with equal N (as at the beginning) counts.

    Raises
    ------
    UsageError
        There is no row, or one is truncated.
    """
    peaks: dict[tuple[str, str], float] = {}
    for where, row in table_rows(path):
        count, size = (number(row[name], where) for name in ("N", "RSS"))
        key = (row["Entity"], f"{count:g}")
        peaks[key] = max(size * 1024, peaks.get(key, 0.0))
    if not peaks:
        raise UsageError(f"{path}: no row below its header; did the benchmark run?")
    summary = [
        {"entity": entity, "name": n, "metric": "rss_peak", "value": size, "unit": "byte"}
        for (entity, n), size in peaks.items()
    ]
    note = "RSS is a peak (ru_maxrss): right only because entities are never taken away"
    return ToolResult.of("memory_benchmark", summary, notes=[note])


_PSUTIL = {
    "CPU[%]": ("cpu", 0.01, "core"),
    "PSS[MB]": ("pss", 1024.0**2, "byte"),
    "RSS[MB]": ("rss", 1024.0**2, "byte"),
    "MaxVMS[MB]": ("virtual_peak", 1024.0**2, "byte"),
}


def read_psutil(path: Path) -> ToolResult:
    """Read the table of run_psutil.py (ros2-performance): true RSS and PSS, summed over processes.

    Raises
    ------
    UsageError
        There is no row, or one is truncated.
    """
    rows: list[dict[str, Any]] = []
    for where, row in table_rows(path):
        values = {name: number(cell, f"{where} {name}") for name, cell in row.items()}
        figures = {
            metric: (values[name] * factor, unit)
            for name, (metric, factor, unit) in _PSUTIL.items()
            if name in values
        }
        rows += rows_of(figures, time_ns=round(values["Time[sec]"] * 1e9))
    if not rows:
        raise UsageError(f"{path}: no row below its header; did the program run?")
    return ToolResult.of("run_psutil", series=rows)
