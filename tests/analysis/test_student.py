"""Test Student's t and related functions against scipy and closed forms.

Detection limits: by tabulated power, a second implementation, simulation.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from roslens.analysis.statistics.student import (
    binomial_at_most,
    least_detectable,
    noncentrality,
    t_above,
    t_quantile,
    t_two_sided,
)

FREEDOM = st.floats(0.5, 1e5)


def test_closed_forms() -> None:
    """One degree of freedom is Cauchy's distribution, two are algebraic, infinitely many normal."""
    assert t_quantile(0.975, 1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-13)
    assert t_quantile(0.9, 2) == pytest.approx(0.8 / math.sqrt(2 * 0.9 * 0.1), rel=1e-13)
    assert t_quantile(0.975, math.inf) == pytest.approx(1.959963984540054, rel=1e-14)
    assert t_above(1, 1) == pytest.approx(0.25, rel=1e-13)
    assert t_two_sided(-1, 1) == pytest.approx(0.5, rel=1e-13)
    assert t_quantile(0.5, 7) == 0
    assert binomial_at_most(1, 3, 0.5) == pytest.approx(0.5, rel=1e-13)
    assert [binomial_at_most(k, 2, 0.3) for k in (-1, 2, 3)] == [0, 1, 1]
    assert [binomial_at_most(1, 2, p) for p in (0, 1)] == [1, 0]


def test_what_has_no_answer_is_not_a_number() -> None:
    for p, freedom in ((0.975, 0), (0.975, math.nan), (1.5, 3), (math.nan, 3)):
        assert math.isnan(t_quantile(p, freedom))
    assert math.isnan(t_above(1, 0))
    assert math.isnan(t_above(math.nan, 3))
    assert t_quantile(1, 3) == -t_quantile(0, 3) == math.inf
    assert (t_above(math.inf, 3), t_above(-math.inf, 3)) == (0, 1)


@given(st.floats(0.0001, 0.9999), FREEDOM)
def test_quantiles(p: float, freedom: float) -> None:
    expected = special.stdtrit(freedom, p)
    assert t_quantile(p, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.floats(-1000, 1000), FREEDOM)
def test_tails(t: float, freedom: float) -> None:
    assert t_above(t, freedom) == pytest.approx(special.stdtr(freedom, -t), rel=1e-9)
    two_sided = 2 * special.stdtr(freedom, -abs(t))
    assert t_two_sided(t, freedom) == pytest.approx(two_sided, rel=1e-9)


@given(st.integers(1, 20_000), st.floats(0.001, 0.999), st.floats(-5, 5))
def test_binomials(n: int, p: float, away: float) -> None:
    k = min(n - 1, max(0, round(n * p + away * math.sqrt(n * p * (1 - p)))))
    assert binomial_at_most(k, n, p) == pytest.approx(special.bdtr(k, n, p), rel=1e-8)


@pytest.mark.parametrize("freedom", [1, 1.02, 1.5, 2, 2.5, 3, 4, 7.3, 10, 40, 400, 1e5])
@pytest.mark.parametrize("level", [0.95, 0.999])
@pytest.mark.parametrize("power", [0.6, 0.8, 0.9])
def test_noncentral(freedom: float, level: float, power: float) -> None:
    critical = t_quantile((1 + level) / 2, freedom)
    effect = noncentrality(critical, freedom, 1 - power)
    assert stats.nct.cdf(critical, freedom, effect) == pytest.approx(1 - power, abs=1e-8)


@pytest.mark.parametrize("freedom", [2, 4, 9, 18, 100, 1000, 10_000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_power_at_the_limit_by_the_noncentral_t_of_scipy_stats(freedom: int, power: float) -> None:
    # c4 from its table (Montgomery, "Statistical Quality Control", appendix VI; n = freedom + 1).
    c4 = {2: 0.8862, 4: 0.9400, 9: 0.9727, 18: 0.9862, 100: 0.9975, 1000: 0.99975}
    effect = least_detectable(1.0, freedom, 0.95, power) * c4.get(freedom, 1.0)
    reached = stats.nct.sf(t_quantile(0.975, freedom), freedom, effect)
    assert reached == pytest.approx(power, abs=1e-4)


def test_experiments_find_what_such_experiments_state() -> None:
    """With 5 runs, the mean stated limit is found in .8; 4,000 experiments, error .0063."""
    rng = np.random.default_rng(1)
    count, k = 4000, 5
    first = rng.standard_normal((count, k)).std(axis=1, ddof=1) / np.sqrt(k)
    stated = np.mean([least_detectable(e, k - 1) for e in first])
    second = stated + rng.standard_normal((count, k))
    error = second.std(axis=1, ddof=1) / np.sqrt(k)
    power = (second.mean(axis=1) > t_quantile(0.975, k - 1) * error).mean()
    assert power == pytest.approx(0.8, abs=4 * 0.0063)


def test_scale_and_limits() -> None:
    assert least_detectable(3.0, 4) == pytest.approx(3 * least_detectable(1.0, 4))
    assert least_detectable(0.0, 4) == 0
    for error, freedom in ((-1.0, 4), (float("nan"), 4), (1.0, 0)):
        with pytest.raises(ValueError, match="detection limit"):
            least_detectable(error, freedom)
