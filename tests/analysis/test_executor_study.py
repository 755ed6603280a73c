"""Test the study of executors over made-up runs; expected values by hand."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests.analysis.synthetic import START, SUBSCRIBER, of_runs, write_run

import roslens as rl
from roslens.analysis.judged import turned
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.leaks.statements import leak_statements
from roslens.analysis.measures.busy import busy_estimates, busy_per_run, callbacks_per_run
from roslens.analysis.measures.services import unanswered
from roslens.analysis.metrics import read_metrics
from roslens.analysis.overview.processes import processes_overview
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.runs import Run
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.verdicts.pairs import Pair, overall_pairs, pairs
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.schema import RESOURCES
from roslens.recording import UsageError
from roslens.recording.manifest import Level
from roslens.studies.executors.agreement import agreement
from roslens.studies.executors.report import ExecutorsParameters, ExecutorsReport
from roslens.studies.executors.statements import (
    OVER_TIME,
    cpu_statement,
    latency_statement,
    payload_statement,
    saving_statement,
)
from roslens.studies.executors.work import (
    CALL,
    GOAL,
    MESSAGE,
    entity_estimates,
    work_estimates,
    work_of_runs,
)

# ---------------------------------------------------------------- work


def test_goals_come_before_calls_before_messages() -> None:
    runs = [Run("goals"), Run("calls"), Run("nothing")]
    asked = [
        ("calls", "/ask", 0, 70), ("calls", "/ask", 10, 100), ("calls", "/ask", 20, None),
        # These are of every node, and of an action, and no work of the application.
        ("calls", "/n/get_parameters", 0, 1), ("goals", "/move/_action/send_goal", 0, 1),
    ]  # fmt: skip
    names = ("run", "service", "request_sent_ns", "response_taken_ns")
    calls = of_runs("service_calls", *(dict(zip(names, call, strict=True)) for call in asked))
    goal = {"run": "goals", "action": "/move", "goal_sent_ns": 5, "result_taken_ns": 25}
    # This topic is of every node and nobody's work, so the third run has no work.
    event = {"run": "nothing", "topic": "/parameter_events", "outcome": "delivered",
             "publish_ns": 0, "latency_ns": 300}  # fmt: skip
    works = work_of_runs(of_runs("messages", event), calls, of_runs("action_goals", goal), runs)
    assert [(w.run.name, w.kind, w.values_ns.tolist()) for w in works] == [
        ("goals", GOAL, [20]),
        ("calls", CALL, [70, 90]),
    ]
    estimates = work_estimates(works)
    # Nothing says when the calls began: there is no value, but a lower bound.
    assert [w.measured for w in works] == [False, False]
    assert {e.value for e in estimates} == {e.low for e in estimates} == {None}
    assert all("does not show when calls began" in (e.refused or "") for e in estimates)
    assert any("at least 8e-05 ms" in (e.refused or "") for e in estimates)
    assert {e.metric for e in estimates} == {
        *(f"goal_time_{s}" for s in ("mean", "p50", "p99", "max")),
        *(f"response_time_{s}" for s in ("mean", "p50", "p99", "max")),
    }


def test_calls_are_measured_from_where_they_were_called() -> None:
    """By hand: taken before sent; told later; answered before its own call had returned."""
    rows: list[dict[str, object]] = [
        {"service": "/ask", "request_called_ns": 100, "request_sent_ns": 160,
         "request_taken_ns": 150, "response_taken_ns": 200},
        {"service": "/ask", "request_called_ns": 300, "request_sent_ns": 310,
         "request_taken_ns": 350, "response_taken_ns": 400, "response_received_ns": 430},
        {"service": "/ask", "request_called_ns": 500, "request_sent_ns": 690,
         "request_taken_ns": 550, "response_taken_ns": 600},
    ]  # fmt: skip
    messages, goals = of_runs("messages"), of_runs("action_goals")
    (work,) = work_of_runs(messages, of_runs("service_calls", *rows), goals, [Run("r")])
    assert (work.measured, work.values_ns.tolist()) == (True, [100, 130, 190])
    # Without the calls no duration is negative, and each is at most what it was.
    for row in rows:
        del row["request_called_ns"]
    (bound,) = work_of_runs(messages, of_runs("service_calls", *rows), goals, [Run("r")])
    assert (bound.measured, bound.values_ns.tolist()) == (False, [50, 120, 140])


def test_warm_up_is_left_out_of_calls() -> None:
    rows = [
        {"service": "/ask", "request_sent_ns": t * 10**9,
         "response_taken_ns": t * 10**9 + t}
        for t in range(1, 5)
    ]  # fmt: skip
    tables = (of_runs("messages"), of_runs("service_calls", *rows), of_runs("action_goals"))
    (work,) = work_of_runs(*tables, [Run("r")], warm_up_s=1.5)
    assert work.values_ns.tolist() == [3, 4]


# ---------------------------------------------------------------- busy


def stretch(
    thread: int, state: str, begin: int, took: int | None, *, inside: int = 0
) -> dict[str, object]:
    """Make a row of executor_intervals, `inside` of which callbacks ran."""
    return {"host": "h0", "vpid": 1, "vtid": thread, "state": state, "begin_ns": begin,
            "duration_ns": took, "executed": int(inside > 0), "callback_ns": inside}  # fmt: skip


def test_where_the_time_of_two_threads_went() -> None:
    # Thread 1: 60 of 100 waiting, 30 in callbacks; thread 2: 200 of 400 and 0.
    rows = [
        stretch(1, "wait", 0, 60),
        stretch(1, "busy", 60, 40, inside=30),
        stretch(2, "wait", 0, 200),
        stretch(2, "busy", 200, 200),
        stretch(2, "busy", 400, None, inside=9),
    ]
    shares = busy_per_run(of_runs("executor_intervals", *rows))
    assert shares.select("threads", "wait").rows() == [(2, pytest.approx(0.55))]
    # The callback of the stretch without an end is not counted either.
    assert shares["callbacks"].to_list() == [pytest.approx(0.15)]
    assert shares["overhead"].to_list() == [pytest.approx(0.30)]
    assert shares["blocked"].to_list() == [0]
    # Half of thread 2's time without waiting was spent blocked on the lock: a quarter of its time.
    rows[3] = {**rows[3], "duration_ns": 100}
    rows.append({**rows[3], "state": "blocked", "begin_ns": 300})
    again = busy_per_run(of_runs("executor_intervals", *rows))
    assert again["blocked"].to_list() == [pytest.approx(0.125)]
    assert again["overhead"].to_list() == [pytest.approx(0.30 - 0.125)]


def test_a_wait_inside_of_a_callback_is_time_of_the_callback() -> None:
    # 20 of 100 waiting; then a callback of 70, of which it spins and waits for 60; then 10 more.
    rows = [
        stretch(1, "wait", 0, 20),
        stretch(1, "busy", 20, 5, inside=5),
        stretch(1, "wait", 25, 60, inside=60),
        stretch(1, "busy", 85, 15, inside=5),
    ]
    (row,) = busy_per_run(of_runs("executor_intervals", *rows)).to_dicts()
    parts = {name: row[name] for name in ("wait", "callbacks", "blocked", "overhead")}
    assert parts == pytest.approx({"wait": 0.2, "callbacks": 0.7, "blocked": 0, "overhead": 0.1})


def test_callbacks_and_threads_tell_of_executors_without_events() -> None:
    # Measured from 100 to 200. Thread 1: 100 to 120 (of one that began before), 130 to 160 with one
    # nested from 140 to 150: 50 of 100. Thread 2: 10. CPU time is known of thread 1: 40 in 80.
    spans = [(1, 90, 120), (1, 130, 160), (1, 140, 150), (2, 150, 160), (2, 300, 400)]
    instances = pl.LazyFrame(
        [("r", "h0", 1, thread, start, end) for thread, start, end in spans],
        schema=["run", "host", "vpid", "vtid", "start_ns", "end_ns"],
        orient="row",
    )
    used = [(1, 50, 7), (1, 110, 20), (1, 150, 30), (1, 190, 60), (3, 110, 0), (3, 190, 9)]
    threads = pl.LazyFrame(
        [("r", "h0", 1, thread, time, cpu) for thread, time, cpu in used],
        schema=["run", "host", "vpid", "vtid", "time_ns", "cpu_time_ns"],
        orient="row",
    )
    parts = pl.DataFrame({"run": ["r"], "begin_ns": [100], "end_ns": [200], "ready": [True]})
    (row,) = callbacks_per_run(instances, threads, parts).rows(named=True)
    assert row == {"run": "r", "threads": 2, "callbacks": pytest.approx(0.3), "cpu": 0.5}
    # Without messages it is measured from 90 to 400, the first and the last callback: thread 1 is
    # inside for 60 of 310, thread 2 for 110. All samples count: 53 in 140.
    unknown = parts.with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in ("begin_ns", "end_ns")
    )
    (row,) = callbacks_per_run(instances, threads, unknown).rows(named=True)
    assert row["callbacks"] == pytest.approx((60 + 110) / 2 / 310)
    assert row["cpu"] == pytest.approx(53 / 140)
    # From 100 on, of which 20 + 30 of thread 1 are left, if the workload said when it was ready.
    (row,) = callbacks_per_run(
        instances, threads, unknown.with_columns(begin_ns=pl.lit(100, pl.Int64))
    ).rows(named=True)
    assert row["callbacks"] == pytest.approx((50 + 110) / 2 / 300)


def test_a_process_runs_nested_callbacks_once() -> None:
    # Of 100, thread 1 is in callbacks from 10 to 40, with one nested from 20 to 30, and thread 2
    # from 50 to 60: 40 by hand, where the durations add up to 50. One never ended.
    spans = [(1, 10, 40), (1, 20, 30), (2, 50, 60), (2, 70, None)]
    instances = [
        {"host": "h0", "vpid": 1, "vtid": thread, "kind": "timer", "start_ns": start, "end_ns": end}
        for thread, start, end in spans
    ]
    process = {"host": "h0", "vpid": 1, "procname": "p", "begin_ns": 0, "end_ns": 100}
    (row,) = processes_overview(
        of_runs("processes", process), of_runs("nodes"), of_runs("resources"),
        of_runs("callback_instances", *instances), {"r": ""}, losses=of_runs("losses"),
    ).rows(named=True)  # fmt: skip
    assert row["callbacks"] == pytest.approx(0.4)


def test_processes_of_one_name_in_a_run_are_taken_together() -> None:
    """By hand: started again on h0, and on h1 beside it; the other run has one process.

    Run a: h0 used 90 of 100, then 10 of 900 from 100 to 1000: 0.1 of the span; h1 used 1000 in
    1000: together 1.1 cores. In callbacks 80 + 20 + 200 of 100 + 900 + 1000.
    """
    spans = [
        ("a", "h0", 1, 0, 100, 90, 80), ("a", "h0", 2, 100, 1000, 10, 20),
        ("a", "h1", 1, 0, 1000, 1000, 200), ("b", "h0", 1, 0, 1000, 500, 350),
    ]  # fmt: skip
    processes, instances, sampled = [], [], []
    for run, host, vpid, begin, end, cpu, inside in spans:
        of = {"run": run, "host": host, "vpid": vpid}
        processes.append({**of, "procname": "p", "begin_ns": begin, "end_ns": end})
        instances.append(
            {**of, "vtid": vpid, "kind": "timer", "start_ns": begin, "end_ns": begin + inside}
        )
        sampled += [
            {**of, "time_ns": at, "cpu_time_ns": used, "pss_bytes": 10 * vpid}
            for at, used in ((begin, 0), (end, cpu))
        ]
    (row,) = processes_overview(
        of_runs("processes", *processes), of_runs("nodes"), of_runs("resources", *sampled),
        of_runs("callback_instances", *instances), {"a": "", "b": ""}, losses=of_runs("losses"),
    ).rows(named=True)  # fmt: skip
    assert row["runs"] == 2
    assert row["cpu"] == pytest.approx((1.1 + 0.5) / 2)
    assert row["callbacks"] == pytest.approx((300 / 2000 + 0.35) / 2)
    assert row["pss_bytes"] == (20 + 10) / 2


def test_a_request_shortly_before_the_end_is_not_called_unanswered() -> None:
    """By hand, in s: /ask took up to 40, its client is recorded until 1000: nobody knows after 960.

    The server's process goes on until 2000. How long /never takes is not known: 1 s is waited.
    """
    asked = [("/ask", 0, 40), ("/ask", 100, 110), ("/ask", 960, None), ("/ask", 961, None),
             ("/never", 999, None), ("/never", 999.1, None)]  # fmt: skip
    second = 10**9
    of_client = {"host": "h0", "client_id": 7}
    calls = [
        {**of_client, "service": service, "request_sent_ns": round(sent * second),
         "response_taken_ns": None if taken is None else taken * second}
        for service, sent, taken in asked
    ]  # fmt: skip
    processes = [{"host": "h0", "vpid": vpid, "end_ns": 1000 * second * vpid} for vpid in (1, 2)]
    rows = unanswered(
        of_runs("service_calls", *calls), of_runs("clients", {**of_client, "vpid": 1}),
        of_runs("processes", *processes), of_runs("losses"),
    )  # fmt: skip
    assert rows.drop("run").rows() == [("/ask", 4, 1, 1), ("/never", 2, 1, 1)]


def test_an_executor_without_events_is_refused_by_itself() -> None:
    runs = [Run("a", {"executor": "single"}), Run("b", {"executor": "events"})]
    rows = pl.DataFrame({"run": ["a"], "threads": [1], "wait": [0.5], "callbacks": [0.3],
                         "blocked": [0.0], "overhead": [0.2], "cpu": [None]})  # fmt: skip
    callback_shares = pl.DataFrame(
        {"run": ["a", "b"], "callbacks": [0.25, 0.4], "cpu": [None, 0.45]}
    )
    by_metric = {
        (e.metric, e.cell["executor"]): e for e in busy_estimates(rows, callback_shares, runs)
    }
    assert by_metric["executor_wait", "single"].value == 0.5
    refused = by_metric["executor_wait", "events"].refused
    assert "no event of an executor" in refused
    assert by_metric["executor_callbacks", "single"].value == 0.3
    assert by_metric["executor_callbacks", "events"].value == 0.4
    assert "emits no events" in by_metric["executor_callbacks", "events"].definition
    assert by_metric["executor_cpu", "events"].value == 0.45
    assert ("executor_cpu", "single") not in by_metric


# ---------------------------------------------------------------- pairs


def observations(factors: dict[str, float], blocks: int = 5) -> list[Observation]:
    """Return each level's value, scaled per block and by a little noise."""
    rng = np.random.default_rng(3)
    return [
        Observation(
            {"executor": level, "payload": 1}, value * (1 + 0.1 * block) * noise, str(block)
        )
        for block in range(blocks)
        for level, value in factors.items()
        for noise in [1 + 0.004 * rng.standard_normal()]
    ]


def test_pairs_within_blocks() -> None:
    executor_pairs = pairs(
        "cpu", observations({"single": 1.0, "multi": 1.3, "events": 1.0}), "executor"
    )
    verdicts = {(p.level, p.reference): p.verdict for p in executor_pairs}
    assert verdicts == {
        ("multi", "single"): "more",
        ("events", "single"): "no_difference",
        ("events", "multi"): "less",
    }
    more = executor_pairs[0]
    # Blocks differ by half, the ratio within them by under 1 %.
    assert more.ratio == pytest.approx(1.3, rel=0.01)
    assert more.low > 1.27
    assert dict(more.conditions) == {"payload": 1}


def test_pairs_over_all_conditions_by_hand() -> None:
    """Ratios 2 and 4.5 in two conditions average to 3; blocks differ by factors x of b."""
    factors = {0: 0.98, 1: 1.0, 2: 1.03}
    observed = [
        Observation({"executor": executor, "payload": payload}, value * (1 + block), str(block))
        for block, factor in factors.items()
        for executor, payload, value in (
            *(("a", 1, 1.0), ("b", 1, 2.0 * factor), ("a", 2, 2.0), ("b", 2, 9.0 * factor)),
            # These have only one executor, and are left out.
            *(("a", 3, 1.0), ("a", 4, 1.0)),
        )
    ]
    observed.append(Observation({"executor": "b", "payload": 4}, 100.0, "0"))
    (pair,) = overall_pairs("cpu", observed, "executor")
    # Student's 95 % interval, by scipy.
    logs = [math.log(3 * factor) for factor in factors.values()]
    mean, half = np.mean(logs), stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    assert (pair.level, pair.reference, pair.over, dict(pair.conditions)) == ("b", "a", 2, {})
    assert [pair.ratio, pair.low, pair.high] == pytest.approx(
        [math.exp(mean), math.exp(mean - half), math.exp(mean + half)]
    )
    assert pair.verdict == "more"
    average = [replace(pair, level="EventsCBG", reference="Events")]
    assert cpu_statement([], (), average).because == (
        "no pair that it is about; on average over 2 conditions EventsCBG is "
        f"{pair.ratio:.2f} [{pair.low:.2f}, {pair.high:.2f}] times Events"
    )
    one_condition = [o for o in observed if o.cell["payload"] == 1]
    assert overall_pairs("cpu", one_condition, "executor") == []


def design(*runs: tuple[str, int, float, str | None]) -> list[Observation]:
    """Make runs of an executor in a condition with 1 % noise; one per executor, payload, block."""
    rng = np.random.default_rng(8)
    return [
        Observation({"executor": executor, "payload": payload},
                    value * (1 + 0.01 * rng.standard_normal()), block)
        for executor, payload, value, block in runs
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "over", "ratio"),
    [
        # One suite has more blocks, but one level only: the other suite alone has both.
        (
            [("X", p, v, f"A{b}") for b in range(10) for p, v in ((1, 1.0), (2, 5.0))]
            + [("XY"[i], p, 1.0 + i, f"B{b}") for b in range(3) for p in (3, 4) for i in (0, 1)],
            2, 2.0,
        ),
        # No condition has both.
        ([("XY"[p], p, 1.0 + p, f"B{b}") for b in range(3) for p in (0, 1)], 0, 0),
        # The fourth block was interrupted, so it has two conditions (of another ratio).
        (
            [
                (e, p, (2.0 if p > 1 else 10.0) if e == "Y" else 1.0, f"B{b}")
                for b in range(4) for p in range(20) for e in "XY" if b < 3 or p < 2
            ],
            20, (2.0**18 * 10.0**2) ** (1 / 20),
        ),
        # There are no blocks; one condition has a single run of one level.
        (
            [
                (e, p, 2.0 if e == "Y" else 1.0, None)
                for p in range(20) for e in "XY" for _ in range(1 if (e, p) == ("X", 0) else 5)
            ],
            19, 2.0,
        ),
        # One condition has a value without a ratio.
        (
            [
                (e, p, 0.0 if (e, p) == ("X", 0) else 2.0 if e == "Y" else 1.0, f"B{b}")
                for b in range(3) for p in range(3) for e in "XY"
            ],
            2, 2.0,
        ),
    ],
    ids=["another suite", "nothing in common", "interrupted", "without blocks", "zero"],
)  # fmt: skip
def test_averages_of_incomplete_designs(
    runs: list[tuple[str, int, float, str | None]], over: int, ratio: float
) -> None:
    """The ratios are those that the runs were made with."""
    overall = overall_pairs("cpu", design(*runs), "executor")
    if not over:
        assert overall == []
        return
    (pair,) = overall
    assert (pair.level, pair.reference, pair.over, pair.verdict) == ("Y", "X", over, "more")
    assert pair.ratio == pytest.approx(ratio, rel=0.02)


def test_two_repetitions_give_no_pair_and_say_why() -> None:
    (pair,) = pairs("cpu", observations({"a": 1.0, "b": 2.0}, blocks=2), "executor")
    assert pair.verdict == "not_enough_evidence"
    assert pair.ratio is None or pair.low is None
    assert pair.refused


def test_many_pairs_are_corrected() -> None:
    rng = np.random.default_rng(5)
    noise = [
        Observation({"executor": f"e{level}"}, math.exp(0.05 * rng.standard_normal()), str(block))
        for block in range(3)
        for level in range(8)
    ]
    noise_pairs = pairs("cpu", noise, "executor")
    assert len(noise_pairs) == 28
    # The levels are alike: by themselves some pairs look different, none does after correction.
    assert all(p.verdict in {"no_difference", "not_enough_evidence"} for p in noise_pairs)


# ---------------------------------------------------------------- entities


def test_memory_per_entity_is_the_slope_of_each_block() -> None:
    runs = [
        Run(f"{block}_{count}", {"entity": "node", "count": count}, block=str(block))
        for block in range(3)
        for count in (1, 10, 20)
    ]
    # 100, 101, 102 bytes per node; blocks begin at other levels.
    memory = {
        run.name: 1e6 * (1 + int(run.block or 0)) + (100 + int(run.block or 0)) * run.cell["count"]
        for run in runs
        if isinstance(run.cell["count"], int)
    }
    (estimate,) = entity_estimates(memory, runs)
    assert estimate.value == pytest.approx(101)
    assert estimate.high == pytest.approx(101 + 2.484138)  # t(2, .975) / sqrt 3
    assert dict(estimate.cell) == {"entity": "node"}


# ---------------------------------------------------------------- agreement


def test_the_tool_s_figures_beside_the_trace_s() -> None:
    base = {"entity": "subscription", "node": "lyon", "name": "amazon", "samples": 2}
    result = ToolResult.of(
        "tool",
        [
            {**base, "metric": "received", "value": 2.0},
            {**base, "metric": "latency_mean", "value": 52_000.0},
            {**base, "metric": "latency_max", "value": 60_000.0},
            {**base, "node": "rome", "metric": "received", "value": 1.0},
        ],
    )
    heard: dict[str, object] = {"topic": "/amazon", "subscription_node": "/lyon"}
    messages = [{**heard, "latency_ns": took} for took in (40_000, 60_000, None)]
    agreements = agreement(of_runs("messages", *messages).collect(), result)
    lyon = agreements.row(0, named=True)
    assert (lyon["received_tool"], lyon["received_trace"]) == (2, 2)
    assert lyon["mean_tool_ns"] - lyon["mean_trace_ns"] == 2_000
    assert lyon["max_trace_ns"] == 60_000
    # Only the tool received these.
    assert agreements.row(1, named=True)["received_trace"] == 0


# ---------------------------------------------------------------- statements


def leak_of(
    workload: str, executor: str, slope: float, bend: float | None = None, seconds: float = 600.0
) -> object:
    t = np.arange(0, seconds)
    shape = slope * t if bend is None else slope * np.minimum(t, bend)
    cell = {"workload": workload, "executor": executor}
    return leak("rss", cell, [Series(t, 5e7 + shape + i * 1e5) for i in range(3)])


def test_statements_about_memory_are_confirmed_and_refuted() -> None:
    leaking = [
        leak_of("action", "events", 3e4),
        leak_of("action", "events_cbg", 3e4),
        leak_of("action", "single", 0.0),
    ]
    quiet = [leak_of("action", "EventsExecutor", 0.0), leak_of("service", "single", 5e3, 300)]
    first = leak_statements(leaking, [])
    assert [s.verdict for s in first] == [
        "confirmed",
        "not_in_these_recordings",
        "not_in_these_recordings",
        "not_in_these_recordings",
    ]
    second = leak_statements(quiet, [])
    assert second[0].verdict == "refuted"
    assert second[2].verdict == "confirmed"
    # rclcpp's suite names its workloads and executors like this.
    every = ("SingleThreaded", "MultiThreaded", "Events", "EventsCBG")
    rclcpp = [
        leak_of("actions", "Events", 3e4),
        leak_of("actions", "EventsCBGMultiThreaded", 3e4),
        leak_of("actions", "SingleThreaded", 0.0),
        *(leak_of("messages", executor, 3e4) for executor in every),
        leak_of("services", "Events", 5e3, 300),
    ]
    third = leak_statements(rclcpp, [])
    assert [s.verdict for s in third[:3]] == ["confirmed"] * 3


def test_statements_about_memory_are_not_surer_than_the_runs() -> None:
    # Runs exist for one of the two executors with events, and for one of four in all.
    part = [leak_of("action", "events", 3e4), leak_of("action", "single", 0.0)]
    statements = leak_statements([*part, leak_of("pubsub", "single", 3e4)], [])
    assert [s.verdict for s in statements[:2]] == ["not_enough_evidence"] * 2
    assert statements[0].because.startswith(
        "events: climbs (+30 kB/s); no runs of events_cbg; single: "
    )
    assert statements[1].because.endswith("; no runs of multi, events, events_cbg")
    # 500 B/s is within the margin, and yet a slow climb; no climb at all is against it.
    for slope, verdict in ((500.0, "not_enough_evidence"), (0.0, "refuted")):
        slow = leak_statements([leak_of("pubsub", "single", slope)], [])
        assert slow[1].verdict == verdict
    # Memory that levels off after five minutes still climbs in the first of them.
    for seconds, verdict in ((60, "not_enough_evidence"), (900, "refuted")):
        short = leak_of("service", "single", 5e3, seconds=seconds)
        assert leak_statements([short], [])[2].verdict == verdict
    # A quarter of an hour is not about five minutes.
    for bend, verdict in ((400, "confirmed"), (900, "refuted")):
        flat = leak_of("service", "single", 5e3, bend, seconds=2.5 * bend)
        assert flat.verdict == "levels_off"
        assert leak_statements([flat], [])[2].verdict == verdict


def test_statements_are_about_the_two_executors_that_the_study_compared() -> None:
    """The study compared Events and EventsCBG on one thread; of actions only long runs."""
    both = [(executor, kind) for executor in ("Events", "events_cbg") for kind in (MESSAGE, CALL)]
    for judge in (partial(cpu_statement, done=both), latency_statement):
        same = pairs("x", observations({"Events": 1.0, "EventsCBG": 1.0}), "executor")
        differ = pairs("x", observations({"events": 1.0, "events_cbg": 2.0}), "executor")
        other_executors = observations(
            {"SingleThreaded": 1.0, "Events": 2.0, "EventsCBGMultiThreaded": 3.0}
        )
        assert judge(same).verdict == "confirmed"
        assert judge(differ).verdict == "refuted"
        assert judge(pairs("x", other_executors, "executor")).verdict == "not_in_these_recordings"
        assert judge([]).verdict == "not_in_these_recordings"
    actions = [
        Observation({**o.cell, "workload": "actions"}, o.value, o.block)
        for o in observations({"Events": 1.0, "EventsCBG": 2.0})
    ]
    statement = cpu_statement(pairs("cpu", actions, "executor"), both)
    assert statement.verdict == "not_in_these_recordings"
    # Calls were run with one of the two only: the statement about them stays open, unless refuted.
    equal, unequal = (
        pairs("cpu", observations({"Events": 1.0, "EventsCBG": cbg}), "executor")
        for cbg in (1.0, 2.0)
    )
    partly = cpu_statement(equal, both[:3])
    assert partly.verdict == "not_enough_evidence"
    assert partly.because.endswith("; no service calls with both")
    assert cpu_statement(unequal, both[:3]).verdict == "refuted"


def test_the_statement_about_the_payload_looks_at_the_widest_step() -> None:
    rng = np.random.default_rng(3)

    def payload_pairs(
        values: dict[int, float],
        rmw: str = "rmw_cyclonedds_cpp",
        executors: tuple[str, ...] = ("Events", "EventsCBG"),
    ) -> list[Pair]:
        rows = [
            Observation(
                {"payload": size, "executor": executor, "rmw": rmw}, value * noise, str(block)
            )
            for executor in executors
            for size, value in values.items()
            for block in range(5)
            for noise in [1 + 0.004 * rng.standard_normal()]
        ]
        return pairs("cpu", rows, "payload")

    # From 10 to 1000 it rises, whatever the step between does.
    assert (
        payload_statement("CPU", payload_pairs({10: 1.0, 100: 0.9, 1000: 2.0})).verdict
        == "confirmed"
    )
    assert payload_statement("CPU", payload_pairs({1000: 2.0, 10: 1.0})).verdict == "confirmed"
    flat = payload_statement("CPU", payload_pairs({10: 1.0, 1000: 1.0}))
    assert flat.verdict == "refuted"
    assert flat.because.startswith("of 2 pairs 2 against it; 1000 is ")
    # Of one of the two executors nothing is known: what rises with the other is half of it.
    rises, alike = (
        payload_statement("CPU", payload_pairs({10: 1.0, 1000: more}, executors=("Events",)))
        for more in (2.0, 1.0)
    )
    assert rises.verdict == "not_enough_evidence"
    assert rises.because.endswith("; no runs of EventsCBG")
    assert alike.verdict == "refuted"
    # The statement was about Cyclone DDS alone.
    fast_rtps = payload_statement("CPU", payload_pairs({10: 1.0, 1000: 1.0}, "rmw_fastrtps_cpp"))
    assert fast_rtps.verdict == "not_in_these_recordings"


def many(observed: list[Observation]) -> list[Observation]:
    return [Observation({**o.cell, "publishers": 20}, o.value, o.block) for o in observed]


def test_the_saving_of_the_executor_by_callback_group() -> None:
    def verdict(single: float, cbg: float, *, swapped: bool = False) -> str:
        levels = {"SingleThreaded": single, "EventsCBG": cbg}
        order = dict(reversed(levels.items())) if swapped else levels
        return saving_statement(many(observations(order))).verdict

    assert verdict(1.0, 0.8) == verdict(1.0, 0.8, swapped=True) == "confirmed"
    assert verdict(1.0, 0.95) == verdict(1.0, 0.95, swapped=True) == "refuted"
    # The statement was about many publishers: one publisher is no evidence for or against it.
    statement = saving_statement(observations({"SingleThreaded": 1.0, "EventsCBG": 0.75}))
    assert statement.verdict == "not_in_these_recordings"
    assert "25 % less" in statement.because
    assert saving_statement([]).verdict == "not_in_these_recordings"


def test_one_of_many_conditions_does_not_refute_a_saving_by_chance() -> None:
    """By hand: logs of 0.9 -+ 0.02 in 3 blocks, t = log(0.9 / 0.85) / (0.02 / sqrt 3) = 4.950.

    That is p = 0.0385 on 2 degrees of freedom: enough for one condition, not among two.
    """
    assert 2 * stats.t.sf(math.log(0.9 / 0.85) / (0.02 / math.sqrt(3)), 2) == pytest.approx(
        0.0385, abs=1e-4
    )

    def condition(number: int, saved: float, spread: float) -> list[Observation]:
        cell: dict[str, Level] = {"publishers": 10, "condition": number}
        return [
            Observation({**cell, "executor": executor}, value, str(block))
            for block in range(3)
            for executor, value in (
                ("SingleThreaded", 1.0),
                ("EventsCBG", saved * math.exp((block - 1) * spread)),
            )
        ]

    single = condition(0, 0.9, 0.02)
    assert saving_statement(single).verdict == "refuted"
    two = saving_statement([*single, *condition(1, 0.7, 0.02)])
    assert two.verdict == "not_enough_evidence"
    assert (
        saving_statement(condition(0, 0.7, 0.02) + condition(1, 0.7, 0.02)).verdict == "confirmed"
    )


def write_busy_run(folder: Path, factors: dict[str, Level], block: int, cpu: list[float]) -> None:
    """Write a run with this much CPU in each second of the program, sampled at their ends.

    The measured part begins some way into the first of these seconds, as it happens to.
    """
    run = write_run(
        folder / f"{factors['workload']}_{factors['executor']}_{block}",
        # The first and the last message are the ends of the measured part.
        latencies_ns=[1000] * 2,
        period_ns=len(cpu) * 10**9,
        factors=factors,
        repetition=block,
    )
    used = np.concatenate(([0], np.cumsum(cpu)))
    rows = {
        "time_ns": START - 400_000_000 * block // 2 + 10**9 * np.arange(used.size),
        "host": ["h0"] * used.size,
        "vpid": [SUBSCRIBER] * used.size,
        "process": ["program"] * used.size,
        "cpu_time_ns": np.round(used * 1e9).astype(int),
    }
    RESOURCES.conform(pl.DataFrame(rows)).write_parquet(run / "resources.parquet")


@pytest.mark.parametrize(
    ("events", "cbg", "expected"),
    [
        # Means 0.20 and 0.21, largest 0.30 and 0.26, deviations 0.1 and 0.05.
        ((0.10, 0.30), (0.16, 0.26), ["confirmed", "confirmed", "confirmed"]),
        ((0.16, 0.26), (0.10, 0.30), ["refuted", "refuted", "refuted"]),
        # At most equal, and half the deviation.
        ((0.10, 0.30), (0.20, 0.30), ["confirmed", "refuted", "confirmed"]),
    ],
)
def test_cpu_over_time_is_judged_in_long_runs(
    tmp_path: Path, events: tuple[float, float], cbg: tuple[float, float], expected: list[str]
) -> None:
    rng = np.random.default_rng(7)
    for block in range(4):
        for executor, own_shares, other_shares in (
            ("Events", events, cbg),
            ("EventsCBG", cbg, events),
        ):
            for workload in ("messages", "actions"):
                factors: dict[str, Level] = {"workload": workload, "executor": executor}
                noise = 1 + 0.001 * rng.random()
                cpu = [noise * share for share in own_shares]
                write_busy_run(tmp_path / "long", factors, block, cpu * 65)
                # The contrary holds by far, in runs that are too short.
                contrary = [100 * noise * share for share in other_shares]
                write_busy_run(tmp_path / "short", factors, block, contrary * 50)
    table_of_statements = report(tmp_path).statements().parts[0]
    verdicts = {row[0]: row[1] for row in table_of_statements.rows}
    assert [verdicts[statement.claim] for statement in OVER_TIME] == expected


# ---------------------------------------------------------------- the report


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two executors x two sizes x 4 repetitions; the slow executor takes twice as long."""
    folder = tmp_path_factory.mktemp("executors")
    rng = np.random.default_rng(1)
    order = 0
    for repetition in range(4):
        for executor, factor in (("fast", 1), ("slow", 2)):
            for size in (10, 1000):
                base = factor * (100_000 + 50 * size)
                latencies = (base * (1 + 0.05 * rng.random(400))).astype(int).tolist()
                write_run(
                    folder / f"r{repetition}_{executor}_{size}",
                    latencies_ns=latencies,
                    factors={"executor": executor, "message_bytes": size, "threads": factor},
                    repetition=repetition,
                    order=order,
                )
                order += 1
    write_run(
        folder / "r4_broken",
        latencies_ns=[],
        factors={"executor": "broken", "message_bytes": 10, "threads": 9},
        repetition=4,
        status="failed",
    )
    return folder


def report(path: Path, **parameters: object) -> ExecutorsReport:
    checked = ExecutorsParameters.checked({"recordings": str(path), **parameters})
    return ExecutorsReport(rl.open(path, collect=False), checked)


def test_the_slower_executor_is_found(campaign: Path, tmp_path: Path) -> None:
    study = report(campaign, output_dir=str(tmp_path))
    assert study.load == "message_bytes"
    latency = study.pairs["latency_p50"]
    # It was made twice as slow, in both sizes.
    assert [(p.level, p.verdict) for p in latency] == [("slow", "more")] * 2
    assert [p.ratio for p in latency] == [pytest.approx(2, rel=0.02)] * 2
    (overall,) = study.overall["latency_p50"]
    assert (overall.verdict, overall.over) == ("more", 2)
    assert overall.ratio == pytest.approx(2, rel=0.02)
    sentences = study.sentences()
    assert sentences[0].startswith("The median latency of slow is 2 times that of fast")
    assert sentences[0].endswith(" over 2 conditions.")
    study.write()
    written = pl.read_csv(tmp_path / "pairs.csv")
    assert sorted(written.filter(metric="latency_p50")["over"]) == [1, 1, 2]
    assert set(written["level"]) == {"slow"}
    assert {"message_bytes"} <= set(written.columns)
    assert "threads" not in written.columns  # says nothing that the executor does not
    metrics = read_metrics(tmp_path)
    assert {"cpu", "rss", "executor_wait"} <= {e.metric for e in metrics.estimates}


@pytest.mark.parametrize(
    ("of_p99", "told"),
    [
        # 1 / 0.8 of the reference is 1.25 of the level.
        ({}, "; at P99 it is the other way round: 0.80"),
        ({"verdict": "not_enough_evidence"}, ""),
        ({"verdict": "more", "ratio": 2.0}, ""),
        ({"over": 2}, ""),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_p99_contradicts_the_median_only_with_evidence_of_the_same_conditions(
    of_p99: dict[str, object], told: str, *, swapped: bool
) -> None:
    """B takes 1.3 times as long as A at the median, and 0.8 times at P99."""
    median = Pair(
        "latency_p50", {}, "B", "A", 1.3, 1.28, 1.32, 0.001, "more", "more", over=5
    )  # fmt: skip
    p99 = replace(
        median, metric="latency_p99", ratio=0.8, low=0.7, high=0.9, by_itself="less", verdict="less"
    )
    p99 = replace(p99, **of_p99)
    if swapped:
        median, p99 = turned(median), turned(p99)
    empty = ExecutorsReport(None, ExecutorsParameters.checked({"recordings": "."}))
    empty.__dict__["_headline"] = {"latency_p50": [median], "latency_p99": [p99]}
    assert empty._at_p99(median) == told


def test_all_sections_can_be_shown(campaign: Path) -> None:
    study = report(campaign)
    assert "r4_broken" in repr(study.loss())
    for section in (
        study.work_done(),
        study.cpu(),
        study.busy(),
        study.compared(),
        study.factor_effects(),
        study.statements(),
        study.definitions(),
    ):
        assert section._repr_html_()
    assert "have no executor events" in repr(study.busy())
    # There were none of these, either: no section.
    assert not study.entities().parts
    assert not study.tools().parts


def test_one_bad_side_file_is_a_warning(tmp_path: Path) -> None:
    for name, text in (("good", "node topic received[#] mean[us]\na b 3 7\n"), ("bad", "1 2 3\n")):
        run = write_run(
            tmp_path / name, latencies_ns=[1000] * 9, factors={"executor": name}, order=0
        )
        (run / "native").mkdir()
        (run / "native" / "latency_all.txt").write_text(text)
    # The file has only what the machine was asked for, and nothing about messages.
    log = write_run(tmp_path / "resources", latencies_ns=[1000], order=1) / "some_log"
    log.mkdir()
    (log / "resources.txt").write_text("time[ms] cpu[%]\n500 20\n")
    (log / "metadata.txt").write_text("system_executor: Events\n")
    study = report(tmp_path)
    shown = study.tools()
    loud = [part.text for part in shown.parts if isinstance(part, Sentence) and part.loud]
    assert len(loud) == 1
    assert loud[0].startswith("bad: what a benchmark tool wrote cannot be read: ")
    assert "a row before any section" in loud[0]
    assert [part.caption for part in shown.parts if isinstance(part, ReportTable)] == [
        "good: ros2-performance and the trace",
        "resources: ros2-performance and the trace",
    ]


def test_a_factor_that_is_not_there_is_said(campaign: Path) -> None:
    study = report(campaign, factor="colour")
    assert "no two levels of the factor 'colour'" in repr(study.compared())


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(UsageError, match="parameter threshold"):
        ExecutorsParameters.checked({"recordings": "x", "threshold": 2})
