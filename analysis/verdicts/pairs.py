"""Compare the levels of a factor pairwise within the same conditions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from roslens.analysis.environment import differences
from roslens.analysis.estimate import Cell, not_none
from roslens.analysis.statistics.factorial import FactorEffect, Observation, effects
from roslens.analysis.statistics.multiplicity import holm_of_known
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.one_cell import verdict_of
from roslens.analysis.verdicts.statement import Verdict
from roslens.recording.manifest import Level

# Neither level is the worse one.
_NEUTRAL: Mapping[Verdict, Verdict] = {"regression": "more", "improvement": "less"}


@dataclass(frozen=True)
class Pair:
    """A comparison of two levels of a factor, all other factors alike.

    Attributes
    ----------
    metric
        Name of the compared metric.
    conditions
        The levels of the other factors.
    level, reference
        The two levels of the factor.
    ratio, low, high
        Ratio level / reference with its interval; None if refused.
    p_holm
        Two-sided p of no difference, adjusted for all pairs of the metric.
    by_itself
        Verdict by the rule of comparisons (docs/comparing.md), with more and less instead of
        regression and improvement.
    verdict
        Verdict after Holm's correction: a difference that does not survive it is
        not_enough_evidence.
    over
        Number of conditions that the ratio averages (geometric mean); if several, `conditions` is
        empty.
    across_machines
        Whether the runs of the two levels were made on different machines.
    """

    metric: str
    conditions: Cell
    level: Level
    reference: Level
    ratio: float | None
    low: float | None
    high: float | None
    p_holm: float | None
    by_itself: Verdict
    verdict: Verdict
    refused: str | None = None
    over: int = 1
    across_machines: bool = False


def pairs(
    metric: str,
    observations: Sequence[Observation],
    factor: str,
    *,
    threshold: float = 0.05,
    level: float = 0.95,
) -> list[Pair]:
    """Compare every pair of levels of `factor` in each combination of the other factors.

    The ratio is of geometric means, block by block if the runs have blocks
    (`roslens.analysis.statistics.factorial`), with Holm's correction over all pairs.

    Parameters
    ----------
    observations
        One value per run; the cells have all factors that tell runs apart.
    threshold
        Relative differences below this do not matter.
    """
    compared: list[Pair] = []
    p_values: list[float | None] = []
    for rest, members in _conditions(observations, factor).items():
        levels = list(dict.fromkeys(o.cell[factor] for o in members))
        for reference, other in combinations(levels, 2):
            two = [
                Observation({factor: o.cell[factor]}, o.value, o.block)
                for o in members
                if o.cell[factor] in (reference, other)
            ]
            (effect,) = effects(two, references={factor: reference}, level=level)
            fewest = min(sum(o.cell[factor] == side for o in two) for side in (reference, other))
            if fewest < MINIMUM_RUNS:
                reason = f"{fewest} runs; at least {MINIMUM_RUNS} are needed"
                effect = replace(effect, low=None, high=None, p=None, refused=reason)
            sides = (
                [o.environment for o in members if o.cell[factor] == side]
                for side in (reference, other)
            )
            compared.append(
                replace(
                    _pair(metric, dict(rest), effect, threshold),
                    across_machines=differences(*sides).of_machine,
                )
            )
            p_values.append(effect.p)
    return _corrected(compared, p_values, 1 - level)


def overall_pairs(
    metric: str,
    observations: Sequence[Observation],
    factor: str,
    *,
    threshold: float = 0.05,
    level: float = 0.95,
) -> list[Pair]:
    """Compare every pair of levels of `factor`, on average over the conditions with runs of both.

    The result is the main effect of the two levels, in which every condition has the same weight:
    how the levels differ on average, whatever a single condition says. Of an incomplete design the
    largest complete part counts: conditions that share the same three or more blocks; without such,
    all runs of the conditions that have two runs of each level. Conditions with a value that is not
    above 0, and pairs with fewer than two conditions, are left out.

    Parameters
    ----------
    observations, threshold
        See `pairs`.
    """
    conditions = _conditions(observations, factor)
    levels = list(dict.fromkeys(o.cell[factor] for rest in conditions.values() for o in rest))
    compared: list[Pair] = []
    p_values: list[float | None] = []
    for two in combinations(levels, 2):
        design = _complete(
            [_comparable_runs(members, factor, two) for members in conditions.values()], factor
        )
        if len(design) < 2:
            continue
        narrow = [
            Observation({factor: o.cell[factor], "conditions": index}, o.value, o.block)
            for index, members in enumerate(design)
            for o in members
        ]
        given = effects(narrow, references={factor: two[0]}, interactions=False, level=level)
        (effect,) = (e for e in given if e.factors == (factor,))
        compared.append(replace(_pair(metric, {}, effect, threshold), over=len(design)))
        p_values.append(effect.p)
    return _corrected(compared, p_values, 1 - level)


def _comparable_runs(
    members: Sequence[Observation], factor: str, levels: tuple[Level, Level]
) -> list[Observation]:
    """Return runs of two levels in one condition; none if a level or a value for a ratio lacks."""
    runs = [o for o in members if o.cell[factor] in levels]
    whole = {o.cell[factor] for o in runs} == {*levels}
    return runs if whole and all(math.isfinite(o.value) and o.value > 0 for o in runs) else []


def _complete(conditions: Sequence[list[Observation]], factor: str) -> list[list[Observation]]:
    """Return the largest part of a two-level design with the same blocks in every condition."""
    with_blocks = [(members, _blocks(members, factor)) for members in conditions if members]
    common = [
        block for block, _ in Counter(b for _, blocks in with_blocks for b in blocks).most_common()
    ]
    best: list[list[Observation]] = []
    most = 0
    for count in range(MINIMUM_RUNS, len(common) + 1):
        chosen = {*common[:count]}
        whole = [
            [o for o in members if o.block in chosen]
            for members, blocks in with_blocks
            if chosen <= blocks
        ]
        if len(whole) > 1 and count * len(whole) > most:
            best, most = whole, count * len(whole)
    return best or [
        [replace(o, block=None) for o in members]
        for members, _ in with_blocks
        if min(Counter(o.cell[factor] for o in members).values()) > 1
    ]


def _blocks(members: Sequence[Observation], factor: str) -> set[str]:
    """Return the blocks in which both levels were run."""
    levels: dict[str, set[Level]] = {}
    for o in members:
        if o.block is not None:
            levels.setdefault(o.block, set()).add(o.cell[factor])
    return {block for block, block_levels in levels.items() if len(block_levels) > 1}


def _conditions(
    observations: Sequence[Observation], factor: str
) -> dict[tuple[tuple[str, Level], ...], list[Observation]]:
    """Group the observations with a level of `factor` by the levels of all other factors."""
    by_condition: dict[tuple[tuple[str, Level], ...], list[Observation]] = {}
    for o in observations:
        if factor in o.cell:
            rest = tuple((name, value) for name, value in o.cell.items() if name != factor)
            by_condition.setdefault(rest, []).append(o)
    return by_condition


def _pair(metric: str, conditions: Cell, effect: FactorEffect, threshold: float) -> Pair:
    """Build a pair, before Holm's correction."""
    verdict: Verdict = "not_enough_evidence"
    if effect.value is not None and effect.low is not None and effect.high is not None:
        ratio = Effect(effect.value, effect.low, effect.high, not_none(effect.p))
        judged = verdict_of(ratio, threshold)
        verdict = _NEUTRAL.get(judged, judged)
    return Pair(
        metric, conditions, effect.levels[0], effect.references[0], effect.value, effect.low,
        effect.high, None, verdict, verdict, effect.refused,
    )  # fmt: skip


def _corrected(pairs: list[Pair], p_values: list[float | None], alpha: float) -> list[Pair]:
    corrected = []
    for pair, p_holm in zip(pairs, holm_of_known(p_values), strict=True):
        verdict = pair.verdict
        if verdict in {"more", "less"} and (p_holm is None or p_holm > alpha):
            verdict = "not_enough_evidence"
        corrected.append(replace(pair, p_holm=p_holm, verdict=verdict))
    return corrected
