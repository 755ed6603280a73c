"""Test that each judged sentence's word agrees with the interval beside it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roslens.analysis.judged import Stated, judged, side, turned
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.verdicts.pairs import Pair, pairs
from roslens.analysis.verdicts.statement import Statement, Verdict
from roslens.recording.manifest import Level
from roslens.studies.communication.statements import statements
from roslens.studies.executors.statements import (
    cpu_statement,
    latency_statement,
    payload_statement,
    saving_statement,
)
from roslens.studies.executors.work import CALL, MESSAGE

T = 0.05
INTERVAL = re.compile(r"is ([\d.]+) \[([\d.]+), ([\d.]+)\] times")


def pair(low: float, high: float, verdict: Verdict, p: float = 0.001) -> Pair:
    ratio = (low * high) ** 0.5
    return Pair("x", {}, "on", "off", ratio, low, high, p, verdict, verdict)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # The publishers of 10 MB: certainly shorter, though by less than the relevant margin.
        (pair(0.979, 0.994, "no_difference"), ["for", "for", "against"]),
        (pair(0.50, 0.60, "less"), ["for", "against", "against"]),
        (pair(1.50, 1.60, "more"), ["against", "against", "for"]),
        (pair(0.99, 1.01, "no_difference"), ["against", "for", "against"]),
        (pair(0.80, 1.30, "not_enough_evidence"), ["open", "open", "open"]),
        # Below 1, but reaching from irrelevant to barely relevant: the levels are told apart.
        (pair(0.90, 0.999, "less"), ["for", "against", "against"]),
    ],
)
def test_sides_by_hand(found: Pair, expected: list[str]) -> None:
    """The claims are less, alike and more."""
    asked: tuple[Stated, ...] = ("less", "alike", "more")
    assert [side(found, stated) for stated in asked] == expected
    back = turned(found)
    assert [side(back, stated) for stated in asked] == expected[::-1]


def test_what_holm_does_not_confirm_is_open_and_said() -> None:
    lost = Pair("x", {}, "on", "off", 0.8, 0.7, 0.9, 0.2, "less", "not_enough_evidence")
    statement = judged("It is less.", [lost], "less")
    assert statement.verdict == "not_enough_evidence"
    assert statement.because == (
        "of 1 pair 1 undecided; on is 0.800 [0.700, 0.900] times off; "
        "too unsure among so many pairs (Holm's correction)"
    )


@pytest.mark.parametrize(("of_b", "verdict"), [("A", "refuted"), ("B", "not_enough_evidence")])
def test_levels_of_different_machines_decide_nothing(of_b: str, verdict: str) -> None:
    """b takes twice as long as a, with all its runs on another machine, or on the same ones."""
    observed = [
        Observation({"way": way}, value, None, {"machine": {"CPU": machine}})
        for way, value, machine in (("a", 1.0, "A"), ("b", 2.0, of_b))
        for value in (value, 1.001 * value, 1.002 * value)
    ]
    (found,) = pairs("x", observed, "way")
    assert found.across_machines is (of_b == "B")
    statement = judged("They are alike.", [found], "alike")
    assert statement.verdict == verdict
    assert statement.because.endswith("on different machines") is found.across_machines
    # The machines are the same if each has the same share of the runs of either level.
    mixed = [replace(o, environment={"machine": {"CPU": "AB"[n % 3 == 2]}})
             for n, o in enumerate(observed)]  # fmt: skip
    (found,) = pairs("x", mixed, "way")
    assert not found.across_machines


def test_the_weakest_is_shown_of_a_confirmed_and_the_strongest_of_a_refuted_one() -> None:
    strong, weak = pair(0.4, 0.6, "less"), pair(0.8, 0.9, "less")
    assert "[0.800, 0.900]" in judged("Less.", [strong, weak], "less").because
    assert "[0.400, 0.600]" in judged("More.", [weak, strong], "more").because
    assert "[0.400, 0.600]" in judged("Alike.", [weak, strong], "alike").because


def agrees(statement: Statement, stated: Stated) -> bool:
    """Return whether the word may stand beside the interval shown, by the interval alone."""
    shown = INTERVAL.search(statement.because)
    if statement.verdict not in ("confirmed", "refuted"):
        return True
    assert shown is not None, statement
    low, high = float(shown[2]), float(shown[3])
    same = low >= 1 - T and high <= 1 + T
    if stated == "alike":
        return same if statement.verdict == "confirmed" else low >= 1 or high <= 1
    below, above = (high <= 1, low >= 1) if stated == "less" else (low >= 1, high <= 1)
    return below if statement.verdict == "confirmed" else above or (same and low <= 1 <= high)


def runs(values: list[float], factor: str, levels: list[Level], **cell: Level) -> list[Observation]:
    rng = np.random.default_rng(7)
    return [
        Observation({factor: level, **cell}, value * (1 + 0.01 * rng.standard_normal()), str(block))
        for level, value in zip(levels, values, strict=True)
        for block in range(4)
    ]


two = st.lists(st.sampled_from([0.9, 0.97, 0.985, 1.0, 1.01, 1.04, 1.2]), min_size=2, max_size=2)


@settings(max_examples=60)
@given(two)
def test_word_and_interval_of_all_statements_agree(values: list[float]) -> None:
    """Two studies compare pairs; their words must agree with any data."""
    ways = runs(values, "intra_process", ["off", "on"], pointer="shared")
    pointers = runs(values, "pointer", ["shared", "unique"], intra_process="off")
    outside = runs(values, "outside", [0, 1], pointer="shared", intra_process="on")
    large = [Observation({**o.cell, "payload": 10_000_000}, o.value, o.block) for o in ways]
    first = statements(ways, outside, large)
    second = statements(pointers, [], [])
    words: list[Stated] = ["less", "alike", "less", "more", "alike"]
    for statement, stated in [*zip(first, words, strict=True), *zip(second, words, strict=True)]:
        assert agrees(statement, stated), statement
    executors = pairs("cpu", runs(values, "executor", ["Events", "EventsCBG"]), "executor")
    done = [(name, kind) for name in ("Events", "EventsCBG") for kind in (MESSAGE, CALL)]
    for statement in (cpu_statement(executors, done), latency_statement(executors)):
        assert agrees(statement, "alike"), statement
    sizes = runs(values, "payload", [10, 1000], executor="Events", rmw="rmw_cyclonedds_cpp")
    assert agrees(payload_statement("CPU", pairs("cpu", sizes, "payload")), "more")
    many = runs(values, "executor", ["SingleThreaded", "EventsCBG"], publishers=20)
    saving = saving_statement(many)
    bounds = re.search(r"\[(-?\d+), (-?\d+)\]", saving.because)
    # At least 15 % less; bounds are rounded to whole per cents.
    expected = {"confirmed": int(bounds[1]) >= 15, "refuted": int(bounds[2]) <= 15}
    assert expected.get(saving.verdict, True), saving
