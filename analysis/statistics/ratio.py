"""Estimate ratio and difference of two means over runs, from mean, deviation and number of runs.

Also test whether a ratio is so near to 1 that the difference has no importance.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from roslens.analysis.statistics.finite import LARGEST, finite_pairs
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, mean_and_deviation
from roslens.analysis.statistics.student import t_above, t_quantile, t_two_sided
from roslens.recording.arrays import ArrayLike, np


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Find a root by bisection, down to adjacent floats (importing scipy.optimize takes a second).

    Parameters
    ----------
    function
        Function of one sign, or zero, at `low` and of the other at `high`.
    """
    positive = function(high) > 0
    if positive == (function(low) > 0):
        raise ValueError("the function has the same sign at both ends")
    while low < (middle := low + (high - low) / 2) < high:
        if (function(middle) > 0) == positive:
            high = middle
        else:
            low = middle
    return middle


MOST_RUNS = 10_000
"""Most runs that a recommendation asks for."""


_LARGEST_LOG = 700.0
TOO_FAR_APART = "the two sides are too far apart for a ratio"


@dataclass(frozen=True)
class Spread:
    """Mean, deviation and number of the runs of one cell: all that a comparison of means needs.

    Attributes
    ----------
    mean, deviation
        Mean and deviation of one value per run; runs - 1 in the denominator of the variance.
    runs
        Number of runs, at least two.
    """

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Compute the spread of one finite value per run."""
        per_run = [float(value) for value in values]
        if len(per_run) < MINIMUM_RUNS or not all(abs(value) <= LARGEST for value in per_run):
            needs = f"at least {MINIMUM_RUNS} finite values, none beyond {LARGEST:g}"
            raise ValueError(f"a spread needs {needs}")
        return cls(*mean_and_deviation(per_run), len(per_run))


@dataclass(frozen=True)
class Effect:
    """A ratio or a difference with its interval.

    Attributes
    ----------
    value, low, high
        The effect and its bounds; a ratio's bound is infinite if the denominator may be zero.
    p
        Two-sided p of "no effect"; below 1 - level exactly when the interval excludes no effect.
    """

    value: float
    low: float
    high: float
    p: float


def too_far_apart(top: Spread, bottom: Spread) -> bool:
    """Return whether the ratio of two means is too large to compute with."""
    most = LARGEST * bottom.mean
    return bottom.mean > 0 and max(top.mean, top.deviation, bottom.deviation) > most


def ratio_of_means(top: Spread, bottom: Spread, level: float = 0.95) -> Effect:
    """Estimate the ratio of the means of two independent sets of runs.

    Fieller's theorem (1954, J. R. Stat. Soc. B 16) without assuming equal variances: the
    interval holds every ratio r for which not both `_tests` reject mean(top) = r mean(bottom). At
    r = 1 it is the test of `p_of_difference`, so that ratio and p never contradict each other. For
    quantities that cannot be negative; the upper bound is infinite if the bottom mean cannot be
    distinguished from zero.

    Raises
    ------
    ValueError
        The bottom mean is not positive, or the top mean is negative.
    """
    if not bottom.mean > 0 or not top.mean >= 0:
        raise ValueError("a ratio needs a positive mean below and no negative one above")
    if too_far_apart(top, bottom):
        raise ValueError(TOO_FAR_APART)
    # Working in units of the bottom mean avoids overflow and gives roots of order one.
    m, v = top.mean / bottom.mean, (top.deviation / bottom.mean) ** 2 / top.runs
    w = (bottom.deviation / bottom.mean) ** 2 / bottom.runs
    if v == 0 and w == 0:
        return Effect(m, m, m, 1.0 if m == 1 else 0.0)

    def half(r: float) -> float:
        return _half_interval(v, top.runs, r * r * w, bottom.runs, level)

    def below(r: float) -> float:
        return (m - r) - half(r)

    def above(r: float) -> float:
        return (r - m) - half(r)

    tiny = 1e-12 * max(m, 1.0)
    low = 0.0 if m == 0 or below(tiny) <= 0 else root(below, tiny, m)
    return Effect(m, low, _upper(above, max(m, 1.0)), p_of_difference(top, bottom))


def ratio_of_positive(top: Spread, bottom: Spread, level: float = 0.95) -> Effect:
    """Estimate the ratio of the means of two independent sets of runs, for positive quantities.

    t on the logarithms of the means (their errors by the delta method, s / (mean sqrt(k))), by
    `_half_interval`. Unlike Fieller's, its bounds are above zero and finite however few the runs.

    Raises
    ------
    ValueError
        A mean is not positive.
    """
    if not bottom.mean > 0 or not top.mean > 0:
        raise ValueError("a ratio on the log scale needs positive means")
    if too_far_apart(top, bottom) or too_far_apart(bottom, top):
        raise ValueError(TOO_FAR_APART)
    ratio = top.mean / bottom.mean
    v = (top.deviation / top.mean) ** 2 / top.runs
    w = (bottom.deviation / bottom.mean) ** 2 / bottom.runs
    half = _half_interval(v, top.runs, w, bottom.runs, level)
    p = _p(math.log(ratio), v, top.runs, w, bottom.runs)
    high = ratio * math.exp(half) if half < _LARGEST_LOG else math.inf
    return Effect(ratio, ratio * math.exp(-half), high, p)


def _tests(v: float, n: int, w: float, m: int) -> list[tuple[float, float]]:
    """Return standard errors and degrees of freedom of a difference of means: Welch's and pooled.

    Welch (1947, Biometrika 34; Satterthwaite's degrees of freedom) alone takes the spread of few
    skewed runs as known if the other side has many: false alarms in up to 22 % of comparisons of 24
    equal cells, 5 runs against 20. Student's pooled variance alone is wrong if the sides differ in
    spread. Requiring both to reject avoids both errors (docs/calibration.md). With equal numbers of
    runs the result is Welch's.

    Parameters
    ----------
    v, w
        Squared standard errors of both means.
    n, m
        Number of runs behind each mean.
    """
    if v == w == 0:
        return []
    pooled = (v * n * (n - 1) + w * m * (m - 1)) / (n + m - 2) * (1 / n + 1 / m)
    return [
        (math.sqrt(v + w), satterthwaite(v, n, w, m)),
        (math.sqrt(pooled), n + m - 2),
    ]


def _half_interval(v: float, n: int, w: float, m: int, level: float) -> float:
    """Return half the interval of a difference of means: the larger of both `_tests`."""
    tests = _tests(v, n, w, m)
    return max((t_quantile((1 + level) / 2, f) * e for e, f in tests), default=0.0)


def _p(difference: float, v: float, n: int, w: float, m: int) -> float:
    """Return the two-sided p of no difference: the larger of both `_tests`."""
    p_values = [t_two_sided(difference / e, f) for e, f in _tests(v, n, w, m)]
    return max(p_values, default=1.0 if difference == 0 else 0.0)


def _upper(above: Callable[[float], float], start: float) -> float:
    step = start
    while above(step) <= 0:
        step *= 2
        if step > 1e9 * start:
            return math.inf
    if above(start) > 0:
        # The root lies between the value and `start`; the value itself is never rejected.
        inner = start
        while above(inner) > 0:
            inner /= 2
            if inner < 1e-12 * start:
                return inner
        return root(above, inner, start)
    return root(above, step / 2, step)


def difference_of_means(new: Spread, base: Spread, level: float = 0.95) -> Effect:
    """Estimate new - base for two independent sets of runs, by both `_tests`."""
    difference = new.mean - base.mean
    scale, v, w = _in_units(new, base)
    half = _half_interval(v, new.runs, w, base.runs, level) * scale
    return Effect(difference, difference - half, difference + half, p_of_difference(new, base))


def p_of_difference(a: Spread, b: Spread) -> float:
    """Return the two-sided p of equal means, the larger of both `_tests`."""
    scale, v, w = _in_units(a, b)
    return _p((a.mean - b.mean) / scale, v, a.runs, w, b.runs)


def _in_units(a: Spread, b: Spread) -> tuple[float, float, float]:
    """Return the larger deviation, and both squared standard errors in its units: none vanishes."""
    scale = max(a.deviation, b.deviation) or 1.0
    return scale, (a.deviation / scale) ** 2 / a.runs, (b.deviation / scale) ** 2 / b.runs


def satterthwaite(va: float, na: int, vb: float, nb: int) -> float:
    """Return the degrees of freedom of a sum of two variances of means (Satterthwaite 1946).

    Parameters
    ----------
    va, vb
        Squared standard errors, in any common unit; not both 0.
    na, nb
        Number of runs behind each mean.
    """
    # Use shares, because squares of very small variances underflow.
    total = va + vb
    share = va / total
    return 1 / (share**2 / (na - 1) + (1 - share) ** 2 / (nb - 1))


def paired_ratio(new: ArrayLike, base: ArrayLike, level: float = 0.95) -> Effect:
    """Estimate the ratio of means of paired runs, such as the runs of one block.

    Fieller (1954): the interval holds every r for which Student's t test over new - r base does not
    reject zero. Use it only if each pair was made close together in time, in random order: pairing
    unrelated runs costs half the degrees of freedom and gains nothing.

    Parameters
    ----------
    new, base
        One value per block, in the same order of blocks, shape (k,), k >= 3; base's mean > 0.
    """
    y, x = finite_pairs(new, base, "a ratio of blocks", MINIMUM_RUNS)
    if x.mean() <= 0:
        raise ValueError("a ratio needs a positive mean below")
    scale = float(x.mean())
    if np.abs(y).max() > LARGEST * scale:
        raise ValueError(TOO_FAR_APART)
    y, x = y / scale, x / scale
    k = y.size
    critical = t_quantile((1 + level) / 2, k - 1)
    covariance = np.cov(y, x) / k * critical**2
    vy, vx, vxy = float(covariance[0, 0]), float(covariance[1, 1]), float(covariance[0, 1])
    ratio = float(y.mean())
    p = paired_p(y, x)
    # (ratio - r)^2 <= vy - 2 r vxy + r^2 vx
    a, b, c = 1 - vx, ratio - vxy, ratio**2 - vy
    inside = max(0.0, b * b - a * c)
    if a > 0:
        root = math.sqrt(inside)
        return Effect(ratio, (b - root) / a, (b + root) / a, p)
    # The denominator may be zero: the interval is everything above the lower root, if any.
    low = (b - math.sqrt(inside)) / a if a < 0 and b * b > a * c else -math.inf
    return Effect(ratio, low if low < ratio else -math.inf, math.inf, p)


def paired_p(new: ArrayLike, base: ArrayLike) -> float:
    """Return the two-sided p of equal means of pairs, by Student's t test of their differences."""
    y, x = finite_pairs(new, base, "a test of blocks", 2)
    d = y - x
    deviation = float(d.std(ddof=1))
    if deviation == 0:
        return 1.0 if d.mean() == 0 else 0.0
    return t_two_sided(float(d.mean()) / deviation * math.sqrt(d.size), d.size - 1)


def runs_for_ratio(
    top: Spread,
    bottom: Spread,
    tolerance: float,
    level: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """Return the runs per side after which the ratio is probably known to +- `tolerance`.

    The result is the least n for which (t((1 + level) / 2) + t(power)) standard errors of the ratio
    fit, with 2 (n - 1) degrees of freedom and today's deviations.

    Returns
    -------
    Number of runs; None beyond `MOST_RUNS`, or if the tolerance is not positive.
    """
    if not tolerance > 0 or bottom.mean <= 0:
        return None
    first = top.deviation / bottom.mean
    second = top.mean / bottom.mean * (bottom.deviation / bottom.mean)
    if not math.hypot(first, second) < MOST_RUNS:
        return None
    variance = first**2 + second**2
    return least_runs(variance, tolerance, level, power, sides=2)


def least_runs(
    variance: float, tolerance: float, level: float, power: float, *, sides: int
) -> int | None:
    """Return the least n with (t((1 + level) / 2) + t(power)) sqrt(variance / n) <= tolerance.

    The degrees of freedom are sides * (n - 1); power 1/2 asks for the half width alone. None beyond
    `MOST_RUNS`.
    """

    def fits(n: int) -> bool:
        freedom = sides * (n - 1)
        quantiles = t_quantile((1 + level) / 2, freedom) + t_quantile(power, freedom)
        return bool(quantiles * math.sqrt(variance / n) <= tolerance)

    if not fits(MOST_RUNS):
        return None
    return bisect_left(range(MOST_RUNS), True, lo=MINIMUM_RUNS, key=fits)


def equivalent_ratio(new: Spread, base: Spread, threshold: float) -> float:
    """Return p of two one-sided Welch t tests that a ratio of means lies within 1 - T and 1 + T.

    Schuirmann (1987, J. Pharmacokinetics and Biopharmaceutics 15); for a ratio of means the two
    hypotheses are linear, mean(new) = (1 +- T) mean(base), as in Sasabuchi's test (Hauschke,
    Kieser, Diletti and Burke 1999, Statistics in Medicine 18). A large p of a test of "no
    difference" shows no equivalence; a small p of these does.

    Parameters
    ----------
    new, base
        Spreads of two independent sets of runs.
    threshold
        The threshold T, between 0 and 1.

    Returns
    -------
    The larger p of the two tests: equivalent at level alpha if it is at most alpha.
    """

    def p(limit: float, direction: float) -> float:
        distance = direction * (new.mean - limit * base.mean)
        first, second = new.deviation, limit * base.deviation
        error = math.hypot(first / math.sqrt(new.runs), second / math.sqrt(base.runs))
        if error == 0:
            return 0.0 if distance > 0 else 1.0
        # Use shares of the larger, because squares of very small numbers underflow.
        scale = max(first, second)
        freedom = satterthwaite(
            (first / scale) ** 2 / new.runs, new.runs, (second / scale) ** 2 / base.runs, base.runs
        )
        return t_above(distance / error, freedom)

    return _two_sided_p(p, threshold)


def equivalent_pairs(new: ArrayLike, base: ArrayLike, threshold: float) -> float:
    """Return the p of `equivalent_ratio` for paired runs, such as the runs of one block.

    Parameters
    ----------
    new, base
        One finite value per block, in the same order of blocks, shape (k,), k >= 3.
    """
    y, x = finite_pairs(new, base, "equivalence", MINIMUM_RUNS)

    def p(limit: float, direction: float) -> float:
        d = direction * (y - limit * x)
        error = float(d.std(ddof=1)) / math.sqrt(d.size)
        if error == 0:
            return 0.0 if d.mean() > 0 else 1.0
        return t_above(float(d.mean()) / error, d.size - 1)

    return _two_sided_p(p, threshold)


def _two_sided_p(p: Callable[[float, float], float], threshold: float) -> float:
    if not 0 < threshold < 1:
        raise ValueError("the threshold must lie between 0 and 1")
    return max(p(1 - threshold, 1.0), p(1 + threshold, -1.0))
