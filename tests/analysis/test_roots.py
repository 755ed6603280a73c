"""Roots by halving."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roslens.analysis.statistics.ratio import root


def test_by_hand() -> None:
    assert root(lambda x: x * x - 2, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert root(lambda x: 2 - x * x, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x * x, 1.0, 2.0)


@settings(derandomize=True)
@given(st.floats(1e-9, 1e9), st.floats(1.5, 1e3))
def test_the_place_is_found_to_the_last_digit(place: float, factor: float) -> None:
    found = root(lambda x: x - place, place / factor, place * factor)
    assert abs(found - place) <= 2 * math.ulp(place)
