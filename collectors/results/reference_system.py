"""Read results of the reference system (ros-realtime): memory_log.txt and std_output.log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import (
    ToolResult,
    named,
    number,
    numbered,
    read_text,
    rows_of,
)

TOOL = "reference_system"
FILES = ("memory_log.txt", "std_output.log")
_MEGABYTE = 1024**2
_MEMORY = ("time", "cpu", "real", "virtual")
_STATISTIC = re.compile(
    r"^\s*(?P<name>latency|hot path latency|hot path drops|behavior planner period):\s+\S+\s+"
    r"\[min=(?P<min>[-+.\deE]+)(?P<unit>ms)?, max=(?P<max>[-+.\deE]+)(?:ms)?, "
    r"average=(?P<mean>[-+.\deE]+)(?:ms)?, deviation=(?P<sd>[-+.\deE]+)(?:ms)?\]"
)
_NAMES = {
    "latency": "latency",
    "hot path latency": "hot_path_latency",
    "hot path drops": "hot_path_drops",
    "behavior planner period": "behavior_planner_period",
}
_MOST_MS = 1e9


def is_reference_system(folder: Path) -> bool:
    """Return whether `folder` holds such results."""
    return any((folder / name).is_file() for name in FILES)


def read_reference_system(folder: Path) -> ToolResult:
    """Read the folder of one run.

    The program prints running statistics: the last one of each kind is that of the whole run. A
    latency may have wrapped around below zero (it is unsigned): such statistics are left out.

    Raises
    ------
    UsageError
        A row of the memory log is truncated.
    """
    summary: list[dict[str, Any]] = []
    series: list[dict[str, Any]] = []
    notes = []
    output = folder / "std_output.log"
    if output.is_file():
        last = {m["name"]: m for m in map(_STATISTIC.match, read_text(output).splitlines()) if m}
        if not last:
            notes.append("std_output.log has no statistics (benchmark mode prints none)")
        for name, match in last.items():
            factor, unit = (1e6, "ns") if match["unit"] else (1.0, "1")
            if float(match["max"]) > _MOST_MS:
                notes.append(f"{name} had wrapped around and is left out")
                continue
            figures = {
                f"{_NAMES[name]}_{statistic}": (float(match[statistic]) * factor, unit)
                for statistic in ("min", "max", "mean", "sd")
            }
            summary += rows_of(figures, entity="path")
    memory = folder / "memory_log.txt"
    if memory.is_file():
        for place, line in numbered(read_text(memory))[1:]:
            where = f"{memory}:{place}"
            cells = named(line.split(), _MEMORY, where)
            time, cpu, real, virtual = (number(cell, where) for cell in cells.values())
            figures = {
                "cpu": (cpu / 100, "core"),
                "rss": (real * _MEGABYTE, "byte"),
                "virtual": (virtual * _MEGABYTE, "byte"),
            }
            series += rows_of(figures, time_ns=round(time * 1e9))
    return ToolResult.of(TOOL, summary, series, notes=notes)
