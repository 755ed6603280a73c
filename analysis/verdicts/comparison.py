"""Compare two sets of runs, cell by cell: by how much, how sure, and with what verdict.

The method is declared here, before any data: the ratio of the means over runs, on the log scale for
quantities that cannot be negative (`ratio.ratio_of_positive`), by Fieller's theorem for fractions
and slopes (`ratio.ratio_of_means`). Runs of the two sides count as independent: they were made at
different times, so that a repetition of one side shares nothing with that of the other. The method
needs only value, interval and number of runs of each side, so recordings and the metrics.json of a
report about them give the same verdict. But a change of recordings must also show without the
disturbed runs, because what disturbed one side need not have disturbed the other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, Literal

from roslens.analysis.environment import (
    Differences,
    Environment,
    differences,
    merged_differences,
)
from roslens.analysis.estimate import CLOCKS_APART, Cell, Estimate, cell_label, not_none
from roslens.analysis.measures.loss import MAY_BIAS
from roslens.analysis.measures.samples import WORK_TOPIC
from roslens.analysis.statistics import fractions, positive
from roslens.analysis.statistics.factorial import BY_BLOCK, FactorEffect, Observation, effects
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, Interval
from roslens.analysis.statistics.ranks import cliffs_delta, hodges_lehmann
from roslens.analysis.statistics.ratio import (
    TOO_FAR_APART,
    Effect,
    Spread,
    difference_of_means,
    least_runs,
    p_of_difference,
    ratio_of_means,
    ratio_of_positive,
    runs_for_ratio,
    too_far_apart,
)
from roslens.analysis.statistics.student import t_quantile
from roslens.analysis.verdicts.statement import CHANGES, Tested, Verdict, corrected
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT, UsageError
from roslens.recording.manifest import Level

DEFAULT_METRICS = ("latency_p50", "latency_p99", "loss", "cpu")
_ORDER = (*CHANGES, "not_enough_evidence", "not_comparable", "no_difference")
FAR = 2
"""A change by this factor counts even if too few runs were undisturbed; not for fractions."""
LEVEL = 0.95
_POWER = 1 + 0.8416 / 1.9600
SCHEMA_VERSION = 1

METHOD = (
    "ratio of means over runs: t on their logarithms, of fractions and slopes Fieller's theorem; "
    "the wider of Welch's and the pooled t; p two-sided, Holm over all comparisons"
)

SideName = Literal["base", "new"]
SPLIT = {"latency_p50": 0.5, "latency_p99": 0.99}
"""Metrics whose change is split by cause, with the quantile that each one is."""


@dataclass(frozen=True)
class RunsByCause:
    """The quantiles of `SPLIT` in each run of a cell, split by cause.

    Attributes
    ----------
    parts
        By metric, the ns per cause of each run; the causes add up to the run's quantile.
    kernel
        Whether the kernel's events show causes, for each run.
    blocks
        The block of each run.
    """

    parts: Mapping[str, list[Mapping[str, float]]]
    kernel: list[bool]
    blocks: list[str | None]


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison.

    Attributes
    ----------
    name
        Name of the side as the user gave it.
    estimates
        All estimates of the side.
    cells
        The cells of its runs, without topic or service.
    runs, left_out
        Number of runs, and of those that failed or cannot be read, and enter no estimate.
    failed
        The cells of those left out, as far as known.
    discarded_events
        Number of events lost by the tracer, over all runs.
    suites
        Names of the suites that its runs belong to, as far as known.
    excerpts
        For the runs that are parts of recordings, which parts, in words.
    environments
        Environments of the runs, in the order of `cells`; an unknown one is empty.
    disturbed
        Disturbed runs by name, with what disturbed them.
    ignored
        Factors that were left out of its cells, with the levels that they had.
    by_cause
        Function from cells to their causes; None where unknown, as from a metrics.json.
    undisturbed
        Function that returns the side without its disturbed runs; None if it has none, or if they
        cannot be left out, as from a metrics.json.
    """

    name: str
    estimates: Sequence[Estimate]
    cells: Sequence[Cell]
    runs: int
    left_out: int = 0
    discarded_events: int = 0
    suites: frozenset[str] = frozenset()
    excerpts: Sequence[str] = ()
    ignored: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    environments: Sequence[Environment] = ()
    disturbed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_cause: Callable[[Sequence[Cell]], Sequence[RunsByCause | None]] = field(
        default=lambda cells: [None] * len(cells), compare=False
    )
    undisturbed: Callable[[], Side] | None = field(default=None, compare=False)
    failed: Sequence[Cell] = ()


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


@dataclass(frozen=True)
class Unmatched:
    """A metric of a cell that only one side has."""

    metric: str
    cell: Cell
    only_in: SideName


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of one invocation.

    Attributes
    ----------
    by
        The factor whose levels were compared with each other, if both sides are the same; a cell
        then has ``level / reference`` for it.
    differences
        Differences between the environments of the two sides, or of any two levels.
    across_machines
        Whether sides from different machines are compared all the same.
    """

    base: Side
    new: Side
    threshold: float
    compared: Sequence[Comparison]
    unmatched: Sequence[Unmatched] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    by: str | None = None
    differences: Differences = field(default_factory=Differences)
    across_machines: bool = False

    @property
    def by_interest(self) -> list[Comparison]:
        """The comparisons ordered by verdict: changes first, among them the sure and large ones."""
        return sorted(
            self.compared, key=lambda c: (_ORDER.index(c.verdict), not c.confirmed, -c.distance)
        )

    @property
    def exit_code(self) -> int:
        """1 if a regression holds after Holm's correction, else 3 if evidence is lacking, else 0.

        The level of a factor cannot regress: with `by` the exit code is 3 or 0.
        """
        if self.by is None and any(
            c.verdict == "regression" and c.confirmed for c in self.compared
        ):
            return EXIT_VERDICT
        if self.unmatched or not self.compared or any(c.lacks_evidence for c in self.compared):
            return EXIT_NOT_ENOUGH_EVIDENCE
        return EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return all comparisons as plain data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "method": METHOD if self.by is None else f"{BY_BLOCK}; without blocks {METHOD}",
            "by": self.by,
            "threshold": self.threshold,
            **{
                name: {
                    "path": side.name,
                    "runs": side.runs,
                    "runs_left_out": side.left_out,
                    "discarded_events": side.discarded_events,
                    "disturbed": {name: list(why) for name, why in side.disturbed.items()},
                }
                for name, side in (("base", self.base), ("new", self.new))
            },
            "environment": {
                **self.differences.to_json(),
                "across_machines": self.across_machines,
            },
            "comparisons": [c.to_json() for c in self.compared],
            "unmatched": [
                {"metric": u.metric, "cell": dict(u.cell), "only_in": u.only_in}
                for u in self.unmatched
            ],
            "notes": list(self.notes),
            "exit_code": self.exit_code,
        }

    def json_text(self) -> str:
        """Return `to_json` as text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"


def compare_sides(
    base: Side,
    new: Side,
    metrics: Sequence[str] = (),
    threshold: float = 0.05,
    *,
    across_machines: bool = False,
) -> Comparisons:
    """Compare every metric of every cell that both sides have.

    For each metric the estimates of the runs' own cells are compared; if it has none (response
    times are one per service), all its estimates are.

    Parameters
    ----------
    metrics
        Names of metrics; if none, `DEFAULT_METRICS`, as far as either side has them.
    threshold
        T: relative changes within +- T do not matter, between 0 and 1.
    across_machines
        Compare sides from different machines; otherwise they are `not_comparable`.

    Raises
    ------
    UsageError
        Neither side has a requested metric, or it has no better direction.
    """
    _check(threshold)
    base, new = _by_suite(base, new), _by_suite(new, base)
    compared, unmatched, missing = _matched(base, new, metrics, threshold)
    compared = [_unless_silent(c, base, new) for c in compared]
    compared = _undisturbed(_corrected(compared), base, new, threshold)
    differing = _environment_differences(base, new)
    notes = [
        *differing.in_words(),
        *_loss_notes({"BASE": base, "NEW": new}),
        *missing,
        *differing.unknown_in_words(),
    ]
    return Comparisons(
        base,
        new,
        threshold,
        _with_causes(_withdrawn_across_machines(compared, differing, across_machines), base, new),
        unmatched,
        notes,
        differences=differing,
        across_machines=across_machines,
    )


def _corrected(compared: Sequence[Comparison]) -> list[Comparison]:
    """Confirm by Holm's correction; say of what is not confirmed how many runs probably suffice."""
    made = sum(c.p is not None for c in compared)
    return [
        replace(c, runs_needed=_runs_to_confirm(c, made)) if c.confirmed is False else c
        for c in corrected(compared, "comparisons")
    ]


def _runs_to_confirm(c: Comparison, made: int) -> int | None:
    """Return the runs (blocks) after which a change is probably sure among `made` comparisons.

    That is Bonferroni's level, so that Holm's correction may need fewer.
    """
    runs, sides = (min(c.base.runs, c.new.runs), 2) if c.blocks is None else (c.blocks, 1)
    if c.ratio is None or c.low is None or c.high is None:
        return None
    if not (0 < c.low <= c.ratio <= c.high < math.inf):
        return None
    half_width = math.log(c.high / c.low) / 2
    error = half_width / t_quantile((1 + c.level) / 2, sides * (runs - 1))
    needed = least_runs(
        runs * error**2, abs(math.log(c.ratio)), 1 - (1 - c.level) / made, 0.8, sides=sides
    )
    return needed and max(needed, runs + 1)


def runs_without_messages(side: Side, estimate: Estimate) -> int:
    """Count the runs of a cell that have nothing from which its estimate could be made.

    An estimate of a topic, service, timer or chain has it in its cell, unless it is the work topic.
    """
    cell = _cell_of_runs(side, estimate)
    of_work_topic = re.match(r"loss$|latency_|callback_duration_", estimate.metric)
    if estimate.metric.endswith("_bound") or not (of_work_topic or cell != estimate.cell):
        return 0
    return max(0, sum(run_cell == cell for run_cell in side.cells) - estimate.runs)


def _cell_of_runs(side: Side, estimate: Estimate) -> Cell:
    """Return the cell of an estimate without topic or service."""
    factors = {name for cell in (*side.cells, *side.failed) for name in cell}
    return {name: level for name, level in estimate.cell.items() if name in factors}


def failed_runs(side: Side, estimate: Estimate) -> int:
    """Count the runs left out that are of a cell, or may be, as their cell is not known."""
    cell = _cell_of_runs(side, estimate)
    return side.left_out - sum(run_cell != cell for run_cell in side.failed)


def silent_in_words(silent: int, estimate: Estimate, of: str = "") -> str:
    """Say what `runs_without_messages` means; a message without a callback has no latency."""
    noun = next(noun for start, noun in _NOUNS.items() if estimate.metric.startswith(start))
    return f"{silent} of {silent + estimate.runs} runs{of} had no {noun}"


_NOUNS = {
    "loss": "message of it",
    "latency": "message of it with a latency",
    "service_latency": "call of it with a latency",
    "callback_duration": "execution of its callback",
    "period": "two publications of it in a row",
    "timer_jitter": "two executions of the timer's callback in a row",
    "chain_rate": "instance of the chain, or lost too many events for a rate",
    "chain_complete": "instance of which it is known whether it reached the chain's end",
    "response_time": "instance that reached the chain's end",
    "": "value of it",
}
"""What a run lacks that has no value of a metric, by the beginning of the metric's name."""


def without_value(estimate: Estimate, cell: Cell) -> Estimate:
    """Return the same metric of a cell none of whose runs has a value of it."""
    return replace(
        estimate, cell=cell, value=None, low=None, high=None, runs=0, samples=0,
        effective_samples=None, bounds=None, per_run=(),
        refused="no run of the cell has a value of it",
    )  # fmt: skip


def _unless_silent(
    c: Comparison,
    base: Side,
    new: Side,
    names: tuple[object, object] = ("BASE", "NEW"),
    *,
    either: bool = False,
) -> Comparison:
    """Withdraw "no worse" if a larger part of NEW's than of BASE's runs had nothing to measure.

    Runs that failed had nothing, either. If neither side is the old one (`either`), the same holds
    the other way round.
    """
    sides = ((base, c.base), (new, c.new))
    silent = [runs_without_messages(side, e) for side, e in sides]
    notes = [
        silent_in_words(count, e, f" of {name}")
        for count, (_, e), name in zip(silent, sides, names, strict=True)
        if count
    ]
    failed = [failed_runs(side, e) for side, e in sides]
    runs = c.base.runs, c.new.runs
    verdict = c.verdict
    for one, other, no_worse in ((1, 0, "improvement"), (0, 1, "regression"))[: 1 + either]:
        of_silent, of_failed = (
            count[one] * runs[other] > count[other] * runs[one] for count in (silent, failed)
        )
        if (of_silent or of_failed) and c.verdict in ("no_difference", no_worse):
            verdict = "not_enough_evidence"
            text = f"a larger part of the runs failed in {names[one]} than in {names[other]}"
            notes += [text] * of_failed
    return replace(c, verdict=verdict, notes=(*c.notes, *notes))


def _undisturbed(
    compared: Sequence[Comparison], base: Side, new: Side, threshold: float
) -> list[Comparison]:
    """Withdraw changes that do not show without the disturbed runs, and those that only then do."""
    told = any(c.verdict in (*CHANGES, "no_difference") for c in compared)
    if not told or not (base.undisturbed or new.undisturbed):
        return list(compared)
    rest = [
        _by_suite(side.undisturbed(), other) if side.undisturbed else side
        for side, other in ((base, new), (new, base))
    ]

    def checked(c: Comparison) -> Comparison:
        if c.verdict not in (*CHANGES, "no_difference"):
            return c
        left, right = (e.get(key_of(c.cell)) for e in _by_cell(rest[0], rest[1], c.metric))
        again: Verdict = "not_enough_evidence"
        known = False
        if left and right:
            comparison = compare(left, right, threshold)
            again, known = comparison.verdict, comparison.low is not None
        if c.verdict == "no_difference" and again not in CHANGES:
            return c
        if again == c.verdict or (not known and _exceeds_disturbance(c)):
            return c
        note = f"{c.verdict} by all runs, but {again} without the disturbed ones; record again"
        return replace(
            c, verdict="not_enough_evidence", confirmed=None, doubted=c.verdict,
            notes=(*c.notes, note),
        )  # fmt: skip

    return [checked(c) for c in compared]


def _exceeds_disturbance(c: Comparison) -> bool:
    """Return whether a change exceeds what disturbed runs show without one (docs/comparing.md)."""
    if c.low is None or c.high is None:
        return False
    return c.base.unit != "1" and (c.low >= FAR or c.high <= 1 / FAR)


def _environment_differences(base: Side, new: Side) -> Differences:
    """Return differences between runs of the same cell; between all runs if no cell is the same."""
    sides = []
    for side in (base, new):
        of_cell: dict[Key, list[Environment]] = {}
        for cell, environment in zip(side.cells, side.environments, strict=False):
            of_cell.setdefault(key_of(cell), []).append(environment)
        sides.append(of_cell)
    left, right = sides
    common = [key for key in left if key in right]
    if not common:
        return differences(base.environments, new.environments)
    return merged_differences([differences(left[key], right[key]) for key in common])


def _withdrawn_across_machines(
    compared: Sequence[Comparison],
    differing: Differences,
    across_machines: bool,
) -> list[Comparison]:
    """Withdraw the verdicts if the machines differ, unless `across_machines`."""
    if across_machines or not differing.of_machine:
        return list(compared)
    return [replace(c, verdict="not_comparable", confirmed=None) for c in compared]


def compare_levels(
    side: Side,
    factor: str,
    observed: Mapping[str, Sequence[Observation]],
    metrics: Sequence[str] = (),
    threshold: float = 0.05,
    *,
    across_machines: bool = False,
) -> Comparisons:
    """Compare the levels of a factor pairwise, with all other factors alike.

    If at least three blocks (repetitions) have a run of both levels, the ratio is that of geometric
    means within blocks (`factorial.effects`), as in the executors report; otherwise the levels
    count as independent sides.

    Parameters
    ----------
    observed
        By metric, one value per run with its cell and block; empty if runs are not known.
    metrics, threshold, across_machines
        See `compare_sides`.

    Raises
    ------
    UsageError
        The factor has fewer than two levels; or as in `compare_sides`.
    """
    _check(threshold)
    levels = list(dict.fromkeys(cell[factor] for cell in side.cells if factor in cell))
    failed = list(dict.fromkeys(cell[factor] for cell in side.failed if factor in cell))
    failed = [level for level in failed if level not in levels] if levels else []
    if len(levels) + len(failed) < 2:
        names = sorted({name for cell in side.cells for name in cell})
        finding = f"has one level, {levels[0]}" if levels else "is in no run"
        raise UsageError(
            f"--by {factor}: this factor {finding}; the factors are: {', '.join(names) or 'none'}"
        )
    parts = {level: _at_level(side, factor, level) for level in (*levels, *failed)}
    compared: list[Comparison] = []
    unmatched: list[Unmatched] = []
    notes = [f"all runs with {factor}={level} failed or cannot be read" for level in failed]
    notes += _loss_notes({"the recordings": side})
    differing: list[Differences] = []
    for reference, level in (*combinations(levels, 2), *product(levels, failed)):
        both = (parts[reference], parts[level])
        # Of the machines of runs that failed nothing is known.
        differing.append(_environment_differences(*both) if level in levels else Differences())
        matched, one_sided, missing = _matched(parts[reference], parts[level], metrics, threshold)
        notes += [note for note in missing if note not in notes]
        blocked = []
        for c in matched:
            of_both = [
                Observation({factor: o.cell[factor]}, o.value, o.block)
                for o in observed.get(c.metric, ())
                if o.cell.get(factor) in (reference, level)
                and key_of({k: v for k, v in o.cell.items() if k != factor}) == key_of(c.cell)
            ]
            blocked.append(_within_blocks(c, factor, (reference, level), of_both, threshold))
        told = [
            _unless_silent(c, parts[reference], parts[level], (reference, level), either=True)
            for c in blocked
        ]
        kept = _withdrawn_across_machines(told, differing[-1], across_machines)
        split = _with_causes(kept, parts[reference], parts[level])
        compared += [_named(c, factor, f"{level} / {reference}") for c in split]
        unmatched += [
            Unmatched(
                u.metric, {factor: level if u.only_in == "new" else reference, **u.cell}, u.only_in
            )
            for u in one_sided
        ]
    merged = merged_differences(differing)
    return Comparisons(
        side,
        side,
        threshold,
        _corrected(compared),
        unmatched,
        [*merged.in_words(), *notes, *merged.unknown_in_words()],
        factor,
        merged,
        across_machines,
    )


def _check(threshold: float) -> None:
    if not 0 < threshold < 1:
        raise UsageError(f"threshold {threshold:g}: give a fraction between 0 and 1, such as 5%")


def _at_level(side: Side, factor: str, level: Level) -> Side:
    """Return the part of a side that has this level, without the factor."""

    def rest(cell: Cell) -> Cell:
        return {name: value for name, value in cell.items() if name != factor}

    failed = [rest(cell) for cell in side.failed if cell.get(factor) == level]
    return replace(
        side,
        # Of any level are those whose cell is not known.
        left_out=side.left_out - len(side.failed) + len(failed),
        failed=failed,
        by_cause=lambda cells: side.by_cause([{factor: level, **cell} for cell in cells]),
        estimates=[
            replace(e, cell=rest(e.cell)) for e in side.estimates if e.cell.get(factor) == level
        ],
        cells=[rest(cell) for cell in side.cells if cell.get(factor) == level],
        environments=[
            environment
            for cell, environment in zip(side.cells, side.environments, strict=False)
            if cell.get(factor) == level
        ],
    )


def _named(c: Comparison, factor: str, levels: str) -> Comparison:
    cell = {factor: levels, **c.cell}
    return replace(c, base=replace(c.base, cell=cell), new=replace(c.new, cell=cell))


def _within_blocks(
    c: Comparison,
    factor: str,
    levels: tuple[Level, Level],
    observed: Sequence[Observation],
    threshold: float,
) -> Comparison:
    """Redo a comparison by blocks; return it unchanged if that is not possible."""
    if c.ratio is None or 0 in (c.base.value, c.new.value):
        return c
    against = levels[0] if c.base.better == "lower" else levels[1]
    by_block = effects(observed, references={factor: against}, level=c.level) if observed else []
    if len(by_block) != 1 or by_block[0].method != BY_BLOCK or by_block[0].refused is not None:
        return c
    e = by_block[0]
    effect = _effect_of(e)
    (difference,) = effects(
        observed, scale="difference", references={factor: levels[0]}, level=c.level
    )
    out = f"; {e.left_out} incomplete ones are left out" if e.left_out else ""
    return replace(
        c,
        ratio=effect.value,
        low=effect.low,
        high=effect.high,
        p=effect.p,
        verdict=verdict_of(effect, threshold),
        difference=_effect_of(difference),
        blocks=e.replications,
        runs_needed=None,
        notes=(*c.notes, f"ratio of geometric means within {e.replications} blocks{out}"),
    )


def _matched(
    base: Side, new: Side, metrics: Sequence[str], threshold: float
) -> tuple[list[Comparison], list[Unmatched], list[str]]:
    """Compare every metric of every cell, before Holm's correction; also return what is missing.

    Of a cell without a completed run on either side nothing is known, which is a comparison, too.
    """
    compared: list[Comparison] = []
    unmatched: list[Unmatched] = []
    notes: list[str] = []
    completed = [key_of(cell) for cell in (*base.cells, *new.cells)]
    failed = {key_of(cell): cell for cell in (*base.failed, *new.failed)}
    nowhere = [cell for key, cell in failed.items() if key not in completed]
    for metric in dict.fromkeys(metrics or DEFAULT_METRICS):
        left, right = _by_cell(base, new, metric)
        if not left and not right:
            if metrics:
                known = _names(base, new)
                raise UsageError(f"neither side has metric {metric!r}; there are: {known}")
            notes.append(f"{metric} was measured on neither side")
            continue
        for key, estimate in left.items():
            if key in right:
                compared.append(compare(estimate, right[key], threshold))
            else:
                unmatched.append(Unmatched(metric, estimate.cell, "base"))
        unmatched += [
            Unmatched(metric, e.cell, "new") for key, e in right.items() if key not in left
        ]
        example = next(iter({**left, **right}.values()))
        compared += [
            compare(nothing, nothing, threshold)
            for nothing in (without_value(example, cell) for cell in nowhere)
        ]
    if not compared and not unmatched:
        raise UsageError(
            f"none of {', '.join(DEFAULT_METRICS)} was measured on either side; name another "
            f"with --metric: {_names(base, new)}"
        )
    return compared, unmatched, notes


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


def _refuse(base: Estimate, new: Estimate) -> None:
    if base.better is None:
        raise UsageError(f"{base.metric} has no better direction: neither change is a regression")
    if base.unit != new.unit:
        raise UsageError(
            f"{base.metric} is in {base.unit} in BASE and in {new.unit} in NEW: make both reports "
            "with the same version"
        )


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


def _on_logs(*estimates: Estimate) -> bool:
    return all(positive.METHOD in e.method for e in estimates)


def _with_causes(compared: Sequence[Comparison], base: Side, new: Side) -> list[Comparison]:
    """Add the causes of changes to the comparisons."""

    def has_causes(c: Comparison) -> bool:
        return c.metric in SPLIT and c.verdict in CHANGES

    cells = {key_of(c.cell): c.cell for c in compared if has_causes(c)}
    if not cells:
        return list(compared)
    of_side = (side.by_cause(list(cells.values())) for side in (base, new))
    causes = dict(zip(cells, zip(*of_side, strict=True), strict=True))
    return [_split(c, *causes[key_of(c.cell)]) if has_causes(c) else c for c in compared]


def _split(c: Comparison, base: RunsByCause | None, new: RunsByCause | None) -> Comparison:
    if base is None or new is None:
        return c
    runs = [side.parts[c.metric] for side in (base, new)]
    why = None
    if len({*base.kernel, *new.kernel}) > 1:
        why = "the kernel's events were recorded in some of the runs only, and causes need the same"
    elif not all(all(side) for side in runs):
        why = "a run has no message whose publication and end of its callback were recorded"
    if why is not None:
        return replace(c, notes=(*c.notes, f"no causes: {why}"))

    def change(cause: str) -> Effect:
        left, right = ([parts.get(cause, 0.0) for parts in side] for side in runs)
        if c.blocks is None:
            return difference_of_means(Spread.of(right), Spread.of(left), LEVEL)
        observed = [
            Observation({"side": number}, value, block)
            for number, (values, side) in enumerate(((left, base), (right, new)))
            for value, block in zip(values, side.blocks, strict=True)
        ]
        return _effect_of(effects(observed, scale="difference", level=LEVEL)[0])

    names = {cause: None for side in runs for parts in side for cause in parts}
    causes = [(name, change(name)) for name in names]
    return replace(c, causes=tuple(sorted(causes, key=lambda cause: -abs(cause[1].value))))


def _effect_of(effect: FactorEffect) -> Effect:
    value, low, high, p = map(not_none, (effect.value, effect.low, effect.high, effect.p))
    return Effect(value, low, high, p)


def _no_ratio(worse: Spread, better: Spread, upper: Estimate, lower: Estimate) -> str | None:
    if worse.mean < 0 or better.mean < 0:
        return "a negative mean has no ratio"
    either = _on_logs(upper, lower) and too_far_apart(better, worse)
    return TOO_FAR_APART if either or too_far_apart(worse, better) else None


def verdict_of(effect: Effect, threshold: float) -> Verdict:
    """Return the verdict on the interval of a ratio; above 1 is worse."""
    if effect.low > 1 and effect.high >= 1 + threshold:
        return "regression"
    if effect.high < 1 and effect.low <= 1 - threshold:
        return "improvement"
    if 1 - threshold < effect.low and effect.high < 1 + threshold:
        return "no_difference"
    return "not_enough_evidence"


def always_infinite(estimate: Estimate) -> bool:
    """Return whether a metric is infinite in each of enough runs, as latencies of lost messages."""
    return (
        estimate.value == math.inf
        and set(estimate.per_run) == {math.inf}
        and (estimate.runs >= MINIMUM_RUNS)
    )


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


def _ranks(base: Estimate, new: Estimate) -> dict[str, Any]:
    if not base.per_run or not new.per_run:
        return {}
    if any(map(math.isnan, (*base.per_run, *new.per_run))):
        return {}
    return {
        "shift": hodges_lehmann(new.per_run, base.per_run, LEVEL),
        "delta": cliffs_delta(new.per_run, base.per_run),
    }


def _by_suite(side: Side, opposite: Side) -> Side:
    """Return `side`, of one suite, with the suite as a factor as in `opposite`, of several."""
    if len(side.suites) != 1 or len(opposite.suites) < 2:
        return side
    (suite,) = side.suites

    def named(cell: Cell) -> Cell:
        return {"suite": suite, **cell}

    estimates = [replace(e, cell=named(e.cell)) for e in side.estimates]
    cells, failed = ([named(cell) for cell in members] for members in (side.cells, side.failed))
    return replace(side, estimates=estimates, cells=cells, failed=failed)


Key = tuple[tuple[str, Level], ...]


def _by_cell(base: Side, new: Side, metric: str) -> tuple[Mapping[Key, Estimate], ...]:
    """Return the estimates of a metric on both sides: those of the runs' own cells, if there are.

    If only one side has estimates of its runs' own cells (of a topic that all its runs name, while
    runs of the other name none), both are matched topic by topic.
    """
    both, own = [], []
    for side in (base, new):
        estimates = {key_of(e.cell): e for e in side.estimates if e.metric == metric}
        own_keys = {key_of(cell) for cell in side.cells}
        both.append(estimates)
        own.append({key: e for key, e in estimates.items() if key in own_keys})
    if all(estimates or not every for estimates, every in zip(own, both, strict=True)):
        return tuple(own)
    if any(own):
        both = [{key_of(e.cell): e for e in map(_with_topic, part.values())} for part in both]
    return tuple(both)


def _with_topic(estimate: Estimate) -> Estimate:
    """Return the estimate of a work topic as that of the topic that its definition names."""
    definition, _, topic = estimate.definition.rpartition(WORK_TOPIC)
    if not definition or ", " in topic:
        return estimate
    cell = {**estimate.cell, "topic": topic}
    return replace(estimate, cell=cell, definition=f"{definition}topic {topic}")


def key_of(cell: Cell) -> Key:
    """Return a key that equal cells share."""
    return tuple(sorted(cell.items()))


_MOST_NAMED = 5
"""Most disturbed runs of each side that a note names."""


def disturbed_in_words(side: Side, of: str = "") -> list[str]:
    """Return a note that names the disturbed runs of a side, and what disturbed them."""
    if not side.disturbed:
        return []
    clauses = [f"{run}: {', '.join(why)}" for run, why in side.disturbed.items()]
    if len(clauses) > _MOST_NAMED:
        clauses[_MOST_NAMED:] = [f"and {len(clauses) - _MOST_NAMED} more"]
    return [f"{len(side.disturbed)} of {side.runs} runs{of} disturbed: {'; '.join(clauses)}"]


def _loss_notes(sides: Mapping[str, Side]) -> list[str]:
    notes = []
    for name, side in sides.items():
        if side.discarded_events:
            notes.append(f"the tracer lost {side.discarded_events:,} events of {name}: {MAY_BIAS}")
        notes += disturbed_in_words(side, f" of {name}")
        if side.left_out:
            notes.append(
                f"{side.left_out} of {side.runs} runs of {name} failed or cannot be read, and are "
                "left out"
            )
    if len({tuple(sorted(side.excerpts)) for side in sides.values()}) > 1:
        for name, side in sides.items():
            if side.excerpts:
                parts = "; ".join(dict.fromkeys(side.excerpts))
                notes.append(
                    f"{len(side.excerpts)} of {side.runs} runs of {name} are parts of recordings "
                    f"({parts}), unlike those of the other side"
                )
    return notes


def _names(base: Side, new: Side) -> str:
    names = {e.metric for side in (base, new) for e in side.estimates if e.better is not None}
    return ", ".join(sorted(names)) or "none"


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


def label_of(comparison: Comparison | Unmatched) -> str:
    """Return metric and cell as text."""
    return f"{comparison.metric}: {cell_label(comparison.cell)}"
