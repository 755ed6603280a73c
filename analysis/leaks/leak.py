"""Does memory climb? Slopes over runs, with a detection limit, and a verdict.

The unit of replication is the run: one robust slope per run, Student t over the runs. Tests
within one run take its long swings for a trend: on stationary series with autocorrelation .9 the
Mann-Kendall test cries leak in 57 %, least squares in 59 %; the t over five runs in 6 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.leaks.shapes import (
    PATIENCE,
    TEETH,
    Steps,
    enough,
    falls_again,
    floor,
    go_on,
    longer,
    over_in,
    slows_down,
    steps,
)
from roslens.analysis.statistics.detection import least_detectable
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, Interval, estimate_of, student_t
from roslens.analysis.statistics.student import t_quantile
from roslens.analysis.statistics.trends import best_bend, glsar, least_squares, theil_sen
from roslens.analysis.verdicts.statement import Verdict

Floats = NDArray[np.float64]

SLOPE = "memory_slope"
PER_SECOND, PER_MESSAGE = "B/s", "B/message"
PUBLICATION = "publication on the work topic"
_OF_WORK = "_per_message"

MARGIN = 1024.0
"""Bytes per second (3.7 MB per hour) within which a slope is as good as none, by default."""

BEND_GAIN = 0.65
"""A bend that does away with so much of the squared error of one line is made: stationary noise
with autocorrelation .97 has none like it in 99 % of five runs."""

BEND_LEVEL = 0.999
"""So is one after which the slope changes in all runs alike, by Student t at this level."""

START = 0.25
"""A rise that ends within this part of the time looked at is a steep start."""

EARLY_LEVEL = 0.98
"""Where what climbs without a bend rises less steeply after its first quarter, by Student t at this
level, that rise may be all there is: what follows must climb by itself."""

PAGES = 2 * 4096
"""Resident memory grows by pages, in more than one place (heap, other arenas, stacks): a slope is
not known better than two pages over the time, however alike the runs are."""

TRUSTED_PHI = 0.9
"""Up to this autocorrelation the interval of a single run holds (measured: 5.5 % of alarms)."""

_GRID = 200
_LEAST = 10
"""Samples, for a slope."""

_PEAK = re.compile(r"peak|hwm|max", re.IGNORECASE)


@dataclass(frozen=True)
class Series:
    """Memory of one run over time.

    Attributes
    ----------
    seconds
        Since the first sample, increasing, shape (n,).
    values
        Bytes, shape (n,).
    messages
        Publications on the work topic (or what `work` says) until each moment, shape (n,); None
        where not known.
    work
        What is counted in `messages`.
    """

    seconds: Floats
    values: Floats
    messages: Floats | None = None
    work: str = PUBLICATION

    def part(self, begin: float, end: float) -> Series:
        """Samples with begin <= seconds <= end."""
        inside = (self.seconds >= begin) & (self.seconds <= end)
        messages = None if self.messages is None else self.messages[inside]
        return Series(self.seconds[inside], self.values[inside], messages, self.work)

    @cached_property
    def slope(self) -> float:
        """Theil and Sen's slope, bytes per second."""
        return theil_sen(self.seconds, self.values)

    @property
    def length(self) -> float:
        """Seconds from the first to the last sample."""
        return float(self.seconds[-1] - self.seconds[0]) if self.seconds.size else 0.0


@dataclass(frozen=True)
class Leak:
    """What is known about the memory of one cell.

    Attributes
    ----------
    per_second, per_message
        Slope of the last part; per message refused where it is not known what the runs did.
    verdict
        The same as in both estimates.
    whole
        Slope of all that was looked at.
    bend_s
        When it levels off, in seconds since the first sample, with its interval over runs; None
        without a bend.
    looked_at_s
        From when to when, in seconds since the first sample.
    why
        What the shape of the series says beside the slope, and how long runs would have to be
        where the evidence does not suffice; None where there is nothing to say.
    """

    per_second: Estimate
    per_message: Estimate
    verdict: Verdict
    whole: Interval
    bend_s: Interval | None = None
    looked_at_s: tuple[float, float] = (0.0, 0.0)
    why: str | None = None


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
    """Slope and verdict of one memory series over the runs of a cell.

    What is looked at begins after `warm_up_s` (loading, discovery) and ends with the shortest
    run. If two lines fit all runs much better than one (`BEND_GAIN`), or the slope changes in all
    runs alike (`BEND_LEVEL`), the slope is that of the part after the common bend; not where
    that part's line, drawn back, misses the start by less than M times the time looked at. With
    [low, high] the interval of the slope and M the margin:

    * climbs: low > 0 and high >= M;
    * otherwise, -M < low and high < M: it is flat now. It rose before if there is a bend and the
      rise up to it is above zero and M times the time looked at: levels_off, or
      steep_start_then_stable where the bend is in the first quarter (`START`); else stable;
    * otherwise not_enough_evidence, falling memory included.

    Parameters
    ----------
    name
        Of the series: ``rss``, ``pss``, ``heap``; every definition names it.
    runs
        One series per run.
    margin
        M, bytes per second.
    warm_up_s
        Left out at the start; by default 5 s, at most a tenth of the shortest run.
    metric
        Name of the metric; ``memory_slope_<name>`` by default. That per message ends with
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
    known = [run for run in runs if run.seconds.size >= 10]
    if not known or not all(np.isfinite(run.values).all() for run in known):
        return refused(metric, name, cell, level, "no run has 10 finite samples")
    shortest = min(float(run.seconds[-1]) for run in known)
    begin = min(5.0, shortest / 10) if warm_up_s is None else warm_up_s
    parts = [run.part(begin, shortest) for run in known]
    if min(part.seconds.size for part in parts) < 10:
        return refused(
            metric, name, cell, level, f"fewer than 10 samples after {begin:g} s of warm-up"
        )
    bend, bend_s, last = _after_bends(parts, begin, shortest, level, margin)
    whole = _over_runs(parts, level)[0]
    interval, method, trusted = _over_runs(last, level)
    interval = _no_better_than_pages(interval, name, min(part.length for part in last))
    verdict = _verdict(interval, margin) if trusted else "not_enough_evidence"
    if verdict == "stable" and bend is not None:
        rise = student_t([_rise(part, bend) for part in parts], level)
        if rise.low is not None and rise.low > 0 and rise.high is not None:
            material = rise.high >= margin * (shortest - begin)
            early = bend - begin <= START * (shortest - begin)
            if material:
                verdict = "steep_start_then_stable" if early else "levels_off"
    slopes = [part.slope for part in last]
    why = None
    if trusted:
        seen = _by_shape(parts, last, verdict, interval, margin, level)
        verdict, why = seen.verdict, seen.why
        if seen.slopes is not None and seen.interval is not None:
            slopes, interval = seen.slopes, seen.interval
            method = "Theil-Sen slope of the floor below the falls of each run, Student t over runs"
            bend, bend_s = None, None
    if why is not None:
        method += f"; {why}"
    after = "" if bend is None else f", after the bend at {bend:.3g} s"
    definition = (
        f"growth of {name.upper()} of all recorded processes, from {begin:g} s to "
        f"{shortest:.4g} s after the first sample{after}"
    )
    per_second = _estimate(
        Metric(metric, f"{definition}; per second", PER_SECOND),
        cell,
        interval,
        level,
        per_run=slopes,
        runs=len(last),
        samples=sum(part.seconds.size for part in last),
        verdict=verdict,
        method=method + after,
    )
    per_message = _per_message(name, last, per_second, definition)
    return Leak(per_second, per_message, verdict, whole, bend_s, (begin, shortest), why)


@dataclass(frozen=True)
class _Seen:
    """A verdict by the shape of the series, why, and slopes of the floor with their interval."""

    verdict: Verdict
    why: str | None = None
    slopes: list[float] | None = None
    interval: Interval | None = None


def _by_shape(  # noqa: PLR0917
    parts: Sequence[Series],
    last: Sequence[Series],
    verdict: Verdict,
    interval: Interval,
    margin: float,
    level: float,
) -> _Seen:
    """The verdict of the slope, held against steps, teeth, waves and a growth that dies down."""
    begin = max(float(part.seconds[0]) for part in parts)
    end = min(float(part.seconds[-1]) for part in parts)
    found = [steps(part.seconds, part.values, margin * (end - begin)) for part in parts]
    if 2 * sum(s.falls.size > 0 for s in found) >= len(parts):
        return _with_teeth(parts, found, verdict, margin, level)
    if any(s.rises.size for s in found):
        return _with_steps(parts, found, (begin, end), margin, level)
    why = None
    flat_s = end - float(last[0].seconds[0])
    if verdict == "climbs" and len(parts) >= MINIMUM_RUNS:
        why = _may_end(parts, flat_s if flat_s < end - begin else None, margin, level)
    elif verdict in ("levels_off", "steep_start_then_stable") and flat_s < (end - begin) / 3:
        needed = end + PATIENCE * (end - begin - flat_s)
        why = f"flat for no more than the last {flat_s:,.0f} s: runs of about {needed:,.0f} s "
        why += "would tell"
    elif verdict == "not_enough_evidence" and (interval.high or 0) > 0:
        needed_s = longer(interval, margin, end - begin)
        if needed_s is not None:
            why = f"runs of about {needed_s:,.0f} s would probably tell"
    return _Seen(verdict if why is None else "not_enough_evidence", why)


def _may_end(
    parts: Sequence[Series], since_bend_s: float | None, margin: float, level: float
) -> str | None:
    """Why what climbs may not go on climbing; None where nothing speaks for that.

    Parameters
    ----------
    since_bend_s
        From the bend to the end; None without a bend.
    """
    begin = max(float(part.seconds[0]) for part in parts)
    end = min(float(part.seconds[-1]) for part in parts)
    third = (end - begin) / 3
    grid = np.linspace(begin, end, _GRID)
    if falls_again(np.array([np.interp(grid, p.seconds, p.values) for p in parts])):
        return (
            "memory goes up and down in all runs alike: runs several times as long are needed, "
            f"about {4 * (end - begin):,.0f} s"
        )
    before = _slopes(parts, begin + third, begin + 2 * third)
    ending = _slopes(parts, begin + 2 * third, end)
    if before and ending and slows_down(before, ending, level):
        rate, fraction = float(np.mean(ending)), float(np.mean(ending) / np.mean(before))
        # Each third multiplies the slope by this, until it is as good as none.
        thirds = math.log(margin / rate) / math.log(fraction) if fraction > 0 else 0.0
        needed = end + third * max(1.0, thirds + 1)
        return (
            f"the growth slows down ({rate:,.0f} B/s in the last third): runs of about "
            f"{needed:,.0f} s would tell its end"
        )
    if since_bend_s is None:
        return _only_at_first(parts, begin, end, margin, level)
    # After a bend downwards what follows may bend on: its second half must climb by itself.
    half = _slopes(parts, end - since_bend_s / 2, end)
    after = _slopes(parts, end - since_bend_s, end)
    early = _slopes(parts, begin, end - since_bend_s)
    since = student_t(half, level)
    if not early or not after or np.mean(early) <= np.mean(after):
        return None
    if _verdict(since, margin) == "climbs":
        return None
    needed = end + 2 * (longer(since, margin, since_bend_s / 2) or since_bend_s) - since_bend_s / 2
    return (
        "it grew faster before, and too little is seen of the end to tell whether it ends: runs of "
        f"about {needed:,.0f} s would"
    )


def _only_at_first(
    parts: Sequence[Series], begin: float, end: float, margin: float, level: float
) -> str | None:
    """Why a rise without a bend may be no more than its first quarter (`START`)."""
    first = START * (end - begin)
    early, after = _slopes(parts, begin, begin + first), _slopes(parts, begin + first, end)
    if not early or not after or not slows_down(early, after, EARLY_LEVEL):
        return None
    since = student_t(after, level)
    if _verdict(since, margin) == "climbs":
        return None
    needed = first + (longer(since, margin, end - begin - first) or 2 * (end - begin))
    return (
        "most of the rise lies in the first quarter: runs of about "
        f"{max(needed, end):,.0f} s would tell whether it goes on"
    )


def _slopes(parts: Sequence[Series], begin: float, end: float) -> list[float]:
    """Of each run within these seconds; none where one has too few samples there."""
    within = [part.part(begin, end) for part in parts]
    return [p.slope for p in within] if all(p.length > 0 for p in within) else []


def _with_teeth(
    parts: Sequence[Series],
    found: Sequence[Steps],
    verdict: Verdict,
    margin: float,
    level: float,
) -> _Seen:
    """Memory that falls in steps (a garbage collector's) climbs where the floor below does."""
    fewest = min(s.falls.size for s in found)
    if fewest >= TEETH and len(parts) >= MINIMUM_RUNS:
        lows = [floor(p.seconds, p.values, s.falls) for p, s in zip(parts, found, strict=True)]
        slopes = [theil_sen(*low) for low in lows]
        interval = student_t(slopes, level)
        why = f"{fewest} falls or more in each run: judged by the floor below them"
        return _Seen(_verdict(interval, margin), why, slopes, interval)
    if verdict in ("stable", "not_enough_evidence"):
        return _Seen(verdict)
    seconds = max(part.length for part in parts) * (TEETH + 1) / max(1, fewest)
    why = f"memory falls in steps, {fewest} in some run where {TEETH} are needed to see the floor"
    return _Seen("not_enough_evidence", f"{why}: runs of about {seconds:,.0f} s would show it")


def _with_steps(
    parts: Sequence[Series],
    found: Sequence[Steps],
    looked_at: tuple[float, float],
    margin: float,
    level: float,
) -> _Seen:
    """Steps climb where they go on in every run, and are over where none came for long."""
    begin, end = looked_at
    if go_on(found, begin, end):
        risen = [float(part.values[-1] - part.values[0]) / part.length for part in parts]
        if _verdict(student_t(risen, level), margin) == "climbs":
            return _Seen("climbs", "memory rises in steps, which go on in every run")
    elif over_in(found, begin, end):
        over = max(float(s.rises[-1]) for s in found if s.rises.size)
        rest = [part.part(np.nextafter(over, end) + 0.01 * (end - begin), end) for part in parts]
        if min(part.seconds.size for part in rest) >= _LEAST:
            since = _verdict(_over_runs(rest, level)[0], margin)
            return _Seen("steep_start_then_stable" if since == "stable" else since)
    needed = enough(found, begin, end)
    why = "memory rises in steps, too few to tell whether they go on"
    return _Seen("not_enough_evidence", f"{why}: runs of about {needed:,.0f} s would")


def _after_bends(
    parts: Sequence[Series], begin: float, end: float, level: float, margin: float
) -> tuple[float | None, Interval | None, Sequence[Series]]:
    """When it bends for the last time, over runs, and what follows; all where it does not.

    One bend leaves much of an exponential warm-up behind it: where what follows still climbs, it is
    looked for again, as long as a third of the time remains.
    """
    bend, bend_s, last = None, None, parts
    while True:
        start = begin if bend is None else bend
        found, over_runs = _bend(last, start, end, level)
        if found is None:
            return bend, bend_s, last
        rest = [part.part(found, end) for part in parts]
        if min(part.seconds.size for part in rest) < _LEAST or not _matters(last, rest, margin):
            return bend, bend_s, last
        if bend is not None and end - found < (end - begin) / 3:
            return bend, bend_s, last
        bend, bend_s, last = found, over_runs, rest
        if _verdict(_over_runs(last, level)[0], margin) != "climbs":
            return bend, bend_s, last


def _verdict(interval: Interval, margin: float) -> Verdict:
    low, high = interval.low, interval.high
    if low is None or high is None:
        return "not_enough_evidence"
    if low > 0 and high >= margin:
        return "climbs"
    return "stable" if -margin < low and high < margin else "not_enough_evidence"


def _over_runs(parts: Sequence[Series], level: float) -> tuple[Interval, str, bool]:
    """Interval of the slope per second, how it was made, and whether a verdict may rest on it."""
    slopes = [part.slope for part in parts]
    if len(parts) != 1:
        return student_t(slopes, level), "Theil-Sen slope per run, Student t over runs", True
    (part,) = parts
    found = glsar(part.seconds, part.values, level)
    trusted = found.interval.refused is None and found.phi <= TRUSTED_PHI
    method = (
        f"line with AR(1) errors (phi {found.phi:.2f}) through one run, which says nothing about "
        "how much runs differ"
    )
    if not trusted:
        method += "; autocorrelation too strong for a verdict on one run"
    return found.interval, method, trusted


def _bend(
    parts: Sequence[Series], begin: float, end: float, level: float
) -> tuple[float | None, Interval | None]:
    grid = np.linspace(begin, end, _GRID)
    rows = np.array([np.interp(grid, part.seconds, part.values) for part in parts])
    found = best_bend(rows)
    if found.gain < BEND_GAIN and not _slopes_change(grid, rows, found.index):
        return None, None
    each = [float(grid[best_bend(row).index]) for row in rows]
    return float(grid[found.index]), student_t(each, level)


def _slopes_change(grid: Floats, rows: Floats, index: int) -> bool:
    changes = [
        least_squares(grid[index:], row[index:]).slope
        - least_squares(grid[:index], row[:index]).slope
        for row in rows
    ]
    found = student_t(changes, BEND_LEVEL)
    return found.low is not None and found.high is not None and found.low * found.high > 0


def _matters(parts: Sequence[Series], last: Sequence[Series], margin: float) -> bool:
    """Whether the last part's line misses the start by the margin times the time looked at."""
    misses = []
    for part, end in zip(parts, last, strict=True):
        start = max(1, part.values.size // 20)
        apart = float(np.median(end.seconds) - np.median(part.seconds[:start]))
        before = float(np.median(end.values)) - end.slope * apart
        misses.append(before - float(np.median(part.values[:start])))
    return abs(float(np.mean(misses))) >= margin * min(part.length for part in parts)


def _rise(part: Series, bend: float) -> float:
    """From the level at the start to that after the bend."""
    tenth = max(1, part.values.size // 20)
    return float(np.median(part.values[part.seconds >= bend]) - np.median(part.values[:tenth]))


def _no_better_than_pages(interval: Interval, name: str, seconds: float) -> Interval:
    if interval.value is None or interval.low is None or interval.high is None:
        return interval
    least = (1 if name.startswith("heap") else PAGES) / seconds if seconds > 0 else math.inf
    half = (interval.high - interval.low) / 2
    if half >= least:
        return interval
    return replace(interval, low=interval.value - least, high=interval.value + least)


def _minimum_detectable(interval: Interval, runs: int, level: float) -> float | None:
    """Found in about 80 % of experiments; one run is taken for as good as known."""
    if interval.low is None or interval.high is None:
        return None
    freedom = max(runs - 1, 1) if runs >= MINIMUM_RUNS else 1000
    critical = t_quantile((1 + level) / 2, freedom)
    return least_detectable((interval.high - interval.low) / 2 / critical, freedom, level)


def _per_message(
    name: str, parts: Sequence[Series], per_second: Estimate, definition: str
) -> Estimate:
    messages = [p.messages for p in parts if p.messages is not None and p.messages.size]
    if len(messages) < len(parts) or any(m[-1] <= m[0] for m in messages):
        reason = (
            "what each run did is not known: neither publications on a work topic nor a log of "
            "requests (calls.csv) or goals (goals.csv)"
        )
        found = refused(per_second.metric, name, per_second.cell, per_second.level, reason)
        return found.per_message
    level = per_second.level
    slopes = [theil_sen(m, part.values) for m, part in zip(messages, parts, strict=True)]
    if len(parts) == 1:
        interval = glsar(messages[0], parts[0].values, level).interval
    else:
        interval = student_t(slopes, level)
    interval = _no_better_than_pages(interval, name, min(float(m[-1] - m[0]) for m in messages))
    kinds = sorted({part.work for part in parts})
    return _estimate(
        Metric(
            f"{per_second.metric}{_OF_WORK}", f"{definition}; per {' or '.join(kinds)}", PER_MESSAGE
        ),
        per_second.cell,
        interval,
        level,
        per_run=slopes,
        runs=per_second.runs,
        samples=per_second.samples,
        verdict=per_second.verdict or "not_enough_evidence",
        method=per_second.method,
    )


def _estimate(
    metric: Metric,
    cell: Cell,
    interval: Interval,
    level: float,
    *,
    per_run: Sequence[float],
    runs: int,
    samples: int,
    verdict: str,
    method: str,
) -> Estimate:
    return estimate_of(
        metric,
        cell,
        interval,
        level,
        runs=runs,
        samples=samples,
        method=method,
        verdict=verdict,
        minimum_detectable=_minimum_detectable(interval, runs, level),
        per_run=per_run,
    )


def refused(metric: str, name: str, cell: Cell, level: float, reason: str) -> Leak:
    """Both estimates of a cell of which nothing can be said, with the reason."""
    interval = Interval(None, refused=reason)
    definition = f"growth of {name.upper()} of all recorded processes"
    per_second, per_message = (
        _estimate(
            Metric(called, f"{definition}; per {per}", unit),
            cell,
            interval,
            level,
            per_run=(),
            runs=0,
            samples=0,
            verdict="not_enough_evidence",
            method="none",
        )
        for called, per, unit in (
            (metric, "second", PER_SECOND),
            (f"{metric}{_OF_WORK}", PUBLICATION, PER_MESSAGE),
        )
    )
    return Leak(per_second, per_message, "not_enough_evidence", interval)
