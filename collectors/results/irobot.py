"""Read results of ros2-performance (irobot_benchmark): a ``<topology>_log`` folder.

There are four dialects, told apart by the header of ``latency_all.txt``: A (2019) and B (2022) name
units in brackets (``received[#]``), C (December 2023) as suffixes (``received_msgs``), D (November
2024) adds every single latency. Names in all files are converted to those of C. Cells are separated
by white space, or by commas if the tool was configured so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import (
    ToolResult,
    named,
    number,
    numbered,
    read_text,
    rows_of,
    split_row,
)
from roslens.recording.errors import UsageError
from roslens.recording.json_file import read_json

TOOL = "ros2-performance"
FILES = ("latency_all.txt", "latency_total.txt", "resources.txt", "events.txt", "metadata.txt")

_TITLES = {
    "Subscriptions stats:": ("subscription", "latency"),
    "Action Clients stats:": ("action_client", "response_time"),
    "Action Servers stats:": ("action_server", "request_latency"),
    "Clients stats:": ("client", "response_time"),
    "Services stats:": ("service", "request_latency"),
    "Publishers stats:": ("publisher", "publish_duration"),
    "Subscriptions and clients stats:": ("subscription", "latency"),
}
_MIXED = "Subscriptions and clients stats:"
_ONLY = "Subscriptions stats:"
"""Title assumed for the files of 2019, which have none."""
_SENT = "Sent vs received messages:"
_COUNTS = ("received", "late", "too_late", "lost")
_TIMES = ("mean", "sd", "min", "max")
_UNITS = re.compile(r"(_msgs|_us|_b|_hz|_s|_[KM]b_per_sec)$")
_IN_BRACKETS = re.compile(r"\[(.*)\]$")
_SYMBOLS = {"#": "msgs", "%": "perc", "Kb/s": "Kb_per_sec", "Mb/s": "Mb_per_sec"}
_SIZES = {
    "arena_KB": "heap_arena",
    "in_use_KB": "heap_in_use",
    "mmap_KB": "heap_mmap",
    "rss_KB": "rss_peak",
    "vsz_KB": "virtual",
}
_WRAPPED_US = 1e9
_EVENTS = {0: "discovery", 1: "late", 2: "too_late", 3: "lost", 4: "service_unavailable"}


@dataclass
class _Contents:
    summary: list[dict[str, Any]]
    series: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    notes: list[str]
    metadata: dict[str, str]


def is_irobot(folder: Path) -> bool:
    """Return whether `folder` holds such results."""
    return (folder / "latency_all.txt").is_file() or (
        (folder / "resources.txt").is_file() and (folder / "metadata.txt").is_file()
    )


def find_irobot(run: Path) -> Path | None:
    """Return the folder with such results in the folder of a run, or just below it."""
    places = (run, *sorted(p for p in run.glob("*") if p.is_dir()), *sorted(run.glob("native/*")))
    return next((place for place in places if is_irobot(place)), None)


def read_irobot(folder: Path) -> ToolResult:
    """Read a result folder.

    Latencies become ns (the tool rounds to 1 us; its standard deviation is that of the population).
    ``publish_duration`` is how long publish() took, ``response_time`` a round trip.

    Corrected, or renamed because the name is wrong:

    * ``rss_KB`` is ru_maxrss, a peak: the metric is ``rss_peak``;
    * ``cpu_perc`` refers to all cores: converted to cores if run_manifest.json states their number,
      else to a fraction of the machine;
    * the first row of resources.txt, all zeros, is left out; ``latency_us`` beyond 1e9 has wrapped
      around and is null; a negative size is an overflow of mallinfo and null.

    Raises
    ------
    UsageError
        A row does not fit its header.
    """
    contents = _Contents([], [], [], [], _metadata(folder))
    cores = _cores(folder, contents)
    if (folder / "latency_all.txt").is_file():
        _latencies(folder / "latency_all.txt", contents)
    if (folder / "latency_total.txt").is_file():
        _total(folder / "latency_total.txt", contents)
    if (folder / "resources.txt").is_file():
        _resources(folder / "resources.txt", cores, contents)
    if (folder / "events.txt").is_file():
        _events(folder / "events.txt", contents)
    return ToolResult.of(TOOL, **vars(contents))


def _metadata(folder: Path) -> dict[str, str]:
    path = folder / "metadata.txt"
    if not path.is_file():
        return {}
    pairs = (line.partition(":") for line in read_text(path).splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cores(folder: Path, contents: _Contents) -> int | None:
    for place in (folder, *folder.parents[:3]):
        path = place / "run_manifest.json"
        if path.is_file():
            data = read_json(path)
            contents.metadata.update({k: str(v) for k, v in data.get("run", {}).items()})
            count = data.get("host", {}).get("cpu_count")
            return int(count) if count else None
    return None


def _latencies(path: Path, contents: _Contents) -> None:
    title: str | None = None
    header: list[str] | None = None
    for place, line in numbered(read_text(path)):
        text = line.strip()
        if text.endswith(":"):
            title, header = text, None
            if text not in _TITLES and text != _SENT:
                contents.notes.append(
                    f"{path.name}: section {text[:-1]!r} is not known and left out"
                )
            if text == _MIXED:
                contents.notes.append(
                    "clients stand among the subscriptions: theirs is a round trip"
                )
        elif header is None:
            names = split_row(text)
            if title is None and names[:2] != ["node", "topic"]:
                raise UsageError(f"{path}:{place}: a row before any section; not a latency_all.txt")
            title = title or _ONLY
            header = [_UNITS.sub("", _column_name(name)) for name in names]
            _dialect(names, contents)
        elif title in _TITLES:
            where = f"{path}:{place}"
            row = named(split_row(text, len(header)), header, where)
            _latency_row(row, *_TITLES[title], where, contents)
        elif title == _SENT:
            _sent_row(dict(zip(header, split_row(text), strict=False)), f"{path}:{place}", contents)


def _column_name(name: str) -> str:
    """Convert a column's name to dialects C and D: ``received[#]`` to ``received_msgs``."""
    return _IN_BRACKETS.sub(lambda match: f"_{_SYMBOLS.get(match[1], match[1])}", name)


def _cell(row: Mapping[str, str], column: str, where: str) -> float:
    if column not in row:
        raise UsageError(f"{where}: no column {column}; it has {', '.join(row)}")
    return number(row[column], f"{where} {column}")


def _count(row: Mapping[str, str], column: str, where: str) -> int:
    value = _cell(row, column, where)
    if not math.isfinite(value):
        raise UsageError(f"{where} {column}: {row[column]!r} is no count")
    return int(value)


def _dialect(header: list[str], contents: _Contents) -> None:
    if "all_lat" in header:
        dialect = "D"
    elif "mean_us" in header:
        dialect = "C"
    elif any(name.startswith("throughput") for name in header):
        dialect = "B"
    elif any(name.startswith("duration") for name in header):
        dialect = "A"
    else:
        return
    contents.metadata.setdefault("dialect", dialect)


def _latency_row(
    row: Mapping[str, str], entity: str, prefix: str, where: str, contents: _Contents
) -> None:
    name = next((row[k] for k in ("topic", "service", "action", "name") if k in row), "")
    base = {"entity": entity, "node": row.get("node"), "name": name}
    count = _count(row, "received", where)
    values = {
        **{c: (_cell(row, c, where), "1") for c in _COUNTS if c in row},
        **{f"{prefix}_{c}": (_cell(row, c, where) * 1e3, "ns") for c in _TIMES
           if c in row and (count or entity == "publisher")},
        **({"frequency": (_cell(row, "freq", where), "Hz")} if "freq" in row else {}),
        **({"message_size": (_cell(row, "size", where), "byte")} if "size" in row else {}),
    }  # fmt: skip
    contents.summary += rows_of(values, **base, samples=count)
    late = _count(row, "too_late", where) if "too_late" in row else 0
    if late and contents.metadata.get("dialect") != "D" and _tracked(contents):
        contents.notes.append(
            f"{entity} {name}: mean and maximum leave out {late:,} messages that were too late"
        )
    single = row.get("all_lat", "").strip(" []")
    if single:
        contents.samples += [
            {**base, "value_ns": round(number(latency, f"{where} all_lat") * 1e3)}
            for latency in single.split(";")
        ]


def _tracked(contents: _Contents) -> bool:
    return contents.metadata.get("tracking.is_enabled", "off") != "off"


def _sent_row(row: Mapping[str, str], where: str, contents: _Contents) -> None:
    topic = row.get("topic", "")
    if topic == "TOTAL":  # a sum with some empty cells
        return
    for column, metric in (("sent", "sent"), ("true_lost", "lost"), ("gap_lost", "lost_by_gaps")):
        if row.get(column):
            figure = (number(row[column], f"{where} {column}"), "1")
            contents.summary += rows_of({metric: figure}, entity="topic", name=topic)


def _table(path: Path) -> list[tuple[int, dict[str, str]]]:
    lines = numbered(read_text(path))
    if not lines:
        return []
    header = [_column_name(name) for name in split_row(lines[0][1]) if name]
    rows = []
    for place, line in lines[1:]:
        # A description may itself contain commas.
        commas = "," in lines[0][1]
        cells = split_row(line) if commas else line.split(None, len(header) - 1)
        rows.append((place, named(cells, header, f"{path}:{place}")))
    return rows


def _total(path: Path, contents: _Contents) -> None:
    for place, row in _table(path):
        where = f"{path}:{place}"
        count = _count(row, "received_msgs", where)
        values = {
            "received": (float(count), "1"),
            **({"latency_mean": (_cell(row, "mean_us", where) * 1e3, "ns")} if count else {}),
            "late": (_cell(row, "late_msgs", where), "1"),
            "too_late": (_cell(row, "too_late_msgs", where), "1"),
            "lost": (_cell(row, "lost_msgs", where), "1"),
        }
        contents.summary += rows_of(values, entity="all", samples=count)


def _resources(path: Path, cores: int | None, contents: _Contents) -> None:
    before = len(contents.series)
    for place, row in _table(path):
        where = f"{path}:{place}"
        values = {name: number(cell, f"{where} {name}") for name, cell in row.items() if cell}
        if "time_ms" not in values:
            raise UsageError(f"{path}: no column time_ms; not a resources.txt")
        if any(values.values()):  # the first row is zeros, before the first sample
            time_ns = round(values["time_ms"] * 1e6)
            contents.series += rows_of(_resource_values(values, cores), time_ns=time_ns)
    missing = [row for row in contents.series[before:] if row["value"] is None]
    overflow = sum(row["unit"] == "byte" for row in missing)
    contents.notes.append("rss_KB is a peak (ru_maxrss): it says nothing about leaks")
    if cores is None:
        contents.notes.append("cpu_perc is of all cores, and nothing says how many there were")
    if contents.metadata.get("dialect") in {"A", "B"}:
        contents.notes.append("cpu_perc may be the mean since the start (until October 2023)")
    if overflow:
        contents.notes.append(f"{overflow} sizes below zero (mallinfo beyond 2 GiB) are left out")
    if len(missing) > overflow:
        wrapped = len(missing) - overflow
        contents.notes.append(f"{wrapped} latencies in resources.txt had wrapped around; left out")


def _resource_values(
    values: Mapping[str, float], cores: int | None
) -> dict[str, tuple[float | None, str]]:
    figures: dict[str, tuple[float | None, str]] = {}
    if "cpu_perc" in values:
        share = values["cpu_perc"] / 100
        figures |= {"cpu": (share * cores, "core")} if cores else {"cpu_of_machine": (share, "1")}
    for name, metric in _SIZES.items():
        if name in values:
            size = values[name] * 1024
            figures[metric] = (size if size >= 0 else None, "byte")
    if "latency_us" in values:
        good = 0 <= values["latency_us"] <= _WRAPPED_US
        figures["latency_mean"] = (values["latency_us"] * 1e3 if good else None, "ns")
    return figures


def _events(path: Path, contents: _Contents) -> None:
    counts: dict[str, int] = {}
    for place, row in _table(path):
        code = _count(row, "Code", f"{path}:{place}")
        name = _EVENTS.get(code, f"code_{code}")
        counts[name] = counts.get(name, 0) + 1
    figures = {f"events_{name}": (float(count), "1") for name, count in counts.items()}
    contents.summary += rows_of(figures, entity="all")
