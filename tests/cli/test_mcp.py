"""Test questions over the Model Context Protocol, asked by the protocol's own client.

Expected values are what the command line says and what the samples' programs logged.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import polars as pl
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests.samples import RUN, SAMPLES, uncollected

from roslens.cli import main

pytestmark = pytest.mark.recording

Question = tuple[str, dict[str, Any]]
BUDGETS = ["latency_p50 < 50 ms", "latency_p99 < 1 us", "loss < 1 %"]
FOLDERS = ("demo", "two_process", "communication", "lifecycle")
ALL = (*FOLDERS, "chain.tar.zst", "hung.tar.zst", "leak.tar.zst")
ASKED = ["response_time_p50", "callback_duration_p99", "period_p99"]
SQL = (
    "SELECT topic, outcome, count(*) AS n FROM messages GROUP BY ALL ORDER BY ALL",
    "-- the longest\nSELECT max(latency_ns) AS longest_ns FROM messages",
    "SELECT topic FROM messages WHERE false",
)

# Questions that are answered before there are tables come first.
QUESTIONS: list[Question] = [
    *(("info", {"path": name}) for name in ALL),
    *(("info_check", {"path": name}) for name in ALL),
    *(("first_page", {"paths": [name]}) for name in ALL),
    ("first_page", {"paths": ["demo", "two_process"]}),
    *(("estimates", {"paths": [name]}) for name in (*ALL[:5], "leak.tar.zst")),
    *(("estimates", {"paths": [name], "metric": ASKED}) for name in ("demo", "two_process")),
    ("estimates", {"paths": ["communication"], "metric": ["loss"], "topic": ["/topic_0"]}),
    *(("why", {"paths": [name]}) for name in ALL),
    ("why", {"paths": ["chain.tar.zst"], "topic": "/a", "deadline": "5ms"}),
    ("why", {"paths": ["two_process"], "deadline": "1ms", "warm_up": "1s"}),
    *(("chains", {"paths": [name]}) for name in ("demo", "two_process", "chain.tar.zst")),
    ("chains", {"paths": ["chain.tar.zst"], "bound": True}),
    *(("compare", {"base": "demo", "by": "executor", "metric": [metric]})
      for metric in ("latency_p50", "callback_duration_p50", "cpu")),
    ("compare", {"base": "communication", "new": "communication"}),
    ("compare", {"base": "demo", "by": "executor", "threshold": "50%"}),
    *(("check", {"paths": [name], "budgets": BUDGETS}) for name in ("demo", "two_process")),
    ("check", {"paths": ["demo"], "budgets": [
        {"budget": "latency_p50 < 50 ms", "where": {"executor": "Events"}}]}),
    *(("sql", {"paths": [name], "query": text})
      for name in ("demo", "two_process") for text in SQL),
    ("sql", {"paths": ["demo", "two_process"], "query": SQL[0]}),
    ("sql", {"paths": ["lifecycle"], "query": "DROP TABLE messages"}),
]  # fmt: skip


def ask(
    folder: Path, questions: Sequence[Question], *limits: str, cache: Path
) -> list[tuple[bool, Any]]:
    """Return, for each answer, whether it is an error, and its content."""

    async def asking() -> list[tuple[bool, Any]]:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "roslens", "mcp", str(folder), *(limits or ("--timeout", "900"))],
            env={"ROSLENS_CACHE": str(cache)},
            cwd=cache,
        )
        async with Client(server) as client:
            answers = []
            for tool, arguments in questions:
                result = await client.call_tool(tool, arguments, read_timeout_seconds=900)
                text = result.structured_content if not result.is_error else result.content[0].text
                answers.append((result.is_error, text))
            return answers

    return anyio.run(asking)


def files(folder: Path) -> set[tuple[str, int, int]]:
    return {(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    before = files(folder)
    yield
    assert files(folder) == before


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the samples without their tables."""
    copy = tmp_path_factory.mktemp("mcp").resolve() / "samples"
    return uncollected(SAMPLES, copy)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def answers(samples: Path, cache: Path) -> list[tuple[bool, Any]]:
    """Return the answers to all questions, before any other question about these samples."""
    with unchanged(samples):
        return ask(samples, QUESTIONS, "--rows", "100000", "--max-bytes", "50000000",
                   "--timeout", "900", cache=cache)  # fmt: skip


def words_of(tool: str, given: dict[str, Any], samples: Path, folder: Path) -> list[str]:
    """Return the same question as words for the command line, as its help says."""
    if "budgets" in given:
        (folder / "budgets.yaml").write_text(json.dumps({"budgets": given["budgets"]}))
    names = given.get("paths") or [given.get("path"), given.get("base"), given.get("new")]
    places = [str(samples / name) for name in names if name]
    before = {
        "sql": [given.get("query"), "--rows", "100001"],
        "check": [str(folder / "budgets.yaml")],
    }.get(tool, [])
    options = []
    for name in ("metric", "topic", "deadline", "warm_up", "by", "threshold"):
        for value in [given[name]] if isinstance(given.get(name), str) else given.get(name) or ():
            options += [f"--{name.replace('_', '-')}", value]
    verb = {"first_page": [], "info_check": ["info", "--check"]}.get(tool, [tool])
    json_file = [str(folder / "out.json")] if tool in ("chains", "compare", "check") else []
    bound = ["--bound"] if given.get("bound") else []
    if tool == "sql":
        before[0] = before[0].replace("-- the longest\n", "")
    return [*verb, *before, *places, *options, *bound, "--json", *json_file]


def same(left: Any, right: Any) -> bool:
    """Return whether values are equal except for the last digit.

    Threads of polars add up in the order in which they end.
    """
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.fixture
def said(
    samples: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Question], tuple[int, Any, str]]:
    """Return a function that gives the command line's exit code, JSON and error."""
    monkeypatch.setenv("ROSLENS_CACHE", str(cache))

    def ask_verb(question: Question) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            main(words_of(*question, samples, tmp_path))
        out, err = capsys.readouterr()
        if (tmp_path / "out.json").is_file():
            answer = json.loads((tmp_path / "out.json").read_text())
        elif question[0] == "sql":
            answer = [json.loads(line) for line in out.splitlines()]
        else:
            answer = json.loads(out) if out else None
        return ended.value.code, answer, err.removeprefix("roslens: error: ").strip()

    return ask_verb


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_an_answer_is_that_of_the_command_line(
    number: int,
    answers: list[tuple[bool, Any]],
    said: Callable[[Question], tuple[int, Any, str]],
) -> None:
    code, expected, error = said(QUESTIONS[number])
    failed, answer = answers[number]
    assert failed == (code == 2), answer
    if failed:
        assert answer.endswith(error)
        return
    assert answer["exit_code"] == code
    assert answer["cut"] == {}
    if QUESTIONS[number][0] == "info" and answer["answer"].get("ros", ...) is None:
        # It was asked before another question collected the run in the archive.
        del answer["answer"]["ros"], expected["ros"]
    assert same(answer["answer"], expected)
    if code == 3 and error:
        assert answer["refused"] == error


def estimates_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if {"metric", "value", "low", "high"} <= value.keys():
            yield value
        for item in value.values():
            yield from estimates_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from estimates_in(item)


def test_each_number_has_its_interval_or_why_not(answers: list[tuple[bool, Any]]) -> None:
    count = 0
    for (tool, _), (failed, answer) in zip(QUESTIONS, answers, strict=True):
        if failed:
            continue
        if tool in ("first_page", "info", "info_check", "sql"):
            assert answer["numbers"].startswith("No intervals: ")
        assert answer["answer"] is not None or answer["refused"]
        for estimate in estimates_in(answer["answer"]):
            whole = None not in (estimate["value"], estimate["low"], estimate["high"])
            assert whole or estimate["refused"] or estimate.get("bounds"), estimate
            assert estimate["unit"]
            count += 1
    assert count > 300


def test_what_is_answered_is_what_the_programs_logged(
    answers: list[tuple[bool, Any]], samples: Path
) -> None:
    answered = {json.dumps(q): a["answer"] for q, (bad, a) in zip(QUESTIONS, answers, strict=True)
            if not bad}  # fmt: skip
    counts = answered[json.dumps(("sql", {"paths": ["two_process"], "query": SQL[0]}))]
    log = pl.read_csv(next((samples / "two_process").glob("*/native/messages.csv")))
    received = log.select(pl.last().is_not_null().sum()).item()
    assert [
        row["n"] for row in counts if row["topic"] == "/data" and row["outcome"] == "delivered"
    ] == [received]
    # The samples' README says that it hung after 44.5 s and was killed after 700 s.
    hung = answered[json.dumps(("info", {"path": "hung.tar.zst"}))]
    assert any("44.5 s of 699 s" in silence["sentence"] for silence in hung["silences"])
    # Worked out by hand from samples.csv, as docs/questions.md shows it.
    page = answered[json.dumps(("first_page", {"paths": ["chain.tar.zst"]}))]
    (slowest,) = (topic for topic in page["topics"] if topic["topic"] == "/a2")
    assert slowest["p99_ms"] == pytest.approx(7.978, abs=0.03)


def test_lists_are_cut_and_how_long_they_were_is_told(samples: Path, cache: Path) -> None:
    late = ("why", {"paths": ["two_process"], "deadline": "0.1ms"})
    every = ("sql", {"paths": ["two_process"], "query": "SELECT * FROM messages"})
    (_, few), (_, rows) = ask(samples, [late, every], "--rows", "7", cache=cache)
    (_, whole), _ = ask(samples, [late, every], "--rows", "9999", "--max-bytes", "9999999",
                        cache=cache)  # fmt: skip
    assert few["answer"]["late"] == whole["answer"]["late"][:7]
    assert few["cut"]["late"] == len(whole["answer"]["late"]) > 7
    # The query is not run to its end for this answer.
    assert (len(rows["answer"]), rows["cut"]) == (7, {"": 8})
    (_, small), _ = ask(samples, [late, every], "--max-bytes", "9000", cache=cache)
    assert 0 < len(small["answer"]["late"]) < 100
    assert len(json.dumps({"answer": small["answer"]}, indent=2)) <= 9000
    ((failed, text),) = ask(samples, [late], "--max-bytes", "10", cache=cache)
    assert failed
    assert "the answer is too long" in text


def test_a_question_that_takes_too_long_is_given_up(samples: Path, cache: Path) -> None:
    ((failed, text),) = ask(
        samples, [("first_page", {"paths": ["demo"]})], "--timeout", "0.05", cache=cache
    )
    assert failed
    assert "no answer in 0.05 s" in text
    query = ("sql", {"paths": ["two_process"], "query": "SELECT 1"})
    ((_, answer),) = ask(samples, [query], "--timeout", "100", cache=cache)
    assert "--timeout=90 " in answer["command"]


def test_no_path_leads_out_and_no_word_is_an_option(
    samples: Path, cache: Path, tmp_path: Path
) -> None:
    (samples / "out").symlink_to(SAMPLES / "demo")
    linked = str(samples / "out" / "000_r0_executor-Events")
    elsewhere = [
        str(SAMPLES / "demo"),
        linked,
        "../samples2",
        "out",
        "/etc/passwd",
        "a\0b",
        "nowhere",
        "~",
    ]
    page = tmp_path / "page.html"
    questions: list[Question] = [
        *(("first_page", {"paths": [path]}) for path in elsewhere),
        ("first_page", {"paths": [f"--html={page}"]}),
        ("why", {"paths": ["two_process"], "topic": f"x --html={page}"}),
        ("sql", {"paths": ["two_process"], "query": "--help"}),
        ("sql", {"paths": ["two_process"], "query": "COPY messages TO '/tmp/x.csv'"}),
        ("sql", {"paths": ["two_process"], "query": "SELECT * FROM '/etc/passwd'"}),
        ("check", {"paths": ["demo"], "budgets": ["nonsense"]}),
        ("first_page", {"paths": []}),
        ("info", {"path": "."}),
    ]
    try:
        answers = ask(samples, questions, cache=cache)
        ((_, listing),) = ask(samples, [("recordings", {})], cache=cache)
    finally:
        (samples / "out").unlink()
    assert [failed for failed, _ in answers] == [True] * len(questions)
    assert str(samples / "demo" / "000_r0_executor-Events") in listing["recordings"]
    assert not any("/out" in path for path in listing["recordings"])
    for _, text in answers[: len(elsewhere)]:
        assert "nothing of that name in what may be read" in text
    assert "the link out leads out of what may be read" in answers[-1][1]
    assert not page.exists()


def test_names_in_a_recording_are_quoted(tmp_path: Path, cache: Path) -> None:
    """A node, a topic and the folder have names that a terminal obeys."""
    run = uncollected(RUN, tmp_path / "all" / "r\x1b]0;\x07\u202en")
    for path in (run / "trace").rglob("*"):
        if path.is_file():
            content = path.read_bytes().replace(b"talker", b"t\x1b\x07\xe2\x80\xae")
            path.write_bytes(content.replace(b"/data\0", b"/\x07\xe2\x80\xae\0"))
    ((_, listing),) = ask(run.parent, [("recordings", {})], cache=cache)
    (name,) = listing["recordings"]
    answers = ask(
        run.parent,
        [
            ("first_page", {"paths": [name]}),
            ("info_check", {"path": name}),
            ("sql", {"paths": [name], "query": "SELECT DISTINCT topic FROM messages"}),
            ("first_page", {"paths": ["no\x1b[2J"]}),
        ],
        cache=cache,
    )
    text = json.dumps([name, answers], ensure_ascii=False)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert r"t\\x1b" in text
    assert {"topic": r"/\x07\u202e"} in answers[2][1]["answer"]
