"""Two one-sided tests: whether a ratio is so near to 1 that the difference has no importance.

Schuirmann (1987, J. Pharmacokinetics and Biopharmaceutics 15); for a ratio of means the two
hypotheses are linear, mean(new) = (1 +- T) mean(base), as in Sasabuchi's test (Hauschke, Kieser,
Diletti and Burke 1999, Statistics in Medicine 18). A large p of a test of "no difference" shows
no equivalence; a small p of these does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from roslens.analysis.statistics.finite import finite_pairs
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import Spread, satterthwaite
from roslens.analysis.statistics.student import t_above


@dataclass(frozen=True)
class Equivalence:
    """Whether a ratio lies within 1 - T and 1 + T.

    Attributes
    ----------
    p
        The larger of the two: equivalent at level alpha if p <= alpha.
    p_not_below, p_not_above
        One-sided p of "the ratio is at most 1 - T" and of "at least 1 + T".
    """

    p: float
    p_not_below: float
    p_not_above: float


def equivalent_ratio(new: Spread, base: Spread, threshold: float) -> Equivalence:
    """Of the means of two independent sets of runs, by Welch's t at either limit.

    Parameters
    ----------
    threshold
        T, between 0 and 1.
    """
    _check(threshold)

    def p(limit: float, direction: float) -> float:
        distance = direction * (new.mean - limit * base.mean)
        first, second = new.deviation, limit * base.deviation
        error = math.hypot(first / math.sqrt(new.runs), second / math.sqrt(base.runs))
        if error == 0:
            return 0.0 if distance > 0 else 1.0
        # As shares of the larger: squares of very small numbers vanish.
        scale = max(first, second)
        freedom = satterthwaite(
            (first / scale) ** 2 / new.runs, new.runs, (second / scale) ** 2 / base.runs, base.runs
        )
        return t_above(distance / error, freedom)

    return _both(p(1 - threshold, 1.0), p(1 + threshold, -1.0))


def equivalent_pairs(new: ArrayLike, base: ArrayLike, threshold: float) -> Equivalence:
    """Of the means of runs that belong together, such as the runs of one block.

    Parameters
    ----------
    new, base
        One finite value per block, in the same order of blocks, shape (k,), k >= 3.
    threshold
        T, between 0 and 1.
    """
    _check(threshold)
    y, x = finite_pairs(new, base, "equivalence", MINIMUM_RUNS)

    def p(limit: float, direction: float) -> float:
        d = direction * (y - limit * x)
        error = float(d.std(ddof=1)) / math.sqrt(d.size)
        if error == 0:
            return 0.0 if d.mean() > 0 else 1.0
        return t_above(float(d.mean()) / error, d.size - 1)

    return _both(p(1 - threshold, 1.0), p(1 + threshold, -1.0))


def _both(below: float, above: float) -> Equivalence:
    return Equivalence(max(below, above), below, above)


def _check(threshold: float) -> None:
    if not 0 < threshold < 1:
        raise ValueError("the threshold must lie between 0 and 1")
