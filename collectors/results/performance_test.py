"""Read results of performance_test (Apex.AI): CSV with a row per second, JSON, and databases.

Only moments per second exist: means and variances over the run can be computed from them (n, mean,
sum of squared deviations), percentiles cannot. Builds with SQL support write an SQLite database of
two tables, one with a row per experiment and one with a row per second; their columns have the
names of the JSON.
"""

from __future__ import annotations

import math
import re
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roslens.collectors.database import open_database
from roslens.collectors.results.tool_result import (
    ToolResult,
    named,
    number,
    numbered,
    read_text,
    rows_of,
)
from roslens.recording.errors import UsageError
from roslens.recording.json_file import read_json

TOOL = "performance_test"
START = "---EXPERIMENT-START---"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CELLS = re.compile(r"[ \t]*,[ \t]*")
_PARTING = ("Maximum runtime reached. Exiting.", "Caught signal. Exiting.")
"""Lines that the program prints at its end, which are in the file if its output went there."""
_NO_PERCENTILES = "percentiles cannot be had: the file has moments per second, not latencies"


def read_performance_test(path: Path) -> ToolResult:
    """Read one file.

    Latencies become ns. The CSV labels the variance ms, but it is ms times s: it is converted to
    ns^2. Seconds in which nothing was received have a minimum of inf and a maximum of -inf: they
    are left out. ``ru_maxrss`` is a peak.

    Raises
    ------
    UsageError
        The experiment did not begin, or a row does not fit its header.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        data = read_json(path)
        metadata = {k: str(v) for k, v in data.items() if not isinstance(v, (list, dict))}
        return result_of_rows(metadata, data["analysis_results"], path, metadata.get("id", ""))
    return _csv(path, text)


def _csv(path: Path, text: str) -> ToolResult:
    lines = [(place, line.strip()) for place, line in numbered(text)]
    begin = [line for _, line in lines].index(START)
    pairs = (line.partition(":") for _, line in lines[:begin] if ":" in line)
    metadata = {key.strip(): value.strip() for key, _, value in pairs}
    table = [(place, line) for place, line in lines[begin + 1 :] if line not in _PARTING]
    if not table:
        raise UsageError(f"{path}: nothing after {START}; the experiment did not begin")
    header = [name for name in _CELLS.split(table[0][1]) if name]
    rows = []
    for place, line in table[1:]:
        cells = named(_CELLS.split(line), header, f"{path}:{place}")
        rows.append({name: number(cell, f"{path}:{place} {name}") for name, cell in cells.items()})
    seconds = [
        {
            "time_ns": row["T_experiment"] * 1e9,
            "received": row["received"],
            "sent": row["sent"],
            "lost": row["lost"],
            "min": row["latency_min (ms)"] * 1e6,
            "max": row["latency_max (ms)"] * 1e6,
            "mean": row["latency_mean (ms)"] * 1e6,
            # The unit is ms * s, whatever the heading says.
            "variance": row["latency_variance (ms)"] * 1e3 * 1e12,
            "peak": row["ru_maxrss"] * 1024 if "ru_maxrss" in row else math.nan,
            "cpu": row.get("cpu_usage (%)", math.nan) / 100,
        }
        for row in rows
    ]
    return _result(metadata, seconds, path, metadata.get("Experiment id", ""))


def result_of_rows(
    metadata: dict[str, str], rows: Sequence[Mapping[str, Any]], path: Path, identity: str
) -> ToolResult:
    """Make a result from rows per second with the fields of the JSON, in order.

    Raises
    ------
    UsageError, ValueError, KeyError, TypeError
        There is no row, or a row lacks a field or has one that is not a number.
    """
    start = int(rows[0]["experiment_start"]) if rows else 0
    seconds = [_json_row(row, start, number) for number, row in enumerate(rows)]
    return _result(metadata, seconds, path, identity)


def _json_row(row: Mapping[str, Any], start: int, index: int) -> dict[str, float]:
    count = float(row.get("latency_n", row.get("num_samples_received", 0)))
    end = row.get("experiment_end", row.get("loop_start"))
    return {
        "time_ns": float(int(end) - start) if end is not None else (index + 1) * 1e9,
        "received": count,
        "sent": float(row.get("num_samples_sent", math.nan)),
        "lost": float(row.get("num_samples_lost", math.nan)),
        "min": float(row["latency_min"]) * 1e9,
        "max": float(row["latency_max"]) * 1e9,
        "mean": float(row["latency_mean"]) * 1e9,
        "variance": float(row["latency_M2"]) / count * 1e18 if count else math.nan,
        "peak": float(row.get("sys_tracker_ru_maxrss", math.nan)) * 1024,
        "cpu": float(row.get("cpu_info_cpu_usage", math.nan)) / 100,
    }


def _result(
    metadata: dict[str, str], rows: list[dict[str, float]], path: Path, identity: str
) -> ToolResult:
    if not rows:
        raise UsageError(f"{path}: no row; the experiment did not run")
    name = metadata.get("Topic name") or metadata.get("topic_name", "")
    heard = [r for r in rows if r["received"] > 0 and math.isfinite(r["min"])]
    received = sum(r["received"] for r in heard)
    notes = [_NO_PERCENTILES]
    if len(heard) < len(rows):
        silent = len(rows) - len(heard)
        notes.append(f"{silent} s in which nothing was received have no latency and are left out")
    values: dict[str, tuple[float, str]] = {
        "received": (received, "1"),
        "sent": (sum(r["sent"] for r in rows), "1"),
        "lost": (sum(r["lost"] for r in rows), "1"),
    }
    if heard:
        mean = sum(r["received"] * r["mean"] for r in heard) / received
        squares = sum(r["received"] * (r["variance"] + (r["mean"] - mean) ** 2) for r in heard)
        values |= {
            "latency_mean": (mean, "ns"),
            "latency_sd": (math.sqrt(squares / received), "ns"),
            "latency_min": (min(r["min"] for r in heard), "ns"),
            "latency_max": (max(r["max"] for r in heard), "ns"),
        }
    if any(math.isfinite(r["peak"]) for r in rows):
        notes.append("ru_maxrss is a peak: it says nothing about leaks")
    summary = rows_of(values, entity="subscription", name=name, samples=int(received))
    kinds = (("mean", "latency_mean", "ns"), ("min", "latency_min", "ns"),
             ("max", "latency_max", "ns"), ("received", "received", "1"),
             ("sent", "sent", "1"), ("lost", "lost", "1"), ("peak", "rss_peak", "byte"),
             ("cpu", "cpu", "1"))  # fmt: skip
    silent_kinds = {"mean", "min", "max"}
    series = [
        {"time_ns": round(r["time_ns"]), "metric": metric, "value": r[key], "unit": unit}
        for r in rows
        for key, metric, unit in kinds
        if math.isfinite(r[key]) and (r in heard or key not in silent_kinds)
    ]
    return ToolResult.of(
        TOOL,
        summary,
        series,
        metadata=metadata,
        notes=notes,
        # Older versions numbered their experiments, so only a UUID identifies one.
        identity=identity if _UUID.fullmatch(identity) else "",
    )


MAGIC = "SQLite format 3\0"
_EXPERIMENT, _SECOND = "ExperimentConfiguration", "AnalysisResult"
_MOST_ROWS = 1_000_000
_SECONDS = 10.0


def read_performance_test_sql(path: Path) -> Sequence[ToolResult]:
    """Read a database: one result per experiment.

    Raises
    ------
    UsageError
        The file is no such database, is damaged, or has more than a million rows.
    """
    with open_database(path, (_EXPERIMENT, _SECOND), _SECONDS) as database:
        database.row_factory = sqlite3.Row
        experiments = {str(row["id"]): row for row in _rows(path, database, _EXPERIMENT)}
        seconds: dict[str, list[dict[str, Any]]] = {}
        for row in _rows(path, database, _SECOND):
            seconds.setdefault(str(row["configuration"]), []).append(row)
    results = [
        result_of_rows(
            {k: str(v) for k, v in about.items() if v is not None and not isinstance(v, bytes)},
            sorted(seconds[name], key=lambda row: float(row.get("loop_start") or 0)),
            path,
            _text_of(about["id"]),
        )
        for name, about in experiments.items()
        if name in seconds
    ]
    if not results:
        raise UsageError(f"{path}: no experiment of performance_test in this database")
    return results


def _rows(path: Path, database: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    for place, row in enumerate(database.execute(f'SELECT * FROM "{table}"')):  # noqa: S608
        if place >= _MOST_ROWS:
            raise UsageError(f"{path}: more than {_MOST_ROWS:,} rows in {table}; refused")
        yield dict(row)


def _text_of(identity: object) -> str:
    """Return the id of an experiment as the logs write it; databases hold 16 bytes."""
    if isinstance(identity, bytes) and len(identity) == 16:
        return str(uuid.UUID(bytes=identity))
    return str(identity)
