"""Test that any input gives an estimate, a refusal or one clear error, and no warning or nan."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.measures.drift import order_effect
from roslens.analysis.runs import Run
from roslens.analysis.statistics import autocorrelation, flags, fractions, over_runs, ranks, trends
from roslens.analysis.statistics.distributions import distribution, tail_limit
from roslens.analysis.statistics.multiplicity import holm
from roslens.analysis.statistics.one_run import mean_of_one_run, percentile_of_one_run
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.statistics.ratio import (
    Spread,
    difference_of_means,
    equivalent_pairs,
    equivalent_ratio,
    paired_p,
    paired_ratio,
    ratio_of_means,
    runs_for_ratio,
)
from roslens.analysis.statistics.student import least_detectable
from roslens.recording.errors import RoslensError

METRIC = Metric("x", "from a to b", "ns")
Values = list[float]

# Ties, constants, wild and missing values, single values and none.
value = st.one_of(
    st.sampled_from([0.0, 1.0, 1.0, 2.0, -1.0, 1e300, -1e300, 1e-300, math.inf, -math.inf]),
    st.just(math.nan),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-3, 3).map(float),
)
values = st.one_of(
    st.lists(value, max_size=25),
    st.lists(st.integers(0, 2).map(float), max_size=25),
    st.tuples(st.floats(-1e6, 1e6), st.integers(0, 25)).map(lambda p: [p[0]] * p[1]),
    st.lists(st.floats(1, 1e6), min_size=3, max_size=40),
)


def counts(series: Values) -> list[int]:
    return [int(abs(v)) % 7 if math.isfinite(v) else 0 for v in series]


ONE: dict[str, Callable[[Values], object]] = {
    "mean over runs": lambda series: over_runs.mean_over_runs(
        METRIC, {}, [series, series[::-1], series]
    ),
    "maximum": lambda series: over_runs.maximum_over_runs(METRIC, {}, [series, series[1:], series]),
    "percentile": lambda series: over_runs.percentile_over_runs(METRIC, {}, [series] * 3, 0.5),
    "P99": lambda series: over_runs.percentile_over_runs(METRIC, {}, [series] * 3, 0.99),
    "value": lambda series: over_runs.value_over_runs(METRIC, {}, series, len(series)),
    "fraction": lambda series: fractions.fraction_over_runs(
        METRIC, {}, counts(series), [6] * len(series)
    ),
    "student": over_runs.student_t,
    "percentile of one run": lambda series: percentile_of_one_run(METRIC, {}, series, 0.5),
    "mean of one run": lambda series: mean_of_one_run(METRIC, {}, series),
    "quantile": lambda series: quantile(series, 0.9),
    "spread": Spread.of,
    "outlying": flags.outlying,
    "warm up": flags.warm_up,
    "same series": lambda series: flags.same_series({"a": series, "b": series}),
    "ecdf": distribution,
    "tail": lambda series: [tail_limit(v) for v in series if math.isfinite(v)],
    "holm": holm,
    "order": lambda series: order_effect(
        [Run(str(i), {}, order=i) for i in range(len(series))], series
    ),
    "detectable": lambda series: [least_detectable(v, 4) for v in series],
    "bend": trends.best_break,
    "leak": lambda series: leak(
        "heap", {}, [Series(np.arange(len(series)) * 1.0, np.array(series))] * 3
    ),
}

TWO: dict[str, Callable[[Values, Values], object]] = {
    "theil sen": trends.theil_sen,
    "line": trends.least_squares,
    "glsar": lambda x, y: trends.glsar(np.arange(len(y)), y),
    "hodges lehmann": ranks.hodges_lehmann,
    "cliff": ranks.cliffs_delta,
    "ratio": lambda x, y: ratio_of_means(Spread.of(x), Spread.of(y)),
    "difference": lambda x, y: difference_of_means(Spread.of(x), Spread.of(y)),
    "paired ratio": paired_ratio,
    "paired p": paired_p,
    "equivalent": lambda x, y: equivalent_ratio(Spread.of(x), Spread.of(y), 0.05),
    "equivalent pairs": lambda x, y: equivalent_pairs(x, y, 0.05),
    "runs": lambda x, y: runs_for_ratio(Spread.of(x), Spread.of(y), 0.05),
}


def numbers(result: object) -> Iterator[float]:
    if isinstance(result, (bool, str)) or result is None:
        return
    if isinstance(result, (int, float, np.floating, np.integer)):
        yield float(result)
    elif isinstance(result, np.ndarray):
        yield from map(float, result.ravel())
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from numbers(item)
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            # Values per run are passed through as they came, for tables of runs.
            if field.name != "per_run":
                yield from numbers(getattr(result, field.name))


def check(compute: Callable[[], object]) -> None:
    sentence = "nothing to say"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = compute()
        except (ValueError, RoslensError) as error:
            sentence = str(error)
            result = None
    # The error is one sentence of ours, not numpy's words for a wrong shape.
    assert len(sentence) > 10
    assert "array" not in sentence
    assert not any(math.isnan(number) for number in numbers(result)), result
    if isinstance(result, Estimate):
        assert (result.low is None) == (result.high is None) == (result.refused is not None)
        assert Estimate(**result.to_json()).refused == result.refused


@pytest.mark.parametrize("name", ONE)
@given(x=values)
@settings(max_examples=60)
def test_of_one_series(name: str, x: Values) -> None:
    check(lambda: ONE[name](x))


@pytest.mark.parametrize("name", TWO)
@given(x=values, y=values, same=st.booleans())
@settings(max_examples=60)
def test_of_two_series(name: str, x: Values, y: Values, same: bool) -> None:
    if same:
        # Pairs and lines need equal lengths.
        size = min(len(x), len(y))
        x, y = x[:size], y[:size]
    check(lambda: TWO[name](x, y))


@given(x=values)
def test_autocorrelation_of_anything_finite(x: Values) -> None:
    finite = [v for v in x if math.isfinite(v)]
    check(lambda: autocorrelation.autocorrelation(finite))
    check(lambda: autocorrelation.effective_samples(finite))
    check(lambda: autocorrelation.effective_samples_of_quantile(finite, 0.9))
