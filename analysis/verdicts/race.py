"""Decide whether a race of A and B is over: `comparison`'s verdicts, by a confidence sequence."""

from __future__ import annotations

import math

from roslens.analysis.estimate import Better
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.statistics.sequential import RatioInterval
from roslens.analysis.verdicts.one_cell import verdict_of
from roslens.analysis.verdicts.statement import Verdict


def decided(
    interval: RatioInterval,
    threshold: float | None,
    precision: float | None = None,
    better: Better = "lower",
) -> Verdict | None:
    """Return the verdict on B, or None if more pairs are needed.

    Parameters
    ----------
    interval
        Interval of B / A from `confidence_sequence`, valid however often one asks.
    threshold
        Relative difference that matters: the race is over once `verdict_of` finds B worse, better
        or no different. None: it goes on until it is as precise as wanted.
    precision
        Full width of the interval, relative to its value, at which the race is over, too; the
        verdict may then be `not_enough_evidence`. None: there is no such end.
    better
        If higher is better, A / B is judged, as in `compare`.
    """
    low, high, value = interval.low, interval.high, interval.value
    if better == "higher":
        low, high = 1 / high, 1 / low if low > 0 else math.inf
        value = 1 / value
    verdict = verdict_of(Effect(value, low, high, math.nan), threshold or 0.0)
    if threshold is not None and verdict != "not_enough_evidence":
        return verdict
    narrow = precision is not None and interval.high - interval.low <= precision * interval.value
    return verdict if narrow else None
