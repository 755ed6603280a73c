"""Adjusted p values against the published examples, and as properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.multiplicity import benjamini_hochberg, holm

# Benjamini and Hochberg (1995), section 4: thrombolysis, 15 comparisons.
PAPER = (
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
    *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000),
)
p_values = st.lists(st.floats(0, 1), max_size=30)


def test_the_paper_rejects_four_and_holm_three() -> None:
    assert (benjamini_hochberg(PAPER) <= 0.05).sum() == 4
    assert (holm(PAPER) <= 0.05).sum() == 3


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made non-decreasing.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_values.filter(bool))
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@given(p_values, st.randoms())
def test_order_of_tests_does_not_matter(p: list[float], random: object) -> None:
    order = np.random.default_rng(len(p)).permutation(len(p))
    for adjust in (holm, benjamini_hochberg):
        assert adjust(np.array(p)[order]) == pytest.approx(adjust(p)[order])
        assert ((adjust(p) >= np.array(p) - 1e-12) & (adjust(p) <= 1)).all()


def test_none_and_what_is_no_p_value() -> None:
    assert holm([]).size == 0
    assert benjamini_hochberg([]).size == 0
    for wrong in ([0.5, np.nan], [-0.1], [1.1]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm(wrong)
