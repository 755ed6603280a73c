"""Plans and variances: by hand and against NIST's certified values."""

from __future__ import annotations

import math
from importlib import resources

import numpy as np
import pytest
from scipy import stats

from roslens.analysis.statistics.planning import one_way, runs_for_half_width, variance_split
from roslens.analysis.statistics.trends import least_squares

DATA = resources.files("scipy") / "stats" / "tests" / "data"


def digits(found: float, certified: float) -> float:
    """Log relative error, at most 15."""
    if found == certified:
        return 15.0
    return min(15.0, -math.log10(abs(found - certified) / abs(certified)))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *[("AtmWtAg", 10.0), ("SiRstv", 10.0)],
        *[(f"SmLs0{i}", 10.0) for i in range(1, 7)],
        *[(f"SmLs0{i}", 4.0) for i in range(7, 10)],
    ],
)
def test_nist_analysis_of_variance(name: str, least: float) -> None:
    lines = (DATA / "nist_anova" / f"{name}.dat").read_text().splitlines()
    certified = next(
        float(line.split()[-1]) for line in lines if line.strip().startswith("Between")
    )
    residual = next(
        float(line.split()[-1]) for line in lines if line.strip().startswith("Standard Deviation")
    )
    rows = np.array([[float(v) for v in line.split()] for line in lines[60:] if line.split()])
    groups = [rows[rows[:, 0] == g, 1] for g in np.unique(rows[:, 0])]
    found = one_way(groups)
    assert digits(found.f, certified) >= least
    assert digits(found.residual_deviation, residual) >= least
    assert found.p == pytest.approx(stats.f.sf(certified, len(groups) - 1, len(rows) - len(groups)))


def test_nist_norris() -> None:
    lines = (DATA / "nist_linregress" / "Norris.dat").read_text().splitlines()
    y, x = np.loadtxt(lines[60:]).T
    line = least_squares(x, y)
    for found, certified in (
        (line.intercept, -0.262323073774029),
        (line.slope, 1.00211681802045),
        (line.intercept_error, 0.232818234301152),
        (line.slope_error, 0.429796848199937e-03),
        (line.residual_deviation, 0.884796396144373),
    ):
        assert digits(found, certified) >= 11


def test_one_way_by_hand() -> None:
    # Means 2 and 5, grand 3.5: between 13.5 (1 df), within 4 (4 df): F = 13.5.
    found = one_way([[1, 2, 3], [4, 5, 6]])
    assert (found.f, found.between_squares, found.within_squares) == (13.5, 13.5, 4)
    assert one_way([[1, 1], [2, 2]]).p == 0
    assert one_way([[1, 1], [1, 1]]).p == 1
    for wrong in ([[1, 2]], [[1], [2]], [[1, 2], []], [[1, 2], [math.nan, 1]]):
        with pytest.raises(ValueError, match="analysis of variance"):
            one_way(wrong)


def test_runs_for_half_width_by_hand() -> None:
    # s = 1: half widths 2.484 s at 3 runs, 1.242 s at 5, .715 s at 10 (rounded up).
    pilot = [1.0, 2.0, 3.0]
    assert runs_for_half_width(pilot, 2.4842) == 3
    assert runs_for_half_width(pilot, 1.2417) == 5
    assert runs_for_half_width(pilot, 0.7154) == 10
    assert runs_for_half_width([2.0, 2.0, 2.0], 0.1) == 3
    with pytest.raises(ValueError, match="at least 3 finite values"):
        runs_for_half_width([1.0, 2.0], 1)


def test_assurance() -> None:
    # So many runs do in 80 % of pilots, not only in half of them; Monte Carlo error 2 %.
    rng = np.random.default_rng(5)
    truth = runs_for_half_width([-1.0, 0.0, 1.0], 0.5)  # s = 1
    assert truth is not None
    plans = [runs_for_half_width(rng.normal(size=5), 0.5, assurance=0.8) or 0 for _ in range(400)]
    assert np.mean(np.array(plans) >= truth) == pytest.approx(0.8, abs=0.06)


def test_variance_split() -> None:
    # Between 0.5, within 1 / sqrt(400) = 0.05.
    rng = np.random.default_rng(6)
    runs = [rng.normal(5 + rng.normal(0, 0.5), 1, 400) for _ in range(200)]
    found = variance_split(runs)
    assert found.between == pytest.approx(0.5, rel=0.15)
    assert found.within == pytest.approx(0.05, rel=0.15)
    assert found.share_between == pytest.approx(0.99, abs=0.01)
    same = variance_split([[1.0, 2.0, 3.0, 1.0]] * 3)
    assert (same.between, same.share_between) == (0, 0)
    with pytest.raises(ValueError, match="3 runs"):
        variance_split([[1.0, 2.0]])
