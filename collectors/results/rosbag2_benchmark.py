"""Read results.csv of rosbag2_performance_benchmarking: messages sent and recorded by rosbag2.

The columns are separated by ONE space and may be empty (two spaces in a row), so that splitting
at white space would shift them. A run has one row per publisher group, consecutively;
``producers.yaml`` beside the file states the number of groups.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from roslens.collectors.results.tool_result import ToolResult, number, read_text, rows_of
from roslens.recording.errors import UsageError

TOOL = "rosbag2_performance_benchmarking"
TEXTS = ("storage_id", "storage_config", "compression")
COUNTS = (
    "instances",
    "frequency",
    "message_size",
    "total_messages_sent",
    "cache_size",
    "max_bagfile_size",
    "compression_queue",
    "compression_threads",
    "total_produced",
    "total_recorded_count",
)
NEEDED = ("storage_id", "total_produced", "total_recorded_count")
_SETTINGS = ("storage_id", "cache_size", "max_bagfile_size", "storage_config", "compression",
             "compression_queue", "compression_threads")  # fmt: skip
_LOAD = (("instances", "x"), ("message_size", "B,"), ("frequency", "Hz"))
_PERCENT = ("producer_cpu_usage", "recorder_cpu_usage")


def read_rosbag2_runs(path: Path) -> list[ToolResult]:
    """Return one result per run: messages sent, received (recorded) and lost per group, CPU.

    Runs of one setting follow one another in the file, so the settings are among the factors.
    ``producers.yaml`` beside it states the number of publisher groups, which is one without it.

    Raises
    ------
    UsageError
        The file is truncated, or a run lacks rows.
    """
    text = read_text(path)
    if not text.endswith("\n"):
        raise UsageError(f"{path}: cut off: its last line has no end")
    header, *rows = csv.reader(text.splitlines(), delimiter=" ")
    header = [name for name in header if name]
    groups = _groups(path.with_name("producers.yaml"))
    found = [_row(path, line, header, row) for line, row in enumerate(rows, 2)]
    if not found:
        raise UsageError(f"{path}: no row below its header")
    if len(found) % groups:
        raise UsageError(
            f"{path}: {len(found)} rows are no whole number of runs of {groups} publisher groups: "
            "a run is missing rows, or the file is cut off"
        )
    return [_run(found[begin : begin + groups]) for begin in range(0, len(found), groups)]


def _run(rows: Sequence[Mapping[str, Any]]) -> ToolResult:
    """Make the result of a run from its rows, one per publisher group."""
    summary: list[dict[str, Any]] = []
    for row in rows:
        sent, received = row["total_produced"], row["total_recorded_count"]
        load = [f"{row[n]} {word}" for n, word in _LOAD if row.get(n) is not None]
        counts = {"sent": sent, "received": received, "lost": sent - received}
        figures = {metric: (float(count), "1") for metric, count in counts.items()}
        summary += rows_of(figures, entity="publishers", name=" ".join(load), samples=sent)
    first = rows[0]
    summary += [
        {"entity": name.partition("_")[0], "metric": "cpu", "value": first[name] / 100,
         "unit": "core"}
        for name in _PERCENT if first.get(name) is not None
    ]  # fmt: skip
    factors = {name: first[name] for name in _SETTINGS if first.get(name) is not None}
    return ToolResult.of(TOOL, summary, factors=factors)


def _row(path: Path, line: int, header: list[str], row: list[str]) -> dict[str, Any]:
    # The tool ends some lines with a space.
    cells = row[:-1] if len(row) == len(header) + 1 and not row[-1] else row
    if len(cells) != len(header):
        raise UsageError(
            f"{path}:{line}: {len(cells)} cells under {len(header)} columns; is the file cut off, "
            "or were its single spaces changed?"
        )
    record: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        where = f"{path}:{line} {name}"
        if name in TEXTS:
            record[name] = cell or None
        elif name in COUNTS:
            record[name] = _count(cell, where) if cell else None
        else:
            record[name] = number(cell, where) if cell else None
    for name in NEEDED:
        if record.get(name) is None:
            raise UsageError(f"{path}:{line}: {name} is empty; is the file cut off?")
    if record["total_recorded_count"] > record["total_produced"]:
        raise UsageError(
            f"{path}:{line}: {record['total_recorded_count']} recorded of "
            f"{record['total_produced']} produced; the columns are shifted"
        )
    return record


def _count(cell: str, where: str) -> int:
    value = number(cell, where)
    if value < 0 or value != int(value):
        raise UsageError(f"{where}: {cell!r} is no count")
    return int(value)


def _groups(path: Path) -> int:
    """Return the number of publisher groups in a producers.yaml; 1 if there is no such file."""
    if not path.is_file():
        return 1
    groups = next(_values(yaml.safe_load(read_text(path)), "publisher_groups"), None)
    if not isinstance(groups, list) or not groups:
        raise UsageError(f"{path}: no list publisher_groups, which says how many rows a run has")
    return len(groups)


def _values(data: Any, key: str) -> Iterator[Any]:
    if isinstance(data, dict):
        for name, value in data.items():
            if name == key:
                yield value
            yield from _values(value, key)
