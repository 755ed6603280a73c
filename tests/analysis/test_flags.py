"""Test twins, outliers and warm-up by hand and by simulation; nothing is dropped."""

import math

import numpy as np
import pytest
from scipy import signal

from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.flags import outlying, same_series, warm_up
from roslens.analysis.statistics.over_runs import maximum_over_runs


def test_twins() -> None:
    a = [1.0, 2.0, 3.0]
    twins = same_series({"x": a, "y": [1.0, 2.0, 3.5], "z": np.array(a), "u": a[::-1]})
    assert twins == [["x", "z"]]
    # Constant or tiny series can be alike by chance.
    assert same_series({"a": [1, 1, 1], "b": [1, 1, 1], "c": [1, 2], "d": [1, 2], "e": []}) == []


def test_outliers_by_hand() -> None:
    # Median 3, MAD 1: z = .6745 * 97 = 65; 9 gives 4.05, 8 gives 3.37.
    assert outlying([1, 2, 3, 4, 100]) == [4]
    assert outlying([1, 2, 3, 4, 3, 2, 4, 9]) == [7]
    assert outlying([1, 2, 3, 4, 3, 2, 4, 8]) == []
    # More than half are equal: the mean absolute deviation is 1.25 * 4 / 9.
    assert outlying([5, 5, 5, 5, 5, 5, 5, 5, 9]) == [8]
    assert outlying([1.0, 1.0, 1.0, 1.0, math.inf]) == [4]
    for nobody_can_say in ([1, 2, 100], [], [1, 2, 3, 4, math.nan], [2] * 6):
        assert outlying(nobody_can_say) == []


def test_injected_start_is_found() -> None:
    rng = np.random.default_rng(3)
    for start in (100, 300):
        samples = signal.lfilter([1], [1, -0.5], rng.normal(size=2000))
        samples[:start] += np.linspace(30, 5, start)
        end = warm_up(samples)
        assert end == pytest.approx(start, abs=40)


def test_steady_series_have_hardly_a_start() -> None:
    rng = np.random.default_rng(4)
    cuts = [warm_up(rng.normal(size=1000)) for _ in range(100)]
    short = [c for c in cuts if c is not None and c < 300]
    assert len(short) >= 75


def test_series_that_never_settle() -> None:
    assert warm_up(np.linspace(0, 1, 1000)) is None
    assert warm_up([math.nan] * 100) is None
    assert warm_up([1.0, 2.0]) == 0
    assert warm_up(np.ones(100)) == 0


def test_maxima_of_runs_by_hand() -> None:
    metric = Metric("latency", "from a to b", "ns")
    runs = [[0.0, *[float(k)] * 8, 1000.0] for k in (1, 2, 3)]
    assert maximum_over_runs(metric, {}, runs).value == 1000
    longer = maximum_over_runs(metric, {}, [*runs, [1.0] * 16])
    assert (longer.value, longer.low) == (750.25, None)
    assert "runs of 10 to 16 samples" in str(longer.refused)
    lost = [[1.0] * 9 + [math.inf]] * 3
    assert maximum_over_runs(metric, {}, lost).value == math.inf
    assert maximum_over_runs(metric, {}, [[math.nan, 1.0]] * 3).refused is not None
