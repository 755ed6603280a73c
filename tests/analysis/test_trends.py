"""Test slopes and bends: certified data, a second implementation, by hand, by property."""

from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.trends import best_break, binned, glsar, least_squares, theil_sen

series = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=40)


def norris() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Load NIST StRD Norris, as scipy ships it: columns y and x after 60 lines of text."""
    path = resources.files("scipy") / "stats/tests/data/nist_linregress/Norris.dat"
    return np.loadtxt(path.read_text().splitlines()[60:])


def test_a_line_has_the_certified_values() -> None:
    y, x = norris().T
    line = least_squares(x, y)
    for computed, certified in (
        (line.intercept, -0.262323073774029),
        (line.slope, 1.00211681802045),
        (line.intercept_error, 0.232818234301152),
        (line.slope_error, 0.429796848199937e-03),
        (line.residual_deviation, 0.884796396144373),
    ):
        assert computed == pytest.approx(certified, rel=1e-11)


@given(series)
def test_theil_sen_is_scipys(y: list[float]) -> None:
    x = np.arange(len(y)) * 0.5
    assert theil_sen(x, y) == pytest.approx(stats.theilslopes(y, x).slope, abs=1e-9)


@given(series, st.floats(-100, 100), st.floats(0.1, 100))
def test_theil_sen_moves_with_the_data(y: list[float], slope: float, scale: float) -> None:
    x = np.arange(len(y), dtype=float)
    expected = scale * theil_sen(x, y) + slope
    assert theil_sen(x, scale * np.array(y) + slope * x + 7) == pytest.approx(expected, abs=1e-6)


def test_wild_points_do_not_move_it() -> None:
    y = 3.0 * np.arange(100)
    y[[10, 50, 90]] = 1e9
    assert theil_sen(np.arange(100), y) == pytest.approx(3)


def test_no_slope_without_two_places() -> None:
    for x in ([1.0], [1.0, 1.0], []):
        with pytest.raises(ValueError, match="two different x"):
            theil_sen(x, x)


def test_bins_are_means() -> None:
    x, y = binned(np.arange(8), np.array([0, 2, 4, 6, 1, 1, 9, 9]), 4)
    assert x.tolist() == [0.5, 2.5, 4.5, 6.5]
    assert y.tolist() == [1, 5, 1, 9]
    line = np.arange(5003.0)
    assert theil_sen(line, 2 * line) == pytest.approx(2)


def test_glsar_against_statsmodels() -> None:
    # statsmodels 0.15.0: GLSAR(y, add_constant(i), rho=1).iterative_fit(200, rtol=1e-12)
    i = np.arange(60.0)
    interval, phi = glsar(i, 3 + 0.05 * i + np.sin(i / 7) + 0.3 * np.sin(i * i))
    assert phi == pytest.approx(0.9176868316936838, rel=1e-6)
    assert interval.value == pytest.approx(0.05976027628482197, rel=1e-6)
    assert interval.low == pytest.approx(-0.00195349, abs=1e-7)
    assert interval.high == pytest.approx(0.12147404, abs=1e-7)


def test_lines_are_those_nist_certifies() -> None:
    # The certified slope is 1.00211681802045: with all errors of one sign pattern phi is small, and
    # the generalised line lies within two standard errors (.000429796848199937) of it.
    y, x = norris().T
    order = np.argsort(x)
    assert theil_sen(x[order], y[order]) == pytest.approx(1.00211681802045, abs=2 * 0.00043)
    interval, _ = glsar(x[order], y[order])
    assert interval.value == pytest.approx(1.00211681802045, abs=2 * 0.00043)


@given(st.floats(-5, 5), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_glsar_of_an_exact_line(slope: float, start: float, scale: float) -> None:
    x = 1.7e9 + np.arange(50.0)
    y = start + slope * scale * (x - x[0])
    interval, _ = glsar(x, y)
    assert interval.value == pytest.approx(slope * scale, rel=1e-6, abs=1e-6 * (1 + abs(start)))


def test_glsar_needs_points() -> None:
    assert glsar([1.0, 2.0], [1.0, 2.0])[0].refused == "2 points; 10 are needed"
    assert glsar(np.arange(20), np.full(20, 5.0))[0].value == 0


def test_bend_by_hand() -> None:
    # The series climbs to 40, then is flat: two lines are exact.
    x = np.arange(100.0)
    index, gain = best_break(np.minimum(x, 40))
    assert abs(index - 40) <= 1
    assert gain == pytest.approx(1)


def test_bend_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(200.0)
    rows = np.minimum(x, 60) + rng.normal(0, 3, (5, 200))
    assert abs(best_break(rows)[0] - 60) <= 5
    # A row of a thousand times the size has no more weight.
    rows[0] = 1000 * np.minimum(x, 150)
    assert abs(best_break(rows)[0] - 60) <= 10


def test_bend_agrees_with_trying_every_place() -> None:
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.normal(size=60))

    def error(part: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        x = np.arange(part.size)
        return float(((part - np.polyval(np.polyfit(x, part, 1), x)) ** 2).sum())

    errors = {k: error(y[:k]) + error(y[k:]) for k in range(6, 55)}
    index, gain = best_break(y)
    assert index == min(errors, key=errors.__getitem__)
    assert gain == pytest.approx(1 - min(errors.values()) / error(y))


def test_no_bend_in_what_is_straight_or_too_short() -> None:
    assert best_break(np.zeros(50))[1] == 0
    assert best_break(3.5 * np.arange(50))[1] == 0
    with pytest.raises(ValueError, match="at least 10"):
        best_break(np.arange(5))
