"""Coverage of nominal 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.calibration.results import Result, Section
from analysis.calibration.series import (
    SHAPES,
    Floats,
    experiments,
    generator,
    normal_effects,
    skewed_effects,
)
from analysis.estimate import Metric
from analysis.one_run import mean_of_one_run, order_statistics
from analysis.over_runs import EXCEEDANCES
from analysis.quantiles import least_samples, percentile_name, quantile
from analysis.student import t_quantile

BAR = (0.93, 0.97)


def covered(per_run: Floats, truth: float) -> int:
    """How many t intervals over the last axis hold the truth."""
    k = per_run.shape[-1]
    half = t_quantile(0.975, k - 1) * per_run.std(axis=-1, ddof=1) / math.sqrt(k)
    return int((np.abs(per_run.mean(axis=-1) - truth) <= half).sum())


def means(count: int) -> Section:
    """Mean over runs, normal effects of runs."""
    title = "Mean over runs, Student t"
    results = [
        _mean(title, shape, count, phi=phi, runs=runs, between=between)
        for shape, phi in product(SHAPES, (0.0, 0.5, 0.9))
        for runs, between in product((5, 10), (0.0, 0.2, 0.5))
    ]
    text = (
        "200 samples per run, autocorrelation phi, variance 1 before the shape; runs differ by a "
        "normal effect of the given sd."
    )
    return Section(title, text, ("runs", "sd between"), results)


def skewed(count: int) -> Section:
    """Mean over runs where a few runs are much worse than most."""
    title = "Mean over runs that differ by a skewed effect"
    results = [
        _mean(title, "normal", count, phi=0.5, runs=runs, between=between, skew=True)
        for runs, between in product((5, 10, 20), (0.1, 0.2, 0.5, 2.0))
    ]
    text = (
        "As above with exponential effects of runs: few runs much worse than most. Published as "
        "it is: the fewer runs and the more they differ, the more the interval, which few bad "
        "runs may have missed, lies too low."
    )
    return Section(title, text, ("sd between",), results)


def _mean(
    title: str,
    shape: str,
    count: int,
    *,
    phi: float,
    runs: int,
    between: float,
    skew: bool = False,
) -> Result:
    transform, truth = SHAPES[shape]
    rng = generator("mean", shape, phi, runs, between, skew)
    effects = skewed_effects if skew else normal_effects
    hits = sum(
        covered((transform(z) + dealt).mean(axis=-1), truth)
        for z, dealt in experiments(
            rng, count, runs=runs, samples=200, phi=phi, between=between, effects=effects
        )
    )
    cell = {
        "samples": shape,
        "phi": f"{phi:g}",
        "runs": f"{runs} runs",
        "sd between": f"sd {between:g}",
    }
    return Result(title, cell, "coverage", hits, count, *((None, None) if skew else BAR))


def percentiles(count: int) -> Section:
    """Percentile over runs, at the least n that is not refused and at 20 beyond it."""
    title = "Percentile over runs, Student t"
    results = []
    for beyond, shape in product((EXCEEDANCES, 20), SHAPES):
        for q, phi in ((0.5, 0.0), (0.5, 0.9), (0.9, 0.0), (0.9, 0.9), (0.99, 0.0)):
            # Effective samples by the mean's autocorrelation: a lower bound for a quantile's.
            samples = math.ceil(round(beyond / (1 - q) * (1 + phi) / (1 - phi), 6))
            for runs, between in product((5, 10), (0.0, 0.5)):
                hits = _percentile(
                    shape, q, count, phi=phi, samples=samples, runs=runs, between=between
                )
                cell = {
                    "beyond": f"{beyond:g}",
                    "samples": shape,
                    "q": percentile_name(q),
                    "phi": f"{phi:g}",
                    "n per run": f"{samples:,}",
                    "runs": f"{runs} runs",
                    "sd between": f"sd {between:g}",
                }
                # Held to the bar from 20 effective samples beyond; below, shown as it is.
                bar = BAR if beyond >= 20 else (None, None)
                results.append(Result(title, cell, "coverage", hits, count, *bar))
    text = (
        f"With so many effective samples beyond the percentile in each run: {EXCEEDANCES}, from "
        "which on an estimate is not refused, and 20."
    )
    return Section(title, text, ("runs", "sd between"), results)


def _percentile(
    shape: str, q: float, count: int, *, phi: float, samples: int, runs: int, between: float
) -> int:
    transform, _ = SHAPES[shape]
    truth = float(transform(np.array(special.ndtri(q))))
    rng = generator("percentile", shape, q, phi, runs, between, samples)
    # Monotone: the transform of the two order statistics around type 8's place is enough.
    at = samples * q + (q + 1) / 3 - 1
    low = math.floor(at)
    hits = 0
    for z, dealt in experiments(rng, count, runs=runs, samples=samples, phi=phi, between=between):
        part = np.partition(z, (low, low + 1), axis=-1)[..., low : low + 2]
        values = transform(part)
        per_run = values[..., 0] + (at - low) * (values[..., 1] - values[..., 0])
        # The shortcut is the estimator itself.
        first = transform(z[0, 0])
        assert math.isclose(float(per_run[0, 0]), quantile(first, q), rel_tol=1e-9)
        hits += covered(per_run + dealt[..., 0], truth)
    return hits


def spreads(count: int) -> Section:
    """Standard deviation, trimmed mean and maximum of runs of one length."""
    title = "Other statistics of a run, Student t over runs"
    samples, cut = 200, 20
    statistics: dict[str, Callable[[Floats], Floats]] = {
        "standard deviation": lambda x: x.std(axis=-1, ddof=1),
        "mean of the middle 80 %": lambda x: np.sort(x, axis=-1)[..., cut:-cut].mean(axis=-1),
        "maximum": lambda x: x.max(axis=-1),
    }
    results = []
    for (name, statistic), shape in product(statistics.items(), ("normal", "lognormal")):
        transform, _ = SHAPES[shape]
        # What such runs have in the mean: the estimand is that of a run of this length.
        rng = generator("truth", name, shape)
        truth = float(
            np.mean(
                [statistic(transform(rng.standard_normal((20_000, samples)))) for _ in range(20)]
            )
        )
        for runs in (5, 10):
            rng = generator(name, shape, runs)
            hits = sum(
                covered(statistic(transform(z)), truth)
                for z, _ in experiments(
                    rng, count, runs=runs, samples=samples, phi=0.0, between=0.0
                )
            )
            cell = {"statistic": name, "samples": shape, "runs": f"{runs} runs"}
            bar = BAR if shape == "normal" else (None, None)
            results.append(Result(title, cell, "coverage", hits, count, *bar))
    text = (
        "200 independent samples per run; truth: the mean of the statistic over 400,000 such "
        "runs, so that a maximum is that of a run of this length. Of lognormal samples standard "
        "deviation and maximum are themselves skewed over runs: published as it is."
    )
    return Section(title, text, ("runs",), results)


def one_run(count: int) -> Section:
    """Percentile of one run by order statistics, at the least n, and its mean."""
    title = "One run"
    results = []
    for q in (0.5, 0.9, 0.95, 0.99):
        n = least_samples(q)
        ranks = order_statistics(n, q)
        assert ranks is not None
        x = np.sort(generator("one run", q).standard_normal((count, n)), axis=1)
        truth = float(special.ndtri(q))
        hits = int(((x[:, ranks[0] - 1] <= truth) & (truth <= x[:, ranks[1] - 1])).sum())
        cell = {
            "of": f"{percentile_name(q)}, ranks {ranks[0]} and {ranks[1]}",
            "phi": "0",
            "n": str(n),
        }
        results.append(Result(title, cell, "coverage", hits, count, 0.93))
    for phi in (0.0, 0.5, 0.9):
        hits = 0
        rng = generator("mean of one run", phi)
        metric = Metric("x", "simulated", "1")
        for z, _ in experiments(rng, count, runs=1, samples=2000, phi=phi, between=0.0):
            for series in z[:, 0]:
                found = mean_of_one_run(metric, {}, series)
                hits += (
                    found.low is not None
                    and found.high is not None
                    and found.low <= 0 <= found.high
                )
        cell = {"of": "mean", "phi": f"{phi:g}", "n": "2,000"}
        results.append(Result(title, cell, "coverage", hits, count))
    text = (
        "Percentiles by order statistics at the least n allowed; the mean by effective samples. "
        "Both hold for that run only."
    )
    return Section(title, text, (), results)


def rejects(new: Floats, base: Floats, ratio: float) -> NDArray[np.int64]:
    """Sign of new - ratio base where the test of `analysis.ratio` rejects it, else 0."""
    apart, error, freedom = welch(new, base, ratio)
    far = np.abs(apart) > special.stdtrit(freedom, 0.975) * error
    return np.where(far, np.sign(apart), 0).astype(np.int64)


def welch(new: Floats, base: Floats, ratio: float = 1.0) -> tuple[Floats, Floats, Floats]:
    """New - ratio base over the last axis, its standard error and degrees of freedom."""
    n, m = new.shape[-1], base.shape[-1]
    v = new.var(axis=-1, ddof=1) / n
    w = ratio**2 * base.var(axis=-1, ddof=1) / m
    apart = new.mean(axis=-1) - ratio * base.mean(axis=-1)
    return apart, np.sqrt(v + w), (v + w) ** 2 / (v**2 / (n - 1) + w**2 / (m - 1))


def ratios(count: int) -> Section:
    """Ratio of means of two sets of runs."""
    title = "Ratio of means, Fieller and Welch"
    results = []
    for cv, ratio, runs in product((0.02, 0.1, 0.3), (1.0, 1.1, 2.0), (5, 10)):
        rng = generator("ratio", cv, ratio, runs)
        new = ratio * (1 + cv * rng.standard_normal((count, runs)))
        base = 1 + cv * rng.standard_normal((count, runs))
        hits = int((rejects(new, base, ratio) == 0).sum())
        cell = {"cv between runs": f"{cv:g}", "true ratio": f"{ratio:g}", "runs": f"{runs} runs"}
        results.append(Result(title, cell, "coverage", hits, count, *BAR))
    text = "Normal runs, the same cv on both sides."
    return Section(title, text, ("runs",), results)
