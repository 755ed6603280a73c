"""Test adjusted p values by hand, and as properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.statistics.multiplicity import holm, holm_of_known

p_values = st.lists(st.floats(0, 1), max_size=30)


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made non-decreasing.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # Values that could not be tested are not among those that the others are corrected for.
    corrected = holm_of_known([0.01, None, 0.04, 0.03, 0.005])
    assert corrected == pytest.approx([0.03, None, 0.06, 0.06, 0.02])


@given(p_values, st.randoms())
def test_order_of_tests_does_not_matter(p: list[float], random: object) -> None:
    order = np.random.default_rng(len(p)).permutation(len(p))
    corrected = np.array(holm(p))
    assert holm(np.array(p)[order]) == pytest.approx(corrected[order])
    assert ((corrected >= np.array(p) - 1e-12) & (corrected <= 1)).all()


def test_none_and_what_is_no_p_value() -> None:
    assert holm([]) == []
    for wrong in ([0.5, np.nan], [-0.1], [1.1]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm(wrong)
