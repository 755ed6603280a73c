"""Measure the work of each run: durations of messages, service calls or action goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.latency import HOP
from roslens.analysis.measures.samples import run_samples, topic_groups
from roslens.analysis.measures.services import (
    DEFINITION,
    as_lower_bound,
    call_times,
    has_every_node,
)
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import (
    estimate_of,
    statistics_over_runs,
    student_t,
)
from roslens.analysis.statistics.trends import least_squares
from roslens.collectors.ros2.services import begin_of
from roslens.collectors.topics import is_of_application
from roslens.recording.arrays import Floats, np


@dataclass(frozen=True)
class Kind:
    """A kind of work.

    Attributes
    ----------
    prefix
        Prefix of the names of its metrics.
    noun
        Name for people.
    definition
        First and last event of a piece of work.
    """

    prefix: str
    noun: str
    definition: str


MESSAGE = Kind("latency", "message", f"{HOP}; delivered messages")
CALL = Kind(
    "response_time",
    "service call",
    DEFINITION,
)
GOAL = Kind(
    "goal_time",
    "action goal",
    "goal called -> result taken: from the call of rcl_send_request of send_goal to "
    "rmw_take_response of get_result; goals with a result",
)


@dataclass(frozen=True)
class Work:
    """The work of one run.

    Attributes
    ----------
    values_ns
        Duration of each piece, in order, shape (n,).
    measured
        Whether durations are exact; else they are lower bounds, as the begin is not in the trace.
    """

    run: Run
    kind: Kind
    values_ns: Floats
    measured: bool = True


def work_of_runs(
    messages: pl.LazyFrame,
    calls: pl.LazyFrame,
    goals: pl.LazyFrame,
    runs: Sequence[Run],
    warm_up_s: float = 0.0,
) -> list[Work]:
    """Return the work of each run: its work topic, else goals, calls, or its busiest own topic.

    An action consists of services and topics, so the first of these kinds that a run has is its
    purpose. Runs without any work are left out.
    """
    by_run: dict[str, Work] = {}
    by_name = {run.name: run for run in runs}
    for work in _messages(messages, [run for run in runs if run.work_topic], warm_up_s):
        by_run[work.run.name] = work
    asked = begin_of("goal_called_ns", "goal_sent_ns", "goal_taken_ns")
    of_goals = goals.select(
        "run",
        begin_ns=asked,
        took_ns=pl.col("result_taken_ns") - asked,
        measured=pl.col("goal_called_ns").is_not_null(),
    )
    is_own = ~has_every_node("service") & ~pl.col("service").str.contains("/_action/")
    of_calls = call_times(calls.filter(is_own))
    for kind, rows in ((GOAL, of_goals), (CALL, of_calls)):
        for name, part in _parts(rows, warm_up_s).items():
            if name in by_name and name not in by_run:
                took = part["took_ns"].to_numpy().astype(np.float64)
                by_run[name] = Work(by_name[name], kind, took, bool(part["measured"].all()))
    rest = [run for run in runs if run.name not in by_run]
    for work in _messages(messages.filter(is_of_application()), rest, warm_up_s):
        by_run[work.run.name] = work
    return [by_run[run.name] for run in runs if run.name in by_run]


def _messages(messages: pl.LazyFrame, runs: Sequence[Run], warm_up_s: float) -> list[Work]:
    if not runs:
        return []
    group = topic_groups(messages, runs)[0]
    samples = run_samples(messages, runs, group, warm_up_s)
    kind = replace(MESSAGE, definition=f"{MESSAGE.definition}; {group.scope}")
    return [Work(s.run, kind, s.delivered_ns) for s in samples if s.delivered_ns.size]


def _parts(rows: pl.LazyFrame, warm_up_s: float) -> dict[str, pl.DataFrame]:
    """Return by run the pieces that began after the warm-up and have ended, in order."""
    begin = pl.col("begin_ns")
    frame = (
        rows.filter(begin >= begin.min().over("run") + round(warm_up_s * 1e9))
        .filter(pl.col("took_ns") >= 0)
        .sort("run", "begin_ns")
        .collect()
    )
    return {str(name): part for (name,), part in frame.partition_by("run", as_dict=True).items()}


def work_estimates(work: Sequence[Work], level: float = 0.95) -> list[Estimate]:
    """Estimate mean, P50, P99 and maximum of each cell, over the runs with work of its kind."""
    all_estimates: list[Estimate] = []
    for kind in dict.fromkeys(w.kind for w in work):
        of_run = {w.run.name: w for w in work if w.kind == kind}
        for members in cells_of([w.run for w in of_run.values()]).values():
            works = [of_run[run.name] for run in members]
            metric = Metric(kind.prefix, kind.definition, "ns")
            arrays = [w.values_ns for w in works]
            estimates = statistics_over_runs(
                metric, members[0].cell, arrays, ("mean", 0.5, 0.99, "max"), level
            )
            measured = all(w.measured for w in works)
            all_estimates += estimates if measured else map(as_lower_bound, estimates)
    return all_estimates


ENTITY, COUNT = "entity", "count"


def entity_estimates(
    memory: Mapping[str, float], runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """Estimate ``memory_per_entity`` by kind: a line per block, Student t over blocks.

    Parameters
    ----------
    memory
        Resident memory of each run in bytes, by name of the run.
    runs
        Runs, of which those with the factors ``entity`` and ``count`` are used; blocks with fewer
        than two counts are left out.
    """
    metric = Metric(
        "memory_per_entity",
        "RSS of the process (mean over the run) against the number of entities: slope of a line "
        "through each block's runs",
        "byte",
    )
    kinds: dict[str, dict[str | None, list[tuple[float, float]]]] = {}
    cells = {}
    for run in runs:
        if run.name in memory and {ENTITY, COUNT} <= run.cell.keys():
            kind = str(run.cell[ENTITY])
            cells[kind] = {k: v for k, v in run.cell.items() if k != COUNT}
            points = kinds.setdefault(kind, {}).setdefault(run.block, [])
            points.append((float(run.cell[COUNT]), memory[run.name]))
    estimates = []
    for kind, blocks in kinds.items():
        slopes = [
            least_squares(*np.array(points).T).slope
            for points in blocks.values()
            if len({count for count, _ in points}) > 1
        ]
        estimates.append(
            estimate_of(
                metric,
                cells[kind],
                student_t(slopes, level),
                level,
                runs=len(slopes),
                samples=sum(map(len, blocks.values())),
                method="least squares over the number of entities per block, Student t over blocks",
                per_run=slopes,
            )
        )
    return estimates
