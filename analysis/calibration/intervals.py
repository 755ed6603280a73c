"""Simulate the coverage of nominal 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

from scipy import special

from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import (
    SHAPES,
    Effects,
    experiments,
    generator,
    normal_effects,
    skewed_effects,
)
from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.one_run import mean_of_one_run, order_statistics
from roslens.analysis.statistics.over_runs import EXCEEDANCES
from roslens.analysis.statistics.positive import wider_above
from roslens.analysis.statistics.quantiles import least_samples, percentile_name, quantile
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import Floats, Ints, np

BAR = (0.93, 0.97)


def covered(per_run: Floats, truth: float) -> int:
    """Count the t intervals over the last axis that contain the truth."""
    k = per_run.shape[-1]
    half = t_quantile(0.975, k - 1) * per_run.std(axis=-1, ddof=1) / math.sqrt(k)
    return int((np.abs(per_run.mean(axis=-1) - truth) <= half).sum())


def means(count: int) -> Section:
    """Simulate the mean over runs with normal effects of runs."""
    title = "Mean over runs, Student t"
    results = [
        result
        for phi, runs in product((0.0, 0.5, 0.9), (5, 10))
        for result in _means(title, list(SHAPES), count, phi, runs, (0.0, 0.2, 0.5))
    ]
    text = (
        "Each run has 200 samples with autocorrelation phi, and variance 1 before the shape is "
        "applied; runs differ by a normal effect of the given sd."
    )
    return Section(title, text, ("runs", "sd between"), results)


_POSITIVE: dict[str, Callable[[np.random.Generator, float, tuple[int, ...]], Floats]] = {
    # Runs have mean 1; sd is that of the logarithm for lognormal ones, else that of the runs.
    "lognormal": lambda rng, sd, shape: np.exp(sd * rng.standard_normal(shape) - sd**2 / 2),
    "gamma": lambda rng, sd, shape: rng.gamma(sd**-2, sd**2, shape),
    "inverse Gaussian": lambda rng, sd, shape: rng.wald(1, sd**-2, shape),
    "exponential": lambda rng, sd, shape: 1 + sd * (rng.standard_exponential(shape) - 1),
    "normal": lambda rng, sd, shape: np.abs(1 + sd * rng.standard_normal(shape)),
}
SYMMETRIC_UP_TO = 0.2
"""Largest deviation of normal runs: with a larger one some would be negative."""


def positive_runs(count: int) -> Section:
    """Simulate the mean over runs of quantities that cannot be negative."""
    title = "Mean over runs that cannot be negative"
    results = []
    for shape, sd, runs in product(_POSITIVE, (0.05, 0.2, 0.4, 0.6), (3, 5, 10, 20)):
        if shape == "normal" and sd > SYMMETRIC_UP_TO:
            continue
        values = positive_values(generator("positive", shape, sd, runs), shape, sd, (count, runs))
        low, high = positive_bounds(values)
        cell = {"runs differ by": shape, "sd": f"{sd:g}", "runs": f"{runs} runs"}
        hits = int(((low <= 1) & (high >= 1)).sum())
        results.append(Result(title, cell, "coverage", hits, count, *BAR))
        results.append(Result(title, cell, "Student t", covered(values, 1.0), count))
    text = (
        "The interval of `roslens.analysis.statistics.positive`, compared with Student's. Each run "
        "has one value, of mean 1. Exponential values are 1 + sd (e - 1): they have a floor, a "
        "long tail, and the same skewness, 2, whatever the sd."
    )
    return Section(title, text, ("runs",), results)


def positive_values(
    rng: np.random.Generator, shape: str, sd: float, size: tuple[int, ...]
) -> Floats:
    """Draw one value per run, of mean 1."""
    return _POSITIVE[shape](rng, sd, size)


def positive_bounds(per_run: Floats) -> tuple[Floats, Floats]:
    """Return `roslens.analysis.statistics.positive.bounds` over the last axis."""
    k = per_run.shape[-1]
    mean = per_run.mean(axis=-1)
    h = t_quantile(0.975, k - 1) * per_run.std(axis=-1, ddof=1) / mean / math.sqrt(k)
    return mean * np.exp(-h), mean * (1 + wider_above(k) * h)


def skewed(count: int) -> Section:
    """Simulate the mean over runs if a few runs are much worse than most."""
    title = "Mean over runs that differ by a skewed effect"
    results = [
        result
        for runs in (5, 10, 20)
        for result in _means(
            title, ["normal"], count, 0.5, runs, (0.1, 0.2, 0.5, 2.0), effects=skewed_effects
        )
    ]
    text = (
        "As the first table, but with exponential effects of runs: a few runs are much worse than "
        "most. This is shown without a bar: the fewer the runs and the more they differ, the "
        "oftener the interval lies too low, because there may be no bad run among them."
    )
    return Section(title, text, ("sd between",), results)


def _means(  # noqa: PLR0917
    title: str,
    shapes: Sequence[str],
    count: int,
    phi: float,
    runs: int,
    between: Sequence[float],
    effects: Effects = normal_effects,
) -> list[Result]:
    """Simulate all shapes and differences between runs on the same samples."""
    rng = generator("mean", phi, runs, effects.__name__)
    hits = dict.fromkeys(product(shapes, between), 0)
    for z, dealt in experiments(rng, count, runs=runs, samples=200, phi=phi, effects=effects):
        for shape in shapes:
            transform, truth = SHAPES[shape]
            per_run = transform(z).mean(axis=-1)
            for sd in between:
                hits[shape, sd] += covered(per_run + sd * dealt, truth)
    bar = BAR if effects is normal_effects else (None, None)
    return [
        Result(
            title,
            {"samples": s, "phi": f"{phi:g}", "runs": f"{runs} runs", "sd between": f"sd {b:g}"},
            "coverage",
            hit,
            count,
            *bar,
        )
        for (s, b), hit in hits.items()
    ]


def percentiles(count: int) -> Section:
    """Simulate a percentile over runs, with the least number of samples beyond it and with 20."""
    title = "Percentile over runs, Student t"
    designs = ((0.5, 0.0), (0.5, 0.9), (0.9, 0.0), (0.9, 0.9), (0.99, 0.0))
    results = [
        result
        for beyond, (q, phi), runs in product((EXCEEDANCES, 20), designs, (5, 10))
        for result in _percentiles(title, beyond, q, phi, runs, count)
    ]
    text = (
        "The column 'beyond' is the number of effective samples beyond the percentile in each run: "
        f"{EXCEEDANCES}, the least with which an estimate is not refused, and 20."
    )
    return Section(title, text, ("runs", "sd between"), results)


def _percentiles(  # noqa: PLR0917
    title: str, beyond: int, q: float, phi: float, runs: int, count: int
) -> list[Result]:
    """Simulate all shapes and differences between runs on the same samples."""
    # Effective samples by the mean's autocorrelation are a lower bound for a quantile's.
    samples = math.ceil(round(beyond / (1 - q) * (1 + phi) / (1 - phi), 6))
    rng = generator("percentile", q, phi, runs, samples)
    # Shapes are monotone: transforming the two order statistics around type 8's place is enough.
    at = samples * q + (q + 1) / 3 - 1
    low = math.floor(at)
    hits = dict.fromkeys(product(SHAPES, (0.0, 0.5)), 0)
    for z, dealt in experiments(rng, count, runs=runs, samples=samples, phi=phi):
        part = np.partition(z, (low, low + 1), axis=-1)[..., low : low + 2]
        for shape, between in hits:
            transform, _ = SHAPES[shape]
            values = transform(part)
            per_run = values[..., 0] + (at - low) * (values[..., 1] - values[..., 0])
            # The shortcut must equal the estimator.
            assert math.isclose(float(per_run[0, 0]), quantile(transform(z[0, 0]), q), rel_tol=1e-9)
            truth = float(transform(np.array(special.ndtri(q))))
            hits[shape, between] += covered(per_run + between * dealt, truth)
    # Held to the bar with 20 effective samples or more beyond; with fewer, published as it is.
    bar = BAR if beyond >= 20 else (None, None)
    return [
        Result(
            title,
            {
                "beyond": f"{beyond:g}",
                "samples": shape,
                "q": percentile_name(q),
                "phi": f"{phi:g}",
                "n per run": f"{samples:,}",
                "runs": f"{runs} runs",
                "sd between": f"sd {between:g}",
            },
            "coverage",
            hit,
            count,
            *bar,
        )
        for (shape, between), hit in hits.items()
    ]


def spreads(count: int) -> Section:
    """Simulate standard deviation, trimmed mean and maximum of runs of one length."""
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
        # The mean of the statistic over such runs: the estimand is that of a run of this length.
        rng = generator("truth", name, shape)
        truth = float(
            np.mean(
                [statistic(transform(rng.standard_normal((20_000, samples)))) for _ in range(5)]
            )
        )
        for runs in (5, 10):
            rng = generator(name, shape, runs)
            hits = sum(
                covered(statistic(transform(z)), truth)
                for z, _ in experiments(rng, count, runs=runs, samples=samples, phi=0.0)
            )
            cell = {"statistic": name, "samples": shape, "runs": f"{runs} runs"}
            bar = BAR if shape == "normal" else (None, None)
            results.append(Result(title, cell, "coverage", hits, count, *bar))
    text = (
        "Each run has 200 independent samples. The truth is the mean of the statistic over 100,000 "
        "such runs, so that a maximum is that of a run of this length. Standard deviation and "
        "maximum of lognormal samples are themselves skewed over runs, and shown without a bar."
    )
    return Section(title, text, ("runs",), results)


def one_run(count: int) -> Section:
    """Simulate a percentile of one run by order statistics, at the least n, and its mean."""
    title = "One run"
    results = []
    for p in (0.5, 0.9, 0.95, 0.99):
        n = least_samples(p)
        ranks = order_statistics(n, p)
        assert ranks is not None
        values = np.sort(generator("one run", p).standard_normal((count, n)), axis=1)
        truth = float(special.ndtri(p))
        hits = int(((values[:, ranks[0] - 1] <= truth) & (truth <= values[:, ranks[1] - 1])).sum())
        cell = {
            "of": f"{percentile_name(p)}, ranks {ranks[0]} and {ranks[1]}",
            "phi": "0",
            "n": str(n),
        }
        results.append(Result(title, cell, "coverage", hits, count, 0.93))
    for phi in (0.0, 0.5, 0.9):
        hits = 0
        rng = generator("mean of one run", phi)
        metric = Metric("x", "simulated", "1")
        for z, _ in experiments(rng, count, runs=1, samples=2000, phi=phi):
            for series in z[:, 0]:
                estimate = mean_of_one_run(metric, {}, series)
                hits += (
                    estimate.low is not None
                    and estimate.high is not None
                    and estimate.low <= 0 <= estimate.high
                )
        cell = {"of": "mean", "phi": f"{phi:g}", "n": "2,000"}
        results.append(Result(title, cell, "coverage", hits, count))
    text = (
        "Percentiles are by order statistics, at the least n allowed, and held to the bar; the "
        "mean is by effective samples, and shown without a bar. All hold for that run only."
    )
    return Section(title, text, (), results)


def rejects(new: Floats, base: Floats, ratio: float) -> Ints:
    """Return the sign of new - ratio base if `ratio.ratio_of_means` rejects the ratio, else 0."""
    n, m = new.shape[-1], base.shape[-1]
    v = new.var(axis=-1, ddof=1) / n
    w = ratio**2 * base.var(axis=-1, ddof=1) / m
    difference = new.mean(axis=-1) - ratio * base.mean(axis=-1)
    return np.where(two_sided(difference, v, n, w, m) < 0.05, np.sign(difference), 0).astype(
        np.int64
    )


def on_logs(new: Floats, base: Floats, ratio: float = 1.0) -> tuple[Floats, Floats]:
    """Return the log of new / (ratio base) and the p of 0, as in `ratio.ratio_of_positive`."""
    n, m = new.shape[-1], base.shape[-1]
    top, bottom = new.mean(axis=-1), base.mean(axis=-1)
    v, w = new.var(axis=-1, ddof=1) / top**2 / n, base.var(axis=-1, ddof=1) / bottom**2 / m
    log_ratio = np.log(top / bottom) - math.log(ratio)
    return log_ratio, two_sided(log_ratio, v, n, w, m)


def two_sided(apart: Floats, v: Floats, n: int, w: Floats, m: int) -> Floats:
    """Return the larger p of Welch's and the pooled t, from squared errors of n and m runs."""
    freedom = (v + w) ** 2 / (v**2 / (n - 1) + w**2 / (m - 1))
    welch = special.stdtr(freedom, -np.abs(apart) / np.sqrt(v + w))
    pooled = (v * n * (n - 1) + w * m * (m - 1)) / (n + m - 2) * (1 / n + 1 / m)
    together = special.stdtr(n + m - 2, -np.abs(apart) / np.sqrt(pooled))
    return np.asarray(2 * np.maximum(welch, together))


def ratios(count: int) -> Section:
    """Simulate the ratio of means of two sets of runs."""
    title = "Ratio of means, Fieller and Welch"
    results = []
    for cv, ratio, runs in product((0.02, 0.1, 0.3), (1.0, 1.1, 2.0), (5, 10)):
        rng = generator("ratio", cv, ratio, runs)
        new = ratio * (1 + cv * rng.standard_normal((count, runs)))
        base = 1 + cv * rng.standard_normal((count, runs))
        hits = int((rejects(new, base, ratio) == 0).sum())
        cell = {"cv between runs": f"{cv:g}", "true ratio": f"{ratio:g}", "runs": f"{runs} runs"}
        results.append(Result(title, cell, "coverage", hits, count, *BAR))
    text = "Runs are normal, with the same cv on both sides."
    return Section(title, text, ("runs",), results)


def positive_ratios(count: int) -> Section:
    """Simulate the ratio of means of quantities that cannot be negative, on the log scale."""
    title = "Ratio of means that cannot be negative, t on logs"
    results = []
    sizes = ((3, 3), (5, 5), (10, 10), (3, 10), (5, 20))
    for shape, sd, (n, m) in product(("lognormal", "gamma", "exponential"), (0.1, 0.3, 0.6), sizes):
        rng = generator("positive ratio", shape, sd, n, m)
        new = 1.5 * positive_values(rng, shape, sd, (count, n))
        base = positive_values(rng, shape, sd, (count, m))
        hits = int((on_logs(new, base, 1.5)[1] >= 0.05).sum())
        cell = {"runs differ by": shape, "sd": f"{sd:g}", "runs": f"{n} against {m}"}
        results.append(Result(title, cell, "coverage", hits, count, 0.93))
    text = (
        "The true ratio is 1.5. With unequal numbers of runs, the wider of Welch's and the pooled "
        "t interval covers more than it claims: the price of few false alarms."
    )
    return Section(title, text, ("runs",), results)
