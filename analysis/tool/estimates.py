"""Turn other tools' figures into estimates over runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from roslens.analysis.estimate import Better, Cell, Estimate, Metric
from roslens.analysis.runs import by_cell
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.one_run import mean_of_one_run, percentile_of_one_run
from roslens.analysis.statistics.over_runs import (
    mean_over_runs,
    percentile_over_runs,
    refused_estimate,
    value_over_runs,
)
from roslens.analysis.statistics.quantiles import percentile_name
from roslens.analysis.tool.runs import ToolRun

COUNTS = ("sent", "received", "lost", "late", "too_late", "lost_by_gaps")
"""Counts of messages, which get no estimates of their own."""

_LEFT = (*COUNTS, "frequency", "message_size")
_QUANTILES = (0.5, 0.99)
_MEANS = ("cpu", "cpu_of_machine", "system_cpu", "rss", "rss_by_pages", "pss", "heap_in_use")
_NEITHER = ("_rate", "_sent", "_duration", "hits", "allocations", "frees")
"""Endings of metrics for which neither more nor less is better."""
_PEAKS = ("rss_peak", "virtual_peak")
_CLOCKS = {
    "performance_test": "from the stamp in the message, set before publish(), to its take, by the "
    "tool's own clock",
    "ros2-performance": "from just before publish() to the first line of the callback, by the "
    "tool's own clock",
}
NO_SAMPLES = "the file holds no single latencies, so no percentile can be had from it"
SILENT = (
    "a run received nothing: lost messages are found by gaps in what arrives, and the process may "
    "have been one that only sends"
)
UNCLEAR = (
    "until October 2023 cpu_perc was the mean since the start, later that of the last period, and "
    "these files do not say which"
)
ENTITY = "entity"


class Value(NamedTuple):
    """One figure of one run.

    Attributes
    ----------
    entity
        Subject of the figure, such as ``subscription /scan at /planner``; empty for the whole run.
    origin
        ``written`` by the tool as a figure, or the ``mean`` or ``peak`` of its rows over time.
    """

    entity: str
    metric: str
    value: float
    unit: str
    samples: int
    origin: str


def values_of(one: ToolRun) -> list[Value]:
    """Return every figure of a run: first of its summary, then of its rows over time.

    Repeated figures of one entity are numbered, and never merged.
    """
    figures: list[Value] = []
    times: dict[tuple[str, str], int] = {}
    for row in one.result.summary.drop_nulls("value").iter_rows(named=True):
        entity, metric = entity_of(row), row["metric"]
        count = times[entity, metric] = times.get((entity, metric), 0) + 1
        name = entity if count == 1 else f"{entity} ({count})"
        samples = 1 if row["samples"] is None else row["samples"]
        figures.append(Value(name, metric, row["value"], row["unit"], samples, "written"))
    for (metric,), rows in one.result.series.drop_nulls("value").group_by(
        ["metric"], maintain_order=True
    ):
        name, values, unit = str(metric), rows["value"], rows["unit"][0]
        if name in _MEANS:
            figures.append(Value("", name, values.mean(), unit, values.len(), "mean"))  # type: ignore[arg-type]
        elif name in _PEAKS:
            figures.append(Value("", name, values.max(), unit, values.len(), "peak"))  # type: ignore[arg-type]
    return figures


def entity_of(row: dict[str, Any]) -> str:
    """Return the subject of a row of the summary or of the samples."""
    node = f"at {row['node']}" if row["node"] else ""
    return " ".join(filter(None, (row["entity"], row["name"], node)))


def tool_estimates(runs: Sequence[ToolRun], level: float) -> list[Estimate]:
    """Return every estimate of every cell, entity by entity.

    Single latencies give means and percentiles: over runs where there are several, else within the
    one run. Figures that the tool aggregated itself count as one value per run.
    """
    estimates: list[Estimate] = []
    for cell in by_cell(runs):
        values = [{(v.entity, v.metric): v for v in values_of(tool_run)} for tool_run in cell]
        samples = [_samples_of(tool_run) for tool_run in cell]
        keys = dict.fromkeys(key for of_one in values for key in of_one)
        for entity in dict.fromkeys(entity for entity, _ in keys):
            metrics = [metric for name, metric in keys if name == entity]
            estimates += _entity_estimates(
                cell, entity, metrics, values=values, samples=samples, level=level
            )
    return estimates


def _entity_estimates(
    cell: Sequence[ToolRun],
    entity: str,
    metrics: Sequence[str],
    *,
    values: Sequence[dict[tuple[str, str], Value]],
    samples: Sequence[dict[str, list[float]]],
    level: float,
) -> list[Estimate]:
    tool = cell[0].result.tool
    levels: Cell = {**cell[0].run.cell, **({ENTITY: entity} if entity else {})}
    single = [latencies for of_one in samples if (latencies := of_one.get(entity))]
    estimates: list[Estimate] = []
    for name in metrics:
        figures = [v for of_one in values if (v := of_one.get((entity, name))) is not None]
        prefix, _, statistic = name.rpartition("_")
        if name in _LEFT or statistic in {"sd", "min"} or name.startswith("events_"):
            continue
        if statistic == "mean" and single:
            estimates += _sample_estimates(tool, prefix, levels, single, level)
            continue
        count = sum(v.samples for v in figures)
        metric = _metric(tool, name, figures[0].unit, figures[0].origin)
        if name == "cpu_of_machine" and any(map(_since_start, cell)):
            estimates.append(refused_estimate(metric, levels, UNCLEAR, level))
            continue
        estimates.append(value_over_runs(metric, levels, [v.value for v in figures], count, level))
        if statistic == "mean" and figures[0].unit == "ns":
            estimates += [
                refused_estimate(_percentile(tool, prefix, q), levels, NO_SAMPLES, level)
                for q in _QUANTILES
            ]
    counted = [
        (round(of_one[entity, "lost"].value), round(of_one[entity, "received"].value))
        for of_one in values
        if {(entity, "lost"), (entity, "received")} <= of_one.keys()
    ]
    if counted:
        definition = f"messages lost, of those lost and received, as {tool} counted them"
        metric = Metric("loss", definition, "1")
        if all(received for _, received in counted):
            lost, total = (
                [missing for missing, _ in counted],
                [missing + received for missing, received in counted],
            )
            estimates.append(fraction_over_runs(metric, levels, lost, total, level))
        else:
            estimates.append(refused_estimate(metric, levels, SILENT, level))
    return estimates


def _sample_estimates(
    tool: str, prefix: str, cell: Cell, runs: Sequence[list[float]], level: float
) -> list[Estimate]:
    metric = _metric(tool, f"{prefix}_mean", "ns", "single")
    of_q = [(q, _percentile(tool, prefix, q)) for q in _QUANTILES]
    if len(runs) > 1:
        estimates = [mean_over_runs(metric, cell, runs, level)]
        return estimates + [percentile_over_runs(m, cell, runs, q, level) for q, m in of_q]
    estimates = [mean_of_one_run(metric, cell, runs[0], level)]
    return estimates + [percentile_of_one_run(m, cell, runs[0], q, level) for q, m in of_q]


def _since_start(tool_run: ToolRun) -> bool:
    return tool_run.result.metadata.get("dialect") in {"A", "B"}


def _percentile(tool: str, prefix: str, q: float) -> Metric:
    return _metric(tool, f"{prefix}_{percentile_name(q).lower()}", "ns", "single")


def _metric(tool: str, name: str, unit: str, origin: str) -> Metric:
    how = {
        "written": f"as {tool} wrote it",
        "single": f"of the single latencies that {tool} wrote",
        "mean": f"mean over the rows that {tool} wrote over time",
        "peak": f"largest of the rows that {tool} wrote over time",
    }[origin]
    clock = _CLOCKS.get(tool) if name.startswith("latency_") else None
    better: Better | None = "lower"
    if "throughput" in name or name == "frame_rate":
        better = "higher"
    elif "period" in name or name.endswith(_NEITHER):
        better = None
    words = name.replace("_", " ")
    return Metric(name, f"{words}, {how}" + (f": {clock}" if clock else ""), unit, better)


def _samples_of(tool_run: ToolRun) -> dict[str, list[float]]:
    """Return single latencies by entity, in the order in which the tool wrote them."""
    latencies: dict[str, list[float]] = {}
    keys = ["entity", "node", "name"]
    frame = tool_run.result.samples.drop_nulls("value_ns")
    for rows in frame.partition_by(keys, maintain_order=True):
        latencies[entity_of(rows.row(0, named=True))] = rows["value_ns"].cast(pl.Float64).to_list()
    return latencies
