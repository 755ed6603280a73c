"""Quantiles against numpy where that has an answer, by hand beside infinities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.statistics.quantiles import least_samples, percentile_name, quantile

finite = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(st.lists(finite, min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_numpys_where_all_is_finite(samples: list[float], q: float) -> None:
    expected = float(np.quantile(samples, q, method="median_unbiased"))
    assert quantile(samples, q) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_quantile_beside_infinities_by_hand() -> None:
    samples = [1.0, 2.0, 3.0, math.inf, math.inf]  # positions 0..4
    assert quantile(samples, 0.5) == 3  # exactly the third: no interpolation
    assert quantile(samples, 0.51) == math.inf
    # Type 8: at 5 / 4 + 5 / 12 - 1 = 2 / 3 between the first and the second.
    assert quantile(samples, 0.25) == pytest.approx(1 + 2 / 3)
    assert quantile([math.inf] * 3, 0.5) == math.inf


@pytest.mark.parametrize("samples", [[], [1.0, math.nan]])
def test_quantile_of_nothing_or_nan_is_an_error(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="needs samples"):
        quantile(samples, 0.5)


@pytest.mark.parametrize(
    ("q", "least"), [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995), (0.01, 299)]
)
def test_least_samples_of_a_distribution_free_interval(q: float, least: int) -> None:
    # The range of n samples misses the quantile with probability q^n + (1 - q)^n.
    assert least_samples(q) == least
    assert q**least + (1 - q) ** least <= 0.05
    assert q ** (least - 1) + (1 - q) ** (least - 1) > 0.05


def test_names() -> None:
    assert [percentile_name(q) for q in (0.5, 0.99, 0.999)] == ["P50", "P99", "P99.9"]
