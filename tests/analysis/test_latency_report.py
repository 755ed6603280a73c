"""Test what the latency notebook shows of tables; tables are made and numbers counted by hand."""

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic import START, SUBSCRIBER, of_runs, report_of, table, write_run
from tests.samples import SAMPLES, amend

import roslens as rl
from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.figures.style import Plot, wrapped
from roslens.analysis.latency.figures import durations_plot
from roslens.analysis.latency.report import LatencyParameters, LatencyReport
from roslens.analysis.measures.callbacks import durations, periods, worst_messages
from roslens.analysis.measures.drift import order_effect
from roslens.analysis.measures.loss import outcomes_by_cell
from roslens.analysis.measures.measured_part import measured_parts
from roslens.analysis.measures.resources import cpu_between_samples, usage_per_run
from roslens.analysis.measures.samples import run_samples, topic_groups
from roslens.analysis.metrics import read_metrics
from roslens.analysis.path.late import explained
from roslens.analysis.path.path import NEEDED, Paths
from roslens.analysis.reports.front import effect_sentence, p99_sentences
from roslens.analysis.reports.numbers import significant, value_and_interval
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.runs import Run
from roslens.analysis.statistics.factorial import BY_BLOCK, BY_CELL, FactorEffect
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.statement import Statement
from roslens.first_page import FirstPage
from roslens.recording import UsageError
from roslens.recording.manifest import read_manifest, write_manifest
from roslens.widgets.start import StartPage

SECTIONS = (
    *("loss", "runs", "distributions", "statistics", "further_topics", "worst"),
    *("factors", "omission", "drift", "callbacks", "services", "resources", "definitions", "write"),
)


def campaign(folder: Path, repetitions: int = 3, messages: int = 300) -> Path:
    """Make two cells; in cell b, every 20th message is lost; latencies are about 1 ms."""
    rng = np.random.default_rng(1)
    order = 0
    for repetition in range(repetitions):
        for cell in ("a", "b"):
            latencies = [
                None if cell == "b" and i % 20 == 10 else int(value)
                for i, value in enumerate(rng.normal(1e6, 1e4, messages))
            ]
            write_run(
                folder / f"{order:03d}_{cell}",
                latencies_ns=latencies,
                factors={"cell": cell, "payload": 100},
                repetition=repetition,
                order=order,
            )
            order += 1
    return folder


def test_requests_to_a_service_that_never_answers_are_counted_and_named(tmp_path: Path) -> None:
    """By hand: /add answers 3 of 3, /dead none of 2; those of ROS itself do not count."""
    folder = write_run(tmp_path / "r", latencies_ns=[1_000_000] * 30)
    file = folder / "tables/service_calls.parquet"
    answered = pl.read_parquet(file)
    dead = answered.with_columns(
        response_taken_ns=pl.lit(None, answered.schema["response_taken_ns"])
    )

    def to(service: str) -> pl.DataFrame:
        return dead.head(2).with_columns(service=pl.lit(service).cast(answered.schema["service"]))

    others = [to("/dead"), to("/n/get_parameters"), to("/move/_action/send_goal")]
    # Without an event of the request nothing tells that it was not answered.
    unseen = dead.with_columns(request_sent_ns=pl.lit(None, answered.schema["request_sent_ns"]))
    for more, text in (
        (others, "5 requests, 2 without an answer. Without an answer: 2 of 2 to /dead."),
        ([unseen], "3 requests, 0 without an answer."),
    ):
        pl.concat([answered, *more]).write_parquet(file)
        section = report_of(folder).services()
        assert section.parts[0] == Sentence(text, loud="dead" in text)
        assert len(section.parts) == 2
    to("/dead").write_parquet(file)
    (only,) = report_of(folder).services().parts
    assert "2 requests, 2 without an answer" in str(only)
    answered.clear().write_parquet(file)
    assert "No call of a service" in str(report_of(folder).services())


@pytest.mark.parametrize(
    ("runs", "order"), [(3, "it is the other way round"), (1, "they cannot be told apart")]
)
def test_where_p99_ranks_the_other_way_round_the_answer_says_so(
    tmp_path: Path, runs: int, order: str
) -> None:
    """By hand: 12 of 600 messages, more than 1 %, take 9 ms in the otherwise faster cell.

    One run of each has no interval.
    """
    for number in range(runs):
        for cell, latencies in (
            ("a", [1_000_000] * 588 + [9_000_000] * 12),
            ("b", [2_000_000] * 600),
        ):
            write_run(tmp_path / f"{cell}{number}", latencies_ns=latencies, factors={"cell": cell},
                      repetition=number)  # fmt: skip
    sentences = " ".join(report_of(tmp_path).sentences())
    assert re.search(r"from 1\.0\S* ms[^(]*\(cell=a\) to 2\.0\S* ms[^(]*\(cell=b\)\.", sentences)
    assert re.search(
        rf"At P99 {order}: 9\.0\S* ms[^(]*\(cell=a\) and 2\.0\S* ms[^(]*\(cell=b\)\.", sentences
    )


@pytest.mark.parametrize(
    ("low", "high", "p", "contrary"),
    [(0.7, 0.9, 0.01, True), (0.7, 1.1, 0.2, False), (0.7, 0.9, 0.06, False)],
)
def test_p99_is_the_other_way_round_only_with_evidence(
    low: float, high: float, p: float, contrary: bool
) -> None:
    """The median rises by 30 %, P99 falls by 20 %: with its interval below 1, after Holm."""
    median = FactorEffect(
        ("executor",), ("B",), ("A",), "ratio", 1.3, 1.28, 1.32, 0.001, 4, BY_BLOCK, p_holm=0.001
    )
    p99 = replace(median, value=0.8, low=low, high=high, p=p, p_holm=p)
    more = "; at P99 it is the other way round" if contrary else ""
    assert effect_sentence([median], "The median", [p99]) == (
        "The median with executor B is 30 % above that with A: 1.30 [1.28, 1.32], from 4 "
        f"repetitions{more}."
    )
    without_blocks = effect_sentence([replace(median, method=BY_CELL, replications=8)], "It")
    assert without_blocks.endswith(", from 8 runs.")


@pytest.mark.parametrize("same", [False, True])
def test_cells_of_different_machines_are_named(tmp_path: Path, *, same: bool) -> None:
    for number in range(6):
        run = tmp_path / f"r{number}"
        cell = "ab"[number % 2]
        write_run(run, latencies_ns=[1_000_000] * 50, factors={"cell": cell}, repetition=number)
        # Either each cell has its own machine, or each machine has runs of all cells.
        cpu = "AB"[number // 2 == 1] if same else cell.upper()
        manifest = read_manifest(run / "manifest.json")
        host = manifest.host.model_copy(update={"cpu_model": cpu})
        write_manifest(manifest.model_copy(update={"host": host}), run / "manifest.json")
    told = "Cells were recorded on different machines (CPU A and B): that may be the difference."
    here = report_of(tmp_path)
    assert (told in here.answer().sentences) is not same
    assert (told in repr(here.loss())) is not same
    (statement,) = here.decided([Statement("a is as b", "confirmed", "all pairs")])
    assert statement.verdict == ("confirmed" if same else "not_enough_evidence")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([9.0, 9.01, 8.99], "it is the other way round"),
        ([9.0], "they cannot be told apart"),
        # 2, 9 and 16 ms: the interval begins far below 2 ms.
        ([2.0, 9.0, 16.0], "they cannot be told apart"),
        ([1.9, 1.91, 1.89], ""),
    ],
)
def test_the_order_at_p99_is_that_of_intervals(values: list[float], told: str) -> None:
    def of(cell: str, *ms: float) -> Estimate:
        metric = Metric("latency_p99", "", "ns")
        return value_over_runs(metric, {"cell": cell}, [1e6 * v for v in ms], 3)

    fast, slow = of("a", *values), of("b", 2.0, 2.01, 1.99)
    found = p99_sentences(("a", fast), ("b", slow), [slow, fast])
    assert [sentence.split(":")[0] for sentence in found] == [f"At P99 {told}"] * bool(told)


def test_samples_are_what_was_written(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[5, None, 3, 4], factors={"a": 1})
    opened = rl.open(tmp_path, collect=False)
    (group,) = topic_groups(opened.messages, opened.runs)
    (samples,) = run_samples(opened.messages, opened.runs, group)
    assert samples.delivered_ns.tolist() == [5, 3, 4]
    assert samples.sent_ns.tolist() == [5, math.inf, 3, 4]
    assert (samples.sent, samples.lost) == (4, 1)
    assert samples.outcomes == {"delivered": 3, "lost": 1}
    assert samples.seconds == pytest.approx(0.006)


def test_effects_of_factors_are_shown(tmp_path: Path) -> None:
    shown = repr(report_of(campaign(tmp_path)).factors())
    assert "cell: b / a" in shown
    assert "contrast within each block" in shown
    # Both cells have the same latency: the ratio of their medians is 1, to a permille.
    assert re.search(r"cell: b / a +(1\.000|1\.001|0\.999)", shown)
    write_run(tmp_path / "one" / "r", latencies_ns=[5, 3, 4], factors={"a": 1})
    assert "No factor has two levels" in repr(report_of(tmp_path / "one").factors())


def test_omission_is_corrected_only_if_asked_for_and_both_are_shown(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    without = report_of(path)
    assert not without.omission().parts
    assert not any(e.metric.startswith("latency_corrected") for e in without.estimates)
    report = report_of(path, correct_omission=True)
    shown = repr(report.omission())
    # Publications are on schedule, every 2 ms: nothing is missing, corrected and measured agree.
    assert "0 samples were added, by expected periods of 2 to 2 ms." in shown.replace("2.000", "2")
    by_name = {(e.metric, e.cell["cell"]): e.value for e in report.estimates if "cell" in e.cell}
    assert by_name["latency_corrected_p50", "a"] == pytest.approx(by_name["latency_p50", "a"])


@pytest.mark.recording
def test_the_slowest_chain_is_shown_and_nothing_where_there_is_none(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[5, 3, 4], factors={"a": 1})
    assert not report_of(tmp_path).chains().parts
    sample = SAMPLES / "chain.tar.zst"
    opened = rl.open(sample)
    report = LatencyReport(opened, LatencyParameters.checked({"recordings": str(sample)}))
    shown = repr(report.chains())
    # By the workload's own log, every one of 1,200 messages came to the end of its chain.
    assert "All 1,200 instances reached the end of their chain." in shown
    assert "/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink: where the time goes" in shown
    assert "Found: 2 chains of several hops" in shown


def test_warm_up_is_left_out_and_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[5, None, 3, 4])
    opened = rl.open(tmp_path, collect=False)
    (group,) = topic_groups(opened.messages, opened.runs)
    (samples,) = run_samples(opened.messages, opened.runs, group, warm_up_s=0.004)
    assert samples.sent_ns.tolist() == [3, 4]
    assert samples.left_out == 2


def test_a_warm_up_longer_than_the_run_is_told(tmp_path: Path) -> None:
    """Four messages, of which one is lost, lie within 6 ms."""
    write_run(tmp_path / "r", latencies_ns=[5, None, 3, 4])
    all_left_out = "All 4 messages are left out as warm-up: give a shorter warm_up_s."
    assert report_of(tmp_path, warm_up_s=1).sentences()[0] == all_left_out
    assert all_left_out not in report_of(tmp_path, warm_up_s=0.004).sentences()


def test_outcomes_that_are_in_no_fraction(tmp_path: Path) -> None:
    run = Run("r", {})
    names = ["delivered", "taken", "lost", "overwritten", "unknown", "replayed", "no_subscriber"]
    names.append("replaced")
    took = {"delivered": 1, "replayed": 9}
    rows = [
        {"topic": "/t", "outcome": name, "publish_ns": number, "latency_ns": took.get(name)}
        for number, name in enumerate(names)
    ]
    messages = of_runs("messages", *rows)
    (group,) = topic_groups(messages, [run])
    samples = run_samples(messages, [run], group)
    assert (samples[0].sent, samples[0].lost, samples[0].unknown) == (5, 3, 1)
    assert samples[0].sent_ns.tolist() == [1, math.inf, math.inf, math.inf]
    row = outcomes_by_cell(samples).row(0, named=True)
    assert (row["loss"], row["missed"], row["replaced"]) == (0.6, 3, 1)
    assert (row["unknown"], row["replayed"], row["no_subscriber"]) == (1, 1, 1)


def test_topics_are_never_pooled_and_come_in_order() -> None:
    rows = [("with", "/rosout", 1)] * 9
    rows += [("with", "/a", 5), ("with", "/b", 7), ("without", "/a", 5), ("without", "/c", 3)]
    rows += [("without", "/c", 3)] * 2
    messages = pl.LazyFrame(
        {
            "run": [run for run, _, _ in rows],
            "topic": [topic for _, topic, _ in rows],
            "outcome": ["delivered"] * len(rows),
            "latency_ns": [latency for _, _, latency in rows],
        }
    ).with_columns(publish_ns=pl.lit(None, pl.Int64), clock_bound_ns=pl.lit(None, pl.Int64))
    with_topic, without = Run("with", {}, work_topic="/a"), Run("without", {})
    groups = topic_groups(messages, [with_topic, without])
    assert [group.topic for group in groups] == ["/a", "/c", "/b", "/rosout"]
    assert groups[0].topics_of_run == {"with": {"/a"}, "without": {"/a"}}
    assert groups[1].topics_of_run == {"without": {"/c"}}
    assert groups[0].cell(Run("x", {"a": 1})) == {"a": 1, "topic": "/a"}
    slowest = topic_groups(messages, [without], headline="slowest")
    assert [group.topic for group in slowest] == ["/a", "/c"]
    assert [group.topic for group in topic_groups(messages, [without])] == ["/c", "/a"]
    # The topic that every manifest names is the cell's own, and comes no second time.
    work, *rest = topic_groups(messages, [with_topic])
    assert (work.topic, work.topics_of_run) == (None, {"with": {"/a"}})
    assert [group.topic for group in rest] == ["/b", "/rosout"]
    (chosen,) = topic_groups(messages, [with_topic], ["/rosout"])
    assert chosen.topic == "/rosout"


def test_estimates_of_a_campaign(tmp_path: Path) -> None:
    report = report_of(campaign(tmp_path))
    by_metric = {(e.metric, e.cell["cell"]): e for e in report.main_estimates}
    for cell in ("a", "b"):
        mean = by_metric["latency_mean", cell]
        assert mean.low < 1e6 < mean.high
        assert mean.runs == 3
        assert by_metric["latency_p90", cell].refused is None
        assert "needs 500" in str(by_metric["latency_p99", cell].refused) or (
            "299" in str(by_metric["latency_p99", cell].refused)
        )
    assert by_metric["loss", "a"].value == 0
    assert by_metric["loss", "b"].value == pytest.approx(0.05)
    assert by_metric["latency_sent_p99", "b"].value == math.inf
    assert "more than 1 % were lost" in str(by_metric["latency_sent_p99", "b"].refused)
    for estimate in report.estimates:
        assert estimate.definition
        assert estimate.unit in ("ns", "1", "core", "byte")
        assert set(estimate.cell) >= {"cell", "payload"}


def test_loss_is_loud_when_there_is_some_and_only_then(tmp_path: Path) -> None:
    campaign(tmp_path / "c")
    text = repr(report_of(tmp_path).loss())
    assert "The tracer lost nothing in 6 runs." in text
    assert "! 45 of 1,800 messages did not arrive" in text
    write_run(tmp_path / "d", latencies_ns=[1000] * 50, factors={"cell": "c"}, discarded=7)
    text = repr(report_of(tmp_path).loss())
    assert "! The tracer lost events in 1 of 7 runs. Missing events may bias any figure." in text
    assert "tracer lost: 7 events" in repr(report_of(tmp_path).answer())
    clean = repr(report_of(tmp_path / "c" / "000_a").loss())
    assert "!" not in clean
    assert "Every message arrived" in clean


def test_gaps_that_no_tracer_tells_of_stand_among_what_was_lost(tmp_path: Path) -> None:
    write_run(tmp_path / "a", latencies_ns=[1000] * 50, factors={"cell": "a"})
    gap = {"kind": "undeclared_gaps", "severity": "warning", "count": 3, "where": "trace"}
    table("health", gap).write_parquet(tmp_path / "a" / "tables" / "health.parquet")
    answer = report_of(tmp_path).answer()
    assert "tracer lost: events in 3 places without saying so" in repr(answer)
    assert "tracer lost" in answer.loud


def test_failed_runs_are_named_and_left_out(tmp_path: Path) -> None:
    campaign(tmp_path)
    write_run(
        tmp_path / "006_a",
        latencies_ns=[10**9] * 300,
        factors={"cell": "a", "payload": 100},
        repetition=3,
        order=6,
        status="failed",
    )
    report = report_of(tmp_path)
    text = repr(report.runs())
    assert "! 1 run did not complete and enters no estimate: 006_a." in text
    assert "failed, left out: the subscriber died" in text
    assert report.main_estimates[0].runs == 3
    assert report_of(tmp_path, include_failed=True).main_estimates[0].runs == 4


def test_a_bare_trace_is_one_run_without_intervals(tmp_path: Path) -> None:
    bare = write_run(
        tmp_path / "bare", latencies_ns=[1000] * 400, with_manifest=False, resources=False
    )
    (bare / "metadata").write_text("")
    report = report_of(bare)
    assert [run.cell for run in report.tables.runs] == [{}]
    for estimate in report.main_estimates:
        assert estimate.low is None
        assert "1 run; at least 3 are needed" in str(estimate.refused)
    assert report.main_estimates[0].value == 1000
    assert "CPU and memory were not recorded in 1 run" in repr(report.resources())
    assert "Order of execution: not known" in repr(report.drift())
    assert isinstance(report.distributions().parts[0], Plot)


def test_every_section_of_every_kind_of_input_can_be_shown(tmp_path: Path) -> None:
    campaign(tmp_path / "many")
    write_run(tmp_path / "empty" / "r", latencies_ns=[], resources=False)
    write_run(tmp_path / "lost" / "r", latencies_ns=[None] * 50)
    for order in range(9):
        write_run(
            tmp_path / "cells" / f"r{order}",
            latencies_ns=[1000 + order, 2000, 3000] * 20,
            factors={"cell": order},
            order=order,
        )
    for name in ("many", "empty", "lost", "cells"):
        report = report_of(tmp_path / name, output_dir=str(tmp_path / "out" / name))
        for section in SECTIONS:
            shown = getattr(report, section)()
            # Sections that were not requested say nothing.
            assert bool(shown._repr_html_()) == (section != "omission"), (name, section)
            assert "nan" not in repr(shown).replace("nanosecond", ""), (name, section)
        assert read_metrics(tmp_path / "out" / name).recordings


def test_names_in_a_recording_are_text_not_html(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    write_run(tmp_path / "r", latencies_ns=[1000] * 60, factors={hostile: hostile})
    report = report_of(tmp_path)
    for section in SECTIONS:
        html = getattr(report, section)()._repr_html_()
        assert "<script" not in html, section
    assert "&lt;script&gt;" in report.runs()._repr_html_()
    assert "<b>" not in Sentence("<b>")._repr_html_()
    assert "<b>" not in ReportTable(["<b>"], [["<b>"]], "<b>", notes=["<b>"])._repr_html_()


def test_metrics_json_has_the_documented_fields(tmp_path: Path) -> None:
    report = report_of(campaign(tmp_path / "c"), output_dir=str(tmp_path / "out"))
    report.write()
    data = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert list(data) == [
        *("schema_version", "answer", "recorded", "recordings", "versions", "environments"),
        "estimates",
    ]
    fields = (
        "metric definition better cell value low high level unit runs samples effective_samples "
        "method verdict refused minimum_detectable environments"
    )
    for estimate in data["estimates"]:
        assert list(estimate) == fields.split()
    names = {e["metric"] for e in data["estimates"]}
    assert names >= {
        *("latency_mean", "latency_p50", "latency_p90", "latency_p99", "latency_sent_p99"),
        *("loss", "cpu", "pss", "rss", "callback_duration_mean", "service_latency_p50"),
    }
    infinite = [e for e in data["estimates"] if e["refused"] and "infinite" in e["refused"]]
    assert infinite
    assert all(e["value"] is None for e in infinite)
    assert str(tmp_path) not in (tmp_path / "out" / "metrics.json").read_text()
    read = read_metrics(tmp_path / "out")
    estimates = [{**e.to_json(), "environments": read.environments_of(e)} for e in read.estimates]
    assert estimates == data["estimates"]


OF_CPU = value_over_runs(Metric("cpu", "CPU time", "core"), {}, [2.0, 2.5, 3.0], 3).to_json()
WRONG = [{**OF_CPU, "low": 3.0, "high": 2.0}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"schema_version": 7}', "schema version 7"),
        ('{"schema_version": 1, "recordings": [], "versions": {}}', "field 'estimates'"),
        (
            '{"schema_version": 1, "recordings": [], "versions": {}, "estimates": [{"x": 1}]}',
            r"field 'estimates\.0\.metric'",
        ),
        (
            json.dumps({"schema_version": 1, "recordings": [], "versions": {}, "estimates": WRONG}),
            "low is above high",
        ),
    ],
)
def test_unreadable_metrics(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        read_metrics(tmp_path / "metrics.json")


def test_the_worst_messages_are_explained_by_what_the_thread_did() -> None:
    # A message published at 2 ms waits until 8 ms; two callbacks of 1 ms run on its thread
    # meanwhile (at 5 and 6.5 ms), one ends within (started before it), one is on another thread.
    ms = 1_000_000
    message = {
        "run": "r", "topic": "/t", "outcome": "delivered", "message_id": 5, "subscription_id": 3,
        "publish_ns": START + 2 * ms, "take_ns": START + 7 * ms,
        "callback_start_ns": START + 8 * ms, "callback_end_ns": START + 9 * ms,
        "latency_ns": 6 * ms, "callback_instance_id": 9, "subscription_node": "/n",
        "subscription_host": "h0", "subscription_vpid": 1,
    }  # fmt: skip
    lives = [
        (1, "timer", "5 ms", 11, 5.0, 6.0),
        (2, "timer", "5 ms", 11, 6.5, 7.5),
        (3, "service", "/s", 11, 1.0, 2.5),
        (4, "timer", "1 ms", 12, 3.0, 4.0),
        (9, "subscription", "/t", 11, 8.0, 9.0),
    ]
    ran = [
        {"callback_instance_id": number, "kind": kind, "name": name, "vtid": thread,
         "start_ns": START + round(begin * ms), "end_ns": START + round(end * ms), "node": "/n",
         "host": "h0", "vpid": 1, "callback_id": number}
        for number, kind, name, thread, begin, end in lives
    ]  # fmt: skip
    rows = {"messages": [message], "callback_instances": ran}
    tables = {name: table(name, *rows.get(name, ())) for name in NEEDED}
    # The run's first event is that of another process, 1 ms before the publication.
    processes = pl.LazyFrame({"run": ["r", "r"], "begin_ns": [START + 3 * ms, START + ms]})
    worst = worst_messages(pl.LazyFrame([message]), processes, [Run("r", {})])
    paths = Paths(tables, {})
    explanation = explained(worst, lambda _: paths).row(0, named=True)
    assert (explanation["latency_ns"], explanation["since_start_ns"]) == (6 * ms, ms)
    # By hand, with the executor's own work from taking at 7.5 ms on: 0.5 ms of the service, twice 1
    # ms of the timer, 0.5 ms of its own; 3 ms are unexplained.
    path = paths.segments_of(to_start=True)
    spent = path.group_by("kind", "who").agg(pl.col("duration_ns").sum() / ms)
    assert set(spent.rows()) == {
        ("executor", None, 0.5),
        ("executor", "service callback (/s) of /n", 0.5),
        ("executor", "timer callback (5 ms) of /n", 2.0),
        ("transport_or_waiting", None, 3.0),
    }
    assert (explanation["cause"], explanation["share"], explanation["who"]) == (
        "executor",
        0.5,
        "timer callback (5 ms) of /n",
    )


def executions(
    run: str, name: str, took_ns: Sequence[int | None], callback: int = 1, begin_ns: int = 0
) -> pl.LazyFrame:
    """Make executions of one timer, one every us."""
    about = {"run": run, "name": name, "callback_id": callback}
    times = enumerate(took_ns)
    return ran(*(about | {"start_ns": begin_ns + 1000 * n, "duration_ns": t} for n, t in times))


def ran(*rows: Mapping[str, object]) -> pl.LazyFrame:
    """Make executions of process 7: of a 10 ns timer, and for 1 ns, if their rows do not say."""
    executed = {"host": "h", "vpid": 7, "vtid": 1, "node": "/a", "callback_id": 1, "kind": "timer",
                "name": "10 ns", "duration_ns": 1}  # fmt: skip
    instances = of_runs("callback_instances", *(executed | row for row in rows))
    return instances.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))


NEVER = of_runs("losses")


def test_durations_are_those_of_a_run_averaged_over_runs() -> None:
    """By hand; a median of all executions together would be 18 us."""
    recorded = {"host": "h", "vpid": 7, "begin_ns": 0}
    processes = of_runs(
        "processes",
        {**recorded, "run": "a", "end_ns": 1_000_000}, {**recorded, "run": "b", "end_ns": 500_000},
    )  # fmt: skip
    us = 1_000
    instances = pl.concat([
        executions("a", "1 ms", [took * us for took in range(1, 7)]),
        executions("b", "1 ms", [took * us for took in range(11, 17)] + [20 * us] * 12),
        executions("a", "once", [us]),
        executions("a", "no end", [None]),
        executions("left out", "1 ms", [us] * 9),
    ])  # fmt: skip
    summary = durations(instances, processes, NEVER, {"a": "one", "b": "one"})
    rows = {row["name"]: row for row in summary.iter_rows(named=True)}
    assert rows.keys() == {"1 ms", "once", "no end"}
    row = rows["1 ms"]
    assert (row["runs"], row["count"], row["unfinished"], row["max_ns"]) == (2, 24, 0, 20 * us)
    # Run b: 11 to 16, then 12 times 20: the middle two of 18 are 20; the mean is 321 / 18.
    assert row["p50_ns"] == (3.5 * us + 20 * us) / 2
    assert row["mean_ns"] == pytest.approx((3.5 + 321 / 18) / 2 * us)
    assert row["p90_ns"] is row["p99_ns"] is None
    # They begin every us and overlap: from 0 to 5 + 6 us in run a, to 17 + 20 us in run b.
    assert row["busy"] == pytest.approx((11 / 1_000 + 37 / 500) / 2)
    # One execution of 1 us in 1 ms is 0.1 % of the time.
    assert (rows["once"]["busy"], rows["once"]["p50_ns"]) == (0.001, None)
    assert (rows["no end"]["unfinished"], rows["no end"]["busy"]) == (1, None)


def test_callbacks_of_one_name_at_a_time_are_told_apart() -> None:
    """By hand, of 20 us: two 2 ms timers of a node, that run 0.8 and 0.2 us of each of ten us.

    Together they would run 50 % of the time and have a median of 0.5 us. What begins when they
    have ended is the first one again.
    """
    process = {"run": "a", "host": "h", "vpid": 7, "begin_ns": 0, "end_ns": 20_000}
    instances = pl.concat([
        executions("a", "2000000 ns", [800] * 10, 1),
        executions("a", "2000000 ns", [200] * 10, 2),
        executions("a", "2000000 ns", [800] * 5, 3, begin_ns=12_000),
    ])  # fmt: skip
    summary = durations(instances, of_runs("processes", process), NEVER, {"a": ""}).sort("name")
    assert summary.select("name", "count", "p50_ns", "busy").rows() == [
        ("2 ms (500 Hz)", 15, 800, 0.6), ("2 ms (500 Hz) #2", 10, 200, 0.1),
    ]  # fmt: skip
    begun = periods(instances, NEVER, [Run("a", {})])
    assert sorted(begun["name"]) == summary["name"].to_list()


@pytest.mark.parametrize(
    ("processes", "busy"),
    [
        # Its own process was recorded for 10 us, the run for 30 us.
        ([(7, 0, 10_000), (8, 0, 30_000)], 0.1),
        # The process is unknown, so the run's time counts.
        ([(8, 0, 30_000)], 1 / 30),
        ([], None),
        ([(7, None, None)], None),
        # There is only one event.
        ([(7, 5, 5)], None),
    ],
)
def test_busy_is_of_the_time_in_which_the_process_was_recorded(
    processes: list[tuple[int, int | None, int | None]], busy: float | None
) -> None:
    rows = [
        {"run": "a", "host": "h", "vpid": vpid, "begin_ns": begin, "end_ns": end}
        for vpid, begin, end in processes
    ]
    recorded = of_runs("processes", *rows)
    summary = durations(executions("a", "x", [1_000]), recorded, NEVER, {"a": ""})
    assert summary["busy"].to_list() == [pytest.approx(busy)]


def test_callbacks_are_the_same_on_the_first_page(tmp_path: Path) -> None:
    """Callbacks take 5 ms in a window of 10 ms of a process that was recorded for 20 ms."""
    run = write_run(tmp_path / "r", latencies_ns=[1000] * 100, busy_ns=50_000, period_ns=100_000)
    process = {"host": "h0", "vpid": SUBSCRIBER, "begin_ns": START, "end_ns": START + 20_000_000}
    table("processes", process).write_parquet(run / "tables" / "processes.parquet")
    opened = rl.open(tmp_path, collect=False)
    page = FirstPage(opened, [tmp_path])
    row = page.callbacks.row(0, named=True)
    assert row == {**opened.callbacks.summary().row(0, named=True), "cell": row["cell"]}
    assert (row["busy"], row["p50_ns"], row["p99_ns"]) == (0.25, 50_000, None)
    assert not list(page._busy())
    window = opened.view(window_ns=(START, START + 10_000_000))
    assert window.callbacks.summary()["busy"].to_list() == [0.5]


def test_durations_are_drawn_by_callback_and_node_and_counted_if_they_ended() -> None:
    """Timers of one period in two nodes; by hand, 3 + 2 executions ended."""
    instances = pl.concat(
        executions("a", "10 ms", took).with_columns(node=pl.lit(node))
        for node, took in (("/n0", [1, 2, 3]), ("/n1", [4, 5, None]))
    )
    plot = durations_plot(durations(instances, of_runs("processes"), NEVER, {"a": ""}))
    labels = [label.get_text().strip() for label in plot.figure.axes[0].get_yticklabels()]
    assert sorted(labels) == ["timer 10 ms of /n0", "timer 10 ms of /n1"]
    assert plot.caption.startswith("Durations of 5 callback executions")


@pytest.mark.parametrize(
    ("window", "count", "busy"),
    [
        # Executions last from 1 to 51 us, 101 to 151 us, ...; of these 30 us, all are inside one.
        ((11_000, 41_000), 0, 1.0),
        # 20 us of the first one, 30 us of the second one, of 100 us.
        ((31_000, 131_000), 1, 0.5),
        # All of two, of 200 us, and the end of a third one in 40 us more.
        ((61_000, 261_000), 2, 0.5),
        ((51_000, 101_000), None, None),
    ],
)
def test_busy_is_the_part_of_a_view_in_which_callbacks_ran(
    tmp_path: Path, window: tuple[int, int], count: int | None, busy: float | None
) -> None:
    """By hand; what began in the view is counted and measured as a whole."""
    run = write_run(tmp_path / "r", latencies_ns=[1000] * 100, busy_ns=50_000, period_ns=100_000)
    process = {"host": "h0", "vpid": SUBSCRIBER, "begin_ns": START, "end_ns": START + 20_000_000}
    table("processes", process).write_parquet(run / "tables" / "processes.parquet")
    view = rl.open(run, collect=False).view(window_ns=(START + window[0], START + window[1]))
    rows = view.callbacks.summary().select("count", "busy", "mean_ns").rows()
    mean_ns = 50_000 if count else None
    assert rows == ([] if busy is None else [(count, pytest.approx(busy), mean_ns)])
    assert view.memory.processes()["callbacks"].to_list() == [pytest.approx(busy)]
    assert view.callback_instances.collect().height == (count or 0)
    assert "No callback" not in str(view.latency.callbacks()) or busy is None
    (first, *_) = view.callbacks.sentences()
    assert first.startswith(
        "The execution that took longest"
        if count
        else "No callback was traced"
        if busy is None
        else "No callback began here; subscription /data of /subscriber ran"
    )


def test_periods_by_hand() -> None:
    """Every run weighs the same, and each thread calls a function in its own loop.

    A timer is held against the period of its name; a function against the median of its 14 times.
    """
    function = {"run": "a", "callback_id": 2, "kind": "function", "name": "function", "node": None}
    # The third execution of the timer in run a lasts longer than its period.
    instances = ran(
        *({"run": "a", "start_ns": at, "duration_ns": 11 if at == 20 else 1}
          for at in (0, 10, 20, 30, 50)),
        *({"run": "b", "start_ns": start} for start in (0, 12, 24)),
        *(function | {"start_ns": 10 * number} for number in range(15)),
        *(function | {"vtid": 2, "start_ns": 20 * number + 5} for number in range(15)),
    )  # fmt: skip
    runs = [Run("a", {}), Run("b", {})]
    columns = ["kind", "count", "period_ns", "jitter_max_ns", "overruns", "skipped"]
    pause = {"run": "a", "host": "h", "kind": "not_sampled", "begin_ns": 31, "end_ns": 48}
    frame = periods(instances, NEVER, runs).select(columns)
    assert sorted(frame.rows()) == [("function", 30, 15, 0, 0, 0), ("timer", 8, 11, 10, 1, 1)]
    # If it paused from 31 to 48, the 20 ns from 30 to 50 are no period of the timer (in run b 12 ns
    # are 2 too many), and the function's starts at 40 and 45 were seen by chance.
    frame = periods(instances, of_runs("losses", pause), runs).select(columns)
    assert sorted(frame.rows()) == [("function", 28, 15, 0, 0, 0), ("timer", 8, 11, 2, 1, 0)]


def test_a_burst_in_one_run_does_not_make_up_for_periods_skipped_in_another() -> None:
    """By hand: run a skips the starts at 20 and 30 ns; run b has three starts where one is due."""
    starts = [("a", start) for start in (0, 10, 40, 50)] + [("b", at) for at in (0, 1, 2, 10, 20)]
    instances = ran(*({"run": run, "start_ns": start} for run, start in starts))
    frame = periods(instances, NEVER, [Run("a", {}), Run("b", {})])
    assert frame.select("count", "skipped").rows() == [(9, 2)]


def test_what_does_not_begin_periodically_has_neither_jitter_nor_overruns() -> None:
    """By hand: pairs (1 and 19 ns apart), five starts, and a 10 ns timer with one time of 13 ns."""
    heard = {"duration_ns": 25, "kind": "subscription"}
    instances = ran(
        *(heard | {"name": "pairs", "start_ns": 20 * (n // 2) + n % 2} for n in range(30)),
        *(heard | {"name": "few", "callback_id": 2, "start_ns": 10 * n} for n in range(5)),
        *({"duration_ns": 25, "callback_id": 3, "start_ns": start} for start in (0, 13)),
    )
    frame = periods(instances, NEVER, [Run("r", {})]).drop("cell", "kind", "node").sort("name")
    nothing = (None,) * 6
    assert frame.rows() == [
        ("10 ns", 2, 13, None, None, 3, 2, 0), ("few", 5, *nothing), ("pairs", 30, *nothing)
    ]  # fmt: skip


def test_usage_by_hand(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[1000] * 100)
    opened = rl.open(tmp_path, collect=False)
    parts = measured_parts(opened.messages, opened.runs)
    row = usage_per_run(opened.resources, parts).row(0, named=True)
    assert row["cpu"] == pytest.approx(0.5)
    assert row["startup_cpu"] is None  # nobody said when the workload was ready
    # A process's first sample, taken while it is being loaded, is no level of memory.
    assert row["pss"] == 50_000_000
    assert row["rss"] == 60_000_000


def test_usage_is_that_of_the_measured_part() -> None:
    # 2 s of start-up on one core, 4 s of work on a quarter of one, 1 s of clearing up on one; a
    # second process begins with the work, and takes half a core. Each of its samples stands for
    # half a second before and after it, so that its 4 byte count from 2.5 s on, for 3.5 of 4 s.
    run = Run("r", {}, ready_ns=2_000_000_000, work_s=4.0)
    cpu = [0, 1, 2, 2.25, 2.5, 2.75, 3, 4]
    samples = [
        *zip([1] * 8, range(8), cpu, [1, None, 5, None, 7, None, 9, 100], strict=True),
        *zip([2] * 4, range(3, 7), [0.5, 1, 1.5, 2], [1, 3, None, 5], strict=True),
    ]
    rows = [
        {"host": "h0", "vpid": vpid, "time_ns": at * 10**9, "cpu_time_ns": int(used * 1e9),
         "pss_bytes": pss} for vpid, at, used, pss in samples
    ]  # fmt: skip
    resources = of_runs("resources", *rows)
    messages = of_runs("messages", {"topic": "/t", "publish_ns": 3_000_000_000})
    (row,) = usage_per_run(resources, measured_parts(messages, [run])).rows(named=True)
    assert row["cpu"] == pytest.approx(0.25 + 0.5)
    assert row["startup_cpu"] == pytest.approx(2e9)
    assert (row["pss"], row["rss"]) == (7 + 4 * 3.5 / 4, None)
    assert (row["begin_ns"], row["end_ns"]) == (2 * 10**9, 6 * 10**9)
    later = usage_per_run(resources, measured_parts(messages, [run]), warm_up_s=1)
    assert later["cpu"].to_list() == pytest.approx([0.75])
    # From sample to sample; the other process's use before its first sample is not known.
    parts = measured_parts(messages, [run])
    each = cpu_between_samples(resources, parts)
    assert each.drop("cpu").rows() == [("r", 1.0)] * 4
    assert each["cpu"].to_list() == pytest.approx([0.25, 0.75, 0.75, 0.75])
    # Partial intervals are left out.
    assert cpu_between_samples(resources, parts, warm_up_s=1.5)["cpu"].to_list() == pytest.approx(
        [0.75, 0.75]
    )
    assert cpu_between_samples(resources, parts, warm_up_s=9).is_empty()


def test_memory_of_a_process_counts_while_it_lives() -> None:
    # Sampled each second from 0 to 9; the third process follows the second one.
    lives = {1: range(10), 2: range(4), 3: range(5, 10)}
    rows = [
        {"host": "h0", "vpid": vpid, "time_ns": second * 10**9, "rss_bytes": 10 * vpid}
        for vpid, seconds in lives.items()
        for second in seconds
    ]
    resources = of_runs("resources", *rows)
    messages = of_runs("messages", *({"topic": "/t", "publish_ns": at} for at in (0, 9 * 10**9)))
    (row,) = usage_per_run(resources, measured_parts(messages, [Run("r", {})])).rows(named=True)
    # Half a second before and after their samples: until 3.5 s, and from 4.5 s on.
    assert row["rss"] == pytest.approx(10 + 20 * 3.5 / 9 + 30 * 4.5 / 9)


def test_a_run_is_measured_from_ready_to_the_end_of_its_work() -> None:
    sent = [("/rosout", 1), ("/t", 20), ("/t", 50)]
    messages = of_runs(
        "messages",
        *({"run": run, "topic": topic, "publish_ns": at} for run in "ab" for topic, at in sent),
    )
    runs = [
        Run("a", {}, ready_ns=10, work_s=3e-8),
        Run("b", {}, ready_ns=10),
        Run("c", {}),
    ]
    parts = measured_parts(messages, [*runs, Run("a", {}), Run("b", {})])
    assert [row[1:] for row in parts.rows()] == [
        (10, 40, True),
        (10, 50, True),  # it counts messages: to the last one
        (None, None, False),
        (20, 50, False),
        (20, 50, False),
    ]


def test_order_effect_by_hand() -> None:
    # Two cells of three runs, cell means 10 and 20, both rise by 10 % per place: slope 0.1.
    runs = [
        Run(f"{cell}{i}", {"cell": cell}, campaign="c", order=i) for cell in "ab" for i in range(3)
    ]
    effect = order_effect(runs, [9.0, 10.0, 11.0, 18.0, 20.0, 22.0])
    assert effect.value == pytest.approx(0.1)
    assert effect.low == pytest.approx(0.1)
    assert effect.high == pytest.approx(0.1)
    assert order_effect(runs[:2], [1.0, 2.0]).refused is not None
    assert order_effect(runs, [0.0] * 6).refused is not None
    campaigns = [Run(r.name, r.cell, campaign=r.name, order=r.order) for r in runs]
    assert "several campaigns" in str(order_effect(campaigns, [1.0] * 6).refused)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"level": 95}, "parameter level = 95"),
        ({"level": "high"}, "parameter level = 'high'"),
        ({"warm_up_s": -1}, "parameter warm_up_s = -1"),
        ({"recordings": []}, "parameter recordings"),
        ({"worst": 0}, "parameter worst = 0"),
        ({"colour": "red"}, "parameter colour"),
    ],
)
def test_wrong_parameters_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LatencyParameters.checked({"recordings": "x", **given})


def test_numbers_for_people(tmp_path: Path) -> None:
    assert significant(0.00012345) == "0.0001234"
    assert significant(123456.7) == "123,457"
    assert significant(None) == "-"
    assert significant(math.inf) == "infinite"
    assert wrapped("aaaa=1, bbbb=2, cccc=3", 14) == "aaaa=1, bbbb=2,\ncccc=3"
    estimate = report_of(campaign(tmp_path)).main_estimates[0]
    value, interval = value_and_interval(estimate)
    assert value.startswith(("0.99", "1.00"))
    assert interval.startswith("[")


def test_twins_and_outliers_are_named_and_stay_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    twin = [int(v) for v in rng.normal(1e6, 1e4, 200)]
    for number in range(6):
        latencies = [int(v) for v in rng.normal(5e6 if number == 5 else 1e6, 1e4, 200)]
        write_run(
            tmp_path / f"r{number}",
            latencies_ns=twin if number in (1, 2) else latencies,
            factors={"cell": "a"},
            repetition=number,
            order=number,
        )
    report = report_of(tmp_path)
    text = repr(report.runs())
    assert "The same latencies, bit by bit, are in r1 and r2" in text
    assert "far off the other runs of its cell in 1 run" in text
    assert "r5 (cell=a)" in text
    assert all(e.runs == 6 for e in report.main_estimates)


def test_disturbed_runs_are_shown_and_left_out_by_rule(tmp_path: Path) -> None:
    campaign(tmp_path)
    amend(
        tmp_path / "000_a",
        disturbances=["other tenants of the machine took 30% of the CPU time"],
    )
    report = report_of(tmp_path)
    assert "! The host was disturbed in 1 of 6 runs; 1 of them enter" in repr(report.loss())
    assert "took 30% of the CPU time" in repr(report.loss())
    assert report.main_estimates[0].runs == 3
    strict = report_of(tmp_path, leave_out=["disturbed"])
    assert strict.main_estimates[0].runs == 2
    assert "! 1 run was disturbed by its host and enters no estimate: 000_a." in repr(strict.runs())


def triggered(folder: Path, *hits: tuple[int, float]) -> None:
    trigger = {"trigger": "latency of /data > 30 ms", "unit": "ns"}
    amend(
        folder,
        triggered=[{**trigger, "at_ns": START + at, "value": value} for at, value in hits],
    )


def test_what_a_trigger_recorded_opens_at_its_moment(tmp_path: Path) -> None:
    """Message 250 was published 500 ms after the begin and took 40 ms; 400 took 90 ms, later."""
    latencies = [1_000_000 + i for i in range(500)]
    latencies[250], latencies[400] = 40_000_000, 90_000_000
    write_run(tmp_path / "r", latencies_ns=latencies)
    triggered(tmp_path / "r", (-5_000_000, 31e6), (540_000_000, 40e6))
    report = report_of(tmp_path)
    front = report.answer()
    assert front.sentences[:2] == [
        "Triggered at 2023-11-14 22:13:19.995 UTC: latency of /data > 30 ms (31.0 ms).",
        "Triggered at 2023-11-14 22:13:20.540 UTC: latency of /data > 30 ms (40.0 ms).",
    ]
    assert "Messages take" in front.sentences[2]
    # The first hit is not in the recording: it was forgotten since.
    drawing, worst = front.around
    assert "22:13:20.540 UTC, when 'latency of /data > 30 ms' hit (40.0 ms)" in drawing.caption
    # 80 ms before and after.
    assert ">150 ms<" in drawing.svg
    assert ">200 ms<" not in drawing.svg
    assert worst.rows[0][:3] == ["40.0", "-0.040", "/data"]
    assert "90.0" not in [row[0] for row in worst.rows]
    assert drawing._repr_html_() in front._repr_html_()
    widget = rl.timeline(rl.open(tmp_path, collect=False))
    assert widget.selection == (START + 460_000_000, START + 620_000_000)
    # The workbench's panes are of that range.
    page = StartPage([str(tmp_path)], rl.open(tmp_path, collect=False))
    assert page._worst()["ms"].to_list()[0] == 40
    assert "Triggered at 2023-11-14 22:13:20.540" in page._folded_loss()


def test_triggers_beyond_the_recording_are_told_and_not_drawn(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[1_000_000] * 50)
    triggered(tmp_path / "r", *[(-1_000_000_000 * i, 31e6) for i in range(1, 8)])
    front = report_of(tmp_path).answer()
    assert front.sentences[5] == "Triggers hit 2 more times."
    assert front.around == []
    assert rl.timeline(rl.open(tmp_path, collect=False)).selection is None


@pytest.mark.recording
def test_what_the_runs_were_made_with(tmp_path: Path) -> None:
    """The manifests of the sample give the expected values."""
    sample = tmp_path / "two_process"
    shutil.copytree(SAMPLES / "two_process", sample)
    (manifest,) = (json.loads(path.read_text()) for path in sample.glob("*/manifest.json"))
    opened = rl.open(sample)
    given = LatencyParameters.checked({"recordings": str(sample)})
    text = repr(LatencyReport(opened, given).definitions())
    for wanted in (
        *(manifest["environment"][name] for name in ("ros_distro", "rmw")),
        manifest["environment"]["packages"]["rclcpp"],
        *(manifest["host"][name] for name in ("kernel", "cpu_model")),
        manifest["tracing"]["tracer_version"],
    ):
        assert str(wanted) in text
