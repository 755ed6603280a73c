"""Test absolute budgets: verdicts by hand, what the file may hold, and refusals."""

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import (
    maximum_over_runs,
    percentile_over_runs,
    value_over_runs,
)
from roslens.analysis.verdicts.budgets import (
    Checks,
    check,
    check_budgets,
    parse_budget,
    read_budgets,
)
from roslens.analysis.verdicts.sides import Side
from roslens.check import checks_table, summary
from roslens.printed import as_markdown
from roslens.recording import UsageError

P99 = Metric("latency_p99", "from a to b", "ns")
LOSS = Metric("loss", "lost / sent", "1", scale="fraction")


def p99(*milliseconds: float, **cell: str) -> Estimate:
    return value_over_runs(P99, cell, [1e6 * v for v in milliseconds], len(milliseconds))


def side(*estimates: Estimate, **more: Any) -> Side:
    run_cells = [e.cell for e in estimates if "topic" not in e.cell]
    return Side("side", estimates, run_cells, 3, **more)


def checked(measured: Side, **more: object) -> Checks:
    """Check the budget of one second."""
    return check_budgets([parse_budget({"budget": "latency_p99 < 1 s", **more})], measured)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        # 10, 11, 12 ms: h = 4.302653 / 11 / sqrt 3 = .225830, 11 exp(-h) = 8.7766 and 11 (1 + (1 +
        # 1.2 / sqrt 3) h) = 15.2052 ms
        ("latency_p99 < 15.21 ms", "within"),
        ("latency_p99 < 15.20 ms", "not_enough_evidence"),
        ("latency_p99 < 8.78 ms", "not_enough_evidence"),
        ("latency_p99 < 8.77 ms", "exceeded"),
        ("latency_p99 <= 20000 us", "within"),
        ("latency_p99 > 5 ms", "within"),
        ("latency_p99 >= 0.02 s", "exceeded"),
    ],
)
def test_verdict_by_the_interval(text: str, verdict: str) -> None:
    budget_check = check(parse_budget(text), p99(10, 11, 12))
    assert budget_check.verdict == verdict
    # t = 11 sqrt 3 log(11 / limit) below, 11 sqrt 3 (limit / 11 - 1) / (1 + 1.2 / sqrt 3) above: 5
    # % at either bound.
    limit = (budget_check.limit or 0) / 1e6
    h = math.log(11 / limit) if limit < 11 else (limit / 11 - 1) / 1.692820
    assert budget_check.p == pytest.approx(2 * stats.t.sf(11 * math.sqrt(3) * h, 2))
    assert (budget_check.p < 0.05) == (verdict != "not_enough_evidence")


def test_runs_needed() -> None:
    # ((1 + 1.2 / sqrt n) t.975 + t.80) sqrt(1 / n) <= 1, df n - 1: 13 runs give
    # (1.3328 2.1788 + .8726) / 3.6056 = 1.047 and 14 (1.3207 2.1604 + .8702) / 3.7417 = .995.
    assert check(parse_budget("latency_p99 < 12 ms"), p99(10, 11, 12)).runs_needed == 14
    # For 3.5, 4 give (1.6 3.1824 + .9785) / 2 = 3.04.
    budget_check = check(parse_budget("latency_p99 < 14.5 ms"), p99(10, 11, 12))
    assert (budget_check.verdict, budget_check.runs_needed) == ("not_enough_evidence", 4)


@pytest.mark.parametrize("text", ["latency_p99 < 12 ms", "latency_p99 > 10 ms"])
def test_that_many_runs_do_in_most_experiments(text: str) -> None:
    """2,000 experiments of normal runs are simulated; 80 % are required."""
    needed = check(parse_budget(text), p99(10, 11, 12)).runs_needed
    runs = np.random.default_rng(4).normal(11, 1, (2000, needed))
    done = [check(parse_budget(text), p99(*values)).verdict == "within" for values in runs]
    assert 0.75 < np.mean(done) < 0.87


def test_runs_needed_of_fractions() -> None:
    """The upper bound is computed by its formula, around 2 % and t.80 errors; Student's needs 4.

    400 simulated experiments of as many runs follow, of which 80 % are required.
    """

    def high(n: int) -> float:
        error, part = 0.01 / math.sqrt(n), 1 - 0.05 ** (1 / n)
        wider = 1 + 1.2 / math.sqrt(n)
        seen = 0.02 + (stats.t.ppf(0.8, n - 1) + wider * stats.t.ppf(0.975, n - 1)) * error
        return float((1 - part) * seen + part * min(1, 20 * seen))

    budget = parse_budget("loss < 5 %")
    needed = check(budget, fraction_over_runs(LOSS, {}, [10, 20, 30], [1000] * 3)).runs_needed
    assert needed == next(n for n in range(4, 1000) if high(n) < 0.05) == 53
    runs = np.random.default_rng(5).normal(2000, 1000, (400, needed)).clip(0).astype(int)
    estimates = [fraction_over_runs(LOSS, {}, lost.tolist(), [100_000] * needed) for lost in runs]
    assert 0.7 < np.mean([check(budget, e).verdict == "within" for e in estimates]) < 0.9


def test_no_loss_seen_is_not_no_loss() -> None:
    three = fraction_over_runs(LOSS, {}, [0, 0, 0], [1000] * 3)
    budget_check = check(parse_budget("loss < 50 %"), three)
    assert (budget_check.verdict, budget_check.runs_needed) == ("not_enough_evidence", None)
    assert "29 runs are needed" in budget_check.notes[0]
    # .9 ** 29 < .05; 29,000 messages are 2,900 bursts of ten: at most .1271 %.
    many = fraction_over_runs(LOSS, {}, [0] * 29, [1000] * 29)
    assert check(parse_budget("loss < 0.13 %"), many).verdict == "within"
    budget_check = check(parse_budget("loss < 0.1 %"), many)
    assert (budget_check.verdict, budget_check.runs_needed) == ("not_enough_evidence", None)
    # 10 ln .025 / ln .999 = 36,870.3
    assert budget_check.notes == ("none in 29,000; 36,871 over all runs would do",)
    assert check(parse_budget("loss <= 0"), many).verdict == "not_enough_evidence"


def test_a_percentile_that_is_infinite_in_all_runs_exceeds_any_limit() -> None:
    """Of 1,000 messages of each run 20 were lost: more than 1 % are infinitely late."""
    lossy, whole = [math.inf] * 20 + [1e6] * 980, [1e6] * 1000
    budget = parse_budget("latency_p99 < 1 s")
    for runs, verdict in (
        ([lossy] * 3, "exceeded"),
        ([lossy, lossy, whole], "not_enough_evidence"),
        ([lossy] * 2, "not_enough_evidence"),
        # 298 are too few for a value of P99, but it is known that more than 1 % of them were lost.
        ([lossy[:298]] * 3, "exceeded"),
    ):
        checks = check_budgets([budget], side(percentile_over_runs(P99, {}, runs, 0.99)))
        assert (checks.checks[0].verdict, checks.exit_code) == (
            verdict,
            1 if verdict == "exceeded" else 3,
        )


@pytest.mark.parametrize(
    ("sizes", "verdict", "most"),
    [
        # .05 ** (1 / 299) = .99003, .05 ** (1 / 298) = .98998: at most 1.00 % of further ones.
        ([100, 100, 99], "within", "1 %"),
        ([100, 100, 98], "not_enough_evidence", "1 %"),
        ([1], "not_enough_evidence", "95 %"),
    ],
)
def test_few_samples_keep_no_limit_of_a_maximum(sizes: list[int], verdict: str, most: str) -> None:
    metric = Metric("response_time_max", "from a to b", "ns")
    estimate = maximum_over_runs(metric, {}, [[1e6] * size for size in [*sizes, 0]])
    budget_check = check(parse_budget("response_time_max < 2 ms"), estimate)
    assert budget_check.verdict == verdict
    count, left_out = budget_check.notes
    told = f"none of {sum(sizes)} is beyond it; if they are independent, at most {most} would be"
    assert count.startswith(told)
    assert count.endswith("; 299 would show that it is 1 % or less") == (verdict != "within")
    assert left_out == "1 run without samples left out"
    # One beyond it is enough.
    assert check(parse_budget("response_time_max < 0.9 ms"), estimate).verdict == "exceeded"


def test_exit_codes_and_holm() -> None:
    budgets = [parse_budget("latency_p99 < 8.5 ms")]
    single = check_budgets(budgets, side(p99(10, 11, 12)))
    assert (single.checks[0].verdict, single.exit_code) == ("exceeded", 1)
    two = check_budgets(budgets, side(p99(10, 11, 12, a="1"), p99(10, 11, 12, a="2")))
    assert [c.confirmed for c in two.checks] == [False, False]
    assert two.exit_code == 3
    assert "Holm" in two.checks[0].notes[0]
    assert checked(side(p99(1, 1, 1))).exit_code == 0
    assert json.loads(two.json_text())["exit_code"] == 3


def test_where_and_topic_choose_cells() -> None:
    estimates = p99(1, 1, 1, a="1"), p99(2, 2, 2, a="2"), p99(3, 3, 3, a="1", topic="/x")
    run_checks = checked(side(*estimates)).checks
    assert [dict(c.estimate.cell) for c in run_checks if c.estimate] == [{"a": "1"}, {"a": "2"}]
    (only,) = checked(side(*estimates), where={"a": 2}).checks
    assert only.estimate.value == 2e6
    (topic,) = checked(side(*estimates), topic="/x").checks
    assert topic.estimate.value == 3e6


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"budget": "latency_p98x < 1 s"}, "no metric 'latency_p98x'; did you mean latency_p99?"),
        ({"budget": "speed < 1"}, "no metric 'speed'; there are: latency_p99"),
        ({"where": {"executor": "event"}}, "no cell with executor=event; did you mean events?"),
        ({"where": {"executor": "q"}}, "no cell with executor=q; there are: events, single"),
        ({"where": {"exekutor": "events"}}, "no factor 'exekutor'; did you mean executor?"),
        ({"topic": "/scam"}, "no topic /scam; did you mean /scan?"),
        (
            {"where": {"executor": "single"}, "topic": "/scan"},
            "no cell with executor=single, topic=/scan; there are: executor=events; executor=s",
        ),
    ],
)
def test_what_is_nowhere_is_wrong_use(budget: dict[str, object], told: str) -> None:
    of_topic = p99(1, 1, 1, executor="events", topic="/scan")
    measured = side(p99(1, 1, 1, executor="events"), p99(1, 1, 1, executor="single"), of_topic)
    with pytest.raises(UsageError) as error:
        checked(measured, **budget)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "text", ["memory_slope < 1 kB/s", "time < 5 s", "response_time_bound < 1 s"]
)
def test_a_metric_that_was_not_measured_lacks_evidence(text: str) -> None:
    all_checks = check_budgets([parse_budget(text)], side(p99(1, 1, 1)))
    assert all_checks.checks[0].notes == ("it was not measured in these recordings",)
    assert all_checks.exit_code == 3


def test_no_budget_is_kept_by_runs_without_messages() -> None:
    """A message taken without a callback has no latency, but counts for the loss."""
    whole = side(p99(1, 1, 1), fraction_over_runs(LOSS, {}, [0] * 3, [1000] * 3))
    budgets = [parse_budget("latency_p99 < 1 s"), parse_budget("loss < 50 %")]
    checks = check_budgets(budgets, replace(whole, cells=[{}] * 4)).checks
    assert [(each.verdict, each.notes[-1]) for each in checks] == [
        ("not_enough_evidence", "1 of 4 runs had no message of it with a latency"),
        ("not_enough_evidence", "1 of 4 runs had no message of it"),
    ]


@pytest.mark.parametrize(
    ("factor", "metric", "lacking"),
    [
        ("topic", "period_p90", "two publications of it in a row"),
        ("topic", "callback_duration_p90", "execution of its callback"),
        ("timer", "timer_jitter_p90", "two executions of the timer's callback in a row"),
        ("service", "service_latency_p90", "call of it with a latency"),
        ("chain", "response_time_p90", "instance that reached the chain's end"),
    ],
)
def test_no_budget_is_kept_by_runs_without_what_it_is_about(
    factor: str, metric: str, lacking: str
) -> None:
    """Three of six runs have a value; those of another cell are none of them."""
    cell = {"executor": "single", factor: "scan"}
    estimate = value_over_runs(Metric(metric, "", "ns", "lower"), cell, [1.0, 1.01, 1.02], 3)
    runs = [{"executor": "single"}] * 6 + [{"executor": "multi"}] * 2
    check, of_multi = check_budgets(
        [parse_budget(f"{metric} < 1 s")], replace(side(estimate), cells=runs)
    ).checks
    assert check.verdict == "not_enough_evidence"
    assert check.notes == (f"3 of 6 runs had no {lacking}",)
    assert (of_multi.verdict, of_multi.estimate.cell) == (check.verdict, runs[-1])


@pytest.mark.parametrize(
    ("texts", "unit", "told"),
    [
        *(([f"latency_p{q} < 5 ms"], "ns", f"no percentile P{q}; give one above 0 and below 100")
          for q in ("0", "0.0", "100", "250")),
        (["loss < 5", "loss < 300 %", "loss > -1 %"], "1",
         "loss is a fraction: give a limit between 0 and 1"),
        (["latency_p99 < 50", "latency_p99 < 50 MB", "latency_p99 < 5 %"], "ns",
         "give one of: ns, us, ms, s"),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_their_metric(texts: list[str], unit: str, told: str) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=told):
            parse_budget(text).limit_in(unit)


def test_the_budgets_of_the_documentation_run_as_written(tmp_path: Path) -> None:
    """Each YAML block of docs that begins with ``budgets:`` meets estimates in its units."""
    blocks = [
        block
        for page in (Path(__file__).parents[2] / "docs").rglob("*.md")
        for block in re.findall(r"```yaml\n(budgets:.*?)```", page.read_text(), re.DOTALL)
    ]
    assert blocks
    path = tmp_path / "budgets.yaml"
    units = {"loss": "1", "memory_slope": "B/s"}
    for block in blocks:
        path.write_text(block)
        for budget in read_budgets(path):
            metric = Metric(budget.metric, "as documented", units.get(budget.metric, "ns"))
            estimate = value_over_runs(metric, budget.where, [0.0, 1e-9, 2e-9], 3)
            all_checks = check_budgets([budget], side(estimate))
            assert all_checks.checks[0].verdict == "within", budget.text
            assert all_checks.exit_code == 0


@pytest.mark.parametrize(
    ("unit", "text", "limit"),
    [
        ("B/s", "1 kB/s", 1e3),
        ("B/s", "1 MiB/s", 2.0**20),
        ("B/message", "2 kB/message", 2e3),
        ("byte/s", "3 B/s", 3),
        ("byte", "1 MiB", 2.0**20),
        ("ns", "0.5 us", 500),
        ("ns", "2 s", 2e9),
    ],
)
def test_limits_are_converted(unit: str, text: str, limit: float) -> None:
    estimate = value_over_runs(Metric("m", "from a to b", unit), {}, [1.0, 1.0, 1.0], 3)
    assert parse_budget(f"m < {text}").limit_in(estimate.unit) == limit


def test_failed_runs_of_a_cell_are_not_within_a_budget() -> None:
    """Two runs of a failed: a is not known to be within; b, with none, is; what exceeds stays."""
    cells = [p99(1, 1.001, 1.002, x=level) for level in "ab"]
    failing = side(*cells, left_out=2, failed=[{"x": "a"}] * 2)
    of_a, of_b = checked(failing).checks
    assert (of_a.verdict, of_b.verdict) == ("not_enough_evidence", "within")
    assert of_a.notes[-1] == "2 runs of this cell failed or cannot be read"
    assert checked(failing).exit_code == 3
    exceeded = check_budgets([parse_budget("latency_p99 < 0.5 ms")], failing)
    assert [c.verdict for c in exceeded.checks] == ["exceeded", "exceeded"]
    assert exceeded.exit_code == 1


def test_a_cell_without_a_value_is_not_within_a_budget() -> None:
    """Of three cells a has values, both runs of b failed, and the three of c had none."""
    within = p99(1, 1.001, 1.002, x="a")
    failed = side(within, left_out=2, failed=[{"x": "b"}] * 2)
    here = replace(failed, cells=[{"x": "a"}] * 3 + [{"x": "c"}] * 3, runs=8)
    found = checked(here)
    assert [(c.estimate.cell["x"], c.verdict) for c in found.checks if c.estimate] == [
        ("a", "within"),
        ("c", "not_enough_evidence"),
        ("b", "not_enough_evidence"),
    ]
    notes = (
        ["3 of 3 runs had no message of it with a latency"],
        ["2 runs of this cell failed or cannot be read"],
    )
    nothing = "no run of the cell has a value of it"
    assert [list(c.notes) for c in found.checks[1:]] == [[nothing, *note] for note in notes]
    assert found.exit_code == 3
    # The budget of one cell is about no other; a cell that no run is of remains a mistake.
    assert [c.verdict for c in checked(here, where={"x": "b"}).checks] == ["not_enough_evidence"]
    assert checked(here, where={"x": "a"}).exit_code == 0
    with pytest.raises(UsageError, match="no cell with x=d"):
        checked(here, where={"x": "d"})


def test_of_very_many_checks_the_exceeded_ones_come_first() -> None:
    """Of 840 cells 3 exceed 1.2 ms and 2 lack a third run; 35 of the 835 others fill 40 rows."""
    cells = [p99(*[1.0, 1.001, 1.002][: 2 if n in (7, 9) else 3], x=str(n)) for n in range(837)]
    cells += [p99(2.0, 2.001, 2.002, x=str(n)) for n in range(837, 840)]
    found = check_budgets([parse_budget("latency_p99 < 1.2 ms")], side(*cells))
    table = checks_table(found)
    verdicts = [row[0].split()[0] for row in table.rows]
    assert verdicts == ["exceeded"] * 3 + ["not_enough_evidence"] * 2 + ["within"] * 35
    assert table.notes[0] == "More rows, which --json has: 800 within."
    assert len(as_markdown(table, summary(found))) < 65_536
    assert len(checks_table(Checks(found.checks[:40])).rows) == 40


def test_loss_of_the_tracer_is_said_first() -> None:
    all_checks = checked(side(p99(1, 1, 1), discarded_events=5, left_out=1))
    assert all_checks.notes[0].startswith("the tracer lost 5 events")
    assert all_checks.notes[1] == "1 of 3 runs failed or cannot be read, and are left out"
    (note,) = checked(side(p99(1, 1, 1), disturbed={"r1": ["heat", "steal"]})).notes
    assert note == "1 of 3 runs disturbed: r1: heat, steal"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "budgets: []",
        "[]",
        "budgets: [latency_p99]",
        "budgets: ['latency_p99 = 5 ms']",
        "budgets: ['latency_p99 < 1.2.3 ms']",
        "budgets: [{budget: 'loss < 1 %', wher: {a: 1}}]",
        "budgets: [{budget: 'loss < 1 %', where: [a]}]",
        "budgets: [{where: {a: 1}}]",
        "budgets: ['loss < 1 %']\nmore: 1",
        "budgets: ['loss < 1 %']\nbudgets: ['loss < 2 %']",
        "budgets: [{budget: 'loss < 1 %', budget: 'loss < 2 %'}]",
        "budgets: [",
        "\x00",
        "budgets: [2024-99-99]",
        "budgets: ['latency_p99 < 1e308 s']",
        "budgets: ['latency_p99 < " + "9" * 5000 + " s']",
        "budgets: [" + "9" * 5000 + "]",
        "budgets: " + "[" * 5000,
        "budgets: " + "{a: " * 5000,
        "!!python/object/apply:os.system ['true']",
        "a: &a [x]\nbudgets: *b",
        "? [a]\n: b",
        "{[a]: b}",
    ],
    ids=itertools.count(),
)
def test_files_that_are_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "budgets.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"budgets\.yaml") as caught:
        read_budgets(path)
    assert "\n" not in str(caught.value)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "budgets.yaml"
    path.write_text(
        "budgets:\n- loss < 0.1 %\n- budget: latency_p99 < 20 ms\n  topic: /scan\n"
        "  where: {executor: events}\n"
    )
    first, second = read_budgets(path)
    assert (first.metric, first.number, first.unit, first.upper) == ("loss", 0.1, "%", True)
    assert second.where == {"executor": "events", "topic": "/scan"}
    assert parse_budget("response_time_p99.99 < 5 ms").metric == "response_time_p99.99"
    with pytest.raises(UsageError, match="cannot be read"):
        read_budgets(tmp_path / "none.yaml")
