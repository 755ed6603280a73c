"""Results of buildfarm_perf_tests: the collector's CSV and Jenkins' benchmark.json."""

from __future__ import annotations

import json
from pathlib import Path

from roslens.collectors.results.tool_result import (
    ToolResult,
    number,
    read_text,
    series_frame,
    split_row,
    summary_frame,
)
from roslens.tracing.recording.errors import UsageError

TOOL = "buildfarm_perf_tests"
_MIB = 1024**2
_PAGES_AS_KB = 4
_UNITS = {"ms": (1e6, "ns"), "s": (1e9, "ns"), "us": (1e3, "ns"), "percent": (0.01, "1")}

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

    Virtual and "resident anonymous" memory are pages that were divided as if they were KB: they are
    multiplied by 4 (pages of 4 KiB). The second is all resident pages, not the anonymous ones.

    Raises
    ------
    UsageError
        It is no such file, or a row does not fit its header.
    """
    lines = [(i, x) for i, x in enumerate(read_text(path).splitlines(), 1) if x.strip()]
    header = split_row(lines[0][1]) if lines else []
    if "T_experiment" not in header:
        raise UsageError(f"{path}: no column T_experiment; not a file of system_metric_collector")
    series = []
    for place, line in lines[1:]:
        cells = split_row(line)
        if len(cells) < len(header):
            raise UsageError(
                f"{path}:{place}: {len(cells)} cells under {len(header)} columns; "
                "is the file cut off?"
            )
        row = dict(zip(header, cells, strict=False))
        time = number(row["T_experiment"], f"{path}:{place}")
        series += [
            {
                "time_ns": round(time * 1e9),
                "metric": metric,
                "value": number(row[name], f"{path}:{place} {name}") * factor,
                "unit": unit,
            }
            for name, (metric, factor, unit) in _COLUMNS.items()
            if name in row
        ]
    notes = (
        "virtual and 'resident anonymous' memory were pages read as KB: multiplied by 4",
        "'resident anonymous' is all resident memory",
    )
    return ToolResult(TOOL, {}, series=series_frame(series), notes=notes)


def read_buildfarm_benchmark(path: Path) -> ToolResult:
    """Read a benchmark.json.

    A 95th percentile may be the maximum (with pandas 3 its position in ``describe`` is another) and
    is left out; throughput is MiB/s whatever its unit says.

    Raises
    ------
    UsageError
        It is no such file.
    """
    summary = []
    notes = set()
    try:
        groups = json.loads(read_text(path))
        for group, tests in groups.items():
            for test, values in tests.items():
                for metric, value in values.items():
                    if not isinstance(value, dict) or "dblValue" not in value:
                        continue
                    if "p95" in metric or "95" in metric.split("_"):
                        notes.add("95th percentiles are left out: they may be the maximum")
                        continue
                    factor, unit = _UNITS.get(str(value.get("unit")), (1.0, str(value.get("unit"))))
                    if "throughput" in metric:
                        factor, unit = float(_MIB), "byte/s"
                        notes.add("throughput is MiB/s, whatever its unit says")
                    summary.append(
                        {
                            "entity": group,
                            "name": test,
                            "metric": metric,
                            "value": float(value["dblValue"]) * factor,
                            "unit": unit,
                        }
                    )
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"{path}: not a benchmark.json: {error}") from error
    return ToolResult(TOOL, {}, summary_frame(summary), notes=tuple(sorted(notes)))
