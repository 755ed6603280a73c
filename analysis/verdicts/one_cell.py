"""Compare one metric of one cell on two sides: by how much, how sure, and with what verdict.

The method is declared here, before any data: the ratio of the means over runs, on the log scale for
quantities that cannot be negative (`ratio.ratio_of_positive`), by Fieller's theorem for fractions
and slopes (`ratio.ratio_of_means`). Runs of the two sides count as independent: they were made at
different times, so that a repetition of one side shares nothing with that of the other. The method
needs only value, interval and number of runs of each side, so recordings and the metrics.json of a
report about them give the same verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from roslens.analysis.estimate import CLOCKS_APART, Cell, Estimate, not_none
from roslens.analysis.statistics import fractions, positive
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, Interval
from roslens.analysis.statistics.ranks import cliffs_delta, hodges_lehmann
from roslens.analysis.statistics.ratio import (
    TOO_FAR_APART,
    Effect,
    Spread,
    difference_of_means,
    p_of_difference,
    ratio_of_means,
    ratio_of_positive,
    runs_for_ratio,
    too_far_apart,
)
from roslens.analysis.statistics.student import t_quantile
from roslens.analysis.verdicts.statement import CHANGES, Tested, Verdict
from roslens.recording import UsageError

LEVEL = 0.95
_POWER = 1 + 0.8416 / 1.9600
METHOD = (
    "ratio of means over runs: t on their logarithms, of fractions and slopes Fieller's theorem; "
    "the wider of Welch's and the pooled t; p two-sided, Holm over all comparisons"
)


@dataclass(frozen=True, kw_only=True)
class Comparison(Tested):
    """The comparison of one metric of one cell on both sides.

    Attributes
    ----------
    base, new
        The compared estimates.
    ratio, low, high
        NEW / BASE if lower is better, BASE / NEW if higher is better: above 1 is worse. Infinite
        if the lower term cannot be distinguished from zero; None if there is no ratio.
    difference
        Difference NEW - BASE in the metric's unit.
    shift
        Hodges and Lehmann's estimate of NEW - BASE; None without values per run.
    delta
        Cliff's delta, above 0 if NEW is larger; None without values per run.
    blocks
        Number of blocks within which the sides are compared; None: as independent sides.
    causes
        Parts of `difference` by cause, the largest first; they add up to it. Empty if the metric
        did not change or its causes are not known.
    doubted
        The verdict with the disturbed runs, of a change that does not show without them, or of no
        difference where a change does.
    """

    base: Estimate
    new: Estimate
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    difference: Effect | None = None
    shift: Interval | None = None
    delta: float | None = None
    blocks: int | None = None
    causes: tuple[tuple[str, Effect], ...] = ()
    doubted: Verdict | None = None

    @property
    def metric(self) -> str:
        """Name of the compared metric."""
        return self.base.metric

    @property
    def cell(self) -> Cell:
        """The cell, the same on both sides."""
        return self.base.cell

    @property
    def distance(self) -> float:
        """Distance of the ratio from 1 in the log; infinite if one side is zero or infinite."""
        if self.ratio is None:
            return math.inf if self.verdict in CHANGES else 0.0
        return abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else math.inf

    @property
    def minimum_detectable(self) -> float | None:
        """The least relative change that would probably (80 %) have been detected.

        That is one of 1.43 half widths of the interval; None if it has a bound of 0 or infinity.
        """
        if self.p is None or self.low is None or self.high is None:
            return None
        if self.low <= 0 or math.isinf(self.high):
            return None
        return math.expm1(_POWER / 2 * math.log(self.high / self.low))

    @property
    def lacks_evidence(self) -> bool:
        """Whether nothing can be said, or nothing after correction."""
        untold = self.verdict in ("not_enough_evidence", "not_comparable")
        return untold or self.confirmed is False

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data; non-finite numbers become null."""
        return {
            "metric": self.metric,
            "definition": self.base.definition,
            "better": self.base.better,
            "unit": self.base.unit,
            "cell": dict(self.cell),
            "verdict": self.verdict,
            "confirmed": self.confirmed,
            "doubted": self.doubted,
            "ratio": finite(self.ratio),
            "low": finite(self.low),
            "high": finite(self.high),
            "level": self.level,
            "p": self.p,
            "p_holm": self.p_holm,
            "difference": _bounds_json(self.difference),
            "hodges_lehmann": _bounds_json(self.shift),
            "cliffs_delta": self.delta,
            "minimum_detectable": self.minimum_detectable,
            "runs_needed": self.runs_needed,
            "causes": [{"cause": name, **(_bounds_json(e) or {})} for name, e in self.causes],
            "notes": list(self.notes),
            "base": _side_json(self.base),
            "new": _side_json(self.new),
        }


def compare(base: Estimate, new: Estimate, threshold: float = 0.05) -> Comparison:
    """Compare one metric of one cell; Holm's correction comes later, over all comparisons.

    Raises
    ------
    UsageError
        The metric has no better direction, or a different unit on each side.
    """
    _refuse(base, new)
    notes = []
    if (base.definition, base.unit) != (new.definition, new.unit):
        notes.append("the two sides define it differently: see the definitions in the JSON")
    if len(set(base.per_run)) > 1 and sorted(base.per_run) == sorted(new.per_run):
        notes.append("the runs of both sides have the very same values: is it the same data?")
    result = Comparison(base=base, new=new, **_ranks(base, new))
    spreads = spread_of(base), spread_of(new)
    left, right = spreads
    if isinstance(left, str) or isinstance(right, str):
        named = zip(("base", "new"), spreads, strict=True)
        reasons = [f"{name}: {reason}" for name, reason in named if isinstance(reason, str)]
        shown = [f"both: {left}"] if left == right else reasons
        return _where_infinite(replace(result, notes=(*notes, *shown)), *spreads)
    result = replace(result, difference=difference_of_means(right, left, LEVEL))
    worse, better = (right, left) if base.better == "lower" else (left, right)
    upper, lower = (new, base) if base.better == "lower" else (base, new)
    reason = _no_ratio(worse, better, upper, lower)
    if reason is not None:
        return replace(result, notes=(*notes, reason))
    if left.mean == right.mean == 0:
        fewest = min((base, new), key=lambda e: e.samples)
        notes.append(f"zero in every run of both sides{_ratio_refused(fewest)}")
        return replace(result, p=1.0, verdict="no_difference", notes=tuple(notes))
    if left.mean == 0 or right.mean == 0:
        effect = _with_zero(upper, lower)
        side, zero = ("base", base) if left.mean == 0 else ("new", new)
        notes.append(f"zero in every run of {side}{_ratio_refused(zero)}")
    else:
        ratio_of = ratio_of_positive if _on_logs(upper, lower) else ratio_of_means
        effect = _whatever_clocks(ratio_of(worse, better, LEVEL), upper, lower)
        if math.isinf(effect.high):
            notes.append(
                f"{'base' if base.better == 'lower' else 'new'} cannot be distinguished from zero"
            )
    verdict = verdict_of(effect, threshold)
    result = replace(
        result,
        ratio=effect.value,
        low=effect.low,
        high=effect.high,
        p=effect.p,
        verdict=verdict,
    )
    if verdict == "not_enough_evidence" and left.mean > 0 and right.mean > 0:
        off = abs(effect.value - 1)
        needed = runs_for_ratio(worse, better, max(off, threshold - off), LEVEL)
        # The present number of runs was not enough, whatever the formula says.
        needed = needed and max(needed, min(base.runs, new.runs) + 1)
        result = replace(result, runs_needed=needed)
    return replace(result, notes=tuple(notes))


def without_value(estimate: Estimate, cell: Cell) -> Estimate:
    """Return the same metric of a cell none of whose runs has a value of it."""
    return replace(
        estimate, cell=cell, value=None, low=None, high=None, runs=0, samples=0,
        effective_samples=None, bounds=None, per_run=(),
        refused="no run of the cell has a value of it",
    )  # fmt: skip


def _ranks(base: Estimate, new: Estimate) -> dict[str, Any]:
    if not base.per_run or not new.per_run:
        return {}
    if any(map(math.isnan, (*base.per_run, *new.per_run))):
        return {}
    return {
        "shift": hodges_lehmann(new.per_run, base.per_run, LEVEL),
        "delta": cliffs_delta(new.per_run, base.per_run),
    }


def _refuse(base: Estimate, new: Estimate) -> None:
    if base.better is None:
        raise UsageError(f"{base.metric} has no better direction: neither change is a regression")
    if base.unit != new.unit:
        raise UsageError(
            f"{base.metric} is in {base.unit} in BASE and in {new.unit} in NEW: make both reports "
            "with the same version"
        )


def _where_infinite(c: Comparison, left: Spread | str, right: Spread | str) -> Comparison:
    """Judge a comparison if one side is infinite in all runs and the other has an interval."""
    if isinstance(left, Spread) and always_infinite(c.new):
        worse = c.base.better == "lower"
    elif isinstance(right, Spread) and always_infinite(c.base):
        worse = c.base.better != "lower"
    else:
        return c
    verdict: Verdict = "regression" if worse else "improvement"
    return replace(c, verdict=verdict, confirmed=True)


def always_infinite(estimate: Estimate) -> bool:
    """Return whether a metric is infinite in each of enough runs, as latencies of lost messages."""
    return (
        estimate.value == math.inf
        and set(estimate.per_run) == {math.inf}
        and (estimate.runs >= MINIMUM_RUNS)
    )


def _no_ratio(worse: Spread, better: Spread, upper: Estimate, lower: Estimate) -> str | None:
    if worse.mean < 0 or better.mean < 0:
        return "a negative mean has no ratio"
    either = _on_logs(upper, lower) and too_far_apart(better, worse)
    return TOO_FAR_APART if either or too_far_apart(worse, better) else None


def _on_logs(*estimates: Estimate) -> bool:
    return all(positive.METHOD in e.method for e in estimates)


def _whatever_clocks(ratio: Effect, upper: Estimate, lower: Estimate) -> Effect:
    """Widen a ratio to hold however far the hosts' clocks are apart within their bounds.

    The bounds are no scatter of runs: all runs of a side may be wrong by the same amount.
    """
    if not any(CLOCKS_APART in side.method for side in (upper, lower)):
        return ratio
    (least, most), (below, above) = _bounds(upper), _bounds(lower)
    low = min(ratio.low, least / above)
    high = max(ratio.high, most / below if below > 0 else math.inf)
    return Effect(ratio.value, low, high, max(ratio.p, 1 - LEVEL) if low <= 1 <= high else ratio.p)


def verdict_of(effect: Effect, threshold: float) -> Verdict:
    """Return the verdict on the interval of a ratio; above 1 is worse."""
    if effect.low > 1 and effect.high >= 1 + threshold:
        return "regression"
    if effect.high < 1 and effect.low <= 1 - threshold:
        return "improvement"
    if 1 - threshold < effect.low and effect.high < 1 + threshold:
        return "no_difference"
    return "not_enough_evidence"


def spread_of(estimate: Estimate) -> Spread | str:
    """Return mean and deviation over runs behind an estimate, or why there are none.

    The deviation is derived from the interval, half = t(k - 1) s / sqrt(k), by the wider half, as
    the other bound may be cut off at 0 or 1; for fractions as in `fractions`, for positive
    quantities as in `positive`.
    """
    critical = math.nan
    if estimate.refused is None and estimate.low is not None:
        if estimate.runs < 2:
            return (
                f"its interval is that of one run, which says nothing about how much runs differ; "
                f"{MINIMUM_RUNS} runs or more of the cell are needed"
            )
        critical = t_quantile((1 + estimate.level) / 2, estimate.runs - 1)
        if not 0 < critical < math.inf:
            return f"its interval is of the level {estimate.level:g}, which gives no deviation"
    if fractions.METHOD in estimate.method:
        return fractions.spread_behind(estimate)
    if estimate.refused is not None:
        return estimate.refused
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "it has no interval"
    if not math.isfinite(estimate.value):
        return "its value is not finite"
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    if estimate.unit == "1" and estimate.low == 0 and estimate.high == 1:
        return "its interval is all of 0..1: more runs are needed"
    if positive.METHOD in estimate.method and estimate.value > 0:
        behind = positive.deviation_behind(
            estimate.value, estimate.low, estimate.high, estimate.runs, estimate.level
        )
        return Spread(estimate.value, behind, estimate.runs)
    return Spread(estimate.value, half * math.sqrt(estimate.runs) / critical, estimate.runs)


def _with_zero(upper: Estimate, lower: Estimate) -> Effect:
    """Return the ratio upper / lower if one of them is zero in every run.

    A zero is only known up to a bound, its worst case: that of its interval or, for a fraction,
    what its messages alone leave possible. 1 is then excluded only if the test of no difference,
    which accounts for differences between runs, rejects it.
    """
    top, bottom = spread_of(upper), spread_of(lower)
    assert isinstance(top, Spread)
    assert isinstance(bottom, Spread)
    p = p_of_difference(top, bottom)
    if bottom.mean == 0:
        low, bound = _bounds(upper)[0], _bounds(lower)[1]
        least = low / bound if bound > 0 else (math.inf if low > 0 else 0.0)
        least = least if p < 1 - LEVEL else min(least, 1.0)
        return Effect(math.inf, least, math.inf, p)
    low = _bounds(lower)[0]
    largest = _bounds(upper)[1] / low if low > 0 else math.inf
    largest = largest if p < 1 - LEVEL else max(largest, 1.0)
    return Effect(0.0, 0.0, largest, p)


def _ratio_refused(zero: Estimate) -> str:
    return f", none of {zero.samples:,}" if fractions.METHOD in zero.method else ""


def _bounds(estimate: Estimate) -> tuple[float, float]:
    if fractions.METHOD in estimate.method and estimate.value in (0.0, 1.0):
        return fractions.bounds_of_the_same(estimate)
    return max(0.0, not_none(estimate.low)), not_none(estimate.high)


def finite(value: float | None) -> float | None:
    """Return the value, or None if it is not finite, which JSON cannot express."""
    return None if value is None or not math.isfinite(value) else value


def _bounds_json(interval: Effect | Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {name: finite(getattr(interval, name)) for name in ("value", "low", "high")}


def _side_json(estimate: Estimate) -> dict[str, Any]:
    data = estimate.to_json()
    names = ("definition", "value", "low", "high", "level", "runs", "samples", "refused")
    return {
        **{name: data[name] for name in names},
        "per_run": [finite(value) for value in estimate.per_run] or None,
    }
