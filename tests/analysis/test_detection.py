"""Detection limits: tabulated power, a second implementation, simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from roslens.analysis.statistics.student import least_detectable, t_quantile


@pytest.mark.parametrize("freedom", [2, 4, 9, 18, 100, 1000, 10_000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_power_at_the_limit_by_the_noncentral_t_of_scipy_stats(freedom: int, power: float) -> None:
    # c4 from its table (Montgomery, "Statistical Quality Control", appendix VI; n = freedom + 1).
    c4 = {2: 0.8862, 4: 0.9400, 9: 0.9727, 18: 0.9862, 100: 0.9975, 1000: 0.99975}
    effect = least_detectable(1.0, freedom, 0.95, power) * c4.get(freedom, 1.0)
    found = stats.nct.sf(t_quantile(0.975, freedom), freedom, effect)
    assert found == pytest.approx(power, abs=1e-4)


def test_experiments_find_what_such_experiments_state() -> None:
    """5 runs: the mean stated limit is found in .8; 4,000 experiments, error .0063."""
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
