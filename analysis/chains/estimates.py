"""Estimate response times of chains over runs, and check requirements on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from roslens.analysis.chains.requirements import DEADLINE, NamedChain
from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.flow.chains import OPEN, UNTOLD, ChainInstances
from roslens.analysis.measures.latency import within_clocks
from roslens.analysis.measures.pauses import too_many_lost
from roslens.analysis.measures.services import as_lower_bound
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.fractions import bounded_fraction_over_runs
from roslens.analysis.statistics.over_runs import (
    maximum_over_runs,
    statistics_over_runs,
    value_over_runs,
)
from roslens.analysis.verdicts.budgets import (
    Budget,
    Check,
    Checks,
    check,
    check_budgets,
    unless_silent,
)
from roslens.analysis.verdicts.sides import Side
from roslens.recording.arrays import np

PERCENTILES = (0.5, 0.9, 0.99)
RESPONSE = (
    "first publish event of the chain's first message -> callback_end of its last callback; "
    "instances that reached the end"
)
_WORST = (
    "first publish event of the complete instance before -> callback_end of the last callback: the "
    "longest that something waited which just missed an instance; largest of each run"
)
_COMPLETE = "instances that reached the chain's end / instances of which that can be told"
_RATE = (
    "messages of the chain's last topic that reached its end per second, from the first end to the "
    "last; to the end of the measured part if more time is left after the last end than between "
    "any two; fewer than two messages: over the measured part"
)


@dataclass(frozen=True)
class FollowedChain:
    """A chain with its instances in the runs that count; its tables have ``run``."""

    named: NamedChain
    instances: ChainInstances

    def cell(self, run: Run) -> dict[str, str | int | float | bool]:
        """Return the cell of a run, with the chain as one more level."""
        return {**run.cell, "chain": self.named.name}

    def of_runs(self, runs: Sequence[Run]) -> Self:
        """Return the same chain with its instances in these runs alone."""
        of_runs = pl.col("run").is_in([run.name for run in runs])
        return replace(self, instances=self.instances.only(of_runs))

    def of_run(self, run: Run) -> pl.DataFrame:
        """Return the chain's instances in one run, in order of their begin."""
        return self.instances.instances.filter(pl.col("run") == run.name)


def chain_estimates(
    chain: FollowedChain,
    runs: Sequence[Run],
    level: float = 0.95,
    percentiles: Sequence[float] = PERCENTILES,
    *,
    lost: Mapping[str, float] | None = None,
    parts: Mapping[str, tuple[int, int]] | None = None,
) -> list[Estimate]:
    """Estimate response times, completeness and rate of one chain in each cell.

    Runs with too many `lost` events (`lost_events`) have no rate: a loss also ends open instances.
    Neither have those without an instance: nothing tells whether the chain was there at all. Where
    the measured part of a run (`parts`, begin and end in ns) is not known, its rate is that from
    the first end to the last.

    ``chain_complete`` (a fraction, with bounds or refused as ``loss`` is where instances may have
    reached the end), ``response_time_mean``, ``_p50`` and so on, ``_max``,
    ``_worst`` (ns) and ``chain_rate`` (Hz); cells gain ``chain``.
    """
    estimates: list[Estimate] = []
    for members in cells_of(runs).values():
        each = [chain.of_run(run) for run in members]
        cell = chain.cell(members[0])
        done = [e.filter(pl.col("outcome") == "complete") for e in each]
        if any(e.height for e in each):
            decided = [e.filter(~pl.col("outcome").is_in(UNTOLD)).height for e in each]
            estimates.append(
                bounded_fraction_over_runs(
                    Metric("chain_complete", _COMPLETE, "1", "higher"),
                    cell,
                    [d.height for d in done],
                    decided,
                    unknown=[e.filter(pl.col("outcome").is_in(OPEN)).height for e in each],
                    level=level,
                    untold="instances nobody can say whether they reached the chain's end",
                )
            )
        if any(d.height for d in done):
            estimates += _response_times(chain, cell, each, percentiles, level)
        rates = [
            rate
            for run, instances, d in zip(members, each, done, strict=True)
            if not too_many_lost((lost or {}).get(run.name, 0), d.height)
            if (rate := _rate(instances, (parts or {}).get(run.name))) is not None
        ]
        if rates:
            metric = Metric("chain_rate", _RATE, "Hz", "higher")
            count = sum(d.height for d in done)
            estimates.append(value_over_runs(metric, cell, rates, count, level))
    return estimates


def _response_times(
    chain: FollowedChain,
    cell: Cell,
    each: Sequence[pl.DataFrame],
    percentiles: Sequence[float],
    level: float,
) -> list[Estimate]:
    """Estimate response times from the instances of each run; those that are complete have one."""
    times, worst = (
        [e[name].drop_nulls().to_numpy().astype(np.float64) for e in each]
        for name in ("latency_ns", "worst_ns")
    )
    metric = Metric("response_time", RESPONSE, "ns")
    statistics = statistics_over_runs(metric, cell, times, ("mean", *percentiles), level)
    metric = Metric(DEADLINE, f"{RESPONSE}; largest of each run", "ns")
    largest = maximum_over_runs(metric, cell, times, level)
    statistics.append(replace(largest, method=largest.method + _not_complete(each)))
    if any(w.size for w in worst):
        metric = Metric("response_time_worst", _WORST, "ns")
        statistics.append(maximum_over_runs(metric, cell, worst, level))
    clocks = replace(chain.instances, instances=pl.concat(each)).clock_bound_ns
    statistics = [within_clocks(estimate, clocks) for estimate in statistics]
    return list(map(as_lower_bound, statistics)) if chain.instances.at_least else statistics


def _not_complete(each: Sequence[pl.DataFrame]) -> str:
    """Say how many instances did not reach the end, and of how many that is not known."""
    outcome = pl.concat(each)["outcome"]
    untold, complete = int(outcome.is_in(UNTOLD).sum()), int((outcome == "complete").sum())
    stopped = len(outcome) - complete - untold
    return (f"; {stopped:,} more did not reach the end" if stopped else "") + (
        f"; of {untold:,} more it is not known whether they did" if untold else ""
    )


def _rate(instances: pl.DataFrame, part: tuple[int, int] | None) -> float | None:
    if instances.is_empty():
        return None
    ends = (
        instances.filter(pl.col("outcome") == "complete")
        .group_by("last_message_id")
        .agg(pl.col("end_ns").min())["end_ns"]
        .sort()
    )
    if len(ends) < 2:
        return None if part is None else len(ends) / (part[1] - part[0]) * 1e9
    first, last = int(ends[0]), int(ends[-1])
    if part is not None and part[1] - last > int(ends.diff().max()):  # type: ignore[arg-type]
        last = part[1]
    return (len(ends) - 1) / (last - first) * 1e9 if last > first else None


def check_requirements(
    chains: Sequence[FollowedChain], estimates: Sequence[Estimate], runs: Sequence[Run], side: Side
) -> Checks:
    """Check the requirements of chains against their estimates.

    A limit of ``max`` applies to each instance, as in `roslens.analysis.verdicts.budgets.check`.

    Parameters
    ----------
    side
        Description of the recordings, without estimates.
    """
    budgets = [b for c in chains for b in c.named.budgets if b.metric != DEADLINE]
    checked = check_budgets(budgets, replace(side, estimates=estimates))
    deadlines = [
        check
        for c in chains
        for budget in c.named.budgets
        if budget.metric == DEADLINE
        for check in _deadline(c, budget, estimates, runs, side)
    ]
    return Checks([*checked.checks, *deadlines], checked.notes)


def _deadline(
    chain: FollowedChain,
    budget: Budget,
    estimates: Sequence[Estimate],
    runs: Sequence[Run],
    side: Side,
) -> list[Check]:
    checks = []
    for members in cells_of(runs).values():
        cell = chain.cell(members[0])
        largest = next(
            (e for e in estimates if e.metric == DEADLINE and dict(e.cell) == cell), None
        )
        if largest is None:
            note = "no instance reached the chain's end"
            checks.append(Check(budget=budget, estimate=None, notes=(note,)))
            continue
        judged = check(budget, largest)
        if judged.verdict == "exceeded":
            times = pl.concat([chain.of_run(run) for run in members])["latency_ns"]
            late = f"{(times > judged.limit).sum():,} of {largest.samples:,} instances"
            judged = replace(judged, notes=(late, *judged.notes[1:]))
        checks.append(unless_silent(judged, side, largest))
    return checks
