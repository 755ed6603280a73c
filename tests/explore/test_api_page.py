"""Test that docs/api.md's examples run on samples, are typed, and cover all that is public."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import polars as pl
import pytest
from tests.samples import uncollected

import roslens as rl
from roslens.explore.callbacks import Callbacks
from roslens.explore.chains import Chains
from roslens.explore.communication import Communication
from roslens.explore.comparing import Comparison
from roslens.explore.executors import Executors
from roslens.explore.latency import Latency
from roslens.explore.loss import Loss
from roslens.explore.memory import Memory
from roslens.explore.noun import shows_section
from roslens.explore.stacks import Stacks
from roslens.explore.timing import Timing
from roslens.explore.what_if import WhatIf
from roslens.explore.why import Why

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
QUESTIONS = re.findall(r"^([A-Z][^\n]*\?)\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
NOTEBOOKS: dict[type, str] = {
    Latency: "latency", Chains: "chains", Executors: "executors", Memory: "leaks",
    Communication: "communication",
}  # fmt: skip
NOUNS = (*NOTEBOOKS, Callbacks, Loss, Comparison, Why, Stacks, Timing, WhatIf)
MADE_BY = {"lateness_by_run", "recorded", "of", "to_json"}
"""Verbs by which roslens makes a noun or its JSON."""


def verbs(noun: type) -> list[str]:
    return [name for name in dir(noun) if not name.startswith("_")]


def sections(noun: type) -> set[str]:
    """Return the verbs that show a section of the noun's notebook."""
    marker = f"{shows_section.__qualname__}.<locals>"
    return {name for name in verbs(noun) if marker in getattr(noun, name, noun).__qualname__}


@pytest.fixture
def budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "budgets.yaml").write_text(shown)
    sample = ROOT / "data" / "samples" / "two_process"
    uncollected(sample, tmp_path / "recordings")
    # Run from elsewhere: the samples of the examples are those that come with roslens.
    monkeypatch.chdir(tmp_path)


@pytest.mark.recording
@pytest.mark.usefixtures("budgets")
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/api.md", "exec"), namespace)
    assert "/samples" in capsys.readouterr().out
    assert Path("latency.pdf").read_bytes().startswith(b"%PDF")


def test_the_examples_show_all_that_is_public() -> None:
    code = "\n".join(BLOCKS) + (ROOT / "docs" / "stacks.md").read_text()
    for noun in NOUNS:
        assert verbs(noun)
        table = PAGE[PAGE.index("## Nouns") : PAGE.index("### Latency")]
        for verb in verbs(noun):
            if verb in MADE_BY | sections(noun):
                continue
            assert f".{verb}(" in code, f"{noun.__name__}.{verb} stands in no example"
            common = verb in ("sentences", "with_parameters", "write")
            assert common or f"`{verb}`" in table, f"{noun.__name__}.{verb} is not in the table"


@pytest.mark.parametrize("noun", NOTEBOOKS)
def test_the_sections_are_the_cells_of_the_notebook(noun: type) -> None:
    notebook = nbformat.read(ROOT / "notebooks" / f"{NOTEBOOKS[noun]}.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert sections(noun)
    assert {name for name in sections(noun) if f".{name}(" not in code} == set()


def test_everything_public_says_what_it_gives_and_when_it_fails() -> None:
    for noun in NOUNS:
        assert noun.__doc__
        for verb in verbs(noun):
            if verb in MADE_BY:
                continue
            text = getattr(noun, verb).__doc__
            assert text, f"{noun.__name__}.{verb}"
            given = getattr(noun, verb).__annotations__
            if given.get("return") == "pl.DataFrame":
                assert "Returns\n" in text, f"{noun.__name__}.{verb}"
                assert re.search(r"_ns|_ms|_bytes|B/s|unit|counts|0\.\.1|ratio|\bns\b", text), verb
            if set(given) - {"return"} or given.get("return") == "Picture":
                assert "Raises\n" in text, f"{noun.__name__}.{verb}"


def test_the_examples_are_typed(tmp_path: Path) -> None:
    """mypy checks them strictly, like a user's own code that imports an installed roslens."""
    script = tmp_path / "examples.py"
    script.write_text("\n".join(BLOCKS))
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(script)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_questions_are_those_that_commands_answer_in_three_lines_each() -> None:
    page = (ROOT / "docs" / "questions.md").read_text()
    asked = re.findall(r"^\| ([A-Z].*\?) \|", page, re.MULTILINE)
    assert [question for question, _ in QUESTIONS] == asked
    assert all(len(code.splitlines()) <= 3 for _, code in QUESTIONS)


def answers(question: str) -> object:
    """Return the value of the answer's last line."""
    ((code),) = [code for asked, code in QUESTIONS if asked.startswith(question)]
    *lines, last = code.splitlines()
    namespace: dict[str, object] = {"rl": rl, "pl": pl}
    exec("\n".join(lines), namespace)
    return eval(last, namespace)


@pytest.mark.recording
@pytest.mark.usefixtures("budgets")
def test_the_answers_are_what_is_known_of_the_samples() -> None:
    """The chain's program sleeps longest in /a's callback, and the leak is planted (README)."""
    sentences = answers("Which executor")
    assert isinstance(sentences, list)
    assert "of SingleThreaded is" in sentences[0]
    assert "above that of Events" in sentences[0]
    hops = answers("How long from sensor")
    assert isinstance(hops, pl.DataFrame)
    assert hops.row(0, named=True)["topic"] == "/a"
    leaks = answers("Does it leak")
    assert isinstance(leaks, list)
    assert leaks[0].startswith("Memory climbs in ")
    pays = answers("Does intra-process")
    assert isinstance(pays, pl.DataFrame)
    assert pays.height
    kept = answers("Is the budget kept")
    assert isinstance(kept, pl.DataFrame)
    assert set(kept["verdict"]) <= {"within", "exceeded", "not_enough_evidence"}
    since = rl.catalog("recordings", collect=True).select().changes("latency_p99")
    assert since.select("campaigns", "verdict").rows() == [(1, None)]
    assert "1 campaign;" in since["refused"].item()  # one is no series
    worst = answers("What happened to this")
    assert isinstance(worst, pl.DataFrame)
    messages = rl.open("data/samples/two_process").messages.collect()
    delivered = messages.filter(pl.col("topic") == "/data", pl.col("outcome") == "delivered")
    assert worst["latency_ns"].item() == delivered["latency_ns"].max()


@pytest.mark.recording
def test_further_answers_are_what_the_programs_logged(tmp_path: Path) -> None:
    """The chain's answers are by hand from samples.csv, as in test_twenty_questions.py."""

    def frame(question: str) -> pl.DataFrame:
        answer = answers(question)
        assert isinstance(answer, pl.DataFrame)
        return answer

    slowest = frame("Which topic is slowest").row(0, named=True)
    assert (slowest["topic"], round(slowest["p99_ms"], 2)) == ("/a2", 7.98)
    longest = frame("Which callback").row(0, named=True)
    assert (longest["node"], longest["name"]) == ("/node_b", "/a")
    assert longest["max_ns"] == pytest.approx(7_830_470, rel=1e-3)
    late = {row[0]: row[1] for row in frame("Is the end-to-end deadline").iter_rows()}
    assert late["/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink"] == 23
    # 200 Hz give ten messages in 50 ms.
    assert frame("What was published").filter(topic="/data").height == 10
    assert frame("Where do messages pile up")["topic"].to_list() == [
        "/topic_0",
        "/parameter_events",
    ]
    assert set(frame("Who uses")["nodes"]) == {"/talker", "/listener"}
    assert frame("What else").height
    assert frame("Does it hang, or").height
