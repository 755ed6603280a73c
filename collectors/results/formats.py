"""Which benchmark tool wrote a file: every format that is read, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roslens.collectors.results import irobot, performance_test, reference_system
from roslens.collectors.results.buildfarm import read_buildfarm_benchmark, read_buildfarm_csv
from roslens.collectors.results.irobot import is_irobot, read_irobot
from roslens.collectors.results.memory_tables import read_memory_benchmark, read_psutil
from roslens.collectors.results.performance_test import read_performance_test
from roslens.collectors.results.reference_system import is_reference_system, read_reference_system
from roslens.collectors.results.robotperf import read_robotperf
from roslens.collectors.results.rosbag2_benchmark import read_rosbag2_runs
from roslens.collectors.results.tool_result import ToolResult
from roslens.tracing.recording.errors import UsageError

_HEAD = 65536
"""Bytes of a file by which its format is told."""


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    what
        The tool and its files, for people.
    fits
        Whether a path, with the beginning of its text (of a folder: none), is of this kind.
    read
        One result per run in it.
    """

    what: str
    fits: Callable[[Path, str], bool]
    read: Callable[[Path], Sequence[ToolResult]]


def _one(read: Callable[[Path], ToolResult]) -> Callable[[Path], Sequence[ToolResult]]:
    return lambda path: [read(path)]


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


FORMATS = (
    Format(
        "ros2-performance (the folder of latency_all.txt)",
        lambda path, _: is_irobot(path),
        _one(read_irobot),
    ),
    Format(
        "reference_system (the folder of std_output.log or memory_log.txt)",
        lambda path, _: is_reference_system(path),
        _one(read_reference_system),
    ),
    Format(
        "performance_test (CSV, JSON or log)",
        lambda _, text: performance_test.START in text or '"analysis_results"' in text,
        _one(read_performance_test),
    ),
    Format(
        "rosbag2_performance_benchmarking (results.csv)",
        lambda _, text: "total_recorded_count" in _first_line(text).split(" "),
        read_rosbag2_runs,
    ),
    Format(
        "buildfarm_perf_tests (system metrics as CSV)",
        lambda _, text: "T_experiment" in _first_line(text),
        _one(read_buildfarm_csv),
    ),
    Format(
        "buildfarm_perf_tests (benchmark.json)",
        lambda _, text: text.lstrip().startswith("{") and '"dblValue"' in text,
        _one(read_buildfarm_benchmark),
    ),
    Format(
        "RobotPerf (benchmark.yaml)",
        lambda path, text: path.suffix in {".yaml", ".yml"} and "\nresults:" in f"\n{text}",
        _one(read_robotperf),
    ),
    Format(
        "memory_benchmark (CSV)",
        lambda _, text: _first_line(text).replace(" ", "").startswith("Entity,N,RSS"),
        _one(read_memory_benchmark),
    ),
    Format(
        "run_psutil.py (table)",
        lambda _, text: "Time[sec]" in _first_line(text).split(),
        _one(read_psutil),
    ),
)
"""Every kind of file that is read."""

_IN_FOLDERS = {*irobot.FILES, *reference_system.FILES}


def find_results(path: Path) -> list[tuple[Path, Format]]:
    """The results at a path, each with its format; in a folder of several, all that are below it.

    Raises
    ------
    UsageError
        There is no such path, or no file of a known format.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    found = _format_of(path)
    if found is not None:
        return [found]
    results: dict[Path, Format] = {}
    for below in sorted(path.rglob("*")) if path.is_dir() else ():
        # What lies in the folder of a result is part of it.
        if results.keys().isdisjoint(below.parents) and (found := _format_of(below)):
            results.setdefault(*found)
    if not results:
        known = "; ".join(known.what for known in FORMATS)
        raise UsageError(f"{path}: no result file of a known benchmark tool; known are {known}")
    return list(results.items())


def _format_of(path: Path) -> tuple[Path, Format] | None:
    places = [path.parent, path] if path.name in _IN_FOLDERS else [path]
    for place in places:
        text = _head(place)
        for known in FORMATS:
            if known.fits(place, text):
                return place, known
    return None


def _head(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD).decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
