"""What each run did and how long that took: messages, service calls or action goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.measures.latency import HOP
from roslens.analysis.measures.samples import run_samples, topic_groups
from roslens.analysis.measures.services import INFRASTRUCTURE
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import (
    maximum_over_runs,
    mean_over_runs,
    percentile_over_runs,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A kind of work.

    Attributes
    ----------
    prefix
        Of the names of its metrics.
    noun
        For people.
    definition
        From which event to which event.
    """

    prefix: str
    noun: str
    definition: str


MESSAGE = Kind("latency", "message", f"{HOP}; delivered messages")
CALL = Kind(
    "response_time",
    "service call",
    "request sent -> response taken: from rmw_send_request to rmw_take_response of the same "
    "request; answered calls",
)
GOAL = Kind(
    "goal_time",
    "action goal",
    "goal sent -> result taken: from rmw_send_request of send_goal to rmw_take_response of "
    "get_result; goals with a result",
)


@dataclass(frozen=True)
class Work:
    """The work of one run.

    Attributes
    ----------
    values_ns
        How long each piece took, in order, shape (n,).
    """

    run: Run
    kind: Kind
    values_ns: Floats


def work_of_runs(
    messages: pl.LazyFrame,
    calls: pl.LazyFrame,
    goals: pl.LazyFrame,
    runs: Sequence[Run],
    warm_up_s: float = 0.0,
) -> list[Work]:
    """The work of each run: messages on its work topic, else goals, calls, the busiest topic.

    An action is made of services and topics: the first of these that a run has is what it was made
    for. Runs without any are left out.
    """
    found: dict[str, Work] = {}
    by_name = {run.name: run for run in runs}
    for work in _messages(messages, [run for run in runs if run.work_topic], warm_up_s):
        found[work.run.name] = work
    of_goals = _durations(goals, "goal_sent_ns", "result_taken_ns", pl.lit(value=True), warm_up_s)
    own = ~pl.any_horizontal(pl.col("service").str.ends_with(x) for x in INFRASTRUCTURE)
    own = own & ~pl.col("service").str.contains("/_action/")
    of_calls = _durations(calls, "request_sent_ns", "response_taken_ns", own, warm_up_s)
    for kind, values in ((GOAL, of_goals), (CALL, of_calls)):
        for name, array in values.items():
            if name in by_name and array.size and name not in found:
                found[name] = Work(by_name[name], kind, array)
    rest = [run for run in runs if run.name not in found]
    for work in _messages(messages, rest, warm_up_s):
        found[work.run.name] = work
    return [found[run.name] for run in runs if run.name in found]


def _messages(messages: pl.LazyFrame, runs: Sequence[Run], warm_up_s: float) -> list[Work]:
    if not runs:
        return []
    group = topic_groups(messages, runs)[0]
    samples = run_samples(messages, runs, group, warm_up_s)
    kind = replace(MESSAGE, definition=f"{MESSAGE.definition}; {group.scope}")
    return [Work(s.run, kind, s.delivered_ns) for s in samples if s.delivered_ns.size]


def _durations(
    rows: pl.LazyFrame, begin: str, end: str, which: pl.Expr, warm_up_s: float
) -> dict[str, Floats]:
    frame = (
        rows.filter(which)
        .select("run", begin, took=pl.col(end) - pl.col(begin))
        .filter(pl.col(begin) >= pl.col(begin).min().over("run") + round(warm_up_s * 1e9))
        .drop_nulls()
        .sort("run", begin)
        .collect()
    )
    return {
        str(name): part["took"].to_numpy().astype(np.float64)
        for (name,), part in frame.partition_by("run", as_dict=True).items()
    }


def work_estimates(work: Sequence[Work], level: float = 0.95) -> list[Estimate]:
    """Mean, P50, P99 and the largest of each cell, over the runs that did work of its kind."""
    found = []
    for kind in dict.fromkeys(w.kind for w in work):
        of_run = {w.run.name: w for w in work if w.kind == kind}
        for members in cells_of([w.run for w in of_run.values()]).values():
            arrays = [of_run[run.name].values_ns for run in members]
            found += _of_cell(kind, members[0].cell, arrays, level)
    return found


def _of_cell(kind: Kind, cell: Cell, arrays: Sequence[Floats], level: float) -> list[Estimate]:
    def metric(statistic: str) -> Metric:
        return Metric(f"{kind.prefix}_{statistic}", kind.definition, "ns")

    return [
        mean_over_runs(metric("mean"), cell, arrays, level),
        *(
            percentile_over_runs(metric(f"p{round(100 * q)}"), cell, arrays, q, level)
            for q in (0.5, 0.99)
        ),
        maximum_over_runs(metric("max"), cell, arrays, level),
    ]
