"""Compare timer activations with the grid of their releases.

Decided at the end, timer by timer, because an activation's release depends on those after it. rcl
calls a timer once however late it is, and continues with the next point of its grid; no release is
served twice. The grid has the timer's period; its phase, which no event shows, is such that the
least late of the 101 activations around is exactly on it. Which of two points of the grid an
activation belongs to is decided by where the activations around lie on the circle of one period:
none is earlier than their mean by more than twice their circular standard deviation (but at least
1/32 and at most 1/2 of the period). If activations may be missing between two of them, the later
one begins a new sequence, like that of another timer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from reference_model.gaps import Gaps
from reference_model.objects import Row

AROUND = 50
_ONE = 2**40
"""Sums of whole numbers do not depend on their order."""
_GRID = ("release_ns", "lateness_ns", "drift_ns", "skipped")


def activations(instances: Iterable[Row], gaps: Gaps) -> list[Row]:
    """Make a row per execution of a timer's callback."""
    by_timer: dict[int, list[Row]] = defaultdict(list)
    for instance in instances:
        if instance["kind"] == "timer" and instance["_owner"] is not None:
            timer = instance["_owner"]
            row = {**instance, "_timer": timer, "_callback_instance": instance}
            by_timer[id(timer)].append(row | {"period_ns": timer["period_ns"]})
    for rows in by_timer.values():
        rows.sort(key=lambda row: row["start_ns"])
        anew = [n for n, (a, b) in enumerate(pairwise(rows), 1) if _apart(a, b, gaps)]
        for begin, end in pairwise([0, *anew, len(rows)]):
            _of_one(rows[begin:end], rows[0]["period_ns"])
            few = anew and end - begin < 10
            for row in rows[begin : end if few else begin + (begin > 0)]:
                row.update(dict.fromkeys(_GRID))
    return [row for rows in by_timer.values() for row in rows]


def _apart(earlier: Row, later: Row, gaps: Gaps) -> bool:
    """Whether activations may be missing between these two."""
    proc, begin, end = later["_proc"], earlier["start_ns"], later["start_ns"]
    return gaps.between(proc, begin, end) or gaps.disordered(proc, begin + 1, end - 1)


def _of_one(rows: list[Row], period: int) -> None:
    before = None
    for row in rows:
        interval = None if before is None else row["start_ns"] - before
        jitter = None if interval is None or period is None else interval - period
        row |= {"interval_ns": interval, "jitter_ns": jitter, **dict.fromkeys(_GRID)}
        before = row["start_ns"]
    if not period or period < 0:
        return
    since = [row["start_ns"] - rows[0]["start_ns"] for row in rows]
    points = _points(since, period)
    # The latest release that those after it leave, and the first one after the start before it.
    latest = list(accumulate(reversed(points), lambda after, point: min(point, after - 1)))[::-1]
    firsts = [point + 1 for point in points]
    served = [latest[0], *map(min, latest[1:], firsts)]
    after = [s - point * period for s, point in zip(since, served, strict=True)]
    phases = [min(around) for around in _windows(after)]
    for row, late, phase in zip(rows, after, phases, strict=True):
        row["lateness_ns"] = late - phase
        row["release_ns"] = row["start_ns"] - row["lateness_ns"]
        row["drift_ns"] = phase - phases[0]
    for row, (point, next_point) in zip(rows, pairwise(served), strict=False):
        row["skipped"] = next_point - point - 1
    rows[-1]["skipped"] = 0 if points[-1] == served[-1] else None


def _points(since: Sequence[int], period: int) -> list[int]:
    """Return the number of the last point of the grid up to each start."""
    angles = [2 * math.pi * (s % period) / period for s in since]
    xs, ys = (_means([f(a) for a in angles]) for f in (math.cos, math.sin))
    points, turns, last = [], 0, None
    for s, x, y in zip(since, xs, ys, strict=True):
        mean = math.atan2(y, x) / (2 * math.pi)
        strength = min(max(math.sqrt(x**2 + y**2), 1e-9), 1.0)
        spread = 2 * (math.sqrt(-2 * math.log(strength)) / (2 * math.pi))
        spread = min(max(spread, 1 / 32), 1 / 2)
        if last is not None:
            # Count how often the mean went around the circle: by at most half of it at a time.
            turns += int(mean - last + math.copysign(0.5, mean - last))
        last = mean
        points.append(math.floor(s / period - (mean - turns - spread)))
    return points


def _means(values: Sequence[float]) -> list[float]:
    whole = [0, *accumulate(math.floor(v * _ONE + 0.5) for v in values)]
    spans = [(max(i - AROUND, 0), min(i + AROUND + 1, len(values))) for i in range(len(values))]
    return [(whole[b] - whole[a]) / (b - a) / _ONE for a, b in spans]


def _windows(values: Sequence[Any]) -> list[Sequence[Any]]:
    return [values[max(i - AROUND, 0) : i + AROUND + 1] for i in range(len(values))]
