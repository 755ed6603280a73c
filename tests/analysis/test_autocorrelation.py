"""Test effective samples against the theory of AR(1)."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from roslens.analysis.statistics.autocorrelation import (
    autocorrelation,
    effective_samples,
    effective_samples_of_quantile,
    integrated_autocorrelation_time,
)


def ar1(phi: float, n: int, seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    samples = np.empty(n)
    samples[0] = rng.standard_normal()
    for i, noise in enumerate(rng.standard_normal(n - 1), 1):
        samples[i] = phi * samples[i - 1] + math.sqrt(1 - phi**2) * noise
    return samples


def test_autocorrelation_by_hand() -> None:
    # 1, 2, 3, 4: deviations -1.5, -.5, .5, 1.5, squares sum to 5; lag 1: .75 - .25 + .75 = 1.25
    assert autocorrelation([1, 2, 3, 4]) == pytest.approx([1, 0.25, -0.3, -0.45])


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_samples_of_ar1(phi: float) -> None:
    n = 100_000
    share = effective_samples(ar1(phi, n, seed=1)) / n
    assert share == pytest.approx((1 - phi) / (1 + phi), rel=0.08)


def test_an_anticorrelated_series_is_not_credited_with_more_than_its_samples() -> None:
    samples = ar1(-0.7, 10_000, seed=2)
    assert integrated_autocorrelation_time(samples) == 1
    assert effective_samples(samples) == samples.size


@pytest.mark.parametrize("series", [[], [3.0], [3.0] * 10, [1e300] * 5, [0.1] * 7])
def test_series_without_variation(series: list[float]) -> None:
    assert effective_samples(series) == len(series)
    assert effective_samples_of_quantile(series, 0.9) == len(series)


def test_effective_samples_of_the_median_of_ar1() -> None:
    # The indicator of a Gaussian AR(1) being above its median has autocorrelation
    # (2 / pi) * arcsin(phi^k) (Sheppard 1899), so tau = 1 + 2 * sum of that.
    phi, n = 0.9, 100_000
    tau = 1 + 2 * sum(2 / math.pi * math.asin(phi**k) for k in range(1, 400))
    effective = effective_samples_of_quantile(ar1(phi, n, seed=3), 0.5)
    assert effective == pytest.approx(n / tau, rel=0.1)


def test_infinite_samples_count_as_above() -> None:
    samples = ar1(0.0, 5000, seed=4)
    with_loss = samples.copy()
    with_loss[samples > np.sort(samples)[4900]] = math.inf
    assert effective_samples_of_quantile(with_loss, 0.9) == pytest.approx(
        effective_samples_of_quantile(samples, 0.9)
    )
