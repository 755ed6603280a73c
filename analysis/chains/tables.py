"""Show chains, their parts and their slowest instances as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.chains.estimates import FollowedChain
from roslens.analysis.flow.chain_parts import part_in_words
from roslens.analysis.flow.chains import OPEN, UNTOLD, mean_parts, parts_with_percentiles
from roslens.analysis.measures.samples import beyond_clocks
from roslens.analysis.reports.numbers import (
    milliseconds,
    shown_unit,
    significant,
    value_and_interval,
)
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.statistics.fractions import largest_possible
from roslens.analysis.statistics.quantiles import mean_quantile_over_runs
from roslens.analysis.verdicts.budgets import Checks

AT_LEAST = "at least "
MOST_ROWS = 200
BOUNDS = "At least: the recording does not show when the service or action was called."
TOO_FEW = "-: too few instances; P50 needs 6 in each run, P99 299."
CLOCKS = "-: the clocks of the hosts may be more than half as far apart as that (roslens info)."


def _too_few(percentiles: Sequence[Sequence[float | None]]) -> list[str]:
    """Return a note if a P50 or P99 is missing."""
    return [TOO_FEW] if any(None in each for each in percentiles) else []


def _mean_response_ms(chain: FollowedChain) -> float | None:
    """Return the mean response time; None if the clocks of the hosts forbid saying."""
    whole = chain.instances.within_clocks(chain.instances.complete["latency_ns"].mean())  # type: ignore[arg-type]
    return None if whole is None else whole / 1e6


def slowest_part(chain: FollowedChain) -> tuple[str, float] | None:
    """Return the part with most of the mean response time, and its share of it.

    None if the clocks of the hosts forbid saying which part that is.
    """
    parts, whole = mean_parts(chain.instances), _mean_response_ms(chain)
    told = parts.drop_nulls("duration_ms").sort("duration_ms", descending=True)
    if whole is None or told.is_empty():
        return None
    row = told.row(0, named=True)
    share_of_it = row["duration_ms"] / whole if whole else 0.0
    if (told.height < parts.height and share_of_it < 0.5) or share_of_it > 1:
        return None
    return f"{row['topic']} {part_in_words(row['part'])}", share_of_it


def chains_table(chains: Sequence[FollowedChain]) -> ReportTable:
    """Return one row per chain: number of instances, how far they came, how long they took."""
    rows, marked, percentiles, is_apart = [], set(), [], False
    for index, chain in enumerate(chains[:MOST_ROWS]):
        instances, done = chain.instances.instances, chain.instances.complete
        if not instances["outcome"].is_in(("complete", *UNTOLD)).all():
            marked.add(index)
        rows.append([chain.named.name, f"{instances.height:,}", reached(instances["outcome"])])
        if done.is_empty():
            rows[-1] += ["-"] * 6
            continue
        of_runs = chain.instances.times_of_runs()
        percentiles.append([mean_quantile_over_runs(of_runs, q) for q in (0.5, 0.99)])
        times = [done["latency_ns"].min(), *percentiles[-1], done["worst_ns"].max()]
        told = [chain.instances.within_clocks(time) for time in times]  # type: ignore[arg-type]
        slowest = slowest_part(chain)
        is_apart |= told != times or slowest is None
        bound = AT_LEAST * chain.instances.at_least
        guessed = done.filter(pl.col("match") != "exact").height
        rows[-1] += [
            *(_with_bound(bound, time) for time in told),
            "-" if slowest is None else f"{slowest[0]} ({100 * slowest[1]:.0f} %)",
            f"{guessed:,}" if guessed else "",
        ]
    hidden = len(chains) - MOST_ROWS
    return ReportTable(
        [
            *("chain", "instances", "reached the end", "best [ms]", "P50 [ms]", "P99 [ms]"),
            *("worst case [ms]", "most of the time", "approximate"),
        ],
        rows,
        "Chains and their response times, all cells together; percentiles are means over runs",
        notes=[
            "Worst case: from the start of one instance, just missed, to the end of the next.",
            *_too_few(percentiles),
            *([CLOCKS] if is_apart else []),
            *([BOUNDS] if any(chain.instances.at_least for chain in chains) else []),
            "Approximate: instances for which a node had several messages that it may have used.",
            *([f"{hidden:,} more chains are not shown."] if hidden > 0 else []),
        ],
        marked=frozenset(marked),
        left=frozenset({"chain", "most of the time"}),
    )


def _with_bound(bound: str, value: float | None) -> str:
    return milliseconds(None, 3) if value is None else bound + milliseconds(value, 3)


def reached(outcome: pl.Series) -> str:
    """Return which part of the instances reached the end, of those of which that can be told.

    It is not known if more may have reached it than none of as many would leave open, as in
    `roslens.analysis.measures.loss.loss_of`.
    """
    decided, undecided = int((~outcome.is_in(UNTOLD)).sum()), int(outcome.is_in(OPEN).sum())
    total = decided + undecided
    if undecided > total * largest_possible(total):
        return share(0, 0)
    return share(int((outcome == "complete").sum()), decided)


def share(part: int, whole: int) -> str:
    """Return text such as ``98.5 %``, rounded down so that only a whole is 100 %."""
    if not whole:
        return "not known"
    return "100 %" if part == whole else f"{min(99.99, 100 * part / whole):.4g} %"


def stopped_table(chains: Sequence[FollowedChain]) -> ReportTable | None:
    """Return where instances stopped and why; None where all reached the end."""
    rows = [
        [chain.named.name, at or "-", _WHY.get(why, why), f"{count:,}"]
        for chain in chains
        for at, why, count in chain.instances.instances.filter(pl.col("outcome") != "complete")
        .group_by("stopped_at", "outcome")
        .len()
        .sort("len", "stopped_at", descending=[True, False])
        .iter_rows()
    ]
    if not rows:
        return None
    return ReportTable(
        ["chain", "stopped at", "why", "instances"],
        rows[:MOST_ROWS],
        "Instances that did not reach the end, or of which that is not known",
        left=frozenset({"chain", "stopped at", "why"}),
    )


_WHY: Mapping[str, str] = {
    "no_output": "the node published nothing on it",
    "unfinished": "its callback has no end in the trace: how it went on is not known",
    "unknown": "the trace's edge or what the tracer lost forbids saying",
    "no_subscriber": "nobody subscribed",
    "not_matched": "the subscription had taken nothing of that publisher before",
    "taken": "taken, but its callback is not in the trace",
}


def parts_table(chain: FollowedChain, least_share: float = 0.0) -> ReportTable:
    """Return the parts of one chain in order, each with mean, P50, P99 and share of the whole.

    Parameters
    ----------
    least_share
        Parts of a smaller share of the mean response time are left out.
    """
    parts, whole = parts_with_percentiles(chain.instances), _mean_response_ms(chain)
    left_out = pl.col("duration_ms") < least_share * (whole or 0.0)
    shown = parts.filter(~left_out.fill_null(value=False))
    rows = [
        [
            row["topic"],
            row["node"] or "-",
            part_in_words(row["part"]),
            *(significant(row[name], 3) for name in ("duration_ms", "p50_ms", "p99_ms")),
            "-"
            if not whole or row["duration_ms"] is None or row["duration_ms"] > whole
            else f"{100 * row['duration_ms'] / whole:.1f} %",
        ]
        for row in shown.iter_rows(named=True)
    ]
    smaller = parts.height - shown.height
    return ReportTable(
        ["topic", "node", "part", "mean [ms]", "P50 [ms]", "P99 [ms]", "share"],
        rows,
        f"{chain.named.name}: where the time goes",
        notes=[
            "The means add up to the mean response time; percentiles do not add up.",
            *([f"Parts below {100 * least_share:g} % are not shown."] if smaller else []),
            *_too_few(shown.drop_nulls("duration_ms").select("p50_ms", "p99_ms").rows()),
            *([CLOCKS] if parts["duration_ms"].null_count() else []),
        ],
        left=frozenset({"topic", "node", "part"}),
    )


def slowest_table(chain: FollowedChain, count: int, processes: pl.LazyFrame) -> ReportTable:
    """Return the slowest instances of one chain, each with its longest part.

    Their begin is that since the first event of the run, which ``processes`` tells.
    Without instances of which the clocks of the hosts forbid saying how long they took; so with
    parts.
    """
    bound = pl.col("clock_bound_ns")
    done = chain.instances.complete.filter(beyond_clocks(pl.col("latency_ns"), bound))
    slow = done.top_k(count, by="latency_ns").sort("latency_ns", descending=True)
    first = processes.group_by("run").agg(first=pl.col("begin_ns").min()).collect()
    longest = (
        chain.instances.hops.sort("duration_ns", descending=True)
        .unique(["run", "instance"], keep="first", maintain_order=True)
        .filter(beyond_clocks(pl.col("duration_ns"), bound))
        .select("run", "instance", "topic", "part", "duration_ns")
    )
    rows = slow.join(first, on="run", how="left", maintain_order="left").join(
        longest, on=["run", "instance"], how="left", maintain_order="left"
    )
    return ReportTable(
        ["run", "into the run [s]", "response time [ms]", "longest part", "of it [ms]"],
        [
            [
                r["run"],
                "-" if r["first"] is None else f"{(r['begin_ns'] - r['first']) / 1e9:.3f}",
                milliseconds(r["latency_ns"]),
                "-" if r["part"] is None else f"{r['topic']} {part_in_words(r['part'])}",
                milliseconds(r["duration_ns"], 3),
            ]
            for r in rows.iter_rows(named=True)
        ],
        f"{chain.named.name}: the slowest {rows.height} instances",
        notes=[CLOCKS] if rows["part"].null_count() else [],
        left=frozenset({"run", "longest part"}),
    )


def requirements_table(checks: Checks) -> ReportTable:
    """Return each requirement on chains, the estimate, and the verdict."""
    rows = []
    for c in checks.checks:
        value, interval = ("-", "-") if c.estimate is None else value_and_interval(c.estimate)
        is_told = c.estimate is not None and c.estimate.value is not None
        unit = shown_unit(c.estimate.unit)[1] if is_told else ""  # type: ignore[union-attr]
        rows.append(
            [
                str(c.budget.where.get("chain", "-")),
                c.budget.text,
                f"{value} {unit}".strip(),
                interval,
                c.verdict.replace("_", " "),
                "; ".join(c.notes),
            ]
        )
    return ReportTable(
        ["chain", "required", "found", "95 % interval", "verdict", ""],
        rows,
        "What is required of the chains",
        marked=frozenset(i for i, c in enumerate(checks.checks) if c.verdict == "exceeded"),
        left=frozenset({"chain", "required", "verdict", ""}),
    )
