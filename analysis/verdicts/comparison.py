"""Compare two sets of runs, or the levels of a factor, cell by cell.

A change of recordings must also show without the disturbed runs, because what disturbed one side
need not have disturbed the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, Literal

from roslens.analysis.environment import (
    Differences,
    merged_differences,
)
from roslens.analysis.estimate import Cell, cell_label, not_none
from roslens.analysis.statistics.factorial import BY_BLOCK, FactorEffect, Observation, effects
from roslens.analysis.statistics.ratio import (
    Effect,
    Spread,
    difference_of_means,
    least_runs,
)
from roslens.analysis.statistics.student import t_quantile
from roslens.analysis.verdicts.one_cell import (
    LEVEL,
    METHOD,
    Comparison,
    compare,
    verdict_of,
    without_value,
)
from roslens.analysis.verdicts.sides import (
    SPLIT,
    RunsByCause,
    Side,
    at_level,
    by_suite,
    environment_differences,
    estimates_by_cell,
    failed_runs,
    key_of,
    loss_notes,
    metrics_with_direction,
    runs_without_messages,
    silent_in_words,
)
from roslens.analysis.verdicts.statement import CHANGES, Verdict, corrected
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT, UsageError
from roslens.recording.manifest import Level

DEFAULT_METRICS = ("latency_p50", "latency_p99", "loss", "cpu")
_ORDER = (*CHANGES, "not_enough_evidence", "not_comparable", "no_difference")
FAR = 2
"""A change by this factor counts even if too few runs were undisturbed; not for fractions."""
SCHEMA_VERSION = 1
SideName = Literal["base", "new"]


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


def label_of(comparison: Comparison | Unmatched) -> str:
    """Return metric and cell as text."""
    return f"{comparison.metric}: {cell_label(comparison.cell)}"


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
    base, new = by_suite(base, new), by_suite(new, base)
    compared, unmatched, missing = _matched(base, new, metrics, threshold)
    compared = [_unless_silent(c, base, new) for c in compared]
    compared = _undisturbed(_corrected(compared), base, new, threshold)
    differing = environment_differences(base, new)
    notes = [
        *differing.in_words(),
        *loss_notes({"BASE": base, "NEW": new}),
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
    failed = [level for level in failed if level not in levels]
    if len(levels) + len(failed) < 2:
        names = sorted({name for cell in side.cells for name in cell})
        finding = f"has one level, {levels[0]}" if levels else "is in no run"
        raise UsageError(
            f"--by {factor}: this factor {finding}; the factors are: {', '.join(names) or 'none'}"
        )
    parts = {level: at_level(side, factor, level) for level in (*levels, *failed)}
    compared: list[Comparison] = []
    unmatched: list[Unmatched] = []
    notes = [f"all runs with {factor}={level} failed or cannot be read" for level in failed]
    notes += loss_notes({"the recordings": side})
    differing: list[Differences] = []
    for reference, level in (*combinations(levels, 2), *product(levels, failed)):
        both = (parts[reference], parts[level])
        # Of the machines of runs that failed nothing is known.
        differing.append(environment_differences(*both) if level in levels else Differences())
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
    all_failed = bool(failed) and not completed
    for metric in dict.fromkeys(metrics or DEFAULT_METRICS):
        left, right = estimates_by_cell(base, new, metric)
        if not left and not right:
            if metrics and not all_failed:
                known = metrics_with_direction(base, new)
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
    if not compared and not unmatched and not all_failed:
        raise UsageError(
            f"none of {', '.join(DEFAULT_METRICS)} was measured on either side; name another "
            f"with --metric: {metrics_with_direction(base, new)}"
        )
    return compared, unmatched, notes


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
        by_suite(side.undisturbed(), other) if side.undisturbed else side
        for side, other in ((base, new), (new, base))
    ]

    def checked(c: Comparison) -> Comparison:
        if c.verdict not in (*CHANGES, "no_difference"):
            return c
        left, right = (e.get(key_of(c.cell)) for e in estimates_by_cell(rest[0], rest[1], c.metric))
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


def _withdrawn_across_machines(
    compared: Sequence[Comparison],
    differing: Differences,
    across_machines: bool,
) -> list[Comparison]:
    """Withdraw the verdicts if the machines differ, unless `across_machines`."""
    if across_machines or not differing.of_machine:
        return list(compared)
    return [replace(c, verdict="not_comparable", confirmed=None) for c in compared]


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
