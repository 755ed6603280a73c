"""Estimate main effects and interactions, with intervals, of experiments with several factors.

Every effect is a contrast of cells. In a randomised block design the contrast is computed within
each block, where all runs were made close together, and Student's t over the blocks gives its
interval. That holds its level whatever the variances of cells and however blocks and factors
interact; an additive model (and a mixed model, whose Wald intervals use the normal distribution) is
narrower only because it assumes otherwise, and covers too little at 5 blocks (docs/calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from statistics import fmean, variance
from typing import Literal

from roslens.analysis.environment import Environment
from roslens.analysis.estimate import Cell
from roslens.analysis.statistics.multiplicity import holm_of_known
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, mean_and_deviation, student_t
from roslens.analysis.statistics.student import t_quantile, t_two_sided
from roslens.recording.manifest import Level

Scale = Literal["ratio", "difference"]
Key = tuple[Level, ...]

BY_BLOCK = "contrast within each block, Student t over blocks"
BY_CELL = "contrast of means over runs, Welch and Satterthwaite"


@dataclass(frozen=True)
class Observation:
    """The value of one run.

    Attributes
    ----------
    block
        Block of the run, whose runs were made close together; None if that is not known.
    environment
        The machine and the software (`roslens.analysis.environment`); empty if not known.
    """

    cell: Cell
    value: float
    block: str | None = None
    environment: Environment = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class FactorEffect:
    """A main effect or an interaction of two factors.

    Attributes
    ----------
    factors
        Names of the factors: one for a main effect, two for an interaction.
    levels, references
        For each factor: the level, and the reference level that it is compared with.
    value, low, high
        On the scale asked for: a ratio of geometric means, or a difference of means, of level to
        reference, over all levels of the other factors. For an interaction: by how much the first
        factor's effect differs (ratio or difference of effects) between the second's level and its
        reference. None if refused.
    p, p_holm
        Two-sided p of no effect; `p_holm` is adjusted for all effects of the table.
    replications
        Number of blocks, or of runs if there are no blocks, that went into the effect.
    left_out
        Number of blocks that lack a run of a cell.
    """

    factors: tuple[str, ...]
    levels: Key
    references: Key
    scale: Scale
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    replications: int
    method: str
    p_holm: float | None = None
    left_out: int = 0
    refused: str | None = None

    @property
    def label(self) -> str:
        """Name such as ``executor: events / single``, with ``x`` between interacting factors."""
        sign = " / " if self.scale == "ratio" else " - "
        parts = zip(self.factors, self.levels, self.references, strict=True)
        return " x ".join(f"{name}: {level}{sign}{ref}" for name, level, ref in parts)


def effects(
    observations: Sequence[Observation],
    *,
    scale: Scale = "ratio",
    references: Mapping[str, Level] | None = None,
    interactions: bool = True,
    level: float = 0.95,
) -> list[FactorEffect]:
    """Estimate all main effects and, if asked for, all interactions of two factors.

    Parameters
    ----------
    observations
        One per run, finite (else refused); above 0 for ratios. Several of one cell in one block
        count as their mean. All combinations of the levels of all factors are needed.
    references
        The level of a factor that others are compared with; by default its first.
    level
        Nominal coverage of each single interval.

    Returns
    -------
    Main effects in the order of the factors, then interactions. Empty if no factor has two
    levels.
    """
    if not observations:
        return []
    factors = list(dict.fromkeys(name for o in observations for name in o.cell))
    levels = {
        f: list(dict.fromkeys(o.cell[f] for o in observations if f in o.cell)) for f in factors
    }
    varied = [f for f in factors if len(levels[f]) > 1]
    chosen = references or {}
    first = {f: _reference(f, chosen, levels[f]) for f in varied}
    wanted: list[tuple[str, ...]] = [(f,) for f in varied]
    wanted += combinations(varied, 2) if interactions else ()
    design = _Design(observations, varied, levels, scale)
    factor_effects: list[FactorEffect] = []
    for names in wanted:
        settings = [[setting for setting in levels[f] if setting != first[f]] for f in names]
        against = tuple(first[f] for f in names)
        factor_effects += [
            design.effect(names, high, against, level) for high in product(*settings)
        ]
    adjusted = holm_of_known([e.p for e in factor_effects])
    return [replace(e, p_holm=p) for e, p in zip(factor_effects, adjusted, strict=True)]


class _Design:
    """The observations by cell, on the scale on which effects add up."""

    def __init__(
        self,
        observations: Sequence[Observation],
        factors: Sequence[str],
        levels: Mapping[str, Sequence[Level]],
        scale: Scale,
    ) -> None:
        self.scale = scale
        self.factors = factors
        self.cells = list(product(*(levels[f] for f in factors)))
        self.refused = _unusable(observations, factors, self.cells, scale)
        self.by_cell: dict[tuple[object, ...], list[float]] = {}
        self.by_block: dict[str, dict[tuple[object, ...], list[float]]] = {}
        self.blocked = all(o.block is not None for o in observations)
        if self.refused is None:
            for o in observations:
                key = tuple(o.cell.get(f) for f in factors)
                value = math.log(o.value) if scale == "ratio" else o.value
                self.by_cell.setdefault(key, []).append(value)
                block = self.by_block.setdefault(str(o.block), {})
                block.setdefault(key, []).append(value)
        self.whole = [b for b in self.by_block.values() if len(b) == len(self.cells)]
        # If one block holds everything, or hardly any block is whole, blocks tell nothing.
        self.blocked = self.blocked and len(self.whole) >= MINIMUM_RUNS

    def effect(self, names: tuple[str, ...], high: Key, against: Key, level: float) -> FactorEffect:
        weights = self._weights(names, high, against)
        blank = FactorEffect(names, high, against, self.scale, None, None, None, None, 0, BY_BLOCK)
        if self.refused is not None:
            return replace(blank, refused=self.refused)
        if self.blocked:
            each = [
                sum(w * fmean(block[cell]) for cell, w in weights.items()) for block in self.whole
            ]
            interval = student_t(each, level)
            if interval.value is None or interval.low is None or interval.high is None:
                return replace(blank, refused=interval.refused)
            error = mean_and_deviation(each)[1] / math.sqrt(len(each))
            freedom, value = float(len(each) - 1), interval.value
            out = len(self.by_block) - len(self.whole)
            blank = replace(blank, replications=len(each), left_out=out)
        else:
            fewest = min(len(self.by_cell[cell]) for cell in weights)
            runs = sum(len(self.by_cell[cell]) for cell in weights)
            blank = replace(blank, method=BY_CELL, replications=runs)
            if fewest < 2:
                reason = f"{fewest} run of a cell; 2 are needed, or {MINIMUM_RUNS} whole blocks"
                return replace(blank, refused=reason)
            value = sum(w * fmean(self.by_cell[c]) for c, w in weights.items())
            error, freedom = self._welch(weights)
        half = t_quantile((1 + level) / 2, freedom) * error
        certain = 1.0 if value == 0 else 0.0
        p = t_two_sided(value / error, freedom) if error > 0 else certain
        shown = _exp if self.scale == "ratio" else float
        return replace(
            blank, value=shown(value), low=shown(value - half), high=shown(value + half), p=p
        )

    def _welch(self, weights: Mapping[tuple[object, ...], float]) -> tuple[float, float]:
        parts = [
            (w * w * variance(self.by_cell[c]) / len(self.by_cell[c]), c)
            for c, w in weights.items()
        ]
        total = math.fsum(v for v, _ in parts)
        if total == 0:
            return 0.0, float(sum(len(self.by_cell[c]) - 1 for c in weights))
        shares = math.fsum((v / total) ** 2 / (len(self.by_cell[c]) - 1) for v, c in parts)
        return math.sqrt(total), 1 / shares

    def _weights(
        self, names: tuple[str, ...], high: Key, against: Key
    ) -> dict[tuple[object, ...], float]:
        """Return weights: + level, - reference, multiplied over factors, averaged over others."""
        places = [self.factors.index(name) for name in names]
        weights = {}
        for cell in self.cells:
            sign = 1
            for place, level, reference in zip(places, high, against, strict=True):
                sign *= (cell[place] == level) - (cell[place] == reference)
            if sign:
                weights[cell] = float(sign)
        size = len(weights) / 2 ** len(names)
        return {cell: sign / size for cell, sign in weights.items()}


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _reference(name: str, chosen: Mapping[str, Level], levels: Sequence[Level]) -> Level:
    reference = chosen.get(name, levels[0])
    if reference not in levels:
        listed = ", ".join(map(str, levels))
        raise ValueError(f"factor {name} has no level {reference!r}; its levels are: {listed}")
    return reference


def _unusable(
    observations: Sequence[Observation],
    factors: Sequence[str],
    cells: Sequence[tuple[object, ...]],
    scale: Scale,
) -> str | None:
    bad = sum(not math.isfinite(o.value) for o in observations)
    if bad:
        return f"{bad} of {len(observations)} runs have no finite value"
    if scale == "ratio" and any(o.value <= 0 for o in observations):
        return "a ratio needs values above 0; ask for differences"
    without = [f for f in factors for o in observations if f not in o.cell]
    if without:
        return f"{without.count(without[0])} runs have no level of factor {without[0]}"
    present = {tuple(o.cell.get(f) for f in factors) for o in observations}
    missing = [cell for cell in cells if cell not in present]
    if missing:
        named = ", ".join(f"{f}={level}" for f, level in zip(factors, missing[0], strict=True))
        return f"{len(missing)} of {len(cells)} combinations of levels were not run: {named}"
    return None
