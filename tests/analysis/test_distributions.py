"""Test ECDF and CCDF by hand and against counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.statistics.distributions import distribution, tail_limit, thin


def test_by_hand_with_ties_and_a_loss() -> None:
    steps = distribution([3.0, 1.0, 1.0, math.inf])
    assert steps.values.tolist() == [1, 3]
    assert steps.at_most.tolist() == [0.5, 0.75]
    assert steps.at_least.tolist() == [1, 0.5]
    assert (steps.samples, steps.infinite) == (4, 1)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60))
def test_fractions_are_counts(samples: list[int]) -> None:
    steps = distribution(samples)
    n = len(samples)
    for value, at_most, at_least in zip(steps.values, steps.at_most, steps.at_least, strict=True):
        assert at_most == sum(s <= value for s in samples) / n
        assert at_least == sum(s >= value for s in samples) / n


def test_empty_and_nan() -> None:
    assert distribution([]).values.size == 0
    with pytest.raises(ValueError, match="nan"):
        distribution([1.0, math.nan])


def test_thinning_keeps_the_tails_and_true_points() -> None:
    steps = distribution(np.random.default_rng(1).standard_normal(50_000))
    thinned = thin(steps)
    assert thinned.values.size <= 10_000
    assert thinned.values[:2500].tolist() == steps.values[:2500].tolist()
    assert thinned.values[-2500:].tolist() == steps.values[-2500:].tolist()
    assert thinned.at_least[-1] == 1 / 50_000
    at = np.searchsorted(steps.values, thinned.values)
    assert (steps.at_most[at] == thinned.at_most).all()
    few = distribution([1.0, 2.0])
    assert thin(few) is few


def test_tail_limit() -> None:
    assert tail_limit(2000) == 0.01
    assert tail_limit(5) == 1
    assert tail_limit(0) == 1
