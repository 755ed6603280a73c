"""Estimate response times of chains over runs, and check requirements on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from roslens.analysis.chains.requirements import DEADLINE, NamedChain
from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.flow.chains import UNTOLD, ChainInstances
from roslens.analysis.measures.latency import within_clocks
from roslens.analysis.measures.pauses import too_many_lost
from roslens.analysis.measures.services import as_lower_bound
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import (
    maximum_over_runs,
    statistics_over_runs,
    value_over_runs,
)
from roslens.analysis.verdicts.budgets import Budget, Check, Checks, check, check_budgets
from roslens.analysis.verdicts.comparison import Side
from roslens.recording.arrays import Floats, np

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
_RATE = "instances that reached the chain's end per second, from the first end to the last"


@dataclass(frozen=True)
class FollowedChain:
    """A chain with its instances in the runs that count; its tables have ``run``."""

    named: NamedChain
    found: ChainInstances

    def cell(self, run: Run) -> dict[str, str | int | float | bool]:
        """Return the cell of a run, with the chain as one more level."""
        return {**run.cell, "chain": self.named.name}

    def of_runs(self, runs: Sequence[Run]) -> Self:
        """Return the same chain with its instances in these runs alone."""
        ours, followed = pl.col("run").is_in([run.name for run in runs]), self.found
        return replace(
            self,
            found=replace(
                followed,
                instances=followed.instances.filter(ours),
                made_hops=lambda: followed.hops.filter(ours),
            ),
        )

    def of_run(self, run: Run) -> pl.DataFrame:
        """Return the chain's instances in one run, in order of their begin."""
        return self.found.instances.filter(pl.col("run") == run.name)


def chain_estimates(
    chain: FollowedChain,
    runs: Sequence[Run],
    level: float = 0.95,
    percentiles: Sequence[float] = PERCENTILES,
    lost: Mapping[str, float] | None = None,
) -> list[Estimate]:
    """Estimate response times, completeness and rate of one chain in each cell.

    Runs with too many `lost` events (`lost_events`) have no rate: a loss also ends open instances.

    ``chain_complete`` (a fraction), ``response_time_mean``, ``_p50`` and so on, ``_max``,
    ``_worst`` (ns) and ``chain_rate`` (Hz); cells gain ``chain``.
    """
    estimates: list[Estimate] = []
    for members in cells_of(runs).values():
        each = [chain.of_run(run) for run in members]
        cell = chain.cell(members[0])
        done = [e.filter(pl.col("outcome") == "complete") for e in each]
        times: list[Floats] = [d["latency_ns"].to_numpy().astype(np.float64) for d in done]
        if any(e.height for e in each):
            decided = [e.filter(~pl.col("outcome").is_in(UNTOLD)).height for e in each]
            estimates.append(
                fraction_over_runs(
                    Metric("chain_complete", _COMPLETE, "1", "higher"),
                    cell,
                    [d.height for d in done],
                    decided,
                    level,
                )
            )
        if not any(t.size for t in times):
            continue
        clocks = max(float(d["clock_bound_ns"].max() or 0.0) for d in done)  # type: ignore[arg-type]
        metric = Metric("response_time", RESPONSE, "ns")
        statistics = statistics_over_runs(metric, cell, times, ("mean", *percentiles), level)
        statistics.append(
            maximum_over_runs(
                Metric(DEADLINE, f"{RESPONSE}; largest of each run", "ns"), cell, times, level
            )
        )
        worst = [d["worst_ns"].drop_nulls().to_numpy().astype(np.float64) for d in done]
        if any(w.size for w in worst):
            metric = Metric("response_time_worst", _WORST, "ns")
            statistics.append(maximum_over_runs(metric, cell, worst, level))
        statistics = [within_clocks(estimate, clocks) for estimate in statistics]
        estimates += map(as_lower_bound, statistics) if chain.found.at_least else statistics
        whole = (
            d
            for run, d in zip(members, done, strict=True)
            if not too_many_lost((lost or {}).get(run.name, 0), d.height)
        )
        rates = [rate for d in whole if (rate := _rate(d)) is not None]
        if rates:
            metric = Metric("chain_rate", _RATE, "Hz", "higher")
            count = sum(d.height for d in done)
            estimates.append(value_over_runs(metric, cell, rates, count, level))
    return estimates


def _rate(done: pl.DataFrame) -> float | None:
    ends = done["end_ns"].unique().sort()
    if len(ends) < 2:
        return None
    return (len(ends) - 1) / (int(ends[-1]) - int(ends[0])) * 1e9


def check_requirements(
    chains: Sequence[FollowedChain], estimates: Sequence[Estimate], runs: Sequence[Run], side: Side
) -> Checks:
    """Check the requirements of chains against their estimates.

    A limit of ``max`` applies to each instance: one instance above the limit exceeds it, whatever
    the interval of the largest per run. Where no instance exceeds it, the check states the largest
    fraction that may.

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
        for check in _deadline(c, budget, estimates, runs)
    ]
    return Checks([*checked.checks, *deadlines], checked.notes)


def _deadline(
    chain: FollowedChain, budget: Budget, estimates: Sequence[Estimate], runs: Sequence[Run]
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
        each = [chain.of_run(run) for run in members]
        done = [
            instances.filter(pl.col("outcome") == "complete")["latency_ns"] for instances in each
        ]
        notes = list(judged.notes)
        if judged.verdict == "exceeded":
            late = sum(int((d > judged.limit).sum()) for d in done)
            notes = [f"{late:,} of {largest.samples:,} instances"]
        untold = sum(int(instances["outcome"].is_in(UNTOLD).sum()) for instances in each)
        if stopped := sum(instances.height for instances in each) - sum(map(len, done)) - untold:
            notes.append(f"{stopped:,} more did not reach the end")
        if untold:
            notes.append(f"of {untold:,} more that is not known")
        checks.append(replace(judged, notes=tuple(notes)))
    return checks
