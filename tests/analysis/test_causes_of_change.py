"""Test a latency change split by cause: parts add up, and a lengthened segment is found again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic import SUBSCRIBER, THREAD, write_run

from roslens.analysis.verdicts.comparison import Comparisons, compare_levels, compare_sides
from roslens.collectors.schema import TABLES
from roslens.compare import comparison_table, load_side

DELAY_NS = 3_000_000
TIMER = "executor, timer callback (100 ms) of /subscriber"


def altered(folder: Path, repetition: int, *, delayed: bool) -> None:
    """Write a run whose messages each wait `DELAY_NS` more for a timer's callback, if `delayed`."""
    waited = np.random.default_rng(repetition).integers(200_000, 260_000, 600)
    run = write_run(
        folder, latencies_ns=(waited + delayed * DELAY_NS).tolist(), repetition=repetition,
        factors={"timer": "long" if delayed else "none"}, period_ns=20_000_000,
    )  # fmt: skip
    if not delayed:
        return
    file = run / "tables" / "callback_instances.parquet"
    executions = pl.read_parquet(file)
    # The timer's callback lasts until the message is taken, 1 us before the message's callback.
    ends = executions["start_ns"] - 1000
    timers = pl.DataFrame(
        {
            "callback_instance_id": range(600, 1200), "host": "h0", "kind": "timer",
            "name": "100 ms", "node": "/subscriber", "vpid": SUBSCRIBER, "vtid": THREAD,
            "start_ns": ends - DELAY_NS, "end_ns": ends, "duration_ns": DELAY_NS,
        }
    )  # fmt: skip
    table = TABLES["callback_instances"]
    table.conform(pl.concat([executions, table.conform(timers)])).write_parquet(file)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for repetition in range(3):
        for name in ("base", "new"):
            altered(folder / name / f"r{repetition}", repetition, delayed=name == "new")
    return folder


def assert_split(comparisons: Comparisons, delay_ns: int = DELAY_NS) -> None:
    for metric in ("latency_p50", "latency_p99"):
        (c,) = [c for c in comparisons.compared if c.metric == metric]
        assert sum(e.value for _, e in c.causes) == pytest.approx(c.difference.value)
        assert c.difference.value == pytest.approx(delay_ns)
        name, effect = c.causes[0]
        # By hand: the segment is DELAY_NS in all messages, and its neighbours' mean differs from
        # the quantile by less than their range, 60 us in 3.2 ms.
        assert name == TIMER
        assert effect.value == pytest.approx(delay_ns, rel=0.02)
        assert effect.low <= effect.value <= effect.high


def test_a_segment_that_was_lengthened_by_hand_is_the_cause(runs: Path) -> None:
    dropped = ["timer"]
    left, right = (
        load_side(runs / name, ignore=dropped, collect=False) for name in ("base", "new")
    )
    comparisons = compare_sides(left, right)
    assert_split(comparisons)
    (p99,) = [
        c
        for c in json.loads(comparisons.json_text())["comparisons"]
        if c["metric"] == "latency_p99"
    ]
    assert p99["causes"][0]["cause"] == TIMER
    assert sum(cause["value"] for cause in p99["causes"]) == pytest.approx(
        p99["difference"]["value"]
    )
    told_of = "\n".join(comparison_table(comparisons).notes)
    assert re.search(r"\+3\.00 \[.+\] ms: \+3\.0\d* \[.+\] executor, timer", told_of)


def test_levels_of_a_factor_are_split_likewise(runs: Path) -> None:
    side = load_side(runs, by="timer", collect=False)
    # The reference is the delayed level, which is the first by name.
    assert_split(compare_levels(side, "timer", {}), -DELAY_NS)


def test_what_did_not_change_has_no_causes(runs: Path) -> None:
    side = load_side(runs / "base", collect=False)
    assert not any(c.causes for c in compare_sides(side, side).compared)
