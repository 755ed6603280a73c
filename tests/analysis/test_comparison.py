"""Test verdicts of a comparison: the rule by hand, false alarms and power by simulation."""

import json
import math
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from synthetic import report_of, write_run
from tests.samples import amend

from roslens.analysis.calibration import losses
from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.figures.comparison import comparison_plot
from roslens.analysis.measures.latency import within_clocks
from roslens.analysis.metrics import Metrics, read_metrics, write_metrics
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import percentile_over_runs, value_over_runs
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.comparison import Comparisons, compare_levels, compare_sides
from roslens.analysis.verdicts.one_cell import Comparison, compare, spread_of, verdict_of
from roslens.analysis.verdicts.sides import Side
from roslens.compare import parse_threshold
from roslens.compare_shown import chart, comparison_table, summary
from roslens.generate import Shape, generate
from roslens.printed import as_markdown, ratio_chart, table_lines
from roslens.recording import UsageError
from roslens.recording.manifest import Level
from roslens.recordings import open_recordings
from roslens.sides import load_side

CPU = Metric("cpu", "CPU time / time", "core")
LOSS = Metric("loss", "lost / sent", "1")
P50 = Metric("latency_p50", "median", "ns")


def cpu(values: Sequence[float], **cell: Level) -> Estimate:
    return value_over_runs(CPU, cell, values, len(values))


def side(*estimates: Estimate, name: str = "side", **more: Any) -> Side:
    return Side(name, estimates, [e.cell for e in estimates], 5, **more)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.01, 1.05, "regression"),
        (1.01, 1.049, "no_difference"),
        (1.0, 1.2, "not_enough_evidence"),
        (1.2, math.inf, "regression"),
        (0.95, 0.99, "improvement"),
        (0.951, 0.99, "no_difference"),
        (0.5, 1.0, "not_enough_evidence"),
        (0.96, 1.04, "no_difference"),
        (0.95, 1.04, "not_enough_evidence"),
        (0.96, 1.05, "not_enough_evidence"),
    ],
)
def test_the_rule(low: float, high: float, expected: str) -> None:
    assert verdict_of(Effect(math.sqrt(low), low, high, 0.5), 0.05) == expected


def test_compared_by_hand() -> None:
    # Means 10 and 11, s = 0.1 in both, k = 3: errors .01 / sqrt 3 and .1 / 11 / sqrt 3 of the logs,
    # together .00780204; t = log 1.1 / that = 12.2161, Satterthwaite's df 3.96402.
    comparison = compare(cpu([9.9, 10.0, 10.1]), cpu([10.9, 11.0, 11.1]))
    assert comparison.ratio == pytest.approx(1.1)
    assert comparison.p == pytest.approx(2 * stats.t.sf(12.2161, 3.96402), rel=1e-4)
    assert math.log(comparison.high / 1.1) == pytest.approx(
        stats.t.ppf(0.975, 3.96402) * 0.00780204, rel=1e-3
    )
    assert comparison.difference.low == pytest.approx(
        1 - 2.776445 * 0.1 * math.sqrt(2 / 3), abs=1e-6
    )
    assert (comparison.verdict, comparison.delta) == ("regression", 1)
    assert comparison.shift.value == pytest.approx(1)


def test_the_least_change_that_is_detected_is_that_of_the_note() -> None:
    """By hand, it is 1.43 half widths of the interval, in logarithms.

    With 51 runs or more to be made, the note says what these runs can show.
    """
    compared = compare(cpu([0.5, 1.0, 1.5]), cpu([0.5, 1.0, 1.501]))
    half_width = math.log(compared.high / compared.low) / 2
    least = math.exp(half_width * (1 + 0.8416 / 1.96)) - 1
    assert compared.to_json()["minimum_detectable"] == pytest.approx(least)
    found = compare_sides(side(cpu([0.5, 1.0, 1.5])), side(cpu([0.5, 1.0, 1.501])), ["cpu"])
    assert f"from about {100 * least:.0f} % on" in str(comparison_table(found))


def test_better_high_turns_the_ratio_round() -> None:
    slow, fast = [replace(cpu(v), better="higher") for v in ([10, 10.1, 9.9], [20, 20.1, 19.9])]
    assert compare(slow, fast).verdict == "improvement"
    worse = compare(fast, slow)
    assert worse.verdict == "regression"
    assert worse.ratio == pytest.approx(2)
    with pytest.raises(UsageError, match="no better direction"):
        compare(replace(slow, better=None), fast)


@given(st.lists(st.floats(0.1, 1e6), min_size=3, max_size=12), st.sampled_from([0.8, 0.95, 0.99]))
def test_spread_comes_back_out_of_an_interval(values: list[float], level: float) -> None:
    spread = spread_of(value_over_runs(CPU, {}, values, 1, level))
    assert spread.mean == pytest.approx(np.mean(values))
    assert spread.deviation == pytest.approx(
        np.std(values, ddof=1), rel=1e-6, abs=1e-9 * max(values)
    )


def test_spread_of_a_fraction_whose_bound_was_cut_off() -> None:
    # .1, .2, .3 %: mean .2 %, s = .1 %, which is more than binomial; three messages of 1,000 are
    # too few for a lower bound.
    estimate = fraction_over_runs(LOSS, {}, [10, 20, 30], [10_000] * 3)
    spread = spread_of(estimate)
    assert spread.deviation == pytest.approx(0.001, abs=1e-9)
    few = fraction_over_runs(LOSS, {}, [1, 2, 3], [1000] * 3)
    assert few.low == 0
    # Binomial: sqrt(.002 .998 / 3000) sqrt 3 = .001413.
    assert spread_of(few).deviation == pytest.approx(0.00141280, abs=1e-7)
    wide = fraction_over_runs(LOSS, {}, [0, 2, 4], [4, 4, 4])
    assert spread_of(wide) == "its interval is all of 0..1: more runs are needed"


def loss(lost: Sequence[int], sent: int = 1000) -> Estimate:
    return fraction_over_runs(LOSS, {}, lost, [sent] * len(lost))


def test_nothing_lost_on_either_side() -> None:
    comparison = compare(loss([0, 0, 0]), loss([0, 0, 0]))
    assert (comparison.verdict, comparison.ratio, comparison.p) == ("no_difference", None, 1)
    assert comparison.notes == ("zero in every run of both sides, none of 3,000",)
    none, losing = loss([0, 0, 0]), loss([10, 12, 14])
    assert compare(none, losing).notes == ("zero in every run of base, none of 3,000",)
    assert compare(losing, none).notes == ("zero in every run of new, none of 3,000",)


def test_loss_where_there_was_none() -> None:
    # NEW's error is the binomial sqrt(.02 .98 / 3000), more than that of s = 1 / 1000; BASE is at
    # most .123 % (Clopper and Pearson of 3,000).
    comparison = compare(loss([0, 0, 0]), loss([19, 20, 21]))
    assert comparison.verdict == "regression"
    assert comparison.ratio == math.inf
    bound = 1 - 0.025 ** (1 / 3000)
    h = 4.302653 * math.sqrt(0.02 * 0.98 / 3000) / 0.02
    assert comparison.low == pytest.approx(0.02 * math.exp(-h) / bound, rel=1e-5)
    # A single lost message proves nothing.
    assert compare(loss([0, 0, 0]), loss([0, 0, 1])).verdict == "not_enough_evidence"
    assert compare(loss([19, 20, 21]), loss([0, 0, 0])).verdict == "improvement"
    assert compare(loss([0, 0, 1]), loss([0, 0, 0])).verdict == "not_enough_evidence"


def test_a_change_from_zero_is_no_percentage() -> None:
    def table_of(lost: list[int]) -> str:
        return str(comparison_table(compare_sides(side(loss([0, 0, 0])), side(loss(lost)))))

    assert "from 0, at least" in table_of([19, 20, 21])
    assert "from 0 " in table_of([0, 0, 1])
    assert "inf" not in table_of([0, 0, 1]) + table_of([19, 20, 21])


def test_refused_estimates_lack_evidence_and_say_why() -> None:
    single, three = cpu([1.0]), cpu([1.0, 1.0, 1.1])
    comparison = compare(single, three)
    assert comparison.verdict == "not_enough_evidence"
    assert comparison.notes[0].startswith("base: 1 run; at least 3")
    single_comparison = compare(single, single)
    assert single_comparison.notes[0].startswith("both: 1 run; at least 3")
    samples = [[1.0] * 10] * 3
    p99 = percentile_over_runs(Metric("latency_p99", "d", "ns"), {}, samples, 0.99)
    assert "P99 needs 299" in compare(p99, p99).notes[0]
    assert "negative" in compare(cpu([-1, -1.1, -1.2]), three).notes[0]


def test_runs_needed_are_said() -> None:
    comparison = compare(cpu([1.0, 1.2, 0.8]), cpu([1.2, 1.0, 0.8]))
    assert comparison.verdict == "not_enough_evidence"
    # cv 20 %, to +-5 %: 2 (1.96 + 0.84)^2 .04 / .05^2 = 251 and a little.
    assert comparison.runs_needed == pytest.approx(252, abs=3)


def test_the_same_data_on_both_sides_is_flagged() -> None:
    values = [1.0, 1.01, 1.02]
    assert "is it the same data?" in compare(cpu(values), cpu(values[::-1])).notes[0]
    assert compare(cpu([1.0, 1.0, 1.0]), cpu([1.0, 1.0, 1.0])).notes == ()


def test_other_definitions_are_flagged() -> None:
    values = [1.0, 1.01, 1.02]
    redefined = replace(cpu([1.0, 1.02, 1.03]), definition="of something else")
    assert "defines it" in (
        compare(cpu(values), redefined).notes[0].replace("define it", "defines it")
    )


def test_other_units_are_refused() -> None:
    with pytest.raises(UsageError, match="cpu is in core in BASE and in % in NEW"):
        compare(cpu([1.0, 1.01, 1.02]), replace(cpu([1.0, 1.02, 1.03]), unit="%"))


# ------------------------------------------------------------ many cells


def test_every_topic_is_compared_in_whatever_percentile(tmp_path: Path) -> None:
    generate(Shape(topics=25, nodes=25), tmp_path, 8_000)
    names = ["latency_p95", "callback_duration_p90", "callback_duration_mean", "latency_p50"]
    estimates = load_side(tmp_path, names).estimates
    of_metric = {name: [e.cell["topic"] for e in estimates if e.metric == name] for name in names}
    topics = sorted(f"/topic_{n}" for n in range(25))
    assert {name: sorted(measured) for name, measured in of_metric.items()} == dict.fromkeys(
        names, topics
    )


def test_a_run_without_messages_is_no_evidence_that_nothing_is_worse() -> None:
    def side_of(values: Sequence[float], runs: int) -> Side:
        estimate = value_over_runs(P50, {"topic": "/t"}, values, len(values))
        return Side("side", [estimate], [{}] * runs, runs)

    whole, same = side_of([1.0, 1.001, 0.999], 3), [1.0, 1.001, 0.998]
    for new, expected in (
        (side_of(same, 3), "no_difference"),
        (side_of(same, 4), "not_enough_evidence"),
        (side_of([0.5, 0.501, 0.499], 4), "not_enough_evidence"),
        (side_of([2.0, 2.001, 1.999], 4), "regression"),
    ):
        (comparison,) = compare_sides(whole, new, ["latency_p50"]).compared
        assert comparison.verdict == expected
        notes = [note for note in comparison.notes if " of NEW had no message of it" in note]
        assert notes == ["1 of 4 runs of NEW had no message of it with a latency"] * (new.runs == 4)
    (comparison,) = compare_sides(side_of(same, 4), whole, ["latency_p50"]).compared
    assert comparison.verdict == "no_difference"


def test_messages_lost_in_every_run_of_one_side_are_a_change() -> None:
    """Of 300 messages of each run 6 were lost: its P99 is infinite; the other side has one."""
    metric = Metric("latency_sent_p99", "from a to b", "ns")

    def side_of(*lost: int) -> Side:
        runs = [[math.inf] * count + [1e6 + run] * (300 - count) for run, count in enumerate(lost)]
        return side(percentile_over_runs(metric, {}, runs, 0.99))

    whole, lossy, partly = side_of(0, 0, 0), side_of(6, 6, 6), side_of(6, 6, 0)
    # Too few effective samples: P99 of the whole side has no interval.
    assert compare_sides(whole, lossy, ["latency_sent_p99"]).exit_code == 3
    whole = side(value_over_runs(metric, {}, [1e6, 1.1e6, 1.2e6], 900))
    for base, new, verdict, change, code in (
        (whole, lossy, "regression", "infinite", 1),
        (lossy, whole, "improvement", "from infinite", 0),
        (whole, partly, "not_enough_evidence", "-", 3),
        (lossy, lossy, "not_enough_evidence", "-", 3),
    ):
        comparisons = compare_sides(base, new, ["latency_sent_p99"])
        assert (comparisons.compared[0].verdict, comparisons.exit_code) == (verdict, code)
        assert comparison_table(comparisons).rows[0][3] == change
        named = "REGRESSION: latency_sent_p99 infinite."
        assert (named in summary(comparisons)) == (code == 1)
        assert json.loads(comparisons.json_text())["comparisons"][0]["low"] is None


def test_clocks_that_may_be_apart_are_no_scatter_of_runs() -> None:
    """8 and 12 ms, by clocks that may be 2 ms apart, may both be 10 ms; 8 and 13 ms may not."""

    def side_at(ms: float) -> Side:
        values = [1e6 * ms * factor for factor in (0.999, 1.0, 1.001) * 4]
        return side(within_clocks(value_over_runs(P50, {}, values, 12), 2e6))

    for ms, verdict, low, high in (
        (12, "not_enough_evidence", 10 / 10, 14 / 6),
        (13, "regression", 11 / 10, 15 / 6),
    ):
        (comparison,) = compare_sides(side_at(8), side_at(ms), ["latency_p50"]).compared
        assert comparison.verdict == verdict
        assert (comparison.low, comparison.high) == (
            pytest.approx(low, 2e-3),
            pytest.approx(high, 2e-3),
        )


def test_levels_in_another_order_are_the_same_cell(tmp_path: Path) -> None:
    for number, factors in enumerate(({"a": 1, "b": 2}, {"b": 2, "a": 1})):
        write_run(tmp_path / f"r{number}", latencies_ns=[1_000_000] * 20, factors=factors)
    assert [run.label for run in open_recordings([tmp_path]).runs] == ["a=1, b=2"] * 2


def test_unmatched_cells_give_3_unless_something_regressed() -> None:
    same = [10.0, 10.01, 9.99]
    base = side(cpu(same, a="1"), cpu(same, a="2"))
    comparisons = compare_sides(base, side(cpu(same, a="1"), cpu(same, a="3")), ["cpu"])
    assert [(u.only_in, u.cell) for u in comparisons.unmatched] == [
        ("base", {"a": "2"}),
        ("new", {"a": "3"}),
    ]
    assert comparisons.exit_code == 3
    worse = side(cpu([20.0, 20.01, 19.99], a="1"))
    assert compare_sides(base, worse, ["cpu"]).exit_code == 1
    assert compare_sides(base, base, ["cpu"]).exit_code == 0


def test_order_of_factors_does_not_matter() -> None:
    ab = value_over_runs(CPU, {"a": 1, "b": 2}, [1.0, 1.0, 1.0], 3)
    ba = value_over_runs(CPU, {"b": 2, "a": 1}, [1.0, 1.0, 1.0], 3)
    assert not compare_sides(side(ab), side(ba)).unmatched


def test_holm_over_all_cells() -> None:
    # p = .03 each: one alone would be a regression, two cells are not (.06).
    def pair(name: str) -> tuple[Estimate, Estimate]:
        base, new = np.array([9.0, 10.0, 11.0, 10.0, 10.0]), np.zeros(5)
        shift = 1.0
        while True:
            new = base + shift
            if (compare(cpu(list(base)), cpu(list(new))).p or 0) <= 0.03:
                return cpu(list(base), c=name), cpu(list(new), c=name)
            shift += 0.001

    (b1, n1), (b2, n2) = pair("1"), pair("2")
    single = compare_sides(side(b1), side(n1), ["cpu"])
    assert (single.compared[0].verdict, single.compared[0].confirmed) == ("regression", True)
    assert single.exit_code == 1
    double = compare_sides(side(b1, b2), side(n1, n2), ["cpu"])
    assert [c.verdict for c in double.compared] == ["regression"] * 2
    assert [c.confirmed for c in double.compared] == [False] * 2
    assert double.compared[0].p_holm == pytest.approx(0.06, abs=1e-3)
    assert double.exit_code == 3
    assert "too unsure among" in double.compared[0].notes[0]
    # The interval of the logarithm has scipy's t of 8 degrees of freedom; of two comparisons, each
    # must be sure at 97.5 %.
    one = double.compared[0]
    error = math.log(one.high / one.low) / 2 / stats.t.ppf(0.975, 8)
    needed = next(
        n
        for n in range(6, 100)
        if (stats.t.ppf(1 - 0.025 / 2, 2 * n - 2) + stats.t.ppf(0.8, 2 * n - 2)) * error
        <= math.log(one.ratio) * math.sqrt(n / 5)
    )
    assert one.runs_needed == needed
    assert [row[0].split(" (")[0] for row in comparison_table(double).rows] == ["perhaps worse"] * 2
    by = f"{100 * (one.ratio - 1):+.1f}"
    assert summary(double) == (
        f"compare: perhaps worse: cpu in 2 of 2 cells, {by} to {by} %; not sure with 5 runs on "
        f"each side, about {needed} would probably do. 2 comparisons in 2 cells: 2 perhaps worse "
        "(threshold 0.05)."
    )


def test_notes_that_differ_only_in_numbers_are_one() -> None:
    """Names keep their digits; notes with intervals stay as they are."""
    first, second, *others = (
        "base: 357 effective of 600 samples; P99 of /t_1 needs 500: about 842, 8.4 s per run",
        "base: 1,205 effective of 600 samples; P99 of /t_1 needs 500: about 604, 12 s per run",
        "base: 9 effective of 600 samples; P99 of /t_2 needs 500: about 604, 12 s per run",
        "+1.0 [+0.9, +1.1] ms: 1 executor",
        "+2.0 [+1.9, +2.1] ms: 1 executor",
    )
    value = cpu([1.0])
    rows = [
        Comparison(base=value, new=value, notes=(note,)) for note in (first, second, *others, first)
    ]
    empty = Side("", (), (), 3)
    table = comparison_table(Comparisons(empty, empty, 0.05, rows))
    folded = (
        "base: 357 to 1,205 effective of 600 samples; P99 of /t_1 needs 500: about 604 to 842, "
        "8.4 to 12 s per run"
    )
    assert table.notes[-5:] == [
        "--json has the numbers of each row.",
        f"(1) {folded}",
        *(f"({number}) {note}" for number, note in enumerate(others, 2)),
    ]
    numbers = [row[0].removeprefix("not_enough_evidence ") for row in table.rows]
    assert numbers == ["(1)", "(1)", "(2)", "(3)", "(4)", "(1)"]


def test_only_the_runs_own_cells_unless_there_are_none() -> None:
    whole_run, topic = cpu([1.0] * 3, a="1"), cpu([1.0] * 3, a="1", topic="/x")
    service = replace(cpu([1.0] * 3, a="1", service="/s"), metric="service_latency_p50")
    recording = Side("x", [whole_run, topic, service], [whole_run.cell], 3)
    assert len(compare_sides(recording, recording, ["cpu"]).compared) == 1
    assert len(compare_sides(recording, recording, ["service_latency_p50"]).compared) == 1


def test_one_suite_against_several_matches_the_cells_of_that_suite() -> None:
    several = Side(
        "base",
        [cpu([1.0, 1.01, 0.99], suite="a", c="1"), cpu([9.0, 9.1, 9.2], suite="b", c="1")],
        [{"suite": "a", "c": "1"}, {"suite": "b", "c": "1"}],
        6,
        suites=frozenset({"a", "b"}),
    )
    single = replace(side(cpu([1.0, 1.01, 0.99], c="1")), suites=frozenset({"a"}))
    for base, new, only in ((several, single, "base"), (single, several, "new")):
        comparisons = compare_sides(base, new, ["cpu"])
        assert [dict(c.cell) for c in comparisons.compared] == [{"suite": "a", "c": "1"}]
        assert comparisons.compared[0].verdict == "no_difference"
        assert [(dict(u.cell), u.only_in) for u in comparisons.unmatched] == [
            ({"suite": "b", "c": "1"}, only)
        ]
        assert comparisons.exit_code == 3
    # Both are of one suite: its name is no factor, so that a renamed suite still matches.
    renamed = replace(single, suites=frozenset({"c"}))
    assert compare_sides(single, renamed, ["cpu"]).exit_code == 0


def test_sides_beyond_comparison_lack_evidence() -> None:
    comparison = compare(cpu([1e-200, 1.1e-200, 1.2e-200]), cpu([1.0, 1.1, 1.2]))
    assert comparison.verdict == "not_enough_evidence"
    assert "too far apart" in comparison.notes[-1]


def test_metric_that_neither_side_has() -> None:
    base = side(cpu([1.0] * 3))
    with pytest.raises(UsageError, match="'speed'; there are: cpu"):
        compare_sides(base, base, ["speed"])
    comparisons = compare_sides(base, base)
    assert "loss was measured on neither side" in comparisons.notes
    assert comparisons.exit_code == 0
    speeds = side(replace(cpu([1.0] * 3), metric="speed"))
    with pytest.raises(UsageError, match="--metric: speed"):
        compare_sides(speeds, speeds)
    with pytest.raises(UsageError, match="between 0 and 1"):
        compare_sides(base, base, threshold=1.5)


def test_loss_and_failures_of_either_side_come_first() -> None:
    base = side(cpu([1.0] * 3))
    comparisons = compare_sides(base, side(cpu([1.0] * 3), discarded_events=7, left_out=2))
    assert comparisons.notes[0].startswith("the tracer lost 7 events of NEW")
    assert comparisons.notes[1] == "2 of 5 runs of NEW failed or cannot be read, and are left out"


def test_more_failed_runs_of_a_cell_are_no_evidence_that_nothing_got_worse() -> None:
    """Two of five runs of a failed in NEW: 2 * 3 > 0 * 3, so only b, with none, is no worse."""
    a, b = cpu([1.0, 1.0, 1.001], x="a"), cpu([1.0, 1.0, 1.001], x="b")
    base = side(a, b)
    failing = side(a, b, left_out=2, failed=[{"x": "a"}] * 2)
    of_a, of_b = compare_sides(base, failing).compared
    assert (of_a.verdict, of_b.verdict) == ("not_enough_evidence", "no_difference")
    assert "a larger part of the runs failed in NEW than in BASE" in of_a.notes
    # Any cell may have failed where it is not known.
    unknown = compare_sides(base, replace(failing, failed=[]))
    assert [c.verdict for c in unknown.compared] == ["not_enough_evidence"] * 2
    assert compare_sides(failing, base).exit_code == 0
    assert compare_sides(failing, failing).exit_code == 0
    worse = side(cpu([2.0, 2.0, 2.001], x="a"), left_out=2)
    assert compare_sides(side(a), worse).exit_code == 1


def test_a_cell_that_failed_on_both_sides_is_no_evidence_that_nothing_got_worse() -> None:
    a = cpu([1.0, 1.0, 1.001], x="a")
    one_failed = side(a, left_out=2, failed=[{"x": "b"}] * 2)
    found = compare_sides(one_failed, one_failed, ["cpu"])
    assert [(c.cell["x"], c.verdict) for c in found.compared] == [
        ("a", "no_difference"),
        ("b", "not_enough_evidence"),
    ]
    assert found.exit_code == 3
    # So it is if no run of either side completed, whichever metric is asked for.
    all_failed = side(left_out=2, failed=[{"x": x} for x in "ab"])
    for asked in ([], ["cpu"]):
        assert compare_sides(all_failed, all_failed, asked).exit_code == 3
        found = compare_levels(all_failed, "x", {}, asked)
        assert found.exit_code == 3
        assert found.notes[:2] == [f"all runs with x={x} failed or cannot be read" for x in "ab"]
    # Where only one side has a run of it, that is said as before.
    both = side(a, cpu([1.0, 1.0, 1.001], x="b"))
    assert [u.only_in for u in compare_sides(both, one_failed, ["cpu"]).unmatched] == ["base"]


@pytest.mark.parametrize("levels", ["a", "ab"])
def test_a_level_of_which_all_runs_failed_is_named(levels: str) -> None:
    """Each level that has values is alone with c; c itself is compared with nothing."""
    here = side(*(cpu([1.0, 1.0, 1.001], x=x) for x in levels), left_out=2, failed=[{"x": "c"}] * 2)
    found = compare_levels(here, "x", {}, ["cpu"])
    assert [(u.cell["x"], u.only_in) for u in found.unmatched] == [(x, "base") for x in levels]
    assert len(found.compared) == len(levels) - 1
    assert found.notes[0] == "all runs with x=c failed or cannot be read"
    assert found.exit_code == 3


@pytest.mark.parametrize("lacking", ["silent", "failed"])
@pytest.mark.parametrize("level", ["a", "b"])
def test_a_level_whose_runs_lack_values_is_not_better(level: str, lacking: str) -> None:
    """Level b takes 0.7 of the time of a; of one of the levels 3 of 6 runs have no value."""
    values = {"a": [1.0, 1.001, 0.999] * 2, "b": [0.7, 0.7007, 0.6993] * 2}
    values[level] = values[level][:3]
    estimates = [value_over_runs(P50, {"x": x}, v, len(v)) for x, v in values.items()]
    cells = [{"x": x} for x in "ab" for _ in range(6)]
    gone = [{"x": level}] * 3
    here = replace(side(*estimates), cells=cells, runs=12)
    if lacking == "failed":
        counting = [{"x": x} for x, v in values.items() for _ in v]
        here = replace(here, cells=counting, left_out=3, failed=gone)
    (comparison,) = compare_levels(here, "x", {}, ["latency_p50"]).compared
    note = {
        "silent": f"3 of 6 runs of {level} had no message of it with a latency",
        "failed": "a larger part of the runs failed in b than in a",
    }[lacking]
    # That the slower level lacks values does not make the other one less fast.
    assert comparison.verdict == ("improvement" if level == "a" else "not_enough_evidence")
    assert (note in comparison.notes) == (lacking == "silent" or level == "b")


def test_parts_of_recordings_are_named_unless_both_sides_are_the_same() -> None:
    values = [1.0, 1.1, 1.2]
    part = side(cpu(values), excerpts=["from 2 s to 4 s"] * 3)
    comparisons = compare_sides(side(cpu(values)), part)
    assert comparisons.notes[0] == (
        "3 of 5 runs of NEW are parts of recordings (from 2 s to 4 s), unlike those of the other "
        "side"
    )
    assert not any("parts of" in note for note in compare_sides(part, part).notes)


# ------------------------------------------------------------ from recordings to a page


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two campaigns of four runs in two cells; cell b of the second is 30 % slower."""
    root = tmp_path_factory.mktemp("campaigns")
    rng = np.random.default_rng(2)
    for name, slower in (("base", 1.0), ("new", 1.3)):
        for order in range(8):
            cell = "ab"[order % 2]
            scale = 1e6 * rng.normal(1, 0.003) * (slower if cell == "b" else 1)
            write_run(
                root / name / f"{order:03d}_{cell}",
                latencies_ns=[int(latency) for latency in scale * rng.lognormal(0, 0.1, 2500)],
                factors={"cell": cell},
                repetition=order // 2,
                order=order,
            )
        report_of(root / name, output_dir=str(root / f"{name}_m")).write()
    return root


def test_recordings_and_their_metrics_give_the_same_verdicts(campaigns: Path) -> None:
    sides = [load_side(campaigns / name, collect=False) for name in ("base", "new")]
    files = [load_side(campaigns / name) for name in ("base_m", "new_m/metrics.json")]
    live, stored = compare_sides(*sides), compare_sides(*files)
    assert live.exit_code == stored.exit_code == 1
    verdicts = {(c.metric, c.cell["cell"]): c.verdict for c in live.compared}
    assert verdicts == {(c.metric, c.cell["cell"]): c.verdict for c in stored.compared}
    assert verdicts["latency_p50", "b"] == verdicts["latency_p99", "b"] == "regression"
    assert verdicts["latency_p50", "a"] == verdicts["loss", "b"] == "no_difference"
    for a, b in zip(live.compared, stored.compared, strict=True):
        assert (a.ratio, a.low) == (pytest.approx(b.ratio), pytest.approx(b.low))
        assert a.delta is not None
        assert b.delta is None


@pytest.mark.parametrize(
    ("disturbed", "verdict"),
    [(1, "regression"), (4, "not_enough_evidence")],
    ids=["one of four runs", "all runs"],
)
def test_a_regression_must_show_without_the_disturbed_runs(
    disturbed: int, verdict: str, campaigns: Path, tmp_path: Path
) -> None:
    """All four runs are 30 % slower, and three of them are enough to say so."""
    new = tmp_path / "new"
    shutil.copytree(campaigns / "new", new)
    disturb(sorted(new.glob("*_b"))[:disturbed])
    comparisons = compared(campaigns / "base", new, "latency_p50")
    judged = {(c.metric, c.cell["cell"]): c for c in comparisons.compared}
    slower = judged["latency_p50", "b"]
    assert slower.verdict == verdict
    assert slower.doubted == (None if disturbed == 1 else "regression")
    assert comparisons.exit_code == {1: 1, 4: 3}[disturbed]
    assert ("1 regression only with disturbed runs" in summary(comparisons)) == (disturbed == 4)
    assert judged["latency_p50", "a"].verdict == "no_difference"
    # With the sides exchanged the change is an improvement, and as doubtful.
    back = compared(new, campaigns / "base", "latency_p50")
    (faster,) = (c for c in back.compared if c.cell["cell"] == "b")
    assert faster.verdict == verdict.replace("regression", "improvement")


def test_what_is_asked_for_beside_latencies_is_also_measured_without_disturbed_runs(
    campaigns: Path, tmp_path: Path
) -> None:
    shutil.copytree(campaigns / "new", tmp_path / "new")
    disturb(tmp_path.glob("new/*_b"))
    names = ["response_time_p50", "memory_slope", "callback_duration_p99"]
    whole = load_side(tmp_path / "new", names, collect=False)
    rest = whole.undisturbed()
    assert {e.cell["cell"] for e in rest.estimates} == {"a"}
    assert {e.cell["cell"] for e in whole.estimates} == {"a", "b"}
    assert {e.metric for e in rest.estimates} == {e.metric for e in whole.estimates}


def test_a_change_that_turns_without_disturbed_runs_says_so() -> None:
    """By all runs NEW is better; without BASE's slow disturbed runs it is worse."""
    quiet = side(cpu([1.0, 1.001, 0.999]))
    base = side(
        cpu([1.0, 1.001, 0.999, 9.0, 9.0, 9.0, 9.1, 9.2]),
        disturbed={"r3": ["heat"]}, undisturbed=lambda: quiet,
    )  # fmt: skip
    (comparison,) = compare_sides(base, side(cpu([1.5, 1.501, 1.499])), ["cpu"]).compared
    assert (comparison.verdict, comparison.doubted) == ("not_enough_evidence", "improvement")
    assert (
        "improvement by all runs, but regression without the disturbed ones" in comparison.notes[-1]
    )


@pytest.mark.parametrize(
    ("quiet", "verdict"),
    [([1.0, 1.001, 0.999], "not_enough_evidence"), ([1.1, 1.1011, 1.0989], "no_difference")],
)
def test_disturbed_runs_do_not_hide_a_change(quiet: list[float], verdict: str) -> None:
    """Of BASE the means of all runs are those of NEW; its undisturbed ones took 1.0 or 1.1."""
    calm = side(cpu(quiet))
    base = side(cpu([1.1, 1.1011, 1.0989]), disturbed={"r": ["heat"]}, undisturbed=lambda: calm)
    (found,) = compare_sides(base, side(cpu([1.1, 1.1, 1.1001])), ["cpu"]).compared
    doubted = None if verdict == "no_difference" else "no_difference"
    assert (found.verdict, found.doubted) == (verdict, doubted)
    told = "no_difference by all runs, but regression without the disturbed ones; record again"
    assert (told in found.notes) == (doubted is not None)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((1.8, 1.81, 1.79), "not_enough_evidence"), ((2.5, 2.51, 2.49), "regression")],
)
def test_of_disturbed_runs_alone_a_factor_of_two_counts(
    values: tuple[float, ...], verdict: str
) -> None:
    """No run of either side was undisturbed."""
    base, new = (
        side(
            cpu(side_values),
            disturbed={"r0": ["heat"]},
            undisturbed=lambda: Side("side", [], [], 3),
        )
        for side_values in ((1.0, 1.01, 0.99), values)
    )
    (comparison,) = compare_sides(base, new, ["cpu"]).compared
    assert comparison.verdict == verdict
    # All messages of one side are lost, but all its runs were disturbed.
    lost = [fraction_over_runs(LOSS, {}, [n, n + 3, n + 5], [1000] * 3) for n in (50, 900)]
    base, new = (
        replace(cpu_side, estimates=[e]) for cpu_side, e in zip((base, new), lost, strict=True)
    )
    (comparison,) = compare_sides(base, new, ["loss"]).compared
    assert (comparison.verdict, comparison.doubted) == ("not_enough_evidence", "regression")


def disturb(runs: Iterable[Path]) -> None:
    for run in runs:
        amend(run, disturbances=["heat"])


def compared(base: Path, new: Path, *metrics: str) -> Comparisons:
    sides = (load_side(path, metrics, collect=False) for path in (base, new))
    return compare_sides(*sides, metrics)


def test_what_is_shown(campaigns: Path) -> None:
    comparisons = compare_sides(load_side(campaigns / "base_m"), load_side(campaigns / "new_m"))
    text = "\n".join(line for line, _ in table_lines(comparison_table(comparisons), 160))
    assert "latency_p50 [ms]" in text
    assert "regression" in text
    assert "zero in every run of both sides" in text
    assert re.match(
        r"compare: REGRESSION: latency_p99 \(cell=b\) \+.+; latency_p50 \(cell=b\) \+",
        summary(comparisons),
    )
    assert summary(comparisons).endswith(
        " %. 8 comparisons in 2 cells: 2 regression, 6 no_difference (threshold 0.05)."
    )
    # For a pull request: the verdict first, then only what changed; verdicts are whole.
    first, _, *rows = as_markdown(comparison_table(comparisons), summary(comparisons)).splitlines()
    assert first.startswith("**compare: REGRESSION: latency\\_p99 ")
    shown = [row for row in rows if row.startswith("| regression ") or "no_difference" in row]
    assert len(shown) == 2
    assert "6 more are as before or within limits." in rows
    bars = chart(comparisons).splitlines()[5:-2]
    assert bars[0] == "within the threshold :done, 950, 1050"
    assert [":crit, " in bar for bar in bars[1:3]] == [True, True]
    assert not any(":crit, " in bar for bar in bars[3:])
    narrow = table_lines(comparison_table(comparisons), 60)
    assert sum("no_difference" in line for line, _ in narrow) == 6
    data = json.loads(comparisons.json_text())
    assert data["exit_code"] == 1
    assert len(data["comparisons"]) == 8
    assert {"verdict", "ratio", "low", "high", "p", "p_holm"} <= set(data["comparisons"][0])
    plot = comparison_plot(comparisons)
    assert plot.png().startswith(b"\x89PNG")
    assert "BASE (8 runs) to NEW (8 runs)" in plot.caption


def test_a_chart_by_hand() -> None:
    """Values are in thousandths, to 5; names end neither the block of code nor a label."""
    drawn = ratio_chart(
        "t", [("p50: x=/a;#```b%%c", "crit", 1.0504, 9.0), ("loss: c", "", 0.95, 0.9501)]
    )
    assert drawn.splitlines()[5:] == [
        "p50 x=/a b c :crit, 1050, 5000",
        "loss c :950, 951",
        "todayMarker off",
        "```",
    ]
    unsure = compare_sides(side(cpu([1.0])), side(cpu([1.0])))
    assert chart(unsure) == ""  # one run has no interval


def test_nothing_comparable_can_still_be_drawn(campaigns: Path) -> None:
    lone = side(cpu([1.0], a="1"))
    comparisons = compare_sides(lone, lone, ["cpu"])
    assert comparisons.exit_code == 3
    assert comparison_plot(comparisons).png().startswith(b"\x89PNG")
    json.loads(comparisons.json_text())


def test_infinities_stay_out_of_json() -> None:
    comparisons = compare_sides(side(loss([0, 0, 0])), side(loss([19, 20, 21])), ["loss"])
    assert json.loads(comparisons.json_text())["comparisons"][0]["high"] is None
    assert comparison_plot(comparisons).png()


def test_metrics_json_does_not_hold_values_of_runs(tmp_path: Path) -> None:
    estimate = cpu([1.0, 2.0, 3.0])
    assert estimate.per_run == (1, 2, 3)
    write_metrics(Metrics([], {}, [estimate]), tmp_path)
    (read,) = read_metrics(tmp_path).estimates
    assert read == estimate
    assert read.per_run == ()


def test_two_estimates_of_a_cell_are_not_compared(tmp_path: Path) -> None:
    twice = [cpu([1.0, 2.0, 3.0], a=1, b=2), cpu([4.0, 5.0, 6.0], b=2, a=1)]
    write_metrics(Metrics([], {}, twice), tmp_path)
    with pytest.raises(UsageError, match="two estimates of a metric are of the same cell"):
        load_side(tmp_path)


def test_topics_of_every_node_decide_nothing_beside_the_applications(tmp_path: Path) -> None:
    """A node's few parameter events are no evidence, and would leave all the rest uncompared."""
    by_topic = {
        topic: value_over_runs(P50, {"topic": topic}, [1.0, 2.0, 3.0], 3)
        for topic in ("/scan", "/parameter_events")
    }
    for heard, compared in (
        (["/scan", "/parameter_events"], ["/scan"]),
        (["/parameter_events"], ["/parameter_events"]),
    ):
        write_metrics(
            Metrics([], {}, [cpu([1.0, 2.0, 3.0]), *(by_topic[topic] for topic in heard)]), tmp_path
        )
        estimates = load_side(tmp_path).estimates
        assert [e.cell.get("topic") for e in estimates] == [None, *compared]


@pytest.mark.parametrize(("text", "expected"), [("5%", 0.05), (" 2.5 % ", 0.025), ("0.1", 0.1)])
def test_threshold(text: str, expected: float) -> None:
    assert parse_threshold(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "x", "0", "-5%", "100%", "nan", "inf", "5"])
def test_no_threshold(text: str) -> None:
    with pytest.raises(UsageError, match="--threshold"):
        parse_threshold(text)


def of_levels(values: dict[str, Sequence[float]], blocks: Sequence[str | None]) -> Comparisons:
    """Compare the levels of one factor, with their runs' blocks in the same order."""
    estimates = [
        cpu(level_values, executor=level, size="big") for level, level_values in values.items()
    ]
    observed = [
        Observation({"executor": level, "size": "big"}, value, block)
        for level, level_values in values.items()
        for value, block in zip(level_values, blocks, strict=True)
    ]
    return compare_levels(side(*estimates), "executor", {"cpu": observed}, ["cpu"])


def test_levels_are_compared_within_their_blocks() -> None:
    # Blocks differ by a factor of 4, the levels within them by about 1.2.
    base, new = [1.0, 2.0, 4.0, 3.0], [1.2, 2.42, 4.8, 3.57]
    (comparison,) = of_levels({"a": base, "b": new}, ["0", "1", "2", "3"]).compared
    logs = np.log(np.array(new) / np.array(base))
    half = stats.t.ppf(0.975, 3) * logs.std(ddof=1) / 2  # by hand: t over four differences
    assert comparison.ratio == pytest.approx(math.exp(logs.mean()))
    assert comparison.low == pytest.approx(math.exp(logs.mean() - half))
    assert comparison.high == pytest.approx(math.exp(logs.mean() + half))
    assert comparison.p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert (comparison.verdict, comparison.confirmed) == ("regression", True)
    assert comparison.cell == {"executor": "b / a", "size": "big"}
    assert "ratio of geometric means within 4 blocks" in comparison.notes
    # As independent runs they could not be told apart.
    (independent,) = of_levels({"a": base, "b": new}, [None] * 4).compared
    assert independent.verdict == "not_enough_evidence"
    assert independent.low == compare(cpu(base), cpu(new)).low


def test_of_very_many_comparisons_what_changed_comes_first() -> None:
    base = [cpu([1.0, 1.01, 0.99], node=str(n)) for n in range(70)]
    factors = {41: 1.5, 50: 0.5, 68: 2.0}
    new = [
        cpu([factors.get(n, 1.0) * value for value in (1.0, 1.01, 0.99)], node=str(n))
        for n in range(70)
    ]
    only = cpu([1.0, 1.0, 1.0], node="x")
    comparisons = compare_sides(side(*base), side(*new, only), ["cpu"])
    assert (len(comparisons.compared), len(comparisons.unmatched)) == (70, 1)
    table = comparison_table(comparisons)
    first = [f"{row[0].split()[0]} {row[2]}" for row in table.rows[:3]]
    assert first == ["regression node=68", "regression node=41", "improvement node=50"]
    assert len(table.rows) == 40
    assert table.notes[:2] == [
        "More rows, which --json and frame() have: 30 no_difference.",
        "Only in NEW: 1, such as cpu of node=x.",
    ]
    drawn = {
        label.get_text() for label in comparison_plot(comparisons).figure.axes[0].get_yticklabels()
    }
    assert {"node=41", "node=50", "node=68"} < drawn


def test_every_pair_of_levels_and_no_regression_among_them() -> None:
    by_level = {"a": [1.0, 1.01, 0.99], "b": [1.5, 1.51, 1.52], "c": [1.0, 1.0, 1.01]}
    comparisons = of_levels(by_level, ["0", "1", "2"])
    assert [c.cell["executor"] for c in comparisons.compared] == ["b / a", "c / a", "c / b"]
    assert [c.verdict for c in comparisons.compared] == [
        "regression",
        "no_difference",
        "improvement",
    ]
    # Holm covers all pairs; nothing regressed, and everything is reported.
    assert [c.p_holm for c in comparisons.compared] != [c.p for c in comparisons.compared]
    assert comparisons.exit_code == 0
    table = comparison_table(comparisons)
    assert [row[0].split()[0] for row in table.rows] == ["worse", "no_difference", "better"]
    assert [row[2] for row in table.rows] == ["b / a", "c / a", "c / b"]
    # By hand: the ratio of the means b / a is 1.51, and that of c / b is 1.0033 / 1.51.
    said = summary(comparisons)
    assert said.startswith("compare by executor: worse: cpu (b / a) +51.0 [")
    assert " %. better: cpu (c / b) -33.6 [" in said
    assert comparisons.to_json()["by"] == "executor"
    assert "from one level of executor to another" in comparison_plot(comparisons).caption


def test_a_factor_without_two_levels_cannot_be_compared() -> None:
    single = side(cpu([1.0, 1.1, 1.2], executor="a", size="big"))
    for factor, why in (("executor", "has one level, a"), ("rmw", "is in no run")):
        with pytest.raises(UsageError, match=f"--by {factor}: this factor {why}; .*executor, size"):
            compare_levels(single, factor, {}, ["cpu"])


def test_power_grows_with_the_number_of_runs() -> None:
    """P99 of 600 independent samples per run rises by 20 %, in runs that differ by 5 %."""

    def regressions(runs: int) -> int:
        rng = np.random.default_rng(runs)

        def p99(times: float) -> Estimate:
            samples = times * 1e6 * np.exp(0.5 * rng.standard_normal((runs, 600)))
            samples *= np.exp(0.05 * rng.standard_normal((runs, 1)))
            return percentile_over_runs(Metric("latency_p99", "d", "ns"), {}, list(samples), 0.99)

        return sum(compare(p99(1.0), p99(1.2)).verdict == "regression" for _ in range(40))

    three, five, twenty = regressions(3), regressions(5), regressions(20)
    assert three < five < twenty
    assert twenty >= 0.95 * 40


@pytest.mark.parametrize("kind", ["bursts of 10", "bad run, others none"])
def test_losses_of_one_kind_do_not_regress(kind: str) -> None:
    """A against A, ten runs each, 200 times: at most 5 %, and two Monte Carlo errors of .015."""
    rows = losses.drawn(kind, 0.005, 1000, 20, 200).tolist()
    verdicts = [compare(loss(row[:10]), loss(row[10:])).verdict for row in rows]
    assert verdicts.count("regression") <= 0.08 * 200
