"""Compute the metrics that are only computed on request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.pauses import paused_runs, recorded_time
from roslens.analysis.runs import cells_of
from roslens.analysis.statistics.over_runs import statistics_over_runs, value_over_runs
from roslens.collectors.topics import INFRASTRUCTURE

if TYPE_CHECKING:
    from roslens.analysis.latency.report import LatencyReport

Maker = Callable[["LatencyReport", Sequence[str]], list[Estimate]]

# Modules that most callers do not need are imported where they are used.
# ruff: noqa: PLC0415


def requested_estimates(report: LatencyReport, metrics: Sequence[str]) -> list[Estimate]:
    """Return the requested estimates that a latency report does not compute by default."""
    estimates: list[Estimate] = []
    for pattern, (make, _) in ASKED.items():
        names = [name for name in metrics if re.fullmatch(pattern, name)]
        if names:
            estimates += make(report, names)
    return estimates


def _latency(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    computed = {e.metric for e in report.main_estimates}
    wanted = _percentiles(names)
    if not wanted or computed >= set(names):
        return []
    estimates = chain.from_iterable(report.estimates_of(report.groups, wanted))
    return [e for e in estimates if e.metric not in computed]


def _memory(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    from roslens.analysis.leaks.by_cell import slopes_named

    return slopes_named(
        names, report.tables.resources, report.messages, report.counting, report.losses
    )


def _chains(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    from roslens.analysis.chains.report import ChainsParameters, ChainsReport

    asked = report.parameters
    parameters = ChainsParameters.checked(
        {"recordings": asked.recordings, "leave_out": asked.leave_out}
    )
    chains = ChainsReport(report.tables, parameters)
    return chains.estimates_with(_percentiles(names), bound="response_time_bound" in names)


def _callbacks(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    estimates = report.callback_estimates(report.groups, _percentiles(names))
    return list(chain.from_iterable(estimates))


def _periods(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    sent = (
        report.tables.table("publications")
        .filter(pl.col("topic").is_not_null() & ~pl.col("topic").is_in(INFRASTRUCTURE))
        .pipe(recorded_time, report.losses, "publish_ns")
        .filter(~pl.col("paused"))
        .sort("publish_ns")
        .select(
            "run",
            pl.col("topic").alias("level"),
            value=pl.col("publish_ns").diff().over("run", "host", "publisher_id", "pauses"),
        )
    )
    definition = "first publish event -> that of the same publisher's next publication"
    return _by_level(report, sent, "topic", Metric("period", definition, "ns"), names)


def _jitter(report: LatencyReport, names: Sequence[str]) -> list[Estimate]:
    timers = report.tables.table("timer_activations").select(
        "run",
        level=pl.concat_str(
            "node", pl.lit(" "), (pl.col("period_ns") / 1e6).round(3), pl.lit(" ms")
        ),
        value=pl.col("jitter_ns").abs(),
    )
    definition = "|start - start before - period| of the timer's callbacks"
    return _by_level(report, timers, "timer", Metric("timer_jitter", definition, "ns"), names)


def _by_level(
    report: LatencyReport, rows: pl.LazyFrame, factor: str, metric: Metric, names: Sequence[str]
) -> list[Estimate]:
    """Return percentiles of ``value`` per cell and ``level``, which is added as a factor."""
    frame = rows.drop_nulls().collect()
    estimates = []
    for level in frame["level"].unique().sort():
        of_level = frame.filter(pl.col("level") == level)
        for members in cells_of(report.counting).values():
            arrays = [of_level.filter(pl.col("run") == r.name)["value"].to_numpy() for r in members]
            if any(a.size for a in arrays):
                cell = {**members[0].cell, factor: level}
                asked = _percentiles(names)
                estimates += statistics_over_runs(metric, cell, arrays, asked, report.level)
    return estimates


def _busy(report: LatencyReport, _: Sequence[str]) -> list[Estimate]:
    from roslens.analysis.measures.busy import WAIT, busy_per_run

    paused = pl.col("run").is_in(paused_runs(report.losses))
    waiting = busy_per_run(report.tables.table("executor_intervals").filter(~paused), report.losses)
    busy = waiting.with_columns(busy=1 - pl.col("wait"))
    metric = Metric("executor_busy", f"inside of callbacks, or not {WAIT.definition}", "1")
    return [
        value_over_runs(metric, members[0].cell, values, len(values), report.level)
        for members in cells_of(report.counting).values()
        if (values := busy.filter(pl.col("run").is_in([r.name for r in members]))["busy"].to_list())
    ]


def _times(report: LatencyReport, _: Sequence[str]) -> list[Estimate]:
    metric = Metric("time", "start of the command -> its own end, by the recorder's clock", "ns")
    return [
        value_over_runs(metric, members[0].cell, values, len(values), report.level)
        for members in cells_of(report.counting).values()
        if (values := [float(r.elapsed_ns) for r in members if r.elapsed_ns is not None])
    ]


def _percentiles(names: Sequence[str]) -> list[float]:
    matches = (re.search(r"_p(\d+(?:\.\d+)?)$", name) for name in names)
    asked = {float(match[1]) / 100 for match in matches if match}
    return sorted(q for q in asked if 0 < q < 1)


_P = r"p\d+(\.\d+)?"
ASKED: Mapping[str, tuple[Maker, str]] = {
    rf"latency_(sent_)?{_P}": (_latency, "latency_p99.9"),
    r"memory_slope.*": (_memory, "memory_slope"),
    rf"response_time_({_P}|mean|max|worst|bound)|chain_(rate|complete)": (
        _chains,
        "response_time_p99",
    ),
    rf"callback_duration_{_P}": (_callbacks, "callback_duration_p99"),
    rf"period_{_P}": (_periods, "period_p99"),
    rf"timer_jitter_{_P}": (_jitter, "timer_jitter_p99"),
    r"executor_busy": (_busy, "executor_busy"),
    r"time": (_times, "time"),
}
"""The function that computes the metrics of each name pattern, and one example name."""
