"""Bound the response times of chains by the sum of the bounds of their callbacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from roslens.analysis.chains.estimates import FollowedChain
from roslens.analysis.estimate import Estimate
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import Run, cells_of

BOUND = "response_time_bound"
_DEFINITION = (
    "sum over the chain's callbacks of the longest that each can take from the first publish event "
    "of its message to callback_end, while nothing is published more often, handed over later or "
    "executed longer than in the recording; largest of the runs"
)
_SETTLED = ("beyond", "tested")
_METHOD = "Casini et al., ECRTS 2019, Lemmas 4 and 5, with curves from the recording"
_NO_INTERVAL = "a bound has no interval: it holds for what was recorded, not for what may come"
HOLDS = (
    "A bound holds while nothing is published more often, handed over later or executed longer "
    "than in the recording; it promises nothing beyond."
)
SETTLED = (
    "Later in the second half: executions of the second half of each run that took longer than a "
    "bound from its first half alone. Where there are any, record longer."
)


def chain_bounds(chain: FollowedChain, callbacks: pl.DataFrame, run: Run) -> pl.DataFrame:
    """Return the callbacks of a chain in one run, in order.

    Parameters
    ----------
    callbacks
        Frame from `roslens.analysis.flow.response_bounds.callback_bounds`.

    Returns
    -------
    One row per callback of each hop, with the columns of `callbacks`; where a hop has no bound,
    `bound_ns` is null and `refused` says why.
    """
    nodes, topics = chain.named.chain.nodes, chain.named.chain.topics
    rows = []
    for hop, topic in enumerate(topics):
        node, kind = nodes[hop + 1], chain.instances.links[hop - 1] if hop else None
        of_hop = callbacks.filter(
            (pl.col("run") == run.name)
            & (pl.col("kind") == "subscription")
            & (pl.col("name") == topic)
            & (pl.col("node") == node)
        )
        if of_hop.is_empty() or kind is not None:
            why = (
                f"{nodes[hop]} holds what it received, and nothing bounds for how long"
                if kind is not None
                else f"no subscription of {node} to {topic} ran after the start-up"
            )
            of_hop = pl.DataFrame([{"name": topic, "node": node, "refused": why}])
        rows.append(of_hop.with_columns(hop=pl.lit(hop)))
    return pl.concat(rows, how="diagonal_relaxed")


def bound_estimates(
    chains: Sequence[FollowedChain], callbacks: pl.DataFrame, runs: Sequence[Run], level: float
) -> list[Estimate]:
    """Return ``response_time_bound`` (ns) of each chain in each cell; refused if a hop has none.

    Runs in which the chain has no instance do not count.
    """
    estimates = []
    for chain in chains:
        for members in cells_of(_with_instances(chain, runs)).values():
            each = [chain_bounds(chain, callbacks, run) for run in members]
            refused = [
                f"{row['name']} in {row['node']}: {row['refused']}"
                for of_run in each
                for row in of_run.drop_nulls("refused").iter_rows(named=True)
            ]
            sums = [
                float(of_run.group_by("hop").agg(pl.col("bound_ns").max())["bound_ns"].sum())
                for of_run in each
            ] if not refused else []  # fmt: skip
            estimates.append(
                Estimate(
                    metric=BOUND,
                    definition=_DEFINITION,
                    better="lower",
                    cell=chain.cell(members[0]),
                    value=max(sums, default=None),
                    low=None,
                    high=None,
                    level=level,
                    unit="ns",
                    runs=len(members),
                    samples=sum(chain.of_run(run).height for run in members),
                    effective_samples=None,
                    method=_METHOD,
                    refused=refused[0] if refused else _NO_INTERVAL,
                    per_run=tuple(sums),
                )
            )
    return estimates


def bounds_table(
    chains: Sequence[FollowedChain], callbacks: pl.DataFrame, runs: Sequence[Run]
) -> ReportTable:
    """Return one row per chain with instances: longest response, bound, how far it had settled."""
    rows = []
    for chain in (c for c in chains if not c.instances.instances.is_empty()):
        estimate = _widest(chain, callbacks, runs)
        hops = pl.concat(
            [chain_bounds(chain, callbacks, run) for run in _with_instances(chain, runs)],
            how="diagonal_relaxed",
        )
        is_bounded = estimate.value is not None
        longest = chain.instances.complete["latency_ns"].max()
        beyond, tested = (int(hops[n].fill_null(0).sum()) if is_bounded else 0 for n in _SETTLED)
        rows.append(
            [
                chain.named.name,
                milliseconds(chain.instances.within_clocks(longest), 3),  # type: ignore[arg-type]
                milliseconds(estimate.value, 3),
                f"{beyond:,} of {tested:,}" if is_bounded else "-",
                "" if is_bounded else str(estimate.refused),
            ]
        )
    return ReportTable(
        ["chain", "longest [ms]", "bound [ms]", "later in the second half", "why no bound"],
        rows,
        "Bounds of response times",
        notes=[HOLDS, SETTLED],
        left=frozenset({"chain", "why no bound"}),
    )


def _with_instances(chain: FollowedChain, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not chain.of_run(run).is_empty()]


def _widest(chain: FollowedChain, callbacks: pl.DataFrame, runs: Sequence[Run]) -> Estimate:
    """Return the estimate of the cell with the largest bound, or a refused one."""
    estimates = bound_estimates([chain], callbacks, runs, 0.95)
    return max(estimates, key=lambda e: math.inf if e.value is None else e.value)
