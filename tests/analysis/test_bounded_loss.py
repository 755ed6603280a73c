"""Loss of which a recording does not tell everything; figures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.latency import latency_estimates
from roslens.analysis.measures.samples import RunSamples, TopicGroup
from roslens.analysis.runs import Run
from roslens.analysis.statistics.fractions import bounded_fraction_over_runs, fraction_over_runs
from roslens.analysis.verdicts.budgets import check, parse_budget
from roslens.analysis.verdicts.comparison import compare

LOSS = Metric("loss", "lost / sent", "1")


def loss(lost: list[int], known: list[int], unknown: list[int]) -> Estimate:
    return bounded_fraction_over_runs(LOSS, {}, lost, known, unknown=unknown)


def test_without_unknown_ones_it_is_the_plain_fraction() -> None:
    plain = fraction_over_runs(LOSS, {}, [1, 2, 3], [100, 100, 100])
    assert loss([1, 2, 3], [100, 100, 100], [0, 0, 0]) == plain


def test_a_few_unknown_ones_widen_the_interval() -> None:
    """From that of all having arrived to that of none; one of 101 is less than chance leaves open
    (Clopper and Pearson: 1 - 0.025 ** (1 / 303) = 1.21 %).
    """
    found = loss([1, 2, 3], [100, 100, 100], [1, 1, 1])
    least = fraction_over_runs(LOSS, {}, [1, 2, 3], [101, 101, 101])
    most = fraction_over_runs(LOSS, {}, [2, 3, 4], [101, 101, 101])
    assert (found.value, found.refused) == (0.02, None)
    assert (found.low, found.high) == (least.low, most.high)
    assert "of 3 of 303 it is not known" in found.method


def test_many_unknown_ones_refuse_it_and_tell_the_bounds() -> None:
    """0 of 339 known ones are lost, 252 more are not known: between 0 and 252 / 591."""
    found = loss([0, 0, 0], [339, 339, 339], [252, 252, 252])
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "of 756 of 1,773 messages nobody can say" in found.refused
    assert "between 0 % and 42.6 %" in found.refused
    assert check(parse_budget("loss < 2 %"), found).verdict == "not_enough_evidence"
    assert compare(found, found).verdict == "not_enough_evidence"


def test_where_nothing_is_known_it_lies_between_none_and_all() -> None:
    found = loss([0, 0, 0], [0, 0, 0], [10, 10, 10])
    assert "between 0 % and 100 %" in found.refused


def group(samples: list[RunSamples]) -> dict[str, Estimate]:
    topics = {s.run.name: frozenset({"/t"}) for s in samples}
    return {e.metric: e for e in latency_estimates(samples, TopicGroup(None, "all", topics))}


def run(name: str, outcomes: dict[str, int], bound_ns: float = 0.0) -> RunSamples:
    delivered = np.full(outcomes.get("delivered", 0), 5e6) + np.arange(outcomes["delivered"]) % 7
    return RunSamples(
        Run(name, {}), delivered, delivered, outcomes, seconds=10.0, clock_bound_ns=bound_ns
    )


def test_percentiles_over_sent_messages_are_refused_with_the_loss() -> None:
    found = group([run(f"r{i}", {"delivered": 600, "unknown": 250}) for i in range(3)])
    assert found["loss"].value is None
    assert found["latency_sent_p50"].refused == found["loss"].refused
    assert found["latency_p50"].value == pytest.approx(5e6, rel=1e-3)


def test_latencies_no_longer_than_the_clocks_may_be_apart_are_refused() -> None:
    """5 ms, where clocks may be 6 ms apart; where it is 1 ms they are told."""
    apart, near = (
        group([run(f"r{i}", {"delivered": 600}, bound) for i in range(3)]) for bound in (6e6, 1e6)
    )
    assert apart["latency_p50"].value is None
    assert "6 ms apart" in apart["latency_p50"].refused
    assert near["latency_p50"].value == pytest.approx(5e6, rel=1e-3)
