"""Read the files of micro_ros_renesas_testbench: ``benchmark_out.txt``, ``profiling_out.txt``.

Both are text files to which every session appends: a heading per test, then its results on
indented lines, or ``FAILED``. A file with blocks that are cut off, mixed up or repeated is
refused, because its figures cannot be assigned to tests with certainty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import numbered, read_text
from roslens.recording import UsageError

BENCHMARK_NAME = "benchmark_out.txt"
PROFILING_NAME = "profiling_out.txt"

Failures = list[tuple[int, str]]
"""Lines and headings of tests that failed."""

_THROUGHPUT = ("board", "transport", "payload_bytes", "bytes_per_s")
_LATENCY = ("board", "transport", "client_ns", "agent_ns", "rtt_ns", "resolution_ns")
_PROFILING = ("board", "test", "static_bytes", "stack_bytes", "requested_bytes", "live_bytes")

_HEADING = re.compile(r"(?P<board>\S+) \S+?/\d+: (?P<transport>\S.*)")
_PROFILED = re.compile(r"(?P<board>\S+) (?P<test>\S.*?):?")
_VALUE = re.compile(r"\s+([^:]+): (-?\d+(?:\.\d+)?) (\S+)")
_RATE = {"Topic size": "B", "Rate": "Hz", "Throughput": "Bps"}
_TIMES = {"Client publish time": "ms", "Agent publish time": "ms", "RTT": "ms"}
_USED = ("used static", "max stack", "absolute dyn", "dyn")
_MEMORY = dict.fromkeys((*_USED, ".text", ".data", ".bss"), "B")


@dataclass
class _Block:
    """A heading with the results below it."""

    heading: re.Match[str]
    line: int
    values: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    @property
    def name(self) -> str:
        return self.heading.group(0).strip()


def read_benchmark(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, Failures]:
    """Read throughput and latency from ``benchmark_out.txt``.

    Raises
    ------
    UsageError
        The file cannot be read; a block is cut off, mixed up or repeated; a figure is in another
        unit or negative; or a throughput is not its rate times its size.
    """
    throughput, latency, failures = [], [], []
    for block in _unique(path, _blocks(path, _HEADING, {**_RATE, **_TIMES})):
        key = (block.heading["board"], block.heading["transport"].strip())
        if block.failed:
            failures.append((block.line, block.name))
        elif set(block.values) == set(_RATE):
            size, rate, stated = (float(block.values[name]) for name in _RATE)
            _check_product(path, block, size, rate, stated)
            throughput.append((*key, int(size), stated))
        elif set(block.values) == set(_TIMES):
            digits = max(len(text.partition(".")[2]) for text in block.values.values())
            times = (1e6 * float(block.values[name]) for name in _TIMES)
            latency.append((*key, *times, 1e6 * 10.0**-digits))
        else:
            raise _incomplete(path, block, _TIMES if set(block.values) & set(_TIMES) else _RATE)
    return (
        pl.DataFrame(throughput, schema=_THROUGHPUT, orient="row"),
        pl.DataFrame(latency, schema=_LATENCY, orient="row"),
        failures,
    )


def read_profiling(path: Path) -> tuple[pl.DataFrame, Failures]:
    """Read memory from ``profiling_out.txt``.

    Raises
    ------
    UsageError
        For the same reasons as in `read_benchmark`.
    """
    rows, failures = [], []
    for block in _unique(path, _blocks(path, _PROFILED, _MEMORY)):
        if block.failed:
            failures.append((block.line, block.name))
            continue
        if set(block.values) != set(_MEMORY):
            raise _incomplete(path, block, _MEMORY)
        numbers = [int(float(block.values[name])) for name in _USED]
        rows.append((block.heading["board"], block.heading["test"], *numbers))
    return pl.DataFrame(rows, schema=_PROFILING, orient="row"), failures


def _blocks(path: Path, heading: re.Pattern[str], units: Mapping[str, str]) -> Iterator[_Block]:
    block: _Block | None = None
    lines = numbered(read_text(path))
    if not lines:
        raise UsageError(f"{path}: is empty")
    for number, line in lines:
        where = f"{path}, line {number}"
        if not line[0].isspace():
            if block is not None:
                yield block
            match = heading.fullmatch(line.rstrip())
            if match is None:
                raise UsageError(f"{where}: '{line.strip()[:60]}' is no heading of a test")
            block = _Block(match, number)
        elif block is None:
            raise UsageError(f"{where}: results without the heading of a test; the file is cut off")
        elif line.strip() == "FAILED":
            block.failed = True
        else:
            _take(where, block, line.rstrip(), units)
    if block is not None:
        yield block


def _take(where: str, block: _Block, line: str, units: Mapping[str, str]) -> None:
    """Add a line of results to its block."""
    value = _VALUE.fullmatch(line)
    if value is None or value[1] not in units:
        raise UsageError(
            f"{where}: '{line.strip()[:60]}' is no result; the file is cut off, or lines of two "
            "boards are mixed"
        )
    name, figure, unit = value.groups()
    if name in block.values:
        raise UsageError(
            f"{where}: '{name}' twice below '{block.name}' (line {block.line}): lines of two "
            "boards are mixed"
        )
    if unit != units[name]:
        bits = "; is it bits?" if unit.startswith(("b", "kb", "Kb", "Mb")) else ""
        raise UsageError(f"{where}: {name} in {unit}, not in {units[name]}{bits}")
    # A time may be negative, as the difference of two clocks that do not agree.
    if figure.startswith("-") and unit != "ms":
        raise UsageError(f"{where}: {name} of {figure} {unit}: it cannot be negative")
    block.values[name] = figure


def _unique(path: Path, blocks: Iterator[_Block]) -> Iterator[_Block]:
    seen: dict[str, int] = {}
    for block in blocks:
        if block.name in seen:
            raise UsageError(
                f"{path}: '{block.name}' twice (lines {seen[block.name]} and {block.line}): each "
                "session appends to the file; keep one session per file"
            )
        seen[block.name] = block.line
        yield block


def _incomplete(path: Path, block: _Block, names: Mapping[str, object]) -> UsageError:
    missing = [name for name in names if name not in block.values]
    extra = [name for name in block.values if name not in names]
    fault = f"there is no {', '.join(missing)}" if missing else f"{', '.join(extra)} is too much"
    return UsageError(
        f"{path}, line {block.line}: '{block.name}': {fault}; the file is cut off, or lines of two "
        "boards are mixed"
    )


def _check_product(path: Path, block: _Block, size: float, rate: float, stated: float) -> None:
    if stated == size * rate:
        return
    bits = " (it is 8 times as much: bits)" if stated == 8 * size * rate else ""
    raise UsageError(
        f"{path}, line {block.line}: '{block.name}': {stated:g} Bps is not {rate:g} Hz x "
        f"{size:g} B{bits}; lines of two tests are mixed, or another unit"
    )
