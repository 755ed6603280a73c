"""The four studies' ways and the right ones: by hand, and never a nan or a warning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics import as_published as published

METRIC = Metric("x", "from a to b", "ns")


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_storage_by_hand() -> None:
    # Mean 2, s = 1: 3.92 against 4.302653 / sqrt(3); with 5 runs 3.92 against 1.2417.
    there = published.storage(METRIC, {}, [1, 2, 3], as_published=True)
    assert (there.value, there.low, there.high) == (2, pytest.approx(-1.92), pytest.approx(5.92))
    here = published.storage(METRIC, {}, [1, 2, 3], as_published=False)
    assert here.high == pytest.approx(2 + 2.484138, abs=1e-6)
    five = [1.0, 2.0, 3.0, 4.0, 5.0]
    wide = published.storage(METRIC, {}, five, as_published=True)
    right = published.storage(METRIC, {}, five, as_published=False)
    assert wide.high is not None
    assert right.high is not None
    assert (wide.high - 3) / (right.high - 3) == pytest.approx(3.157, abs=5e-4)
    assert published.storage(METRIC, {}, [1.0, 2.0], as_published=True).refused is None
    assert published.storage(METRIC, {}, [1.0, 2.0], as_published=False).refused is not None


def test_executors_by_hand() -> None:
    # 0..100 s at 1 Hz: 30..70 s is left, of it the bins 30..39, ..., 60..69; the value at 70 s
    # is in no whole bin. Values 1 but for the ends, which are cut.
    t = np.arange(101.0)
    y = np.where((t < 30) | (t > 69), 1000.0, 1.0)
    runs = [(t, k * y) for k in (1.0, 2.0, 3.0)]
    there = published.executors(METRIC, {}, runs, as_published=True)
    assert (there.value, there.refused, there.runs) == (1, published.NO_INTERVAL, 1)
    here = published.executors(METRIC, {}, runs, as_published=False)
    assert (here.value, here.runs) == (2, 3)
    assert here.high == pytest.approx(2 + 2.484138, abs=1e-6)
    # Bins count, not samples: ten values of 5 in the first bin, one of 1 in the second.
    uneven = np.concatenate([[0.0], 30 + np.arange(10.0), [40.0, 50.0, 80.0]])
    values = np.concatenate([[9.0], np.full(10, 5.0), [1.0, 7.0, 9.0]])
    assert published.executors(METRIC, {}, [(uneven, values)], as_published=True).value == 3


def test_micro_ros_memory_by_hand() -> None:
    # y = 500 x + (0, 0, -3, ...): slope of (1, 2, 3; 500, 1000, 1497) is 498.5; residuals -.5,
    # 1, -.5: s^2 = 1.5, error sqrt(1.5 / 2) = .866025, t(1, .975) = 12.706205.
    data = [1, 2, 3], [500, 1000, 1497]
    there = published.micro_ros_memory(METRIC, {}, *data, as_published=True)
    assert there.value == pytest.approx(498.5)
    assert there.refused == published.NO_INTERVAL
    here = published.micro_ros_memory(METRIC, {}, *data, as_published=False)
    assert here.high == pytest.approx(498.5 + 12.706205 * 0.866025, abs=1e-4)
    for x, y in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([], []), ([1, 2, math.nan], [1, 2, 3])):
        for way in (True, False):
            refused = published.micro_ros_memory(METRIC, {}, x, y, as_published=way)
            assert refused.value is None
            assert "three finite points" in str(refused.refused)
    with pytest.raises(ValueError, match="as many"):
        published.micro_ros_memory(METRIC, {}, [1, 2, 3], [1, 2], as_published=True)


def test_one_exchange_has_no_interval() -> None:
    there = published.micro_ros_latency(METRIC, {}, [1.29e6], as_published=True)
    assert (there.value, there.refused) == (1.29e6, published.NO_INTERVAL)
    here = published.micro_ros_latency(METRIC, {}, [1.29e6], as_published=False)
    assert here.value == 1.29e6
    assert "at least 3" in str(here.refused)
    more = published.micro_ros_latency(METRIC, {}, [1.0, 2.0, 3.0], as_published=False)
    assert more.high == pytest.approx(2 + 2.484138, abs=1e-6)


def test_communication_by_hand() -> None:
    # One of two messages of b lost: the study sees 2 and 4, mean 3; the truth is infinite.
    lossy = {"a": [1.0, 3.0], "b": [4.0, math.inf], "c": []}
    there = published.communication(METRIC, {}, [lossy, {"a": [9.0]}], as_published=True)
    assert there.value == 3
    assert there.per_run == (2, 4)
    assert (there.runs, there.samples, there.refused) == (1, 3, published.NO_INTERVAL)
    here = published.communication(METRIC, {}, [lossy] * 3, as_published=False)
    assert here.value == math.inf
    assert "infinite in 3 of 3 runs" in str(here.refused)
    whole = [{"a": [1.0 * k], "b": [3.0 * k, 3.0 * k]} for k in (1, 2, 3)]
    here = published.communication(METRIC, {}, whole, as_published=False)
    assert here.value == 4
    assert here.high == pytest.approx(4 + 2 * 2.484138, abs=1e-5)


def test_average_period_by_hand() -> None:
    assert published.average_period([0.0, 1.0, 9.0]) == 4.5
    assert math.isnan(published.average_period([1.0]))
    assert math.isnan(published.average_period([]))


anything = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=6)


def ways(values: list[float]) -> Iterator[Callable[[bool], Estimate]]:
    t = np.arange(len(values)) * 20.0
    yield lambda way: published.storage(METRIC, {}, values, as_published=way)
    yield lambda way: published.executors(METRIC, {}, [(t, values)] * 3, as_published=way)
    yield lambda way: published.micro_ros_memory(METRIC, {}, t, values, as_published=way)
    yield lambda way: published.micro_ros_latency(METRIC, {}, values, as_published=way)
    yield lambda way: published.communication(METRIC, {}, [{"a": values}] * 3, as_published=way)


@settings(derandomize=True)
@given(anything)
def test_an_estimate_or_a_refusal(values: list[float]) -> None:
    for compute in ways(values):
        for way in (True, False):
            found = compute(way)
            assert found.value is None or not math.isnan(found.value)
            assert (found.low is None) == (found.refused is not None)
            assert found.method.startswith("as published") == way


@settings(derandomize=True)
@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=5), st.floats(0.01, 100))
def test_scale(values: list[float], scale: float) -> None:
    for one, other in zip(ways(values), ways([scale * v for v in values]), strict=True):
        for way in (True, False):
            a, b = one(way), other(way)
            if a.value is not None and b.value is not None:
                assert b.value == pytest.approx(scale * a.value, rel=1e-6, abs=1e-6 * scale)
