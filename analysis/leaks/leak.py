"""Judge whether memory climbs: slopes over runs, with a detection limit, and a verdict.

The unit of replication is the run: one robust slope per run, Student t over the runs. Tests
within one run mistake its long swings for a trend: on stationary series with autocorrelation .9
the Mann-Kendall test reports a leak in 57 %, least squares in 59 %; the t over five runs in 6 %.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.leaks.segments import Terms, no_better_than_pages, segment_of, verdict_of
from roslens.analysis.leaks.series import PUBLICATION, Series
from roslens.analysis.measures.measured_part import start_up_s
from roslens.analysis.statistics.over_runs import (
    MINIMUM_RUNS,
    Interval,
    estimate_of,
    refused_estimate,
    student_t,
)
from roslens.analysis.statistics.student import least_detectable, t_quantile
from roslens.analysis.statistics.trends import glsar, theil_sen
from roslens.analysis.verdicts.statement import Verdict
from roslens.recording.arrays import np

SLOPE = "memory_slope"
PER_SECOND, PER_MESSAGE = "B/s", "B/message"
_OF_WORK = "_per_message"

MARGIN = 1024.0
"""Default bytes per second (3.7 MB per hour) within which a slope is as good as none."""

SHORTEST_S = 25.0
"""Time looked at from which on verdicts were calibrated: runs of 30 s without their start."""

_PEAK = re.compile(r"peak|hwm|max", re.IGNORECASE)


@dataclass(frozen=True)
class Leak:
    """The judged memory of one cell.

    Attributes
    ----------
    per_second, per_message
        Slopes of the last part; per message refused if it is not known what the runs did.
    verdict
        Verdict of `per_second`, a function of its interval.
    bend_s
        When memory levels off, in seconds since the first sample, with its interval over runs; None
        without a bend.
    looked_at_s
        Begin and end of the time looked at, in seconds since the first sample.
    why
        What the shape of the series says besides the slope, and how long runs would have to be if
        the evidence does not suffice; None if there is nothing to say.
    margin
        Bytes per second within which a slope is as good as none.
    """

    per_second: Estimate
    per_message: Estimate
    verdict: Verdict
    bend_s: Interval | None = None
    looked_at_s: tuple[float, float] = (0.0, 0.0)
    why: str | None = None
    margin: float = MARGIN

    def __post_init__(self) -> None:
        """Assert that the verdict, if there is one, is what the interval says."""
        if self.verdict == "not_enough_evidence":
            return
        interval = Interval(None, self.per_second.low, self.per_second.high)
        flat = "stable" if self.verdict == "climbs" else self.verdict
        assert self.verdict == verdict_of(interval, self.margin, flat), (self.verdict, interval)


def leak(
    name: str,
    cell: Cell,
    runs: Sequence[Series],
    *,
    level: float = 0.95,
    margin: float = MARGIN,
    warm_up_s: float | None = None,
    metric: str | None = None,
) -> Leak:
    """Judge one memory series over the runs of a cell: its slope and verdict.

    The time looked at begins after `warm_up_s` (loading, discovery) and ends with the shortest
    run. `segments` decides which part of it the slope is taken from: all of it, what follows the
    last bend or step, or the floor below falls. With [low, high] the interval of that slope and M
    the margin:

    * climbs: low > 0 and high >= M;
    * otherwise, -M < low and high < M: memory is flat now: levels_off, or steep_start_then_stable,
      if it rose before by an amount that matters; else stable;
    * otherwise not_enough_evidence, including falling memory, and wherever the shape leaves the
      verdict open, or less than `SHORTEST_S` is looked at (`Leak.why`).

    Parameters
    ----------
    name
        Name of the series: ``rss``, ``pss``, ``heap``; every definition names it.
    runs
        One series per run.
    margin
        The margin M, bytes per second.
    warm_up_s
        Seconds left out at the start; by default 5 s, at most a tenth of the shortest run.
    metric
        Name of the metric; ``memory_slope_<name>`` by default. The metric per message ends with
        ``_per_message``.
    """
    metric = metric or f"{SLOPE}_{name}"
    if _PEAK.search(name):
        return refused(
            metric,
            name,
            cell,
            level,
            "a peak never falls: it climbs in 94 % of runs that do not leak; record the current "
            "size (rss, pss or heap) over time",
        )
    usable = [run for run in runs if run.seconds.size >= 10]
    if not usable or not all(np.isfinite(run.values).all() for run in usable):
        return refused(metric, name, cell, level, "no run has 10 finite samples")
    shortest = min(float(run.seconds[-1]) for run in usable)
    begin = start_up_s(shortest) if warm_up_s is None else warm_up_s
    parts = [run.part(begin, shortest) for run in usable]
    if min(part.seconds.size for part in parts) < 10:
        return refused(
            metric, name, cell, level, f"fewer than 10 samples after {begin:g} s of warm-up"
        )
    terms = Terms(name, margin, level)
    segment = segment_of(parts, terms)
    last = segment.runs
    interval, method, trusted = terms.interval(last)
    too_short = _too_short(shortest - begin)
    doubt = too_short or segment.doubt
    sure = trusted and doubt is None
    verdict = verdict_of(interval, margin, segment.flat) if sure else "not_enough_evidence"
    why = (doubt or segment.why) if trusted else too_short
    definition = (
        f"growth of {name.upper()} of all recorded processes, from {begin:g} s to "
        f"{shortest:.4g} s after the first sample{segment.since}"
    )
    per_second = _with_limit(
        estimate_of(
            Metric(metric, f"{definition}; per second", PER_SECOND),
            cell,
            interval,
            level,
            per_run=[part.slope for part in last],
            runs=len(last),
            samples=sum(part.seconds.size for part in last),
            verdict=verdict,
            method="; ".join([method, *([why] if why else [])]) + segment.since,
        )
    )
    per_message = _per_message(name, last, per_second, definition)
    looked_at = begin, shortest
    return Leak(per_second, per_message, verdict, segment.bend_s, looked_at, why, margin)


def _too_short(looked_at_s: float) -> str | None:
    if looked_at_s >= SHORTEST_S:
        return None
    return (
        f"{looked_at_s:.3g} s after the start-up do not tell a leak from memory that settles: "
        "runs of half a minute or more are needed"
    )


def _with_limit(e: Estimate) -> Estimate:
    """Add the slope that about 80 % of experiments find; the error of one run counts as known."""
    if e.low is None or e.high is None:
        return e
    freedom = max(e.runs - 1, 1) if e.runs >= MINIMUM_RUNS else 1000
    critical = t_quantile((1 + e.level) / 2, freedom)
    least = least_detectable((e.high - e.low) / 2 / critical, freedom, e.level)
    return replace(e, minimum_detectable=least)


def _per_message(
    name: str, parts: Sequence[Series], per_second: Estimate, definition: str
) -> Estimate:
    messages = [p.messages for p in parts if p.messages is not None and p.messages.size]
    if len(messages) < len(parts) or any(m[-1] <= m[0] for m in messages):
        reason = (
            "what each run did is not known: the tracer lost events, or there are neither "
            "publications on a work topic nor a log of requests (calls.csv) or goals (goals.csv)"
        )
        refusal = refused(per_second.metric, name, per_second.cell, per_second.level, reason)
        return refusal.per_message
    level = per_second.level
    slopes = [theil_sen(m, part.values) for m, part in zip(messages, parts, strict=True)]
    if len(parts) == 1:
        interval, _ = glsar(messages[0], parts[0].values, level)
    else:
        interval = student_t(slopes, level)
    interval = no_better_than_pages(interval, name, min(float(m[-1] - m[0]) for m in messages))
    kinds = sorted({part.work for part in parts})
    return _with_limit(
        estimate_of(
            Metric(
                f"{per_second.metric}{_OF_WORK}",
                f"{definition}; per {' or '.join(kinds)}",
                PER_MESSAGE,
            ),
            per_second.cell,
            interval,
            level,
            per_run=slopes,
            runs=per_second.runs,
            samples=per_second.samples,
            verdict=_verdict_per_message(per_second, interval),
            method=per_second.method,
        )
    )


def _verdict_per_message(per_second: Estimate, interval: Interval) -> str:
    """Return the verdict per second, unless the slope per message does not climb as surely."""
    climbs = per_second.verdict == "climbs"
    unsure = climbs and (interval.low is None or interval.low <= 0)
    return "not_enough_evidence" if unsure else per_second.verdict or "not_enough_evidence"


def refused(metric: str, name: str, cell: Cell, level: float, reason: str) -> Leak:
    """Return a leak whose estimates are both refused, with the reason."""
    definition = f"growth of {name.upper()} of all recorded processes"
    per_second, per_message = (
        refused_estimate(
            Metric(called, f"{definition}; per {per}", unit),
            cell,
            reason,
            level,
            verdict="not_enough_evidence",
        )
        for called, per, unit in (
            (metric, "second", PER_SECOND),
            (f"{metric}{_OF_WORK}", PUBLICATION, PER_MESSAGE),
        )
    )
    return Leak(per_second, per_message, "not_enough_evidence")
