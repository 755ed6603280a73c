"""Read buildfarm_perf_tests: the collector's CSV, Jenkins' two-row CSV and benchmark.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import (
    ToolResult,
    number,
    read_text,
    rows_of,
    table_rows,
)
from roslens.recording.json_file import read_json

TOOL = "buildfarm_perf_tests"
_MIB = 1024**2
_PAGES_AS_KB = 4
_UNITS = {"ms": (1e6, "ns"), "s": (1e9, "ns"), "us": (1e3, "ns"), "percent": (0.01, "1")}

_NO_P95 = "95th percentiles are left out: they may be the maximum"
_COLUMNS = {
    "cpu_usage (%)": ("cpu", 0.01, "1"),
    "virtual memory (Mb)": ("virtual", _MIB * _PAGES_AS_KB, "byte"),
    "physical memory (Mb)": ("rss", _MIB, "byte"),
    "resident anonymous memory (Mb)": ("rss_by_pages", _MIB * _PAGES_AS_KB, "byte"),
    "system_cpu_usage (%)": ("system_cpu", 0.01, "1"),
    "system virtual memory (Mb)": ("system_virtual", _MIB, "byte"),
}


def read_buildfarm_csv(path: Path) -> ToolResult:
    """Read the CSV of system_metric_collector, 1 row per second.

    The tool divided virtual and "resident anonymous" memory, counted in pages, as if it were KB:
    both are multiplied by 4 (pages of 4 KiB). The second is all resident pages, not anonymous ones.

    Raises
    ------
    UsageError
        A row does not fit its header.
    """
    series: list[dict[str, Any]] = []
    for where, row in table_rows(path):
        time = number(row["T_experiment"], where)
        figures = {
            metric: (number(row[name], f"{where} {name}") * factor, unit)
            for name, (metric, factor, unit) in _COLUMNS.items()
            if name in row
        }
        series += rows_of(figures, time_ns=round(time * 1e9))
    notes = (
        "virtual and 'resident anonymous' memory were pages read as KB: multiplied by 4",
        "'resident anonymous' is all resident memory",
    )
    return ToolResult.of(TOOL, series=series, notes=notes)


_PROCESS = tuple(
    (f"{name}_{statistic}" if statistic else "", factor, unit)
    for name, factor, unit in (
        ("virtual", _MIB * _PAGES_AS_KB, "byte"),
        ("cpu", 0.01, "1"),
        ("rss", _MIB, "byte"),
        ("rss_by_pages", _MIB * _PAGES_AS_KB, "byte"),
    )
    for statistic in ("mean", "median", "")
)
_MESSAGES = (
    ("latency_mean_of_seconds", 1e6, "ns"),
    ("latency_median_of_seconds", 1e6, "ns"),
    ("", 1.0, ""),
    ("rss_peak", 1024.0, "byte"),
    ("received_rate", 1.0, "Hz"),
    ("sent_rate", 1.0, "Hz"),
    ("lost", 1.0, "1"),
)
_LAYOUTS = {
    12: _PROCESS,
    13: (
        *_MESSAGES,
        ("cpu_mean", 0.01, "1"),
        ("", 1.0, ""),
        ("cpu_median", 0.01, "1"),
        ("throughput_mean", float(_MIB), "byte/s"),
        ("throughput_median", float(_MIB), "byte/s"),
        ("", 1.0, ""),
    ),
    21: (
        *_PROCESS,
        *_MESSAGES,
        ("system_cpu_mean", 0.01, "1"),
        ("system_virtual_mean", float(_MIB), "byte"),
    ),
}
"""Columns of Jenkins' CSV by their number; a 95th percentile has no name."""


def is_buildfarm_plot(text: str) -> bool:
    """Return whether a text is Jenkins' CSV: one name in all cells of row 1, values in row 2."""
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    return (
        len(rows) == 2
        and len(rows[0]) == len(rows[1])
        and len(rows[0]) in _LAYOUTS
        and len(set(rows[0])) == 1
        and rows[0][0].strip()[:1].isalpha()
    )


def read_buildfarm_plot(path: Path) -> ToolResult:
    """Read the CSV for Jenkins' plots: the name of the test in each cell, and values below.

    Only the column tells the meaning of a value; there are 12 columns for a spinning node, 13 for
    performance_test, 21 for a publisher or subscriber. 95th percentiles are left out: some versions
    of pandas gave the maximum instead. Memory in pages is corrected as in `read_buildfarm_csv`.

    Raises
    ------
    UsageError
        A cell is not a number.
    """
    names, cells = (line.split(",") for line in read_text(path).splitlines() if line.strip())
    figures = {
        metric: (number(cell.strip(), f"{path}:2") * factor, unit)
        for (metric, factor, unit), cell in zip(_LAYOUTS[len(cells)], cells, strict=True)
        if metric
    }
    summary = rows_of(figures, entity="process", name=names[0].strip())
    notes = [_NO_P95, "one run condensed to one figure each: no interval can be had from it"]
    if len(cells) != 12:
        notes.append("latencies are means over seconds, whatever each second received")
    if len(cells) != 13:
        notes.append("virtual and 'resident anonymous' memory were pages read as KB: times 4")
    return ToolResult.of(TOOL, summary, notes=notes)


def read_buildfarm_benchmark(path: Path) -> ToolResult:
    """Read a benchmark.json.

    A 95th percentile may be the maximum (with pandas 3 its position in ``describe`` differs) and
    is left out; throughput is in MiB/s whatever its unit says.

    Raises
    ------
    UsageError
        The file is no benchmark.json.
    """
    summary: list[dict[str, Any]] = []
    notes = set()
    groups = read_json(path)
    for group, tests in groups.items():
        for test, values in tests.items():
            for metric, value in values.items():
                if not isinstance(value, dict) or "dblValue" not in value:
                    continue
                if "p95" in metric or "95" in metric.split("_"):
                    notes.add(_NO_P95)
                    continue
                factor, unit = _UNITS.get(str(value.get("unit")), (1.0, str(value.get("unit"))))
                if "throughput" in metric:
                    factor, unit = float(_MIB), "byte/s"
                    notes.add("throughput is MiB/s, whatever its unit says")
                figure = (float(value["dblValue"]) * factor, unit)
                summary += rows_of({metric: figure}, entity=group, name=test)
    return ToolResult.of(TOOL, summary, notes=sorted(notes))
