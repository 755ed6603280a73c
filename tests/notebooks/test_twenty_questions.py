"""Test that each of docs/questions.md's twenty questions is answered by its command.

The expected answers are known from the samples' own logs (data/samples/README.md), by hand or
computed here; two questions are answered by a series of nights and by a click, which have their own
tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from drawn import executed

import roslens as rl
from roslens.cli import main
from roslens.sql import query

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "questions.md").read_text()
QUESTIONS = dict(re.findall(r"^\| (.+\?) \| (.+) \|$", PAGE, re.MULTILINE))
SQL = [" ".join(text.split()) for text in re.findall(r'roslens sql "(.*?)" PATH', PAGE, re.DOTALL)]

ELSEWHERE = {
    "Since when has it been slower?": ("trend", "tests/scale/test_trend.py", "test_the_verb"),
    "What happened to this one message?": (
        "lab",
        "tests/workbench/test_lab.py",
        "click",
    ),
}


# By question: the verb, its subject, and what the answer must say.
REPORTS = {
    "Which executor is slower?": ("executors", "demo", r"of SingleThreaded is .* of Events"),
    "How late are messages, and how sure is that?": (
        "latency", "demo", r"median messages on /samples|median latency.*\[",
    ),
    "Does it leak?": ("leaks", "leak.tar.zst", r"Memory climbs in 1 of "),
    "Does intra-process communication pay off?": (
        "communication", "communication", r"intra_process=True, and .*intra_process=False",
    ),
    "Was anything lost, and by whom?": (
        "latency", "communication", r"743 of 3,578 messages did not arrive.*tracer lost: nothing",
    ),
}  # fmt: skip
COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "Did my change cost latency?": (
        # The slower of two executors is taken for a change.
        ["compare", "demo", "--by", "executor", "--metric", "latency_p50"], 0, r"worse .*\+29",
    ),
    "Is the budget kept?": (["check", "budgets.yaml", "demo"], 0, r"2 within"),
    "How long from sensor to actuator, and which hop costs most?": (
        ["chains", "chain.tar.zst"], 0, r"takes .* ms at the median .* % of it is /a callback",
    ),
    # By hand from samples.csv: P99 7.978 ms of /a2; node_b worked at most 7.830 ms; 23 of 600
    # samples came to the sink more than 10 ms after /a.
    "Which topic is slowest, at P99 and once?": (
        ["chain.tar.zst"], 0, r"arrived /a2 /source2 /node_c 600 100 2\.49 ms 7\.98 ms 11\.0 ms",
    ),
    "Which callback runs longest?": (
        ["chain.tar.zst"], 0, r"time subscription /a of /node_b 600 2\.28 ms \S+ ms 7\.83 ms",
    ),
    "Is the end-to-end deadline met?": (
        ["chains", "chain.tar.zst", "--requirements", "wanted.yaml"], 1, r"exceeded 23 of 600",
    ),
    "Why were messages late?": (
        ["why", "chain.tar.zst"], 0,
        r"/a took 9\.49 ms .* callback of /node_b ended, .* itself ran 7\.83 ms",
    ),
    "Where do messages pile up?": (
        ["why", "communication"], 0, r"it waited 207 ms behind earlier messages of the same",
    ),
    "What was published in these 50 ms?": (
        ["events", "two_process", "--name", "ros2:rclcpp_publish",
         "--start", "+2s", "--end", "+2.05s"], 0, r"^([^{]*ros2:rclcpp_publish: [^\[]*){10}$",
    ),
    "What else takes longer since my change?": (
        # Nothing was planted; the two callbacks do the same.
        ["compare", "demo", "--by", "executor", "--metric", "callback_duration_p50"], 3,
        r"not_enough_evidence .* callback_duration_p50 \[ms\]",
    ),
    "Who uses the CPU?": (["two_process"], 0, r"nodes process CPU \[cores\] callbacks /talker "),
    # The program was killed after 700 s, of which it worked 44.5 s.
    "Does it hang, or does a timer not run?": (
        ["hung.tar.zst"], 0, r"hangs: it fell silent after 44\.5 s of 699 s",
    ),
    "How long do services and actions take?": (["sql", SQL[0], "demo"], 0, r"/status 132 "),
}  # fmt: skip


WANTED = """
chains:
  - path: /source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink
    response_time: {max: 10 ms}
"""


def test_there_are_twenty_and_each_has_a_test() -> None:
    assert len(QUESTIONS) == 20
    assert QUESTIONS.keys() == {*REPORTS, *COMMANDS, *ELSEWHERE}
    for question, (verb, place, name) in ELSEWHERE.items():
        assert f"roslens {verb} " in QUESTIONS[question]
        assert name in (ROOT / place).read_text()


@pytest.mark.recording
@pytest.mark.parametrize("question", REPORTS)
def test_the_first_screen_of_a_report_answers(samples: Path, question: str) -> None:
    notebook, sample, answer = REPORTS[question]
    assert f"`roslens report {notebook} PATH`" in QUESTIONS[question]
    collected = rl.open(samples / sample)
    _, report = executed(
        notebook, answer_only=True, recordings=[str(r.path) for r in collected.recordings]
    )
    assert re.search(answer, " ".join(repr(report.answer()).split())), repr(report.answer())


@pytest.mark.recording
@pytest.mark.parametrize("question", COMMANDS)
def test_a_command_answers(
    samples: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    question: str,
) -> None:
    command, code, answer = COMMANDS[question]
    verb = command[0] if (samples / command[0]).exists() is False else "PATH"
    assert re.search(rf"roslens {verb}\b", QUESTIONS[question])
    monkeypatch.chdir(samples)
    monkeypatch.setenv("COLUMNS", "200")
    (samples / "wanted.yaml").write_text(WANTED)
    if command[0] == "check":
        (samples / "budgets.yaml").write_text("budgets:\n- latency_p50 < 50 ms\n")
    run: Callable[[list[str]], None] = main
    with pytest.raises(SystemExit) as ended:
        run(command)
    output = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == code, output
    assert re.search(answer, output), output


def test_what_sql_says_is_what_the_programs_logged(samples: Path) -> None:
    """The log of a call ends in the client's code, up to 1 ms after the answer was taken."""
    services, actions, regular, states = SQL
    demo, pair, managed = (
        rl.open(samples / sample) for sample in ("demo", "two_process", "lifecycle")
    )

    def logged(name: str, begin: str, end: str) -> pl.Series:
        files = (samples / "demo").glob(f"*/native/{name}.csv")
        return (
            pl.concat(pl.read_csv(path) for path in files)
            .select((pl.col(end) - pl.col(begin)) / 1e6)
            .to_series()
        )

    for text, log in (
        (services, logged("calls", "request_realtime_ns", "response_realtime_ns")),
        (actions, logged("goals", "send_realtime_ns", "result_realtime_ns")),
    ):
        ((_, count, measured, median, longest),) = query(demo, text)[0].rows()
        assert not measured
        assert count == log.len()
        assert 0 < log.median() - median < 1
        assert 0 < log.max() - longest < 1
    rows = {row[0]: row[1:] for row in query(pair, regular)[0].iter_rows()}
    (file,) = (samples / "two_process").glob("*/native/messages.csv")
    gaps = pl.read_csv(file)["publish_realtime_ns"].diff().drop_nulls() / 1e6
    assert rows["/data"] == pytest.approx((gaps.len(), gaps.std(), gaps.max()), rel=0.05)
    (file,) = (samples / "lifecycle").glob("*/native/transitions.csv")
    reached = pl.read_csv(file)["resulting_state"].to_list()
    in_trace = query(managed, states)[0]["state"].to_list()
    between = {"configuring", "activating", "deactivating", "cleaningup", "shuttingdown"}
    assert [state for state in in_trace if state not in between] == ["unconfigured", *reached]
