"""Decide which part of the runs a slope is taken from, and what speaks against it.

A slope says how fast memory grows if it grows linearly. If the runs show teeth, steps or a bend,
the slope is that of the floor, of what follows the steps, or of what follows the bend; interval and
verdict come from that part, and from nothing else. What the shape leaves open is a doubt: then
there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roslens.analysis.estimate import not_none
from roslens.analysis.leaks.series import Series
from roslens.analysis.leaks.shapes import (
    PATIENCE,
    SLOWER,
    TEETH,
    Steps,
    floor,
    growth_continues,
    rises_and_falls,
    seconds_for_slope,
    seconds_needed,
    slows_down,
    stands_out,
    steps,
    steps_are_over,
    steps_continue,
)
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, Interval, student_t
from roslens.analysis.statistics.trends import best_break, glsar, least_squares
from roslens.analysis.verdicts.statement import Verdict
from roslens.recording.arrays import Floats, NDArray, np

BEND_GAIN = 0.65
"""Part of the squared error of one line that a bend must remove to count: stationary noise with
autocorrelation .97 has no such bend in 99 % of five runs."""

BEND_LEVEL = 0.999
"""A bend also counts if the slope changes there in all runs alike, by Student t at this level."""

START = 0.25
"""A rise that ends within this part of the time looked at is a steep start."""

EARLY_LEVEL = 0.98
"""Level of Student t for a rise without a bend that is less steep after its first quarter: that
quarter may then be all there is, so what follows must climb by itself."""

PAGES = 2 * 4096
"""Resident memory grows by pages, in more than one place (heap, other arenas, stacks): a slope is
known no better than two pages over the time, however alike the runs are."""

TRUSTED_PHI = 0.9
"""Most autocorrelation with which the interval of one run holds (measured: 5.5 % of alarms)."""

_GRID = 200
_LEAST = 10
"""Least number of samples for a slope."""


@dataclass(frozen=True)
class Terms:
    """The terms on which slopes are judged.

    Attributes
    ----------
    name
        Name of the series, such as ``rss``.
    margin
        Bytes per second within which a slope is as good as none.
    level
        Nominal coverage of intervals.
    """

    name: str
    margin: float
    level: float

    def interval(self, runs: Sequence[Series]) -> tuple[Interval, str, bool]:
        """Return interval of the slope per second, its method, and whether it may decide a verdict.

        Student t over the runs' Theil-Sen slopes; for one run that of a line with AR(1) errors.
        """
        if len(runs) != 1:
            interval, trusted = student_t([run.slope for run in runs], self.level), True
            method = "Theil-Sen slope per run, Student t over runs"
        else:
            interval, phi = glsar(runs[0].seconds, runs[0].values, self.level)
            trusted = interval.refused is None and phi <= TRUSTED_PHI
            method = (
                f"line with AR(1) errors (phi {phi:.2f}) through one run, which says nothing "
                "about how much runs differ"
            )
            if not trusted:
                method += "; autocorrelation too strong for a verdict on one run"
        length = min((run.length for run in runs), default=0.0)
        return no_better_than_pages(interval, self.name, length), method, trusted

    def verdict(self, runs: Sequence[Series], flat: Verdict = "stable") -> Verdict:
        """Return the verdict on the interval of these runs' slope."""
        return verdict_of(self.interval(runs)[0], self.margin, flat)


def verdict_of(interval: Interval, margin: float, flat: Verdict = "stable") -> Verdict:
    """Return the verdict on the interval of a slope; `flat` is the verdict if it is flat."""
    low, high = interval.low, interval.high
    if low is None or high is None:
        return "not_enough_evidence"
    if low > 0 and high >= margin:
        return "climbs"
    return flat if -margin < low and high < margin else "not_enough_evidence"


def no_better_than_pages(interval: Interval, name: str, length: float) -> Interval:
    """Widen an interval to `PAGES` (a heap: one byte) over its length: no slope is known better."""
    if interval.value is None or interval.low is None or interval.high is None:
        return interval
    least = (1 if name.startswith("heap") else PAGES) / length if length > 0 else math.inf
    half = (interval.high - interval.low) / 2
    if half >= least:
        return interval
    return replace(interval, low=interval.value - least, high=interval.value + least)


@dataclass(frozen=True)
class Segment:
    """The part of the runs that a slope is taken from.

    Attributes
    ----------
    runs
        The samples that count, for each run.
    since
        Where these samples begin, in words; empty for the beginning.
    bend_s
        When memory levels off, with its interval over runs; None without a bend.
    flat
        Verdict if the slope is flat.
    doubt
        Why there is no verdict whatever the interval is; None if nothing speaks against one.
    why
        What the shape says besides the slope.
    """

    runs: Sequence[Series]
    since: str = ""
    bend_s: Interval | None = None
    flat: Verdict = "stable"
    doubt: str | None = None
    why: str | None = None


def segment_of(parts: Sequence[Series], terms: Terms) -> Segment:
    """Return the segment that decides for these runs, each of which has at least ten samples."""
    begin, end = _looked_at(parts)
    part_steps = [steps(part.seconds, part.values, terms.margin * (end - begin)) for part in parts]
    if 2 * sum(s.falls.size > 0 for s in part_steps) >= len(parts):
        return _with_teeth(parts, part_steps, terms)
    if any(s.rises.size for s in part_steps):
        return _with_steps(parts, part_steps, terms)
    return _by_slope(parts, terms)


def _looked_at(parts: Sequence[Series]) -> tuple[float, float]:
    begin = max(float(part.seconds[0]) for part in parts)
    return begin, min(float(part.seconds[-1]) for part in parts)


def _by_slope(parts: Sequence[Series], terms: Terms, flat: Verdict = "stable") -> Segment:
    """Return all of the runs, or what follows the last bend."""
    begin, end = _looked_at(parts)
    bend, bend_s, last = _after_breaks(parts, begin, end, terms)
    if bend is not None:
        rise = student_t([_rise(part, bend) for part in parts], terms.level)
        rose = rise.low is not None and rise.high is not None and rise.low > 0
        if rose and not_none(rise.high) >= terms.margin * (end - begin):
            early = bend - begin <= START * (end - begin)
            flat = "steep_start_then_stable" if early else "levels_off"
    since = "" if bend is None else f", after the bend at {bend:.3g} s"
    segment = Segment(last, since, bend_s, flat)
    return replace(segment, doubt=_contrary_evidence(parts, segment, terms))


def _contrary_evidence(parts: Sequence[Series], segment: Segment, terms: Terms) -> str | None:
    """Return what speaks against the verdict of the interval, or would be needed for one."""
    begin, end = _looked_at(parts)
    interval = terms.interval(segment.runs)[0]
    verdict = verdict_of(interval, terms.margin, segment.flat)
    since_s = end - float(segment.runs[0].seconds[0])
    if verdict == "climbs":
        if len(parts) < MINIMUM_RUNS:
            return None
        return _may_end(parts, since_s if segment.since else None, terms)
    if verdict == "not_enough_evidence":
        needed_s = seconds_for_slope(interval, terms.margin, end - begin)
        if needed_s is None or not_none(interval.high) <= 0:
            return None
        return f"runs of about {needed_s:,.0f} s would probably decide it"
    if verdict != "stable" and segment.since and since_s < (end - begin) / 3:
        needed = end + PATIENCE * (end - begin - since_s)
        return (
            f"flat for no more than the last {since_s:,.0f} s: runs of about {needed:,.0f} s "
            "would decide it"
        )
    slopes = [run.slope for run in segment.runs]
    if max(slopes) >= terms.margin and stands_out(slopes):
        return (
            f"one of {len(slopes)} runs climbs by {max(slopes):,.0f} B/s, unlike all others: look "
            "at it by itself, or record more runs"
        )
    return None


def _may_end(parts: Sequence[Series], since_bend_s: float | None, terms: Terms) -> str | None:
    """Return why climbing memory may not go on climbing; None if nothing speaks for that.

    Parameters
    ----------
    since_bend_s
        Seconds from the bend to the end; None without a bend.
    """
    begin, end = _looked_at(parts)
    third = (end - begin) / 3
    grid = np.linspace(begin, end, _GRID)
    if rises_and_falls(np.array([np.interp(grid, p.seconds, p.values) for p in parts])):
        return (
            "memory goes up and down in all runs alike: runs several times as long are needed, "
            f"about {4 * (end - begin):,.0f} s"
        )
    before = _slopes(parts, begin + third, begin + 2 * third)
    ending = _slopes(parts, begin + 2 * third, end)
    slower = before and ending and slows_down(before, ending, terms.level)
    if slower and not _only_a_spurt(parts, begin, end, ending):
        rate, fraction = float(np.mean(ending)), float(np.mean(ending) / np.mean(before))
        # Each third multiplies the slope by this fraction, until it is as good as none.
        ends = 0 < fraction < 1 and rate > terms.margin
        thirds = math.log(terms.margin / rate) / math.log(fraction) if ends else 0.0
        needed = end + third * (1 + thirds)
        return (
            f"the growth slows down ({rate:,.0f} B/s in the last third): runs of about "
            f"{needed:,.0f} s would show its end"
        )
    if since_bend_s is None:
        return _only_at_first(parts, begin, end, terms)
    # After a bend downwards, what follows may bend on: its second half must climb by itself, and
    # not by so much less than the first half that it is probably the rest of the earlier rise.
    half_s = since_bend_s / 2
    middle, half = _slopes(parts, end - 2 * half_s, end - half_s), _slopes(parts, end - half_s, end)
    early = _slopes(parts, begin, end - since_bend_s)
    since = student_t(half, terms.level)
    if early and middle and half and np.mean(early) <= np.mean([*middle, *half]):
        return None
    climbs = verdict_of(since, terms.margin) == "climbs"
    if climbs and middle and growth_continues(middle, half):
        return None
    needed = end + 2 * (seconds_for_slope(since, terms.margin, half_s) or since_bend_s) - half_s
    return (
        "it grew faster before, and too little is seen of the end to tell whether it ends: runs of "
        f"about {needed:,.0f} s would"
    )


def _only_a_spurt(
    parts: Sequence[Series], begin: float, end: float, ending: Sequence[float]
) -> bool:
    """Return whether growth was faster in the middle third only, and ends as it began.

    Growth that dies down is slower in the last third than in the first, and slower still in the
    last half of that; so is growth that begins late and is limited.
    """
    third = (end - begin) / 3
    first = _slopes(parts, begin, begin + third)
    earlier = _slopes(parts, end - third, end - third / 2)
    later = _slopes(parts, end - third / 2, end)
    if not first or not earlier or not later:
        return False
    goes_on_so = float(np.mean(later)) >= SLOWER**0.5 * float(np.mean(earlier))
    return goes_on_so and float(np.mean(ending)) >= SLOWER * float(np.mean(first))


def _only_at_first(parts: Sequence[Series], begin: float, end: float, terms: Terms) -> str | None:
    """Return why a rise without a bend may be over after its first quarter (`START`), or None."""
    first = START * (end - begin)
    early, after = _slopes(parts, begin, begin + first), _slopes(parts, begin + first, end)
    if not early or not after or not slows_down(early, after, EARLY_LEVEL):
        return None
    since = student_t(after, terms.level)
    if verdict_of(since, terms.margin) == "climbs":
        return None
    needed = first + (
        seconds_for_slope(since, terms.margin, end - begin - first) or 2 * (end - begin)
    )
    return (
        "most of the rise lies in the first quarter: runs of about "
        f"{max(needed, end):,.0f} s would show whether it goes on"
    )


def _slopes(parts: Sequence[Series], begin: float, end: float) -> list[float]:
    """Return each run's slope within these seconds; empty if one has too few samples there."""
    within = [part.part(begin, end) for part in parts]
    return [p.slope for p in within] if all(p.length > 0 for p in within) else []


def _with_teeth(parts: Sequence[Series], part_steps: Sequence[Steps], terms: Terms) -> Segment:
    """Judge memory that falls in steps (garbage collection, a trim) by the floor below them."""
    fewest = min(s.falls.size for s in part_steps)
    lows = [floor(p.seconds, p.values, s.falls) for p, s in zip(parts, part_steps, strict=True)]
    if fewest >= TEETH and len(parts) >= MINIMUM_RUNS:
        below = [part.at(low) for part, low in zip(parts, lows, strict=True)]
        why = f"{fewest} falls or more in each run: judged by the floor below them"
        return Segment(below, ", below the falls", why=why)
    if fewest and len(parts) >= MINIMUM_RUNS:
        kept = _growth_between_falls(parts, part_steps, lows, terms)
        if kept is not None and all(terms.verdict(runs) == "climbs" for runs in kept):
            why = "memory falls, less far than it rose before, and climbs again"
            return Segment(kept[0], ", which falls do not take back", why=why)
    whole = _by_slope(parts, terms)
    if terms.verdict(whole.runs, whole.flat) in ("stable", "not_enough_evidence"):
        return whole
    seconds = max(part.length for part in parts) * (TEETH + 1) / max(1, fewest)
    doubt = (
        f"memory falls in steps, {fewest} in some run where {TEETH} are needed to see the floor: "
        f"runs of about {seconds:,.0f} s would show it"
    )
    return replace(whole, doubt=doubt)


def _growth_between_falls(
    parts: Sequence[Series],
    part_steps: Sequence[Steps],
    lows: Sequence[NDArray[np.intp]],
    terms: Terms,
) -> tuple[list[Series], list[Series]] | None:
    """Return the growth that falls leave of each run, and what follows the last fall.

    Growth counts from a quarter of the time before the first fall: teeth above a steady floor have
    risen above it by then, and a steep start is over. None if not, or if too little is seen.
    """
    kept, after = [], []
    early, late = [], []
    for part, s, low in zip(parts, part_steps, lows, strict=True):
        first = int(np.searchsorted(part.seconds, s.falls[0]))
        rest = part.part(float(np.nextafter(part.seconds[low[-1]], np.inf)), math.inf)
        if first < 4 * _LEAST or rest.seconds.size < _LEAST or rest.length < part.length / 4:
            return None
        kept.append(part.at(np.array([first // 4, *low])))
        after.append(rest)
        places = np.arange(first // 4, first)
        early.append(part.at(places[: places.size // 2]).slope)
        late.append(part.at(places[places.size // 2 :]).slope)
    return None if slows_down(early, late, terms.level) else (kept, after)


def _with_steps(parts: Sequence[Series], part_steps: Sequence[Steps], terms: Terms) -> Segment:
    """Judge steps: they climb if they go on in every run, and are over if none came for long."""
    begin, end = _looked_at(parts)
    if steps_continue(part_steps, begin, end):
        ends = [part.at(np.array([0, part.seconds.size - 1])) for part in parts]
        if terms.verdict(ends) == "climbs":
            return Segment(ends, why="memory rises in steps, which go on in every run")
    elif steps_are_over(part_steps, begin, end):
        over = max(float(s.rises[-1]) for s in part_steps if s.rises.size)
        rest = [part.part(np.nextafter(over, end) + 0.01 * (end - begin), end) for part in parts]
        if min(part.seconds.size for part in rest) >= _LEAST:
            after = _by_slope(rest, terms, "steep_start_then_stable")
            return replace(after, since=after.since or f", after the last step at {over:.3g} s")
    doubt = (
        "memory rises in steps, too few to tell whether they go on: runs of about "
        f"{seconds_needed(part_steps, begin, end):,.0f} s would"
    )
    return Segment(parts, doubt=doubt)


def _after_breaks(
    parts: Sequence[Series], begin: float, end: float, terms: Terms
) -> tuple[float | None, Interval | None, Sequence[Series]]:
    """Return when memory bends last, over runs, and what follows; all without a bend.

    One bend leaves much of an exponential warm-up behind it: if what follows still climbs, another
    bend is looked for, as long as a third of the time remains.
    """
    bend, bend_s, last = None, None, parts
    while True:
        start = begin if bend is None else bend
        latest, over_runs = _break(last, start, end, terms.level)
        if latest is None:
            return bend, bend_s, last
        rest = [part.part(latest, end) for part in parts]
        if min(part.seconds.size for part in rest) < _LEAST or not _is_large(
            last, rest, terms.margin
        ):
            return bend, bend_s, last
        if bend is not None and end - latest < (end - begin) / 3:
            return bend, bend_s, last
        bend, bend_s, last = latest, over_runs, rest
        if terms.verdict(last) != "climbs":
            return bend, bend_s, last


def _break(
    parts: Sequence[Series], begin: float, end: float, level: float
) -> tuple[float | None, Interval | None]:
    grid = np.linspace(begin, end, _GRID)
    rows = np.array([np.interp(grid, part.seconds, part.values) for part in parts])
    index, gain = best_break(rows)
    if gain < BEND_GAIN and not _slopes_change(grid, rows, index):
        return None, None
    each = [float(grid[best_break(row)[0]]) for row in rows]
    return float(grid[index]), student_t(each, level)


def _slopes_change(grid: Floats, rows: Floats, index: int) -> bool:
    changes = [
        least_squares(grid[index:], row[index:]).slope
        - least_squares(grid[:index], row[:index]).slope
        for row in rows
    ]
    interval = student_t(changes, BEND_LEVEL)
    return (
        interval.low is not None and interval.high is not None and interval.low * interval.high > 0
    )


def _is_large(parts: Sequence[Series], last: Sequence[Series], margin: float) -> bool:
    """Return whether the last part's line misses the start by the margin times the whole time."""
    misses = []
    for part, end in zip(parts, last, strict=True):
        start = max(1, part.values.size // 20)
        elapsed = float(np.median(end.seconds) - np.median(part.seconds[:start]))
        before = float(np.median(end.values)) - end.slope * elapsed
        misses.append(before - float(np.median(part.values[:start])))
    return abs(float(np.mean(misses))) >= margin * min(part.length for part in parts)


def _rise(part: Series, bend: float) -> float:
    """Return the rise from the level at the start to that after the bend."""
    tenth = max(1, part.values.size // 20)
    return float(np.median(part.values[part.seconds >= bend]) - np.median(part.values[:tenth]))
