"""Test quantiles against numpy, and by hand beside infinities; ECDF and CCDF by counting."""

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.statistics.distributions import distribution, tail_limit, thin
from roslens.analysis.statistics.quantiles import (
    least_samples,
    percentile_name,
    quantile,
    quantile_of,
)

finite = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(st.lists(finite, min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_numpys_where_all_is_finite(samples: list[float], q: float) -> None:
    expected = float(np.quantile(samples, q, method="median_unbiased"))
    assert quantile(samples, q) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(
    st.lists(st.lists(st.one_of(st.none(), finite), max_size=30), min_size=1, max_size=4),
    st.floats(0, 1),
)
def test_the_expression_is_the_function(groups: list[list[float | None]], q: float) -> None:
    rows = [(number, sample) for number, group in enumerate(groups) for sample in group]
    frame = pl.DataFrame(rows, {"g": pl.Int64, "x": pl.Float64}, orient="row")
    by_group = frame.group_by("g").agg(p=quantile_of(pl.col("x"), q))
    for number, p in by_group.iter_rows():
        samples = [sample for sample in groups[number] if sample is not None]
        if samples:
            assert p == pytest.approx(quantile(samples, q), rel=1e-9, abs=1e-6)
        else:
            assert p is None


_OTHERS = re.compile(
    r"\.quantile\(|\bnp\.(?:nan)?(?:quantile|percentile)\b|(?<!analysis\.)\bstatistics\.quantiles\b|"
    r"scoreatpercentile|mquantiles|quantile_cont|[dD]3\.quantile"
)


def test_the_product_has_one_quantile_function() -> None:
    """Medians agree by all definitions; other quantiles must come from `quantile`."""
    root = Path(__file__).parents[2]
    rooms = ("analysis", "collectors", "notebooks", "studies", "tracing", "src/roslens")
    files = [
        file
        for room in rooms
        for suffix in ("*.py", "*.ipynb", "*.js", "*.mjs", "*.ts", "*.rs")
        for file in (root / room).rglob(suffix)
    ]
    assert len(files) > 100
    calls_by_file = {
        str(file.relative_to(root)): len(calls)
        for file in files
        if (calls := _OTHERS.findall(file.read_text(encoding="utf-8")))
    }
    assert calls_by_file == {}
    # The pattern does find them.
    assert _OTHERS.search("latency.quantile(0.99)")
    assert _OTHERS.search("np.percentile(x, 99)")


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
