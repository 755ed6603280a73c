"""Detect which benchmark tool wrote a file, and read it: all known formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roslens.collectors.results import irobot, performance_test, reference_system, ros2_benchmark
from roslens.collectors.results.buildfarm import (
    is_buildfarm_plot,
    read_buildfarm_benchmark,
    read_buildfarm_csv,
    read_buildfarm_plot,
)
from roslens.collectors.results.irobot import is_irobot, read_irobot
from roslens.collectors.results.memory_tables import read_memory_benchmark, read_psutil
from roslens.collectors.results.micro_ros_traced import (
    is_micro_ros_data,
    is_micro_ros_json,
    read_micro_ros_data,
    read_micro_ros_json,
)
from roslens.collectors.results.performance_test import (
    MAGIC,
    read_performance_test,
    read_performance_test_sql,
)
from roslens.collectors.results.reference_system import is_reference_system, read_reference_system
from roslens.collectors.results.robotperf import read_robotperf
from roslens.collectors.results.rosbag2_benchmark import read_rosbag2_runs
from roslens.collectors.results.tool_result import ToolResult
from roslens.recording.errors import UsageError
from roslens.recording.foreign import read_foreign, read_here

_HEAD = 65536
"""Number of bytes at a file's beginning from which its format is detected."""
_SMALL = 256 << 10
"""Largest size in bytes of text read in this process: a separate one takes half a second."""


@dataclass(frozen=True)
class Format:
    """One kind of result file.

    Attributes
    ----------
    tool, files
        Name of the tool, and its files or folders, for people.
    versions
        Versions of the tool that write this format.
    source
        Public repository that defines the format.
    gives
        The data that are read.
    refused
        Data that are left out, corrected or not available.
    fits
        Whether a path is of this kind, given the beginning of its text (empty for a folder).
    read
        Reads the file and returns one result per run.
    costly
        Whether even a small file can take a reader more time or memory than its size suggests.
    """

    tool: str
    files: str
    versions: str
    source: str
    gives: str
    refused: str
    fits: Callable[[Path, str], bool]
    read: Callable[[Path], Sequence[ToolResult]]
    costly: bool = False

    @property
    def title(self) -> str:
        """Name of the tool and of its files."""
        return f"{self.tool} ({self.files})"


def _single_result(read: Callable[[Path], ToolResult]) -> Callable[[Path], Sequence[ToolResult]]:
    return lambda path: [read(path)]


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


FORMATS = (
    Format(
        "ros2-performance",
        "the folder of latency_all.txt",
        "2019 to today, four dialects",
        "irobot-ros/ros2-performance",
        "latencies by node and topic, losses, CPU, memory; single latencies since November 2024",
        "percentiles before that; `rss_KB` is a peak; `cpu_perc` is of all cores, and until "
        "October 2023 perhaps a mean since the start; sizes and latencies that wrapped around",
        lambda path, _: is_irobot(path),
        _single_result(read_irobot),
    ),
    Format(
        "reference_system",
        "the folder of std_output.log or memory_log.txt",
        "since 2021",
        "ros-realtime/reference-system",
        "latency, drops and period of the hot path, CPU and memory over time",
        "percentiles; statistics that wrapped around",
        lambda path, _: is_reference_system(path),
        _single_result(read_reference_system),
    ),
    Format(
        "performance_test",
        "CSV, JSON or log",
        "1.x and 2.x, ROS 2 and plain DDS",
        "ApexAI/performance_test",
        "moments of the latency per second and over the run, messages sent, received and lost, CPU",
        "percentiles; its CSV's variance is in ms times s; seconds without messages have infinite "
        "extremes",
        lambda _, text: performance_test.START in text or '"analysis_results"' in text,
        _single_result(read_performance_test),
    ),
    Format(
        "performance_test",
        "SQLite database",
        "1.x built with SQL support",
        "ApexAI/performance_test",
        "the same, one run per experiment; a log of the same experiment counts once",
        "percentiles; databases of MySQL and PostgreSQL",
        lambda _, text: text.startswith(MAGIC) and '"AnalysisResult"' in text,
        read_performance_test_sql,
        costly=True,
    ),
    Format(
        "ros2_benchmark",
        "JSON, also of isaac_ros_benchmark",
        "since 2023",
        "NVIDIA-ISAAC-ROS/ros2_benchmark",
        "frame rates, latencies, jitter and utilisation, by fixed frame rate",
        "intervals and percentiles, for repetitions are condensed; a loss, for counts are means",
        lambda _, text: text.lstrip().startswith("{") and ros2_benchmark.MARK in text,
        ros2_benchmark.read_ros2_benchmark,
    ),
    Format(
        "rosbag2_performance_benchmarking",
        "results.csv",
        "since 2020",
        "ros2/rosbag2",
        "messages recorded of those sent, CPU, by storage and settings",
        "columns that are empty; a run without all of its rows",
        lambda _, text: "total_recorded_count" in _first_line(text).split(" "),
        read_rosbag2_runs,
        costly=True,
    ),
    Format(
        "buildfarm_perf_tests",
        "system metrics as CSV",
        "since 2020",
        "ros2/buildfarm_perf_tests",
        "CPU and memory over time",
        "pages were read as KB: corrected",
        lambda _, text: "T_experiment" in _first_line(text),
        _single_result(read_buildfarm_csv),
    ),
    Format(
        "buildfarm_perf_tests",
        "two-row CSV for Jenkins",
        "since 2020",
        "ros2/buildfarm_perf_tests, osrf/TSC-RMW-Reports",
        "means and medians of CPU, memory, latency, throughput",
        "intervals; 95th percentiles, which may be the maximum; pages were read as KB: corrected",
        lambda _, text: is_buildfarm_plot(text),
        _single_result(read_buildfarm_plot),
    ),
    Format(
        "buildfarm_perf_tests",
        "benchmark.json",
        "since 2020",
        "ros2/buildfarm_perf_tests",
        "its figures in one set of units",
        "95th percentiles, which may be the maximum; the unit of throughput: corrected",
        lambda _, text: text.lstrip().startswith("{") and '"dblValue"' in text,
        _single_result(read_buildfarm_benchmark),
    ),
    Format(
        "RobotPerf",
        "benchmark.yaml",
        "of its repository",
        "robotperf/benchmarks",
        "results, and the statistics in their notes",
        "intervals",
        lambda path, text: path.suffix in {".yaml", ".yml"} and "\nresults:" in f"\n{text}",
        _single_result(read_robotperf),
        costly=True,
    ),
    Format(
        "micro-ROS benchmarking",
        "*_com_analysis.data",
        "2020, 2021",
        "micro-ROS/benchmarking-results",
        "bandwidth and time in the network's driver, by direction",
        "latency from end to end; intervals",
        lambda _, text: is_micro_ros_data(text),
        _single_result(read_micro_ros_data),
    ),
    Format(
        "micro-ROS benchmarking",
        "JSON of sched, isr, mem_dyn, mem_static, fusage",
        "2020, 2021",
        "micro-ROS/benchmarking-results",
        "CPU time and single executions of tasks and interrupts, heap, stacks, calls of functions",
        "leaks and peaks of the heap, for it has no times; `raw.data` and `hreadable.data` (open "
        "the CTF trace beside them); `resultmemory.json` of 2019",
        lambda _, text: is_micro_ros_json(text),
        _single_result(read_micro_ros_json),
    ),
    Format(
        "memory_benchmark",
        "CSV",
        "of its repository",
        "irobot-ros/ros2-performance",
        "peak of memory by number of entities",
        "anything but peaks",
        lambda _, text: _first_line(text).replace(" ", "").startswith("Entity,N,RSS"),
        _single_result(read_memory_benchmark),
    ),
    Format(
        "run_psutil.py",
        "table",
        "of its repository",
        "irobot-ros/ros2-performance",
        "CPU and memory over time",
        "-",
        lambda _, text: "Time[sec]" in _first_line(text).split(),
        _single_result(read_psutil),
    ),
)
"""All known kinds of files."""

_IN_FOLDERS = {*irobot.FILES, *reference_system.FILES}


def find_results(path: Path) -> list[tuple[Path, Format]]:
    """Return the results at a path with their formats; for another folder, all results below it.

    Raises
    ------
    UsageError
        The path does not exist, or holds no file of a known format.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    result = _format_of(path)
    if result is not None:
        return [result]
    results: dict[Path, Format] = {}
    for below in sorted(path.rglob("*")) if path.is_dir() else ():
        # Files in the folder of a result belong to it.
        if results.keys().isdisjoint(below.parents) and (result := _format_of(below)):
            results.setdefault(*result)
    if not results:
        kinds = "; ".join(entry.title for entry in FORMATS)
        raise UsageError(f"{path}: no result file of a known benchmark tool; known are {kinds}")
    return list(results.items())


def read_results(place: Path, known: Format) -> Sequence[ToolResult]:
    """Read a result found by `find_results`, one per run; only small text is read in this process.

    Raises
    ------
    UsageError
        The content is not as the tool writes it, or takes more than the limits of
        `roslens.recording.foreign`.
    """
    if not known.costly and _bytes_in(place) <= _SMALL:
        with read_here(place, known.title):
            return known.read(place)
    reader, number = "roslens.collectors.results.formats:results_of", FORMATS.index(known)
    read = read_foreign(reader, place, known.title, options={"number": number})
    return [ToolResult(**result) for result in read]


def results_of(place: Path, number: int) -> list[dict[str, Any]]:
    """Return the fields of each result; a damaged file may raise any exception."""
    return [vars(result) for result in FORMATS[number].read(place)]


def _bytes_in(place: Path) -> int:
    files = place.iterdir() if place.is_dir() else [place]
    return sum(file.stat().st_size for file in files if file.is_file())


def _format_of(path: Path) -> tuple[Path, Format] | None:
    places = [path.parent, path] if path.name in _IN_FOLDERS else [path]
    for place in places:
        text = _head(place)
        for candidate in FORMATS:
            if candidate.fits(place, text):
                return place, candidate
    return None


def _head(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD).decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
