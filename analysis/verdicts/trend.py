"""Follow a metric over nights: its level, where it changed, and what else changed there.

A night is a campaign; its value is the mean over its runs. Nights are the units of the search for
changes, because all runs of a night share its conditions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from roslens.analysis.estimate import Cell, not_none
from roslens.analysis.statistics.change_points import (
    LEAST,
    ChangePoint,
    change_points,
    least_length,
    least_side,
    reach,
    stretch,
    winsorised,
)
from roslens.analysis.statistics.multiplicity import holm
from roslens.analysis.statistics.over_runs import Interval, student_t
from roslens.analysis.statistics.ratio import Effect, Spread, ratio_of_means, too_far_apart
from roslens.analysis.verdicts.one_cell import finite, verdict_of
from roslens.analysis.verdicts.statement import Verdict
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT
from roslens.recording.arrays import np

FALSE_ALARMS = 0.01
MACHINE = "machine"
"""Key of the machine in `Night.software`: campaigns of different machines are not compared."""
_MOST_PERMUTATIONS = 50_000
_UNTOLD = ("not_comparable", "not_enough_evidence")
_ENOUGH_TO_TELL = 10
"""Least number of nights of a level, for some of them to be called far from it."""


@dataclass(frozen=True)
class Night:
    """The runs of one campaign in one cell.

    Attributes
    ----------
    start
        Start of the first run.
    values
        One finite value per run.
    left_out
        Number of runs without a finite value.
    software
        The software that ran: ``commit``, `MACHINE` and the version of each package, as far as all
        runs share them. Several machines are a `MACHINE` of their own, with their shares.
    disturbed
        Whether the host disturbed all its runs with a value; else `values` has none of those that
        it disturbed.
    """

    campaign: str
    start: datetime
    values: tuple[float, ...]
    left_out: int = 0
    software: Mapping[str, str] = field(default_factory=dict)
    disturbed: bool = False

    @property
    def interval(self) -> Interval:
        """Mean over the runs, with Student's t interval if there are enough runs."""
        return student_t(self.values)


@dataclass(frozen=True)
class Change:
    """A change of a metric's level.

    Attributes
    ----------
    index
        Index of the first night after the change.
    p
        P value of the permutation test that found the change.
    before, after
        Nights on either side, up to the neighbouring changes.
    effect
        Ratio after / before with its 95 % interval, above 1 is worse; None if it cannot be
        computed, as after a level of zero.
    verdict
        Verdict by the rule of comparisons; ``not_comparable`` if the machine changed near the place
        as well, ``not_enough_evidence`` if the host disturbed most campaigns of one side only.
    lasts
        Whether the last level is still as bad: worse than before the change by the threshold.
    software
        What software changed near the place, which is not known to the night: name, version
        before, version after.
    """

    index: int
    p: float
    before: Spread
    after: Spread
    effect: Effect | None
    verdict: Verdict
    lasts: bool
    software: tuple[tuple[str, str | None, str | None], ...]


@dataclass(frozen=True)
class Series:
    """The values of a metric in one cell over all nights.

    Attributes
    ----------
    silent
        Number of campaigns after the last night, none of whose runs completed with a finite value.
    p
        P value of no change at all, adjusted by Holm for the number of series.
    refused
        Why changes cannot be looked for, or why the end cannot be judged yet.
    least_side
        Number of campaigns that the shorter side of a step needs for the step to be found.
    levels
        Index of the first night and mean of each level; nights far from it count less.
    odd
        Indices of the nights that are far from their level.
    """

    metric: str
    unit: str
    cell: Cell
    nights: tuple[Night, ...]
    silent: int = 0
    changes: tuple[Change, ...] = ()
    p: float | None = None
    refused: str | None = None
    least_side: int | None = None
    levels: tuple[tuple[int, float], ...] = ()
    odd: tuple[int, ...] = ()

    @property
    def regressions(self) -> list[Change]:
        """Regressions that last."""
        return [c for c in self.changes if c.verdict == "regression" and c.lasts]

    @property
    def untold(self) -> bool:
        """Whether a change that lasts may come from the machine or from its other work."""
        return any(c.lasts and c.verdict in _UNTOLD for c in self.changes)


@dataclass(frozen=True)
class Trends:
    """All series, and their joint result."""

    series: tuple[Series, ...]
    threshold: float
    false_alarms: float

    @property
    def exit_code(self) -> int:
        """1 for a regression that lasts; else 3 if a series or its end is uncertain; else 0."""
        if any(series.regressions for series in self.series):
            return EXIT_VERDICT
        if not self.series or any(series.refused or series.untold for series in self.series):
            return EXIT_NOT_ENOUGH_EVIDENCE
        return EXIT_OK

    def json_text(self) -> str:
        """Return all figures as JSON text, for programs."""
        data = {
            "schema_version": 1,
            "threshold": self.threshold,
            "false_alarms": self.false_alarms,
            "exit_code": self.exit_code,
            "series": [_series_json(series) for series in self.series],
        }
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


def find_trends(
    series: Sequence[Series], threshold: float = 0.05, false_alarms: float = FALSE_ALARMS
) -> Trends:
    """Look for changes in each series.

    Parameters
    ----------
    series
        The recorded series, nights in the order of time.
    threshold
        Changes smaller than this fraction do not matter.
    false_alarms
        Probability that a set of series without any change gives an alarm.
    """
    each = false_alarms / max(1, len(series))
    usable = [s for s in series if least_side(len(s.nights), each) is not None]
    permutations = min(_MOST_PERMUTATIONS, max(1999, math.ceil(20 * len(usable) / false_alarms)))
    adjusted = iter(holm(_p_of_any(s, permutations) for s in usable))
    judged = []
    for recorded in series:
        side = least_side(len(recorded.nights), each)
        if side is None:
            judged.append(replace(recorded, refused=_campaigns_needed(recorded, each)))
            continue
        found = replace(recorded, p=next(adjusted), least_side=side)
        points = (
            change_points(_means(found), false_alarms=false_alarms, permutations=permutations)
            if not_none(found.p) <= false_alarms
            else []
        )
        found = _with_changes(found, points, threshold)
        refused = (
            _end_is_silent(found)
            or _end_lacks_values(found, false_alarms, permutations)
            or _end_is_far(found, threshold)
        )
        judged.append(replace(found, refused=refused))
    return Trends(tuple(judged), threshold, false_alarms)


def _campaigns_needed(series: Series, false_alarms: float) -> str:
    count, needed = len(series.nights), least_length(false_alarms)
    many = "s" * (count != 1)
    return (
        f"{count} campaign{many}; a change can be distinguished from chance with {needed} or more"
    )


def _end_is_silent(series: Series) -> str | None:
    if not series.silent:
        return None
    last = "last campaign" if series.silent == 1 else f"last {series.silent} campaigns"
    return f"no run of the {last} completed with a finite value, so nothing is known of the end"


def _end_lacks_values(series: Series, false_alarms: float, permutations: int) -> str | None:
    """Refuse if more runs lack a value in the newest level, of values or of their lack."""
    nights = series.nights
    lacking = [night.left_out / (night.left_out + len(night.values)) for night in nights]
    if not any(lacking):
        return None
    points = change_points(lacking, false_alarms=false_alarms, permutations=permutations)
    begins = {*(begin for begin, _ in series.levels), *(point.index for point in points)}
    if min(lacking[-LEAST:]) > max(lacking[:-LEAST]):
        begins.add(len(nights) - LEAST)
    *_, before, newest, end = sorted({*begins, len(nights), -1})
    if before < 0:
        return None
    (left, of_left), (right, of_right) = (
        (sum(n.left_out for n in part), sum(n.left_out + len(n.values) for n in part))
        for part in (nights[before:newest], nights[newest:end])
    )
    if right * of_left <= left * of_right:
        return None
    return (
        f"{right} of {of_right} runs since {nights[newest].campaign} have no finite value, but "
        f"{left} of {of_left} before, so that values alone do not tell whether it got worse"
    )


def _end_is_far(series: Series, threshold: float) -> str | None:
    means = _means(series)[series.levels[-1][0] :]
    if len(means) < _ENOUGH_TO_TELL:
        return None
    low, high = reach(np.asarray(means[:-LEAST]))
    level, end = (low + high) / 2, means[-LEAST:]
    above = min(end) > max(high, level * (1 + threshold))
    if not above and max(end) >= min(low, level * (1 - threshold)):
        return None
    return (
        f"the last {LEAST} campaigns are all far {'above' if above else 'below'} those before "
        "them, but a change there cannot be distinguished from chance yet: look again after more"
    )


def _means(series: Series) -> list[float]:
    return [float(np.mean(night.values)) for night in series.nights]


def _p_of_any(series: Series, permutations: int) -> float:
    values = winsorised(np.asarray(_means(series)))
    random = np.random.default_rng(1)
    return stretch(values, permutations, random)[1]


def _with_changes(series: Series, points: Sequence[ChangePoint], threshold: float) -> Series:
    """Add the levels between the places where the mean changes, and the changes."""
    means = _means(series)
    begins = [0, *(point.index for point in points)]
    sides = list(pairwise([*begins, len(means)]))
    parts = [_level(means[begin:end]) for begin, end in sides]
    levels = [float(np.mean(part)) for part in parts]
    disturbed = [2 * sum(n.disturbed for n in series.nights[a:b]) > b - a for a, b in sides]
    changes = []
    for number, point in enumerate(points):
        before, after = (Spread.of(part) for part in parts[number : number + 2])
        effect = None
        if before.mean > 0 and after.mean >= 0 and not too_far_apart(after, before):
            effect = ratio_of_means(after, before)
        verdict: Verdict = "regression" if after.mean > before.mean else "improvement"
        if effect is not None:
            verdict = verdict_of(effect, threshold)
        near = series.nights[point.index - LEAST : point.index + LEAST]
        if len({night.software.get(MACHINE) for night in near} - {None}) > 1:
            verdict = "not_comparable"
        elif disturbed[number] != disturbed[number + 1]:
            verdict = "not_enough_evidence"
        changes.append(
            Change(
                index=point.index,
                p=point.p,
                before=before,
                after=after,
                effect=effect,
                verdict=verdict,
                lasts=levels[-1] > before.mean * (1 + threshold),
                software=_differences(near),
            )
        )
    drawn_near = [value for part in parts for value in part]
    return replace(
        series,
        changes=tuple(changes),
        levels=tuple(zip(begins, levels, strict=True)),
        odd=tuple(
            n
            for n, (mean, value) in enumerate(zip(means, drawn_near, strict=True))
            if mean != value
        ),
    )


def _level(nights: Sequence[float]) -> list[float]:
    """Return the values of the nights of one level, with those far from it drawn nearer."""
    if len(nights) < _ENOUGH_TO_TELL:
        return list(nights)
    return [float(value) for value in winsorised(np.asarray(nights))]


def _differences(nights: Sequence[Night]) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return what software changed from the first to the last night, or meanwhile and back."""
    names = sorted(
        {n for night in nights for n in night.software}, key=lambda n: (n != "commit", n)
    )
    changes: list[tuple[str, str | None, str | None]] = []
    for name in names:
        versions = [version for version, _ in groupby(n.software.get(name) for n in nights)]
        if versions[0] != versions[-1]:
            versions = [versions[0], versions[-1]]
        changes += [(name, old, new) for old, new in pairwise(versions)]
    return tuple(changes)


def _series_json(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "unit": series.unit,
        "cell": dict(series.cell),
        "p": series.p,
        "refused": series.refused,
        "least_side": series.least_side,
        "odd": [series.nights[n].campaign for n in series.odd],
        "nights": [
            {
                "campaign": night.campaign,
                "start": night.start.isoformat(),
                "runs": len(night.values),
                "left_out": night.left_out,
                "value": night.interval.value,
                "low": night.interval.low,
                "high": night.interval.high,
            }
            for night in series.nights
        ],
        "changes": [
            {
                "campaign": series.nights[change.index].campaign,
                "p": change.p,
                "before": change.before.mean,
                "after": change.after.mean,
                "ratio": finite(change.effect.value if change.effect else None),
                "low": finite(change.effect.low if change.effect else None),
                "high": finite(change.effect.high if change.effect else None),
                "verdict": change.verdict,
                "lasts": change.lasts,
                "software": [
                    {"name": name, "before": before, "after": after}
                    for name, before, after in change.software
                ],
            }
            for change in series.changes
        ],
    }
