"""Test that the cost of tracing is a difference within blocks; values by hand."""

import polars as pl
import pytest
from benchmarks.tracer_cost import costs

from roslens.tracing.suite import load_suite, suite_command

COLUMNS = ("recorded", "block", "latency_ns", "cpu_ns", "events")


def test_costs_are_differences_within_blocks():
    runs = [
        ("nothing", 0, 100.0, 1000.0, 0.0),
        ("nothing", 1, 200.0, 3000.0, 0.0),
        ("nothing", 2, 300.0, 5000.0, 0.0),
        ("all", 0, 110.0, 1400.0, 2.0),
        ("all", 1, 220.0, 3500.0, 2.0),
        ("all", 2, 330.0, 5600.0, 2.0),
        ("all", 3, 1e9, 1e9, 2.0),  # its block has no other run
    ]
    (cost,) = costs(pl.DataFrame(runs, COLUMNS, orient="row"))
    assert cost.recorded == "all"
    assert cost.events == 2.0
    # Differences 10, 20, 30: mean 20, s = 10, t(0.975, 2) = 4.3027.
    half = 4.3027 * 10 / 3**0.5
    assert cost.latency_ns.value == pytest.approx(20)
    assert cost.latency_ns.high == pytest.approx(20 + half, rel=1e-4)
    assert cost.cpu_ns.value == pytest.approx(500)
    assert cost.ns_per_event.value == pytest.approx(250)


def test_what_cannot_be_said_is_refused():
    runs = [("nothing", 0, None, None, 0.0), ("all", 0, 1.0, 1.0, 2.0)]
    (cost,) = costs(pl.DataFrame(runs, COLUMNS, orient="row"))
    assert cost.latency_ns.value is None
    assert "no run has a value" in cost.latency_ns.refused


def test_the_suite_records_each_group_alone():
    suite, _ = load_suite("tracer-cost")
    events = {cell["recorded"]: suite.tracing_of(cell).events for cell in suite.combinations()}
    assert events["all"] == ("ros2:*",)
    assert not any(name.startswith("ros2:") for name in events["nothing"])
    values = {"native": "n", "seconds": 1.0, "repetition": 0, "order": 0}
    assert "--recorded" not in suite_command(suite, {"recorded": "all"}, values)
    groups = [set(events[group]) for group in ("publish", "take", "callbacks")]
    assert sum(map(len, groups)) == len(set.union(*groups))
