"""Test a latency change split by cause: parts add up, and a lengthened segment is found again."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from synthetic import SUBSCRIBER, THREAD, write_run
from tests.samples import amend

from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.comparison import Comparisons, compare_levels, compare_sides
from roslens.analysis.verdicts.one_cell import Comparison
from roslens.analysis.verdicts.sides import Side
from roslens.collectors.schema import TABLES
from roslens.compare_shown import comparison_table
from roslens.sides import load_side

DELAY_NS = 3_000_000
TIMER = "executor, timer callback (100 ms) of /subscriber"


def waits(repetition: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Latencies without a delay in ns."""
    return np.random.default_rng(repetition).integers(200_000, 260_000, 600)


def altered(folder: Path, repetition: int, *, delayed: bool) -> None:
    """Write a run whose messages each wait `DELAY_NS` more for a timer's callback, if `delayed`."""
    run = write_run(
        folder, latencies_ns=(waits(repetition) + delayed * DELAY_NS).tolist(),
        repetition=repetition,
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


def test_a_topic_that_one_side_names_and_the_other_lists_is_the_same(
    runs: Path, tmp_path: Path
) -> None:
    """The verdict and its causes are those of sides that both name it, in both directions."""
    shutil.copytree(runs / "new", tmp_path / "new")
    for run in (tmp_path / "new").iterdir():
        amend(run, work_topic=None)
    named, listed = (
        load_side(path, ignore=["timer"], collect=False)
        for path in (runs / "base", tmp_path / "new")
    )
    comparisons = compare_sides(named, listed)
    assert not comparisons.unmatched
    assert_split(comparisons)
    assert [(c.metric, dict(c.cell)) for c in comparisons.compared] == [
        ("latency_p50", {"topic": "/data"}),
        ("latency_p99", {"topic": "/data"}),
        ("loss", {"topic": "/data"}),
        ("cpu", {}),
    ]
    assert not any(
        "define it differently" in note for c in comparisons.compared for note in c.notes
    )
    assert [c.verdict for c in compare_sides(listed, named).compared[:2]] == ["improvement"] * 2


def test_levels_of_a_factor_are_split_likewise(runs: Path) -> None:
    side = load_side(runs, by="timer", collect=False)
    # The reference is the delayed level, which is the first by name.
    assert_split(compare_levels(side, "timer", {}), -DELAY_NS)


def test_within_blocks_the_causes_are_those_of_the_blocks(runs: Path) -> None:
    """Both runs of a block have the same latencies but for the delay: each P50 changes by it."""
    side = load_side(runs, by="timer", collect=False)
    observed = {
        metric: [
            Observation(
                {"timer": "long" if delayed else "none"},
                float(np.quantile(waits(repetition), q, method="median_unbiased"))
                + delayed * DELAY_NS,
                str(repetition),
            )
            for repetition in range(3)
            for delayed in (False, True)
        ]
        for metric, q in (("latency_p50", 0.5), ("latency_p99", 0.99))
    }
    comparisons = compare_levels(side, "timer", observed)
    assert_split(comparisons, -DELAY_NS)
    (p50,) = [c for c in comparisons.compared if c.metric == "latency_p50"]
    assert p50.blocks == 3
    assert p50.difference.low == pytest.approx(-DELAY_NS)
    assert p50.difference.high == pytest.approx(-DELAY_NS)
    # Student's t over three blocks, by SciPy.
    parts = [
        [causes[TIMER] for causes in of_level.parts["latency_p50"]]
        for of_level in side.by_cause([{"timer": "long"}, {"timer": "none"}])
        if any(TIMER in causes for causes in of_level.parts["latency_p50"])
    ]
    (delayed,) = parts
    low, high = stats.t.interval(0.95, 2, -np.mean(delayed), stats.sem(delayed))
    effect = dict(p50.causes)[TIMER]
    assert (effect.low, effect.high) == (pytest.approx(low), pytest.approx(high))


def test_a_note_names_no_negligible_causes() -> None:
    """Of 1 ms, 1 us is a thousandth and is named; less is not, by itself or as the rest."""

    def note(*ns: float) -> str:
        causes = tuple((f"cause {n}", Effect(v, v, v, 0.0)) for n, v in enumerate(ns))
        p50 = value_over_runs(Metric("latency_p50", "median", "ns"), {}, [1e6, 1.1e6, 1.2e6], 3)
        whole = Effect(sum(ns), sum(ns), sum(ns), 0.0)
        comparison = Comparison(base=p50, new=p50, difference=whole, causes=causes)
        empty = Side("", (), (), 3)
        (note,) = comparison_table(Comparisons(empty, empty, 0.05, [comparison])).notes
        return note.split(" ms: ")[1]

    named = "+1.00 [+1.00, +1.00] cause 0"
    assert note(1e6, 900, -500) == named
    assert note(1e6, 1000, 900) == f"{named}; +0.00100 [+0.00100, +0.00100] cause 1"
    assert note(1e6, 900, 800) == f"{named}; +0.00170 the rest"


def test_what_did_not_change_has_no_causes(runs: Path) -> None:
    side = load_side(runs / "base", collect=False)
    assert not any(c.causes for c in compare_sides(side, side).compared)
