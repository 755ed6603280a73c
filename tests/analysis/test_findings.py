"""Test that an unknown number is reported as unknown, and never as a zero by mistake."""

import ast
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roslens.analysis.estimate import Estimate, not_none
from roslens.analysis.measures.latency import latency_estimates
from roslens.analysis.measures.samples import RunSamples, TopicGroup
from roslens.analysis.reports.front import loss_sentence
from roslens.analysis.runs import Run

ROOT = Path(__file__).parents[2]
NUMBERS = {"value", "low", "high", "ratio", "p", "p_holm", "minimum_detectable"}
"""Attributes that are a number or None."""

OF_TRUTH = {"bool", "any", "all", "filter"}


def asked_for_truth(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield these attributes where their truth is tested: `if x.value`, `x.value or 0`, ..."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield from _numbers(node.test)
        elif isinstance(node, ast.BoolOp):
            yield from (number for part in node.values[:-1] for number in _numbers(part))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from _numbers(node.operand)
        elif isinstance(node, ast.comprehension):
            yield from (number for part in node.ifs for number in _numbers(part))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in OF_TRUTH:
            for part in node.args:
                element = part.elt if isinstance(part, ast.GeneratorExp | ast.ListComp) else part
                yield from _numbers(element)


def _numbers(node: ast.AST) -> Iterator[ast.Attribute]:
    if isinstance(node, ast.BoolOp):
        yield from (number for part in node.values for number in _numbers(part))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _numbers(node.operand)
    elif isinstance(node, ast.NamedExpr):
        yield from _numbers(node.value)
    elif isinstance(node, ast.Attribute) and node.attr in NUMBERS:
        yield node


def test_it_finds_what_it_looks_for() -> None:
    source = (
        "[e for e in x if e.value]\nif not a.low: pass\ny = b.high or 0\nz = any(c.p for c in d)"
    )
    numbers = asked_for_truth(ast.parse(source))
    assert {node.attr for node in numbers} == {"value", "low", "high", "p"}
    assert not list(asked_for_truth(ast.parse("if e.value is not None and e.value > 0: pass")))


@pytest.mark.parametrize("room", ["analysis", "studies", "src/roslens"])
def test_no_number_is_asked_for_its_truth(room: str) -> None:
    """A refused number is None, which is as false as zero: say `is not None`, or `not_none`."""
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in asked_for_truth(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert places == []


def run(name: str, cell: str, bound_ns: float = 0.0, **outcomes: int) -> RunSamples:
    """Make a run whose delivered messages took 5 ms."""
    delivered = np.full(outcomes["delivered"], 5e6) + np.arange(outcomes["delivered"]) % 7
    return RunSamples(
        Run(name, {"way": cell}), delivered, delivered, outcomes, seconds=10.0,
        clock_bound_ns=bound_ns,
    )  # fmt: skip


def estimated(samples: list[RunSamples]) -> list[Estimate]:
    topics = {s.run.name: frozenset({"/t"}) for s in samples}
    return latency_estimates(samples, TopicGroup(None, "all", topics))


def said(samples: list[RunSamples]) -> tuple[str, list[Estimate]]:
    losses = [e for e in estimated(samples) if e.metric == "loss"]
    return loss_sentence(samples, losses), losses


def test_percentiles_over_sent_messages_are_refused_with_the_loss() -> None:
    runs = [run(f"r{i}", "a", delivered=600, unknown=250) for i in range(3)]
    by_metric = {e.metric: e for e in estimated(runs)}
    assert by_metric["loss"].value is None
    assert by_metric["latency_sent_p50"].refused == by_metric["loss"].refused
    assert by_metric["latency_p50"].value == pytest.approx(5e6, rel=1e-3)


def test_percentiles_over_sent_messages_are_refused_where_some_arrived_without_a_latency() -> None:
    """By hand: 7 of 27 are lost; without the 20 that were taken all would be."""
    lost = replace(run("r", "a", delivered=0, taken=20, lost=7), sent_ns=np.full(7, np.inf))
    by_metric = {e.metric: e for e in estimated([lost])}
    assert by_metric["loss"].value == pytest.approx(7 / 27)
    for name in ("latency_sent_p50", "latency_sent_p90", "latency_sent_p99"):
        assert by_metric[name].value is None
        assert by_metric[name].refused == "20 of 27 messages sent were taken without a callback"
    few = estimated([run(f"r{i}", "a", delivered=600, taken=i) for i in range(1, 4)])
    by_metric = {e.metric: e for e in few}
    assert by_metric["latency_sent_p50"].refused == (
        "6 of 1,806 messages sent were taken without a callback"
    )
    assert by_metric["latency_p50"].value == pytest.approx(5e6, rel=1e-3)


def test_latencies_under_twice_what_the_clocks_may_be_apart_are_refused() -> None:
    """Half of 5 ms are 2.5 ms: refused with clocks 2.6 ms apart, given with 2.4 ms.

    All latencies a hair above a bound of the fastest message may in truth be next to nothing.
    """

    def median(bound_ns: float) -> Estimate:
        samples = [run(f"r{i}", "a", bound_ns, delivered=600) for i in range(3)]
        return next(e for e in estimated(samples) if e.metric == "latency_p50")

    for bound in (6e6, 4.999999e6, 2.6e6, math.inf):
        assert median(bound).value is None
    assert "2.6 ms apart, which is more than half" in str(median(2.6e6).refused)
    assert median(2.4e6).value == pytest.approx(5e6, rel=1e-3)


def test_a_topic_without_any_latency_by_clocks_is_refused_for_the_clocks() -> None:
    """Nothing bounds the clocks, so no delivered message has a latency; loss is known all the same.

    What was not delivered counts as infinite among sent messages, but does not alone make up a P50.
    """
    few = np.full(3, np.inf)
    samples = [
        replace(run(f"r{i}", "a", math.inf, delivered=600, lost=3), delivered_ns=few[:0],
                sent_ns=few)
        for i in range(3)
    ]  # fmt: skip
    for estimate in estimated(samples):
        if estimate.metric != "loss":
            assert estimate.value is None
            assert "clocks may be any time apart" in str(estimate.refused)


def test_a_refused_loss_is_not_said_to_be_none() -> None:
    """The fate of 252 of 591 messages of each run is unknown: 0 to 42.6 % by hand."""
    text, (loss,) = said([run(f"r{i}", "a", delivered=339, unknown=252) for i in range(3)])
    assert loss.value is None
    assert loss.bounds == (0, pytest.approx(252 / 591))
    assert text == (
        "None of 1,017 messages is known to be lost; of 756 more nobody can say; "
        "so between 0 % and 42.6 % were lost."
    )
    assert Estimate(**loss.to_json()).bounds == loss.bounds


def test_a_refused_loss_of_one_cell_is_not_hidden_by_those_known() -> None:
    samples = [run(f"r{i}", "a", delivered=990, lost=10) for i in range(3)]
    samples += [run(f"s{i}", "b", delivered=500, unknown=500) for i in range(3)]
    text, _ = said(samples)
    assert text == (
        "30 of 4,500 messages did not arrive; of 1,500 more nobody can say; "
        "most with way=b: between 0 % and 50.0 %."
    )


def test_why_the_loss_of_few_alike_runs_has_a_wide_interval_is_said() -> None:
    """By hand, as docs/calibration.md says: p 0.415, binomial e 0.0078, h 3.18 e / p = 0.060.

    low = p exp(-h) = 0.391; seen = 0.455, u = 1 - 0.05 ** 0.25 = 0.527, high = 0.473 seen + u.
    """
    lost = (400, 430, 420, 411)
    samples = [run(f"r{i}", "a", delivered=1000 - n, lost=n) for i, n in enumerate(lost)]
    text, _ = said([*samples, run("s", "b", delivered=600)])
    assert text == (
        "1,661 of 4,600 messages did not arrive; most with way=a: 42 % [39, 74] "
        "(4 runs may lack a kind of run that differs)."
    )


def test_loss_in_words() -> None:
    none, (loss,) = said([run(f"r{i}", "a", delivered=100) for i in range(3)])
    assert none == "All 300 messages arrived."
    assert (loss.value, loss.low) == (0, None)
    some_lost, (loss,) = said([run(f"r{i}", "a", delivered=90, lost=10) for i in range(3)])
    assert some_lost == "30 of 300 messages did not arrive."
    assert loss.low is not None
    assert loss_sentence([], []) == "Nothing can be said of loss: no message was sent."
    only = run("r", "a", delivered=0, unknown=7)
    assert loss_sentence([only], []) == "Of 7 messages nobody can say whether they arrived."


def test_a_number_that_must_be_there() -> None:
    assert not_none(0.0) == 0
    with pytest.raises(ValueError, match="refused"):
        not_none(None)
