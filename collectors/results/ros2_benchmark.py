"""Read results of ros2_benchmark and isaac_ros_benchmark (NVIDIA): the JSON of a benchmark.

Values in the file are aggregated over repetitions without the best and the worst one: the file
holds neither single latencies nor the spread over repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roslens.collectors.results.tool_result import ToolResult
from roslens.recording.errors import UsageError
from roslens.recording.json_file import read_json

TOOL = "ros2_benchmark"
MARK = '"BasicPerformanceMetrics.'
_BASIC = {
    "RECEIVED_DURATION": ("received_duration", 1e6, "ns"),
    "MEAN_PLAYBACK_FRAME_RATE": ("playback_frame_rate", 1.0, "Hz"),
    "MEAN_FRAME_RATE": ("frame_rate", 1.0, "Hz"),
    "NUM_MISSED_FRAMES": ("frames_missed", 1.0, "1"),
    "NUM_FRAMES_SENT": ("frames_sent", 1.0, "1"),
    "FIRST_SENT_RECEIVED_LATENCY": ("first_sent_to_first_received", 1e6, "ns"),
    "LAST_SENT_RECEIVED_LATENCY": ("last_sent_to_last_received", 1e6, "ns"),
    "FIRST_INPUT_LATENCY": ("first_frame_latency", 1e6, "ns"),
    "LAST_INPUT_LATENCY": ("last_frame_latency", 1e6, "ns"),
    "MAX_LATENCY": ("latency_max", 1e6, "ns"),
    "MIN_LATENCY": ("latency_min", 1e6, "ns"),
    "MEAN_LATENCY": ("latency_mean", 1e6, "ns"),
    "MAX_JITTER": ("jitter_max", 1e6, "ns"),
    "MIN_JITTER": ("jitter_min", 1e6, "ns"),
    "MEAN_JITTER": ("jitter_mean_largest", 1e6, "ns"),
    "STD_DEV_JITTER": ("jitter_sd", 1e6, "ns"),
}
_STATISTICS = {"MAX": "max", "MIN": "min", "MEAN": "mean", "STDDEV": "sd", "BASELINE": "baseline"}
_ONCE = "OC_EVENT_COUNT"
_NOTES = (
    "values are condensed over repetitions, without the best and the worst: no interval from them",
    "the mean jitter is the largest of the repetitions' means, as the tool concludes it",
    "frames sent and missed are means over repetitions, so no loss is counted from them",
)
_WITHOUT_LATENCY = (
    "the tool matched no frames: there are times from the first sent to the first received, and "
    "from the last to the last, and no latency"
)


def read_ros2_benchmark(path: Path) -> Sequence[ToolResult]:
    """Read one file: a result for the main test, and one for each fixed frame rate.

    Raises
    ------
    UsageError
        The file is of another kind.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise UsageError(f"{path}: not JSON of ros2_benchmark: no object")
    metadata = {k: v for k, v in data.items() if isinstance(v, str)}
    about = data.get("metadata")
    if isinstance(about, Mapping):
        metadata |= {k: str(v) for k, v in about.items() if not isinstance(v, (dict, list))}
    parts = list(_parts(data))
    results = [_result(where, part, metadata, several=len(parts) > 1) for where, part in parts]
    if not results:
        raise UsageError(f"{path}: no metric of ros2_benchmark in it")
    return results


def _parts(data: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tests of a file with the path of keys that leads to them."""
    if any(key.startswith("BasicPerformanceMetrics.") for key in data):
        yield where or "main", data
    for key, value in data.items():
        if isinstance(value, Mapping) and key != "metadata":
            yield from _parts(value, f"{where} {key}".strip())


def _result(
    where: str, part: Mapping[str, Any], metadata: Mapping[str, str], *, several: bool
) -> ToolResult:
    rows, unknown = [], []
    for key, value in part.items():
        kind, _, name = key.partition(".")
        if not name or not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        figure = _BASIC.get(name) if kind == "BasicPerformanceMetrics" else _resource(kind, name)
        if figure is None:
            unknown.append(key)
            continue
        metric, factor, unit = figure
        rows.append({"entity": "graph", "metric": metric, "value": value * factor, "unit": unit})
    notes = list(_NOTES)
    if not any(row["metric"] == "latency_mean" for row in rows):
        notes.append(_WITHOUT_LATENCY)
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        notes.append(f"{unknown[0]}{more}: the unit is not known; left out")
    factors = {"test": where} if several else {}
    return ToolResult.of(TOOL, rows, metadata=metadata, notes=notes, factors=factors)


def _resource(kind: str, name: str) -> tuple[str, float, str] | None:
    """Convert ``MEAN_OVERALL_CPU_UTILIZATION`` to ``overall_cpu_utilization_mean``, in percent."""
    if kind != "ResourceMetrics":
        return None
    if name == _ONCE:
        return "overcurrent_events", 1.0, "1"
    statistic, _, resource = name.partition("_")
    if statistic not in _STATISTICS or not resource.endswith("_UTILIZATION"):
        return None
    return f"{resource.lower()}_{_STATISTICS[statistic]}", 0.01, "1"
