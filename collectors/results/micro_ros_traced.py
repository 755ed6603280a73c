"""Read results that micro-ROS published from traces of NuttX (repository benchmarking-results).

There are files per application and medium: ``*_com_analysis.data`` about the network's driver, and
JSON about tasks, interrupts, the heap, stacks and functions. JSON times are ns since the board
started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import ToolResult, read_text, rows_of
from roslens.recording.errors import UsageError
from roslens.recording.json_file import read_json

TOOL = "micro-ROS benchmarking"
_JSON = (
    ('"heap_alloc"',),
    ('"stack_used_bytes"',),
    ('"cpu_pourcentage"', '"executions"'),
    ('"irq_pourcentage"', '"irqs"'),
    ('"hits"', '"addresses"', '"calls"'),
    ('"hits"', '"deltas"'),
)
_SECTION = re.compile(r"\*+\s*(.*?)\s*\*+$")
_FIGURE = re.compile(r"(Avg|Max|Min) for (\S+) is ([-+.\deE]+)")
_STATISTICS = {"Avg": "mean", "Max": "max", "Min": "min"}
_KILOBIT = 1000 / 8

Row = dict[str, Any]
Read = tuple[list[Row], list[Row], list[str]]


def is_micro_ros_data(text: str) -> bool:
    """Return whether a text begins like ``*_com_analysis.data``."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first.startswith("***") and re.search("Bandwi|Latency", first) is not None


def is_micro_ros_json(text: str) -> bool:
    """Return whether a text begins like one of the JSON files."""
    return text.lstrip().startswith("{") and any(
        all(word in text for word in words) for words in _JSON
    )


def read_micro_ros_data(path: Path) -> ToolResult:
    """Read ``*_com_analysis.data``: bandwidth and time in the driver, by direction.

    Raises
    ------
    UsageError
        The file is of another kind.
    """
    rows: list[Row] = []
    quantity = direction = ""
    for line in read_text(path).splitlines():
        if match := _SECTION.fullmatch(line.strip()):
            title = match[1].lower()
            direction = "sent" if "tx" in title.split() else "received"
            quantity = "throughput" if title.count("bandwi") else "driver_time"
            if "bandwi" not in title and "latency" not in title:
                raise UsageError(f"{path}: section {match[1]!r} is not known")
        elif match := _FIGURE.match(line.strip()):
            if not quantity:
                raise UsageError(f"{path}: a figure before any section")
            factor, unit = (_KILOBIT, "byte/s") if quantity == "throughput" else (1e3, "ns")
            figure = (float(match[3]) * factor, unit)
            metric = f"{quantity}_{_STATISTICS[match[1]]}"
            rows += rows_of({metric: figure}, entity=direction, name=match[2])
    if not rows:
        raise UsageError(f"{path}: no figure of a network's driver in it")
    notes = (
        "the latencies are times within the driver of the network, not from end to end",
        "kbps are taken for 1000 bits a second",
    )
    return ToolResult.of(TOOL, rows, notes=notes)


def read_micro_ros_json(path: Path) -> ToolResult:
    """Read a JSON file about tasks, interrupts, the heap, stacks or functions.

    Raises
    ------
    UsageError
        The file is of another kind.
    """
    data = read_json(path)
    kinds: Sequence[tuple[str, Callable[[Any], Read]]] = (
        *((key, partial(_executed, key)) for key in _EXECUTED),
        ("stack_used_bytes", _stacks),
        ("hits", lambda data: _functions({None: data})),
    )
    first = next(iter(data.values()))
    inner = next((value for value in first.values() if isinstance(value, dict)), {})
    fallback = _functions if "hits" in inner else _heap
    read = next((read for key, read in kinds if key in first), fallback)
    summary, samples, notes = read(data)
    if not summary:
        raise UsageError(f"{path}: no figure in it")
    return ToolResult.of(TOOL, summary, samples=samples, notes=notes)


_EXECUTED = {
    "executions": ("task", "cpu_time", "cpu_pourcentage", "execution"),
    "irqs": ("interrupt", "irq_time", "irq_cpu_time_pourcentage", "service"),
}
"""By the key of starts and stops: what they are of, keys of CPU time and its share, one of them."""


def _executed(key: str, data: Mapping[str, Any]) -> Read:
    summary: list[Row] = []
    samples: list[Row] = []
    entity, time, share, word = _EXECUTED[key]
    for name, about in data.items():
        subject = {"entity": entity, "name": name}
        figures = {"cpu_time": (float(about[time]), "ns"), "cpu": (about[share] / 100, "1")}
        summary += rows_of(figures, **subject)
        durations = [
            stop["stop"] - start["start"]
            for start, stop in pairwise(about[key])
            if "start" in start and "stop" in stop
        ]
        _add_durations(subject, word, durations, summary, samples)
    return summary, samples, ["a start without its stop, or a stop without its start, is left out"]


def _add_durations(
    subject: Row, name: str, durations: Sequence[int], summary: list[Row], samples: list[Row]
) -> None:
    if durations:
        mean = sum(durations) / len(durations)
        summary += rows_of({f"{name}_mean": (mean, "ns")}, **subject, samples=len(durations))
        samples += [{**subject, "value_ns": int(duration)} for duration in durations]


def _heap(data: Mapping[str, Any]) -> Read:
    summary: list[Row] = []
    for name, sizes in data.items():
        blocks = list(_blocks(sizes))
        taken = [allocation for block in blocks for allocation in block.get("heap_alloc", ())]
        freed = [release for block in blocks for release in block.get("heap_free", ())]
        asked = sum(int(allocation["requested"]) for allocation in taken)
        live = sum(int(allocation["user_alloc"]) for allocation in taken) - sum(
            int(release["user_alloc"]) for release in freed
        )
        figures = {
            "allocations": (float(len(taken)), "1"),
            "frees": (float(len(freed)), "1"),
            "heap_requested": (float(asked), "byte"),
            "heap_live": (float(live), "byte"),
        }
        summary += rows_of(figures, entity="task", name=name)
    notes = [
        "live is what was allocated and not freed by the end, by this task",
        "the file holds no times: it shows neither a peak nor a leak",
    ]
    return summary, [], notes


def _blocks(sizes: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for addresses in sizes.values():
        for block in addresses.values():
            if not block.keys() & {"heap_alloc", "heap_free"}:
                raise ValueError("a block of the heap that was neither allocated nor freed")
            yield block


def _stacks(data: Mapping[str, Any]) -> Read:
    summary: list[Row] = []
    for name, about in data.items():
        figure = (float(about["stack_used_bytes"]), "byte")
        summary += rows_of({"stack_used": figure}, entity="task", name=name)
    return summary, [], ["stack_used is the most that was ever used: the mark of the highest water"]


def _functions(data: Mapping[str | None, Any]) -> Read:
    """Summarise functions by task; files of 2020 name no task and have no durations."""
    summary: list[Row] = []
    samples: list[Row] = []
    for task, functions in data.items():
        for name, about in functions.items():
            if not about:  # an address without a function
                continue
            function = {"entity": "function", "name": name, "node": task}
            summary += rows_of({"hits": (float(about["hits"]), "1")}, **function)
            _add_durations(function, "duration", about.get("deltas", ()), summary, samples)
    return summary, samples, ["without durations, hits are entries and exits: most calls are two"]
