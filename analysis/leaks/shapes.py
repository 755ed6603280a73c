"""Detect what a slope cannot see: memory that rises in steps, falls again, or slows down.

A slope says how fast memory grows if it grows linearly. Allocators grow by steps, garbage
collectors by teeth, caches until they are full. If the series of the runs show such a shape, the
verdict rests on that shape, and if it shows too little there is no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, Interval, student_t
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import Floats, NDArray, np

SHARP = 8.0
"""Size of a step, in deviations of the other changes from sample to sample."""

_NEAR = 25
"""Samples before a change, and after it, whose changes show how much noise there is."""

TEETH = 4
"""Least number of falls for the floor below them to be judged; with fewer a rise may go on."""

STEPS = 3
"""Least number of steps in each run for them to count as going on."""

PATIENCE = 3.0
"""Steps are over if none came for this many times as long as they took."""

SLOWER = 0.7
"""Growth slows down if what follows is less than this part of what came before."""

PROBABLY = 0.8
"""Level at which growth must be distinguished from growth that dies down."""

AGAIN = 1 / 3
"""Part of its range by which memory must fall in all runs alike, to go "up and down"."""


@dataclass(frozen=True)
class Steps:
    """The sudden changes in one run.

    Attributes
    ----------
    rises, falls
        Times in seconds of changes up and down, increasing.
    """

    rises: Floats
    falls: Floats


def steps(seconds: Floats, values: Floats, least: float) -> Steps:
    """Find changes of `least` bytes within one or two samples that stand out of all others."""
    if values.size < 10:
        return Steps(np.empty(0), np.empty(0))
    # Over two samples, because one may have been taken in the middle of the step.
    change = values[2:] - values[:-2]
    # Growth that goes on before or after it is no step: a warm-up is steep everywhere, and steepest
    # before the first sample.
    padded = np.concatenate([np.full(6, np.copysign(np.inf, change[0])), change, change[:-7:-1]])
    around = np.lib.stride_tricks.sliding_window_view(padded, 13)
    before, after = np.median(around[:, :5], axis=1), np.median(around[:, 8:], axis=1)
    nearby = np.median(around[:, [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]], axis=1)
    excess = change - np.where(np.isfinite(nearby), nearby, after)
    # Noise may begin in the middle of a run: deviations before a step and after it count, too.
    deviation = np.abs(excess - np.median(excess))
    near = np.median(
        np.lib.stride_tricks.sliding_window_view(np.pad(deviation, _NEAR - 1, "reflect"), _NEAR),
        axis=1,
    )
    nearby = np.maximum(near[: deviation.size], near[_NEAR - 1 :])
    usual = 1.4826 * np.maximum(np.median(deviation), nearby)
    up = np.minimum(change - before, change - after)
    down = np.minimum(before - change, after - change)
    change = np.where(up > 0, up, np.where(down > 0, -down, 0.0))
    high = np.abs(change) >= np.maximum(SHARP * usual, least)
    places: list[int] = []
    for i in np.flatnonzero(high):
        if places and i - places[-1] <= 2 and change[i] * change[places[-1]] > 0:
            if abs(change[i]) > abs(change[places[-1]]):
                places[-1] = int(i)
        else:
            places.append(int(i))
    at = np.array(places, dtype=np.intp)
    up = change[at] > 0
    return Steps(seconds[at[up] + 1], seconds[at[~up] + 1])


def floor(seconds: Floats, values: Floats, falls: Floats) -> NDArray[np.intp]:
    """Return indices of the lowest of the first samples after each fall, equally many for each."""
    if not falls.size:
        return np.empty(0, np.intp)
    edges = np.append(np.searchsorted(seconds, falls), seconds.size)
    width = min(5, max(1, int(np.median(np.diff(edges)))))
    whole = edges[:-1][np.diff(edges) >= width]
    lowest = [begin + int(np.argmin(values[begin : begin + width])) for begin in whole]
    return np.array(lowest, dtype=np.intp)


def rises_and_falls(rows: Floats) -> bool:
    """Return whether memory goes up and down in all runs alike, by more than runs differ.

    Parameters
    ----------
    rows
        Memory of the runs on a common grid, shape (runs, n), at least three runs.
    """
    width = max(1, rows.shape[1] // 20)
    smooth = np.apply_along_axis(np.convolve, 1, rows, np.full(width, 1 / width), "valid")
    mean = smooth.mean(axis=0)
    error = float(np.median(smooth.std(axis=0, ddof=1))) / np.sqrt(rows.shape[0])
    fallen = float((np.maximum.accumulate(mean) - mean).max())
    return bool(fallen >= max(AGAIN * float(np.ptp(mean)), 4 * np.sqrt(2) * error))


def slows_down(before: Sequence[float], last: Sequence[float], level: float) -> bool:
    """Return whether the last slopes are below `SLOWER` of those before, in all runs alike."""
    interval = student_t(np.asarray(last) - np.asarray(before), level)
    slower = float(np.mean(last)) < SLOWER * float(np.mean(before))
    return bool(slower and interval.high is not None and interval.high < 0)


def growth_continues(before: Sequence[float], last: Sequence[float]) -> bool:
    """Return whether the last slopes are probably (`PROBABLY`) above half of those before."""
    more = student_t(np.asarray(last) - np.asarray(before) / 2, PROBABLY)
    return more.low is not None and more.low > 0


def stands_out(slopes: Sequence[float]) -> bool:
    """Return whether the largest slope is an outlier, at a level of 1 %.

    Its deleted residual is tested against Student's t, corrected for having been chosen among all
    (the outlier test of Cook and Weisberg 1982, "Residuals and Influence in Regression", section
    2.2).
    """
    k = len(slopes)
    if k <= MINIMUM_RUNS:
        return False
    *rest, largest = sorted(slopes)
    error = float(np.std(rest, ddof=1)) * np.sqrt(1 + 1 / (k - 1))
    return bool(largest - float(np.mean(rest)) > t_quantile(1 - 0.01 / k, k - 2) * error)


def steps_are_over(found: Sequence[Steps], begin: float, end: float) -> bool:
    """Return whether all steps of all runs are so early that the rest is long enough without."""
    last = [float(s.rises[-1]) for s in found if s.rises.size]
    return not last or end - max(last) >= PATIENCE * (max(last) - begin)


def steps_continue(found: Sequence[Steps], begin: float, end: float) -> bool:
    """Return whether every run has several steps, and no much longer pause at the end."""
    for s in found:
        if s.rises.size < STEPS:
            return False
        pauses = np.diff(np.concatenate([[begin], s.rises]))
        if end - s.rises[-1] > PATIENCE * pauses.max():
            return False
    return True


def seconds_needed(found: Sequence[Steps], begin: float, end: float) -> float:
    """Return the seconds that runs would have to take to show whether their steps go on."""
    longest = [
        float(np.diff(np.concatenate([[begin], s.rises, [end]])).max())
        for s in found
        if s.rises.size
    ]
    return (1 + PATIENCE) * max(longest)


def seconds_for_slope(interval: Interval, margin: float, seconds: float) -> float | None:
    """Return the seconds after which a slope probably differs from zero, or from the margin.

    The error of a slope decreases with the length to the power of -3/2.
    """
    value, low, high = interval.value, interval.low, interval.high
    if value is None or low is None or high is None:
        return None
    distance = max(abs(value), margin - abs(value))
    ratio: float = max(1.0, (high - low) / 2 / distance)
    return seconds * float(ratio ** (2 / 3))
