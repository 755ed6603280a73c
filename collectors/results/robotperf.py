"""Read the results in a RobotPerf benchmark.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from roslens.collectors.results.tool_result import ToolResult, read_text, rows_of

TOOL = "robotperf"
_NOTE = re.compile(r"(mean|rms|max|min|lost)\s+([-+.\deE]+)\s*(ms|%)?")
_UNITS = {"ms": (1e6, "ns"), "us": (1e3, "ns"), "s": (1e9, "ns"), "%": (0.01, "1")}


def read_robotperf(path: Path) -> ToolResult:
    """Read a benchmark.yaml: its results, and the statistics in their notes.

    Raises
    ------
    UsageError
        The file is no benchmark.yaml.
    """
    data = yaml.safe_load(read_text(path))
    results = [entry["result"] for entry in data["results"]]
    summary: list[dict[str, Any]] = []
    for result in results:
        base = {
            "entity": str(result.get("hardware", "")),
            "node": str(result.get("datasource", "")),
            "name": str(result.get("category", "")),
        }
        factor, unit = _UNITS.get(str(result["metric_unit"]), (1.0, str(result["metric_unit"])))
        metric = str(result["metric"])
        summary += rows_of({metric: (float(result["value"]) * factor, unit)}, **base)
        for name, value, symbol in _NOTE.findall(str(result.get("note", ""))):
            scale, its = _UNITS.get(symbol, (1.0, "1"))
            summary += rows_of({f"{metric}_{name}": (float(value) * scale, its)}, **base)
    metadata = {k: str(v) for k, v in data.items() if isinstance(v, (str, int, float))}
    return ToolResult.of(TOOL, summary, metadata=metadata)
