"""The ten questions of docs/tutorial.md: each is answered by the command that stands beside it.

What is expected of the answers is known from the samples' own logs (data/samples/README.md); two
questions are answered by a series of nights and by a click, which have tests of their own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import roslens as rl
from roslens.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from drawn import executed

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text().partition("## Ten questions")[2]
QUESTIONS = dict(re.findall(r"^\| (.+\?) \| (.+) \|$", TUTORIAL, re.MULTILINE))

ELSEWHERE = {
    "Since when is it slower?": ("trend", "tests/scale/test_trend.py", "test_the_verb"),
    "What happened to this one message?": (
        "lab",
        "tests/workbench/test_lab.py",
        "click",
    ),
}


# By question: the verb, what it is asked about, and what the answer must say.
REPORTS = {
    "Which executor is slower?": ("executors", "demo", r"of SingleThreaded is .* of Events"),
    "How late are messages, and how sure is that?": (
        "latency", "demo", r"median messages on /samples|median latency.*\[",
    ),
    "Does it leak?": ("leaks", "leak.tar.zst", r"Memory climbs in 1 of "),
    "Does intra-process communication pay?": (
        "communication", "communication", r"intra_process=True, and .*intra_process=False",
    ),
    "Was anything lost, and by whom?": (
        "latency", "communication", r"743 of 3,578 messages did not arrive.*tracer lost: nothing",
    ),
}  # fmt: skip
COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "Did my change cost latency?": (
        # The one of two executors that is slower, as if it were a change.
        ["compare", "demo", "--by", "executor", "--metric", "latency_p50"], 0, r"worse .*\+29",
    ),
    "Is the budget kept?": (["check", "budgets.yaml", "demo"], 0, r"2 within"),
    "How long from sensor to actuator, and which hop costs most?": (
        ["chains", "chain.tar.zst"], 0, r"takes .* ms at the median .* % of it is /a callback",
    ),
}  # fmt: skip


def test_there_are_ten_and_each_has_a_test() -> None:
    assert len(QUESTIONS) == 10
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
    assert f"`roslens {command[0]} " in QUESTIONS[question]
    monkeypatch.chdir(samples)
    if command[0] == "check":
        (samples / "budgets.yaml").write_text("budgets:\n- latency_p50 < 50 ms\n")
    run: Callable[[list[str]], None] = main
    with pytest.raises(SystemExit) as ended:
        run(command)
    said = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == code, said
    assert re.search(answer, said), said
