"""Test the first page's sentences about several runs, about nothing, and about names."""

import dataclasses
import json
from pathlib import Path

import nbformat
import polars as pl
import pytest
from synthetic import START, table, write_run

import roslens as rl
from roslens.analysis.measures.loss import lost_in_words
from roslens.first_page import FirstPage, _seconds
from roslens.first_suspicions import _capitalised
from roslens.recording.manifest import Hit
from roslens.report import _escape_outputs

EARLY = (
    "were published before their subscription first took one of that publisher, and count neither "
    "way"
)
DAY_NS = 86_400_000_000_000


def runs(folder: Path, count: int) -> Path:
    for number in range(count):
        write_run(folder / f"run{number}", latencies_ns=[1000] * 10, discarded=(0, 73, 50)[number])
    return folder


def written(run: Path, name: str, *rows: dict[str, object]) -> None:
    table(name, *rows).write_parquet(run / "tables" / f"{name}.parquet")


def missing(where: str, names: str) -> dict[str, object]:
    return {"kind": "missing_events", "severity": "info", "count": 1, "where": where,
            "what": f"events not recorded: {names}; table {where} is empty"}  # fmt: skip


def page(folder: Path) -> FirstPage:
    return FirstPage(rl.open(folder, collect=False), [folder])


def test_there_is_no_tail_without_a_median(tmp_path: Path) -> None:
    """Five latencies have no median, six do; three of 12 ms each are as usual, not late."""
    ms = 1_000_000
    for name, latencies in (
        ("alike", [12 * ms] * 3), ("few", [ms] * 4 + [50 * ms]), ("six", [ms] * 5 + [50 * ms])
    ):  # fmt: skip
        write_run(tmp_path / name, latencies_ns=latencies, period_ns=100 * ms)
    for name in ("alike", "few"):
        assert page(tmp_path / name).suspicions == []
        assert "tail" not in page(tmp_path / name).looked_for
    (late,) = page(tmp_path / "six").suspicions
    assert late.sentence == (
        "Some messages on /data are late: the median is 1.00 ms, the longest 50.0 ms."
    )
    # Published from 0 to 0.5 s: the first tenth, 50 ms, is the first message. None of the others
    # exceeds the P99 of so few, which is their longest.
    none, about = (part.text for part in dict(page(tmp_path / "six").parts())["Late messages"])
    assert none == "None of 5 messages took longer than the P99 of its subscription."
    assert about.startswith("A message is late if it takes longer, from publish to the end of")


@pytest.mark.parametrize(("longest", "said"), [(32.9, False), (33.0, True)])
def test_a_tail_is_told_only_beyond_what_clocks_explain(
    tmp_path: Path, longest: float, *, said: bool
) -> None:
    """By hand: the median is 2 ms and may be 3 ms at clocks 1 ms apart; 32 - 2 = 30 = 10 * 3."""
    opened = page(runs(tmp_path, 1))
    schema = ["cell", "topic", "from", "to", "p50_ms", "p99_ms", "worst_ms", "apart_ms"]
    row = ("", "/t", "/a", "/b", 2.0, None, longest - 2, 1.0)
    opened.topics = pl.DataFrame([row], schema, orient="row")
    assert len(list(opened._tails())) == said


def failing(folder: Path, *statuses: str) -> FirstPage:
    """100 messages of 1 ms in each run; of one that failed 40 messages, of which 30 are lost."""
    for number, status in enumerate(statuses):
        lost = [None] * 30 * (status == "failed")
        latencies = [1_000_000] * (10 if lost else 100) + lost
        write_run(folder / f"run{number}", latencies_ns=latencies, status=status)
    return page(folder)


def test_every_figure_is_of_the_runs_that_count(tmp_path: Path) -> None:
    """By hand: two complete runs of 100 messages; a tenth of each, 20 in all, is warm-up."""
    opened = failing(tmp_path, "complete", "failed", "complete")
    assert [suspicion.sentence for suspicion in opened.suspicions] == [
        "run1 did not complete: the subscriber died."
    ]
    assert opened.topics.select("messages", "not_arrived").rows() == [(200, 0)]
    assert opened.callbacks["count"].to_list() == [200]
    assert opened._all.memory.processes()["runs"].to_list() == [2]
    told = "1 run of 3 did not complete: the figures below leave such runs out, as reports do."
    assert told in opened._facts()
    assert json.loads(opened.json_text())["runs_left_out"] == ["run1"]
    late = dict(opened.parts())["Late messages"]
    assert late[0].text == "None of 180 messages took longer than the P99 of its subscription."
    recordings = opened._all
    assert recordings.loss.frame()["run"].to_list() == ["run0", "run2"]
    assert recordings.loss.sentences()[-1] == "All 200 messages arrived."
    assert recordings.why.sentences()[0].endswith(" 1 run that did not complete is left out.")
    # A message that is asked for is explained whatever became of its run.
    assert "run1" in recordings.why(message=5)["run"]


def test_of_failed_runs_alone_the_page_shows_these(tmp_path: Path) -> None:
    opened = failing(tmp_path, "failed", "failed")
    assert opened.topics.select("messages", "not_arrived").rows() == [(80, 60)]
    assert any(text.startswith("No run completed: the figures") for text in opened._facts())
    assert opened._all.memory.processes().is_empty()
    assert "60 of 80 messages on /data did not arrive" in opened.suspicions[2].sentence


def test_the_topic_with_the_most_loss_is_named_and_none_is_left_out(tmp_path: Path) -> None:
    """/t11 is the fastest of 12 topics and loses 65 messages, each of the others one."""
    opened = page(runs(tmp_path, 1))
    schema = {**opened.topics.schema}
    rows = [
        {"cell": "", "topic": f"/t{number}", "from": "/a", "to": "/b", "messages": 100,
         "not_arrived": 65 if number == 11 else 1, "p99_ms": 20.0 - number, "apart_ms": 0.0}
        for number in range(12)
    ]  # fmt: skip
    opened.topics = pl.DataFrame(rows, schema=schema)
    (lost,) = opened._lost_messages()
    assert lost.sentence == ("Messages on 12 topics did not arrive: the most on /t11, 65 of 100.")
    assert len(json.loads(opened.json_text())["topics"]) == 12


def test_more_findings_of_a_kind_than_the_table_has_are_counted(tmp_path: Path) -> None:
    for number in range(12):
        write_run(tmp_path / f"run{number:02}", latencies_ns=[1000] * 10, status="failed")
    opened = page(tmp_path)
    (table_,) = dict(opened.parts())["What looks wrong here"]
    assert [row[0] for row in table_.rows][10:] == ["2 more of the same kind."]
    assert table_.rows[-1][1] == f"roslens {tmp_path} --json"
    assert len(json.loads(opened.json_text())["looks_wrong"]) == 12


def test_a_loss_names_the_publisher_where_there_are_several(tmp_path: Path) -> None:
    """/b sends 1,000 messages, which arrive; of the 100 of /a 90 do not."""
    opened = page(runs(tmp_path, 1))
    rows = [
        {"cell": "", "topic": "/data", "from": name, "to": "/l", "messages": count,
         "not_arrived": lost, "p50_ms": 0.1, "p99_ms": p99, "worst_ms": p99, "apart_ms": 0.0}
        for name, count, lost, p99 in (("/b", 1000, 0, 9.0), ("/a", 100, 90, 5.0))
    ]  # fmt: skip
    opened.topics = pl.DataFrame(rows, schema={**opened.topics.schema})
    opened._ways = {("", "/data", "/a", "/l"): {"lost": 90}}
    (lost,) = opened._lost_messages()
    assert lost.sentence == (
        "90 of 100 messages on /data from /a did not arrive at /l: 90 lost on the way."
    )
    assert [tail.sentence for tail in opened._tails()] == [
        "Some messages on /data from /b are late: the median is 100 us, P99 9.00 ms.",
        "Some messages on /data from /a are late: the median is 100 us, P99 5.00 ms.",
    ]


def with_outcomes(run: Path, outcome: str, count: int) -> Path:
    """Give the first messages of a run this outcome."""
    path = run / "tables" / "messages.parquet"
    messages = pl.read_parquet(path)
    first = pl.int_range(pl.len()) < count
    changed = pl.when(first).then(pl.lit(outcome)).otherwise("outcome")
    messages.with_columns(outcome=changed.cast(messages.schema["outcome"])).write_parquet(path)
    return run


@pytest.mark.parametrize(
    ("outcome", "count", "said", "cell"),
    [
        ("not_matched", 30, f"All 370 messages arrived; 30 {EARLY}.", "0 (30 not matched)"),
        ("unknown", 1, "None of 399 messages is known to be lost; of 1 more nobody can say.",
         "0 (1 unknown)"),
    ],
)  # fmt: skip
def test_no_loss_is_claimed_of_messages_whose_fate_is_unknown(
    tmp_path: Path, outcome: str, count: int, said: str, cell: str
) -> None:
    """Of 400 messages the first ones have this outcome."""
    run = write_run(tmp_path / "r", latencies_ns=[1_000_000] * 400)
    assert "loss" in page(run).looked_for
    opened = page(with_outcomes(run, outcome, count))
    assert "loss" not in opened.looked_for
    assert opened._why_nothing.endswith(said)
    assert dict(opened.parts())["Topics"][0].rows[0][-1] == cell
    assert "Every message arrived" not in repr(opened._all.latency.loss_first())


@pytest.mark.parametrize(("lost", "first"), [(0, "Slowest: /data to"), (1, "1 of ")])
def test_the_slowest_topic_is_the_headline_unless_something_was_lost(
    tmp_path: Path, lost: int, first: str
) -> None:
    """400 messages of 1 ms, ten of 50 ms: a tail, but it hides no slower topic."""
    latencies = [1_000_000] * 400 + [50_000_000] * 10 + [None] * lost
    run = write_run(tmp_path / "r", latencies_ns=latencies, period_ns=60_000_000)
    sentences = page(run)._front().sentences
    assert sentences[0].startswith(first)
    assert len(sentences) == 2


def test_the_busiest_callback_is_named_where_the_table_does_not_show_it(tmp_path: Path) -> None:
    opened = page(runs(tmp_path, 1))
    (row,) = opened.callbacks.rows(named=True)
    rows = [{**row, "node": f"/n{number}", "busy": 0.01 * number} for number in range(12)]
    opened.callbacks = pl.DataFrame(rows, schema=opened.callbacks.schema)
    assert list(opened._busiest()) == [
        "The busiest is subscription /data of /n11: 11.0 % of the time."
    ]
    opened.callbacks = opened.callbacks.reverse()
    assert list(opened._busiest()) == []


@pytest.mark.parametrize(("skipped", "said"), [((0, 1, 50, 0), True), ((20, 11, 20, 0), False)])
def test_a_timer_may_have_been_cancelled_if_most_was_skipped_at_once(
    tmp_path: Path, skipped: tuple[int, ...], *, said: bool
) -> None:
    """51 of 55 times that it was due, 50 of them in one gap; or 20 of 51 in the longest one."""
    write_run(tmp_path / "r", latencies_ns=[1000] * 10)
    activations = [
        {"timer_id": 1, "node": "/n", "period_ns": 100_000_000, "skipped": count,
         "lateness_ns": 5_000_000_000 if count else 0}
        for count in skipped
    ]  # fmt: skip
    written(tmp_path / "r", "timer_activations", *activations)
    (late,) = page(tmp_path / "r").suspicions
    assert late.sentence == (
        f"{'Unless it was cancelled or reset meanwhile, the' if said else 'The'} 100 ms timer of "
        "/n did not run 51 of the 55 times that it was due; its latest start came 5.00 s after it "
        "was due."
    )


def test_what_some_runs_lack_is_said_of_these(tmp_path: Path) -> None:
    """Only run 1 lacks the kernel and all lack allocations; run 2 has the kernel, no callbacks."""
    runs(tmp_path, 3)
    heap = missing("heap", "lttng_ust_libc:malloc")
    health = [heap], [heap, missing("callback_scheduling", "sched_switch")], [
        heap, missing("callback_scheduling", "ros2:callback_start, ros2:callback_end"),
    ]  # fmt: skip
    for number, rows in enumerate(health):
        written(tmp_path / f"run{number}", "health", *rows)
    not_seen = page(tmp_path).not_seen
    assert not_seen.startswith(
        "Not recorded: in 1 of 3 runs the kernel's scheduling, without which"
    )
    assert not_seen.endswith("; memory allocations.")


def test_a_recording_of_two_days_says_from_when_to_when(tmp_path: Path) -> None:
    """START is 2023-11-14 22:13:20 UTC; losses of two runs are added up: 73 + 50."""
    runs(tmp_path, 3)
    for number in range(3):
        begin = START + DAY_NS * (number // 2)
        row = {"host": "h0", "vpid": 42, "events": 1, "begin_ns": begin, "end_ns": begin + 10**9}
        written(tmp_path / f"run{number}", "processes", row)
    recorded = page(tmp_path).recorded
    assert recorded["recorded"] == "2023-11-14 22:13:20.000 UTC to 2023-11-15 22:13:21.000 UTC"
    assert recorded["the tracer lost"] == "123 discarded"
    single_run = page(tmp_path / "run0").recorded
    assert single_run["recorded"] == "2023-11-14 22:13:20.000 UTC"


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((1, 1, 1), "1 discarded, 1 packet, 1 stretch of streams not there"),
        ((2000, 2, 2), "2,000 discarded, 2 packets, 2 stretches of streams not there"),
        ((0, 0, 0), ""),
    ],
)
def test_losses_in_words(counts: tuple[int, int, int], text: str) -> None:
    assert lost_in_words(*counts) == text


@pytest.mark.parametrize(("disturbed", "ask"), [(1, "report latency"), (2, "info")])
def test_disturbed_runs_are_left_out_only_where_others_remain(
    tmp_path: Path, disturbed: int, ask: str
) -> None:
    opened = rl.open(runs(tmp_path, 2), collect=False)
    opened = opened.with_runs([
        dataclasses.replace(run, disturbances=("other tenants",) if number < disturbed else ())
        for number, run in enumerate(opened.runs)
    ])  # fmt: skip
    (command,) = (
        suspicion.command
        for suspicion in FirstPage(opened, [tmp_path]).suspicions
        if "disturbed" in suspicion.sentence
    )
    rest = " -p 'leave_out=[disturbed]'" if disturbed == 1 else ""
    assert command == f"roslens {ask} {tmp_path}{rest}"
    sentences = opened.latency.with_parameters(leave_out=["disturbed"]).sentences()
    assert sentences != opened.latency.sentences()
    if disturbed == 2:
        assert sentences == ["All 2 runs were left out: each was disturbed by its host."]
        only_run = opened.only("run0").latency.with_parameters(leave_out=["disturbed"])
        assert only_run.sentences() == ["The only run was left out: it was disturbed by its host."]


def test_every_noun_says_that_the_only_run_failed(tmp_path: Path) -> None:
    opened = rl.open(runs(tmp_path, 1), collect=False)
    failed = opened.with_runs([dataclasses.replace(run, status="failed") for run in opened.runs])
    sentences = ["The only run was left out: it did not complete."]
    assert failed.callbacks.sentences() == failed.latency.sentences() == sentences
    assert failed.loss.sentences()[-1:] == sentences


def test_a_report_does_not_name_the_folders_of_what_was_left_out() -> None:
    streams = [
        {"output_type": "stream", "name": "stderr", "text": text}
        for text in ("roslens: left out: x: cut\nother\n", "roslens: left out: y: cut\n")
    ]
    notebook = nbformat.from_dict({"cells": [{"cell_type": "code", "outputs": streams}]})
    _escape_outputs(notebook)
    assert [output.text for output in notebook.cells[0].outputs] == ["other\n"]


def test_that_nothing_of_ros_was_recorded_comes_first(tmp_path: Path) -> None:
    runs(tmp_path, 2)
    nothing = {"kind": "no_ros_events", "severity": "warning", "count": 1, "where": "trace",
               "what": "no ros2 event was recorded: why"}  # fmt: skip
    for number in range(2):
        written(tmp_path / f"run{number}", "health", nothing)
    suspicions = [suspicion.sentence for suspicion in page(tmp_path).suspicions]
    assert suspicions[0] == "Nothing to report of 2 runs: no ros2 event was recorded: why."
    assert suspicions[1].startswith("The tracer lost events")
    assert sum("no ros2 event" in text for text in suspicions) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("places where events are missing", "Places where events are missing"),
        ("ust/uid/0/64-bit/ch0_1: byte 3", "ust/uid/0/64-bit/ch0_1: byte 3"),
        ("callback_start without callback_end", "callback_start without callback_end"),
        ("ros2:callback_start is missing", "ros2:callback_start is missing"),
        ("Fast DDS lost", "Fast DDS lost"),
    ],
)
def test_only_words_begin_with_a_capital(text: str, told: str) -> None:
    assert _capitalised(text) == told


def test_times_have_the_digits_that_tell_them_apart() -> None:
    assert _seconds([0.0004, 0.00045]) == ["0.00040", "0.00045"]
    assert _seconds([1.5, 0.25]) == ["1.500", "0.250"]
    # Equal values stay equal.
    assert _seconds([0.5, 0.5]) == ["0.500", "0.500"]
    assert _seconds([]) == []


def test_how_messages_did_not_arrive_is_said(tmp_path: Path) -> None:
    """Of 13 messages three did not arrive; one of them was replaced in the history."""
    run = write_run(tmp_path / "r", latencies_ns=[None] * 3 + [1000] * 10)
    (lost,) = page(with_outcomes(run, "replaced", 1)).suspicions
    assert lost.sentence == (
        "3 of 13 messages on /data did not arrive at /subscriber: 2 lost on the way, 1 replaced by "
        "newer ones in a full history before they were taken."
    )


def test_what_is_wrong_on_many_topics_of_a_cell_is_one_row(tmp_path: Path) -> None:
    """/t0 to /t3 are late in the first cell; in the second /t0 is, which two nodes receive."""
    opened = page(runs(tmp_path, 1))
    late = [("c=1", f"/t{number}", "/a", "/m", 90.0 - number) for number in range(4)]
    late += [("c=2", "/t0", "/a", "/m", 50.0), ("c=2", "/t0", "/a", "/k", 0.5),
             ("c=2", "/t1", "/a", "/m", 30.0)]  # fmt: skip
    schema = ["cell", "topic", "from", "to", "p99_ms"]
    opened.topics = pl.DataFrame(late, schema=schema, orient="row").with_columns(
        p50_ms=0.2, worst_ms=99.0, not_arrived=0, messages=400, apart_ms=0.0
    )
    assert [(x.sentence, x.command) for x in opened._tails()] == [
        ("Some messages on 4 topics are late with c=1: the median of /t0 is 200 us, P99 90.0 ms.",
         f"roslens why {tmp_path}"),
        ("Some messages on /t0 to /m are late with c=2: the median is 200 us, P99 50.0 ms.",
         f"roslens why {tmp_path} --topic /t0"),
        ("Some messages on /t1 are late with c=2: the median is 200 us, P99 30.0 ms.",
         f"roslens why {tmp_path} --topic /t1"),
    ]  # fmt: skip
    opened.topics = opened.topics.with_columns(not_arrived=pl.lit(5))
    first = next(opened._lost_messages())
    assert first.sentence == (
        "Messages on 4 topics did not arrive with c=1: the most on /t0, 5 of 400."
    )
    assert first.command == f"roslens report latency {tmp_path}"


def test_a_recording_of_services_alone_says_how_long_calls_took(tmp_path: Path) -> None:
    """Each of ten calls took 1 ms; of calls without events of requests that is not known."""
    write_run(tmp_path / "r", latencies_ns=[1000] * 100)
    path = tmp_path / "r" / "tables" / "service_calls.parquet"
    calls = pl.read_parquet(path).with_columns(request_called_ns="request_sent_ns")
    calls.write_parquet(path)
    opened = page(tmp_path / "r")
    opened.topics = opened.topics.clear()
    nothing = "No message of the application was published and subscribed to."
    assert [part.text for part in opened._topics()] == [
        nothing, "Calls of /add: the median is 1.00 ms."
    ]  # fmt: skip
    written(tmp_path / "r", "service_calls", {"service": "/add", "served": True})
    written(tmp_path / "r", "health", missing("service_calls", "rmw_send_request"))
    blind = page(tmp_path / "r")
    blind.topics = blind.topics.clear()
    told = (
        "Calls and goals of /add are not known: no events of requests were recorded, which ROS 2 "
        "has from Kilted on."
    )
    assert [part.text for part in blind._topics()] == [nothing, told]


def test_a_snapshot_says_which_trigger_made_it(tmp_path: Path) -> None:
    """START is 2023-11-14 22:13:20 UTC."""
    opened = rl.open(runs(tmp_path, 1), collect=False)
    hit = Hit(trigger="callback > 1 s", at_ns=START + 250_000_000, value=1.98e9, unit="ns")
    opened = opened.with_runs([dataclasses.replace(opened.runs[0], triggered=(hit,))])
    told = "Triggered at 2023-11-14 22:13:20.250 UTC: callback > 1 s (1,980 ms)."
    assert told in FirstPage(opened, [tmp_path])._facts()
    assert not any("riggered" in text for text in page(tmp_path)._facts())


@pytest.mark.parametrize("recorded", [True, False])
def test_nothing_is_said_of_what_could_not_be_seen(tmp_path: Path, *, recorded: bool) -> None:
    folder = tmp_path / "run"
    write_run(folder, latencies_ns=[1000] * 10, resources=recorded)
    if not recorded:
        written(folder, "health", missing("service_calls", "rmw_send_request"))
    sentence = dict(page(folder).parts())["What looks wrong here"][0].text
    assert sentence.startswith("Nothing that is looked for: no silence, no loss, ")
    assert ("no unanswered request" in sentence) == ("no memory that" in sentence) == recorded
