"""Estimate fractions over runs, such as messages lost of messages sent.

Losses come in bursts, runs differ, and now and then a run is bad, so that counts scatter more
between runs than binomial ones do. Let p be the mean of the runs' fractions and e its standard
error: Student's, from the scatter between runs (quasi-binomial: McCullagh and Nelder, "Generalized
Linear Models", section 4.5), and never below the binomial one. Then

    h = t(k - 1) e / p,  low = p exp(-h),  seen = p (1 + (1 + 1.2 / sqrt(k)) h)

as in `positive` for other skewed quantities. What k runs did not show may exist all the same:
with certainty `level`, a kind of run that was not met is at most the part
u = 1 - (1 - level) ** (1 / k) of all runs. It is assumed to lose up to `WORSE` times as much:

    high = (1 - u) seen + u min(1, WORSE seen)

For a fraction above one half all of this holds for its complement. docs/calibration.md has the
coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from roslens.analysis.estimate import Cell, Estimate, Metric, not_none
from roslens.analysis.statistics.over_runs import (
    MINIMUM_RUNS,
    Interval,
    estimate_of,
    student_t,
    without_samples,
)
from roslens.analysis.statistics.positive import wider_above
from roslens.analysis.statistics.ratio import Spread
from roslens.analysis.statistics.student import t_quantile, t_two_sided
from roslens.recording.arrays import np

METHOD = "overdispersed fraction over runs"
"""Text in the method of an estimate whose interval is of this form."""

WORSE = 20.0
"""How many times as much a kind of run that was not met may lose."""

RARE = 0.1
"""Part of all runs: if no run lost anything, a kind this rare must probably have been met."""

BURST = 10
"""Assumed number of messages that are lost together, if nothing tells how many."""


def fraction_over_runs(
    metric: Metric,
    cell: Cell,
    events: Sequence[int],
    totals: Sequence[int],
    level: float = 0.95,
) -> Estimate:
    """Estimate the mean over runs of a fraction, with the interval of this module.

    Up to two bursts (`BURST`) over all runs do not show how small the fraction may be: the lower
    bound is 0. If no run has any event (or every message is one), runs do not tell by how much
    they may differ. The interval is then refused, with the value, unless there are so many runs
    (`runs_for_none`) that a kind of run that one in ten is would have been met; then the bound is
    the exact one (Clopper and Pearson 1934, Biometrika 26) for as many bursts.

    Parameters
    ----------
    events, totals
        Counts per run; a run with total 0 is left out and counted in `method`.
    """
    pairs = [(e, n) for e, n in zip(events, totals, strict=True) if n > 0]
    per_run = [e / n for e, n in pairs]
    return estimate_of(
        metric,
        cell,
        _interval([e for e, _ in pairs], [n for _, n in pairs], level),
        level,
        runs=len(pairs),
        samples=sum(n for _, n in pairs),
        method=f"{METHOD}, never narrower than binomial{without_samples(len(totals) - len(pairs))}",
        per_run=per_run,
    )


def bounded_fraction_over_runs(
    metric: Metric,
    cell: Cell,
    events: Sequence[int],
    totals: Sequence[int],
    *,
    unknown: Sequence[int],
    level: float = 0.95,
    untold: str = "messages nobody can say whether they arrived",
) -> Estimate:
    """Estimate `fraction_over_runs` when it is unknown of some messages whether they are events.

    The interval reaches from that with no unknown message as an event to that with all of them
    (the identification region of Horowitz and Manski, 2000, Journal of the American Statistical
    Association 95, section 3, for missing binary outcomes). If the unknown ones weigh more than
    chance, there is neither value nor interval, and `refused` states the bounds.

    Parameters
    ----------
    totals
        Known messages per run; `unknown` messages come on top.
    untold
        Words for the unknown ones.
    """
    of_known = fraction_over_runs(metric, cell, events, totals, level)
    if not sum(unknown):
        return of_known
    alls = [n + u for n, u in zip(totals, unknown, strict=True)]
    most = [e + u for e, u in zip(events, unknown, strict=True)]
    low, high = (fraction_over_runs(metric, cell, counts, alls, level) for counts in (events, most))
    total = sum(alls)
    text = f"; of {sum(unknown):,} of {total:,} it is not known"
    assert low.value is not None
    assert high.value is not None
    chance = largest_possible(total, level)
    if of_known.value is not None and of_known.low is not None and of_known.high is not None:
        # The shorter side, which is the lower one of a small fraction.
        side = min(of_known.value - of_known.low, of_known.high - of_known.value)
        chance = max(chance, 2 * side)
    if of_known.value is None or high.value - low.value > chance:
        return replace(
            of_known,
            value=None,
            low=None,
            high=None,
            samples=total,
            per_run=(),
            bounds=(low.value, high.value),
            method=of_known.method + text,
            refused=f"of {sum(unknown):,} of {total:,} {untold}: the fraction lies between "
            f"{100 * low.value:.3g} % and {100 * high.value:.3g} %; `health` says which events are "
            "missing",
        )
    of_known = replace(of_known, per_run=(), method=of_known.method + text)
    if of_known.low is None or of_known.high is None or low.low is None or high.high is None:
        return of_known
    return replace(of_known, low=min(of_known.low, low.low), high=max(of_known.high, high.high))


def _interval(events: Sequence[int], totals: Sequence[int], level: float) -> Interval:
    interval = student_t([e / n for e, n in zip(events, totals, strict=True)], level)
    if interval.value is None or interval.low is None:
        return interval
    if interval.value > 0.5:
        complement = _interval([n - e for e, n in zip(events, totals, strict=True)], totals, level)
        if complement.low is None or complement.high is None:
            return replace(interval, low=None, high=None, refused=complement.refused)
        return Interval(interval.value, 1 - complement.high, 1 - complement.low)
    k, p, total = len(totals), interval.value, sum(totals)
    if p == 0:
        if k >= runs_for_none(level):
            return Interval(0.0, 0.0, largest_possible(total / BURST, level))
        return Interval(
            0.0,
            refused=f"the same in all {k} runs, {total:,} in all: if one run in ten is of another "
            f"kind, {k} runs contain none in {100 * (1 - RARE) ** k:.0f} % of cases; "
            f"{runs_for_none(level)} runs are needed",
        )
    per_run = np.asarray(events) / np.asarray(totals)
    binomial = p * (1 - p) * sum(1 / n for n in totals) / k**2
    error = math.sqrt(max(float(per_run.var(ddof=1)) / k, binomial))
    h = t_quantile((1 + level) / 2, k - 1) * error / p
    low = 0.0 if sum(events) <= 2 * BURST else p * math.exp(-h)
    return Interval(p, low, _unmet_kinds(p * (1 + wider_above(k) * h), k, level))


def _part_not_met(runs: int, level: float) -> float:
    return -math.expm1(math.log(1 - level) / runs)


def _unmet_kinds(seen: float, runs: int, level: float) -> float:
    part = _part_not_met(runs, level)
    return min(1.0, (1 - part) * seen + part * min(1.0, WORSE * seen))


def _seen(high: float, runs: int, level: float) -> float:
    """Return the `seen` for which `_unmet_kinds` returns `high`."""
    part = _part_not_met(runs, level)
    most = high / (1 - part + part * WORSE)
    return most if WORSE * most <= 1 else (high - part) / (1 - part)


def runs_for_none(level: float = 0.95) -> int:
    """Return how many runs meet a kind that is `RARE` with certainty `level`: 29 at 0.95."""
    return math.ceil(math.log(1 - level) / math.log1p(-RARE))


def messages_for_none(limit: float, level: float = 0.95) -> int:
    """Return how many messages, none of them lost, show that a fraction is below `limit`."""
    return math.ceil(BURST * math.log((1 - level) / 2) / math.log1p(-limit))


def spread_behind(estimate: Estimate) -> Spread | str:
    """Return mean and deviation over runs behind an interval, or why there are none.

    A fraction that is 0 or 1 in all of at least three runs has no deviation.
    """
    if estimate.value in (0.0, 1.0) and estimate.runs >= MINIMUM_RUNS:
        return Spread(estimate.value, 0.0, estimate.runs)
    if estimate.refused is not None or estimate.value is None:
        return estimate.refused or "it has no value"
    if estimate.low is None or estimate.high is None:
        return "it has no interval"
    if not 0 < estimate.value < 1 or not estimate.low <= estimate.value <= estimate.high:
        return "its value is not inside its interval, or not between 0 and 1"
    error = _relative_error(estimate)
    if error is None:
        return "its interval is all of 0..1: more runs are needed"
    return Spread(estimate.value, error * math.sqrt(estimate.runs), estimate.runs)


def _relative_error(estimate: Estimate) -> float | None:
    """Return the standard error of the mean (in its own unit) behind a finite interval."""
    p, low, high = map(not_none, (estimate.value, estimate.low, estimate.high))
    if p > 0.5:
        p, low, high = 1 - p, 1 - high, 1 - low
    t = t_quantile((1 + estimate.level) / 2, estimate.runs - 1)
    if high < 1:
        h = (_seen(high, estimate.runs, estimate.level) / p - 1) / wider_above(estimate.runs)
        return p * max(0.0, h) / t
    return p * math.log(p / low) / t if low > 0 else None


def p_of(estimate: Estimate, spread: Spread, limit: float) -> float:
    """Return two-sided p of a fraction at `limit`: below 1 - level if the interval excludes it."""
    p, e, no_low = spread.mean, spread.deviation / math.sqrt(spread.runs), estimate.low == 0
    if p > 0.5:
        p, limit, no_low = 1 - p, 1 - limit, estimate.high == 1
    if e == 0:
        return 1.0 if limit == p else 0.0
    if limit >= 1:
        return 0.0
    if limit <= p:
        if limit <= 0 or no_low:
            return 1.0
        return float(t_two_sided(math.log(p / limit) * p / e, spread.runs - 1))
    seen = _seen(limit, spread.runs, estimate.level)
    far = max(0.0, seen - p) / wider_above(spread.runs)
    return float(t_two_sided(far / e, spread.runs - 1))


def bounds_of_the_same(estimate: Estimate) -> tuple[float, float]:
    """Return the interval of a fraction 0 or 1 in every run, as if messages were independent."""
    bound = largest_possible(estimate.samples, estimate.level)
    return (0.0, bound) if estimate.value == 0 else (1 - bound, 1.0)


def largest_possible(total: float, level: float = 0.95) -> float:
    """Return the largest fraction possible after 0 events in `total` (Clopper and Pearson)."""
    return float(-np.expm1(np.log((1 - level) / 2) / total)) if total else 1.0
