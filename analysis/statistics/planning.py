"""How many runs, and where the variance is: from a pilot to a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roslens.analysis.statistics.autocorrelation import effective_samples
from roslens.analysis.statistics.finite import finite
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import least_runs
from roslens.analysis.statistics.student import chi_squared_quantile, f_above

Floats = NDArray[np.float64]


def runs_for_half_width(
    pilot: ArrayLike, half_width: float, level: float = 0.95, assurance: float | None = None
) -> int | None:
    """Runs after which the interval of the mean is about +- `half_width`.

    The least n with t(n - 1) s / sqrt(n) <= half_width, s from the pilot. The pilot's s is
    itself uncertain: with `assurance`, its upper confidence limit by chi squared takes its place
    (Kupper and Hafner 1989, The American Statistician 43).

    Parameters
    ----------
    pilot
        One finite value per run, at least `MINIMUM_RUNS`.
    assurance
        Chance that so many runs do, such as 0.8; None: no allowance.

    Returns
    -------
    None beyond `ratio.MOST_RUNS`.
    """
    x = finite(pilot, "a plan from pilot runs", MINIMUM_RUNS)
    if not half_width > 0:
        raise ValueError("a plan needs a half width above 0")
    variance = float(x.var(ddof=1))
    if assurance is not None:
        variance *= (x.size - 1) / chi_squared_quantile(1 - assurance, x.size - 1)
    return least_runs(variance, half_width, level, 0.5, sides=1)


@dataclass(frozen=True)
class VarianceSplit:
    """Where the variance of a run's mean comes from.

    Attributes
    ----------
    between
        Standard deviation of what a run was dealt: longer runs do not lessen it.
    within
        Standard deviation of a run's mean for its finite length: longer runs do.
    share_between
        Part of the variance of a run's mean that is between runs, 0 to 1.
    """

    between: float
    within: float
    share_between: float


def variance_split(runs: Sequence[ArrayLike]) -> VarianceSplit:
    """Split the variance of run means into between and within, by moments.

    within^2 is the mean over runs of s^2 / effective samples, between^2 the variance of the means
    less that, at least 0 (Searle, Casella and McCulloch, "Variance Components", section 3.6, with
    effective in the place of independent samples).

    Parameters
    ----------
    runs
        The samples of each run in time order, finite; at least `MINIMUM_RUNS` runs of 2 samples.
    """
    arrays = [finite(run, "each run of a split", 2) for run in runs]
    if len(arrays) < MINIMUM_RUNS:
        raise ValueError(f"a split needs {MINIMUM_RUNS} runs, here are {len(arrays)}")
    of_means = float(np.var([a.mean() for a in arrays], ddof=1))
    within = float(np.mean([a.var(ddof=1) / effective_samples(a) for a in arrays]))
    between = max(0.0, of_means - within)
    total = between + within
    return VarianceSplit(
        math.sqrt(between), math.sqrt(within), between / total if total > 0 else 0.0
    )


@dataclass(frozen=True)
class OneWay:
    """One-way analysis of variance."""

    f: float
    p: float
    between_freedom: int
    within_freedom: int
    between_squares: float
    within_squares: float
    residual_deviation: float


def one_way(groups: Sequence[ArrayLike]) -> OneWay:
    """One-way analysis of variance of groups of independent values, such as runs of cells.

    Deviations are taken from the grand mean before anything is squared, so that a large common
    offset costs no digits (NIST StRD's SmLs sets).

    Parameters
    ----------
    groups
        At least two, finite, with more values than groups.
    """
    arrays = [np.asarray(g, dtype=np.float64).ravel() for g in groups]
    n = sum(a.size for a in arrays)
    if len(arrays) < 2 or any(a.size == 0 for a in arrays) or n <= len(arrays):
        raise ValueError("an analysis of variance needs two groups and more values than groups")
    joined = np.concatenate(arrays)
    finite(joined, "an analysis of variance")
    origin = joined[0]
    shifted = [a - origin for a in arrays]
    grand = math.fsum(np.concatenate(shifted)) / n
    means = [math.fsum(a) / a.size for a in shifted]
    between = math.fsum(a.size * (m - grand) ** 2 for a, m in zip(shifted, means, strict=True))
    within = math.fsum(float(d) ** 2 for a, m in zip(shifted, means, strict=True) for d in a - m)
    df_between, df_within = len(arrays) - 1, n - len(arrays)
    if within == 0:
        # Of values that are all the same: no difference.
        f = math.inf if between > 0 else 0.0
    else:
        f = (between / df_between) / (within / df_within)
    p = f_above(f, df_between, df_within)
    return OneWay(f, p, df_between, df_within, between, within, math.sqrt(within / df_within))
