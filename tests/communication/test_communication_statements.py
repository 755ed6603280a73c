"""Test statements on ways of communication; expected verdicts by hand from the ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roslens.analysis.statistics.factorial import Observation
from roslens.studies.communication.statements import statements


def runs(value: float, **cell: Any) -> list[Observation]:
    """Return four runs, each in its own block, that differ by a thousandth."""
    return [Observation(cell, value * (1 + 0.001 * n), f"b{n}") for n in range(4)]


def verdicts(*given: Sequence[Observation]) -> list[str]:
    return [statement.verdict for statement in statements(*given)]


def test_each_statement_is_borne_out() -> None:
    cells = {
        ("shared", "off"): 10,
        ("unique", "off"): 10.1,
        ("shared", "on"): 2,
        ("unique", "on"): 1,
    }
    latencies = [
        o
        for (p, i), latency in cells.items()
        for o in runs(latency, payload=8, pointer=p, intra_process=i)
    ]
    latencies += runs(1.01, payload=8, pointer="loaned", intra_process="off")
    within = [
        o for n in (0, 1) for o in runs(1 + n, pointer="unique", intra_process="on", outside=n)
    ]
    periods = [
        o
        for i, period in (("off", 17), ("on", 10))
        for o in runs(period, payload=10_000_000, pointer="shared", intra_process=i)
    ]
    assert verdicts(latencies, within, periods) == ["confirmed"] * 5


def test_what_is_against_a_statement_refutes_it_and_what_is_not_there_judges_nothing() -> None:
    off = runs(1, pointer="shared", intra_process=False)
    slower = runs(2, pointer="unique", intra_process=False)
    on = runs(2, pointer="shared", intra_process=True)
    results = statements([*off, *on, *slower], [], [])
    nowhere = "not_in_these_recordings"
    assert [result.verdict for result in results] == [
        "refuted",
        "refuted",
        nowhere,
        nowhere,
        nowhere,
    ]
    assert "on is 2.00 [2.00, 2.00] times off (pointer=shared)" in results[0].because


def test_what_a_callback_takes_says_nothing_of_the_pointer_that_is_published() -> None:
    """Callbacks with unique_ptr take twice as long; within the process, half as long."""
    off = runs(1, callback="shared_ptr", intra_process=False)
    slower = runs(2, callback="unique_ptr", intra_process=False)
    on = runs(0.5, callback="shared_ptr", intra_process=True)
    first, second, *_ = statements([*off, *slower, *on], [], [])
    assert first.verdict == "confirmed"
    assert "(callback=shared)" in first.because
    assert second.verdict == "not_in_these_recordings"


def test_one_run_of_each_tells_nothing() -> None:
    single = [
        runs(latency, pointer="shared", intra_process=i)[0]
        for i, latency in (("off", 9), ("on", 1))
    ]
    results = statements(single, [], [])
    assert results[0].verdict == "not_enough_evidence"
    assert "1 runs; at least 3 are needed" in results[0].because
