"""Test effects of factors: by hand, against a linear model, by simulation, by property."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roslens.analysis.statistics.factorial import (
    BY_BLOCK,
    BY_CELL,
    FactorEffect,
    Observation,
    effects,
)

pytestmark = pytest.mark.filterwarnings("error")


def two_by_two(values: Sequence[Sequence[float]], *, blocks: bool = True) -> list[Observation]:
    """Make observations from the values of (a, x), (a, y), (b, x), (b, y) of each block."""
    cells = [{"first": f, "second": s} for f in "ab" for s in "xy"]
    return [
        Observation(cell, value, f"block {i}" if blocks else None)
        for i, row in enumerate(values)
        for cell, value in zip(cells, row, strict=True)
    ]


BLOCKS = [[10.0, 12.0, 15.0, 21.0], [20.0, 22.0, 26.0, 32.0], [30.0, 32.0, 34.0, 40.0]]


def test_a_two_by_two_by_hand() -> None:
    # first, per block: mean of b less mean of a: 7, 8, 6; mean 7, s = 1. second: 4, 4, 4.
    # Interaction: (b, y) - (b, x) less (a, y) - (a, x): 4, 4, 4.
    first, second, interaction = effects(two_by_two(BLOCKS), scale="difference")
    assert first.label == "first: b - a"
    assert first.value == pytest.approx(7)
    assert first.low == pytest.approx(7 - 2.484138, abs=1e-6)
    assert first.high == pytest.approx(7 + 2.484138, abs=1e-6)
    # t = 7 sqrt(3), 2 degrees of freedom: p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(147 / 149).
    assert first.p == pytest.approx(1 - math.sqrt(147 / 149), rel=1e-9)
    assert (second.value, second.low, second.high, second.p) == (4, 4, 4, 0)
    assert interaction.label == "first: b - a x second: y - x"
    assert interaction.value == pytest.approx(4)
    assert first.p_holm == first.p
    assert (first.method, first.replications) == (BY_BLOCK, 3)


def test_ratios_are_geometric() -> None:
    # b is twice a in every block, whatever the block: ratio 2, no interaction.
    rows = [[10.0 * k, 30.0 * k, 20.0 * k, 60.0 * k] for k in (1.0, 3.0, 7.0)]
    first, second, interaction = effects(two_by_two(rows))
    assert first.value == pytest.approx(2)
    assert second.value == pytest.approx(3)
    assert interaction.value == pytest.approx(1)
    assert second.label == "second: y / x"


def test_without_blocks_it_is_the_welch_of_each_contrast() -> None:
    observations = [
        Observation({"c": name}, value)
        for name, values in (("a", [1.0, 2.0, 4.0]), ("b", [5.0, 9.0, 7.0, 8.0]))
        for value in values
    ]
    (effect,) = effects(observations, scale="difference")
    expected = stats.ttest_ind([5.0, 9.0, 7.0, 8.0], [1.0, 2.0, 4.0], equal_var=False)
    assert effect.p == pytest.approx(expected.pvalue, rel=1e-9)
    low, high = expected.confidence_interval()
    assert (effect.low, effect.high) == (pytest.approx(low), pytest.approx(high))
    assert (effect.method, effect.replications) == (BY_CELL, 7)


def test_one_factor_in_blocks_is_the_paired_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(10, 1, (2, 6))
    observations = [
        Observation({"c": name}, float(v), str(i))
        for name, values in (("a", a), ("b", b))
        for i, v in enumerate(values)
    ]
    (effect,) = effects(observations, scale="difference")
    assert effect.p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_references_levels_and_three_factors() -> None:
    rng = np.random.default_rng(2)
    observations = [
        Observation({"f": f, "g": g, "h": h, "same": 1}, float(rng.lognormal()), str(block))
        for block in range(5)
        for f in "abc"
        for g in (1, 2)
        for h in (True, False)
    ]
    estimates = effects(observations, references={"f": "b"})
    mains = [e for e in estimates if len(e.factors) == 1]
    assert [e.levels for e in mains] == [("a",), ("c",), (2,), (False,)]
    assert {e.references for e in mains[:2]} == {("b",)}
    # f x g: 2, f x h: 2, g x h: 1.
    assert len(estimates) == 4 + 5
    assert len(effects(observations, interactions=False)) == 4
    assert [len(e.factors) for e in estimates] == [1] * 4 + [2] * 5
    with pytest.raises(ValueError, match="no level 'z'; its levels are: a, b, c"):
        effects(observations, references={"f": "z"})


def test_balanced_blocks_agree_with_least_squares() -> None:
    """The estimates are those of an additive linear model with blocks (numpy's lstsq)."""
    rng = np.random.default_rng(3)
    observations = two_by_two(rng.normal(10, 2, (5, 4)).tolist())
    rows, y = [], []
    for o in observations:
        block = [float(o.block == f"block {i}") for i in range(5)]
        b, v = float(o.cell["first"] == "b"), float(o.cell["second"] == "y")
        rows.append([*block, b - 0.5, v - 0.5, (b - 0.5) * (v - 0.5)])
        y.append(o.value)
    fitted = np.linalg.lstsq(np.array(rows), np.array(y), rcond=None)[0][5:]
    values = [e.value for e in effects(observations, scale="difference")]
    assert values == pytest.approx(fitted.tolist(), rel=1e-9)


def test_incomplete_blocks_are_left_out_and_counted() -> None:
    observations = two_by_two([*BLOCKS, BLOCKS[0]])
    estimates = effects(observations[:-1], scale="difference")
    assert all((e.replications, e.left_out, e.method) == (3, 1, BY_BLOCK) for e in estimates)
    # Two whole blocks are too few: the effects are by cell, as every cell has two runs.
    estimates = effects(two_by_two(BLOCKS[:2]), scale="difference")
    assert {e.method for e in estimates} == {BY_CELL}
    # Several runs of a cell in a block count as their mean.
    doubled = effects([*two_by_two(BLOCKS), *two_by_two(BLOCKS)], scale="difference")
    assert doubled[0].low == pytest.approx(7 - 2.484138, abs=1e-6)


def refusals(refused: Sequence[FactorEffect]) -> set[str | None]:
    assert all(e.value is None and e.low is None and e.p_holm is None for e in refused)
    return {e.refused for e in refused}


def test_what_cannot_be_said_is_refused() -> None:
    assert effects([]) == []
    assert effects([Observation({"c": "a"}, 1.0)]) == []
    assert effects([Observation({}, 1.0)] * 3) == []
    bad = two_by_two([*BLOCKS[:2], [1.0, 2.0, 3.0, math.nan]])
    assert refusals(effects(bad)) == {"1 of 12 runs have no finite value"}
    zero = two_by_two([*BLOCKS[:2], [1.0, 2.0, 3.0, 0.0]])
    assert refusals(effects(zero)) == {"a ratio needs values above 0; ask for differences"}
    missing = [o for o in two_by_two(BLOCKS) if o.cell != {"first": "b", "second": "y"}]
    assert refusals(effects(missing)) == {
        "1 of 4 combinations of levels were not run: first=b, second=y"
    }
    without_second = [*two_by_two(BLOCKS), Observation({"first": "a"}, 1.0, "block 0")]
    assert refusals(effects(without_second)) == {"1 runs have no level of factor second"}
    (single,) = refusals(effects(two_by_two(BLOCKS[:1])))
    assert "3 whole blocks" in single


tables = st.lists(st.lists(st.floats(0.5, 2), min_size=4, max_size=4), min_size=3, max_size=6)


@given(tables, st.floats(0.01, 100), st.floats(-50, 50), st.booleans())
def test_scale_shift_and_order(
    rows: list[list[float]], scale: float, shift: float, blocks: bool
) -> None:
    observations = two_by_two(rows, blocks=blocks)
    moved = [Observation(o.cell, scale * o.value + shift, o.block) for o in observations]
    estimates = effects(observations, scale="difference")
    # Reversed, the references would be the other levels.
    first = {"first": "a", "second": "x"}
    moved_estimates = effects(moved[::-1], scale="difference", references=first)
    by_label = {e.label: e for e in moved_estimates}
    for e in estimates:
        value = by_label[e.label].value
        assert value == pytest.approx(scale * e.value, abs=1e-7 * (scale + abs(shift)))
    ratios = effects(observations)
    scaled = effects([Observation(o.cell, scale * o.value, o.block) for o in observations])
    for e, f in zip(ratios, scaled, strict=True):
        assert f.value == pytest.approx(e.value, rel=1e-7)


@given(tables, st.sampled_from(["ratio", "difference"]))
def test_an_effect_or_a_refusal(rows: list[list[float]], scale: str) -> None:
    rows[0][0] = rows[1][0] = rows[2][0] = 1.0
    for e in effects(two_by_two(rows), scale=scale):
        for number in (e.value, e.low, e.high, e.p, e.p_holm):
            assert not math.isnan(number)
    constant = effects(two_by_two([[1.0] * 4] * 3), scale=scale)
    assert all(e.p == 1 for e in constant)
