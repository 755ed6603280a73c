"""Test the help of the command line, and that a closed reader changes no exit code."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import Roslens
from cyclopts import App
from papermill import inspect_notebook
from rich.console import Console
from test_errors import check_one_line
from tests import programs
from tests.samples import RUN, SAMPLES

from roslens.asked_metrics import ASKED
from roslens.cli import app
from roslens.fleet.rows import METRICS
from roslens.recording.files import shipped

VERBS = [name for name in app if not name.startswith("-")]
COMMANDS = [verb for verb in VERBS if verb != "dev"]


def commands(verb: str) -> list[App]:
    """Return the command of a verb, or the commands of a group of verbs."""
    command = app[verb]
    if command.default_command is not None:
        return [command]
    return [command[name] for name in command if not name.startswith("-")]


def arguments(verb: str) -> Iterator[tuple[str, str]]:
    """Yield names and help of a verb's arguments, as its help page has them."""
    for command in commands(verb):
        for argument in command.assemble_argument_collection(parse_docstring=True):
            yield argument.name, argument.parameter.help or ""


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_argument_is_explained_in_whole_sentences(verb: str) -> None:
    for name, text in arguments(verb):
        assert re.match(r"[A-Zahp+*].*[.:?]$", " ".join(text.split())), (name, text)
        assert not re.match(r"(Of|In place|Such|By) ", text), (name, text)


@pytest.mark.parametrize("verb", VERBS)
def test_no_help_has_asterisks_that_markdown_takes_for_its_own(verb: str) -> None:
    """Two asterisks in a paragraph mean emphasis, and vanish."""
    for command in commands(verb):
        for paragraph in re.split(r"\n\s*\n", command.help):
            words = re.sub(r"^\s*\* ", "", paragraph, flags=re.MULTILINE)
            assert words.count("*") < 2, paragraph
    for name, text in arguments(verb):
        assert text.count("*") < 2, (name, text)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_help_shows_how_to_call_it_and_nothing_by_accident(
    verb: str, width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    # Use a new console: an earlier run in this process may have left one of another width.
    app([verb, "--help"], console=Console(), result_action="return_value")
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: roslens {verb}")
    assert max(map(len, text.splitlines())) <= int(width)
    for accident in ("--empty-", "[]", "()", "default: False", "default: True", "ARGS", "PATHS "):
        assert accident not in text
    # Only paragraphs and options are left, and no heading of the docstring.
    assert "----------" not in text


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_ends_with_an_example_that_is_one(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    app([verb, "--help"], result_action="return_value")
    example = " ".join(capsys.readouterr().out.rpartition("Example: ")[2].split())
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("roslens", verb)
    app.parse_args(words, exit_on_error=False, print_error=False)


def test_metrics_in_help_are_known() -> None:
    """`trend` lists the metrics of the catalog, `compare` those that can be asked for."""
    metrics = {}
    for verb in ("trend", "compare"):
        text = dict(arguments(verb))["--metric"]
        word, metrics[verb] = "", set()
        for name in re.findall(r"\b[a-z_]+(?:_p[\d.]*\d)?\b|\b_\w+", text):
            full = name if not name.startswith("_") else re.sub(r"_[^_]+$", name, word)
            if "_" in full or full in ("loss", "cpu", "pss", "rss", "time"):
                word = full
                metrics[verb].add(full)
    assert metrics["trend"] == set(METRICS)
    patterns = (*METRICS, *ASKED)
    assert all(
        any(re.fullmatch(pattern, name) for pattern in patterns) for name in metrics["compare"]
    )
    assert {
        pattern
        for pattern in ASKED
        if not any(re.fullmatch(pattern, name) for name in metrics["compare"])
    } == set()


def test_help_lists_every_verb_and_the_exit_codes(roslens: Roslens) -> None:
    text = roslens("--help").stdout
    for verb in VERBS:
        # Developers' commands are on the page of 'dev'; their earlier names go on working.
        assert bool(re.search(rf"^│ {verb} ", text, re.MULTILINE)) == (verb not in set(app["dev"]))
    assert all(code in text for code in ("0 done", "1 a verdict", "2 wrong", "130 interrupted"))


def test_help_of_record_shows_twelve_options_and_all_of_them_when_asked(roslens: Roslens) -> None:
    """The full help has every option except the protocol between two recorders."""
    options = {name for name, _ in arguments("record") if name.startswith("--")}
    short, everything = (
        set(re.findall(r"^│ (--[\w-]+)", roslens("record", flag).stdout, re.MULTILINE))
        for flag in ("--help", "--help-all")
    )
    assert len(short) == 12
    assert everything == options - {"--as-host"}
    assert short < everything


def test_help_of_report_names_every_notebook_but_the_labs() -> None:
    notebooks = {path.stem for path in shipped("notebooks").glob("*.ipynb")} - {"start"}
    assert notebooks == set(re.findall(r"^ *\* (\w+):", app["report"].help, re.MULTILINE))


@pytest.mark.parametrize(
    "notebook", sorted(shipped("notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_papermill_reads_every_parameter_of_a_notebook(
    notebook: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Papermill warns of a line that it cannot parse, such as a comment with an equals sign."""
    inspect_notebook(notebook)
    assert caplog.messages == []


def test_parameters_of_a_notebook(roslens: Roslens, tmp_path: Path) -> None:
    """The parameters are those that the notebook's source assigns, in the same order."""
    run = roslens("report", "latency", "--list-parameters")
    assert run.returncode == 0, run.stderr
    cells = json.loads(shipped("notebooks", "latency.ipynb").read_text())["cells"]
    (cell,) = (c["source"] for c in cells if c["metadata"].get("tags") == ["parameters"])
    names = re.findall(r"^(\w+):", "".join(cell), re.MULTILINE)
    listed = run.stdout[run.stdout.index("parameter ") :]
    assert re.findall(r"^(\w+)", listed, re.MULTILINE)[1:] == names
    assert re.search(r"^level +0\.95 +nominal coverage", listed, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_commands_in_the_documentation_have_the_options_that_it_shows() -> None:
    root = Path(__file__).parents[2]
    shown = 0
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        for call in re.finditer(
            rf"roslens (?:dev )?({'|'.join(VERBS)})\b([^`\n|#]*)", page.read_text()
        ):
            every = [command.assemble_argument_collection() for command in commands(call[1])]
            names = {n for collection in every for argument in collection for n in argument.names}
            options = re.findall(r"(?<![\w-])--?[a-z][\w-]*", call[2].split(" -- ")[0])
            assert set(options) <= names, (page, call[0])
            shown += len(options)
    assert shown > 50


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(roslens: Roslens, option: str) -> None:
    assert roslens(option).stdout == f"{version('roslens')}\n"


@pytest.mark.parametrize(
    ("given", "page"),
    [(["info"], "info"), (["compare", "a"], "compare"), (["lab", "--prt", "1"], "lab")],
)
def test_a_wrong_call_points_to_the_help_of_the_verb(
    roslens: Roslens, given: list[str], page: str
) -> None:
    check_one_line(roslens(*given), 2, f"(see 'roslens {page} --help')")


def test_what_is_too_much_is_named(roslens: Roslens) -> None:
    run = roslens("info", "a", "b", "c")
    assert run.returncode == 2
    assert run.stderr == "roslens: error: too much is given: b c (see 'roslens info --help')\n"


def unread(*given: str | Path, cwd: Path) -> tuple[int, bytes]:
    """Run a verb whose standard output nobody reads; return exit code and standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        streams = {"capture_output": False, "stdout": writer, "stderr": subprocess.PIPE}
        run = programs.roslens(*given, cwd=cwd, timeout=300, text=False, **streams)
    finally:
        os.close(writer)
    return run.returncode, run.stderr


@pytest.mark.parametrize(
    "given", [["suites"], ["suites", "demo"], ["--help"], ["lab", "--help"], ["schema"]]
)
def test_a_table_that_nobody_reads_to_its_end_is_no_failed_verdict(
    given: list[str], tmp_path: Path
) -> None:
    assert unread(*given, cwd=tmp_path) == (0, b"")


@pytest.mark.recording
def test_a_verdict_that_nobody_reads_is_still_given(roslens: Roslens, tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.yaml"
    budgets.write_text("budgets:\n- latency_p99 < 1 ns\n")
    heard = roslens("check", budgets, RUN.parent)
    # One run per cell is not enough evidence.
    assert heard.returncode == 3
    assert unread("check", budgets, RUN.parent, cwd=tmp_path)[0] == heard.returncode


@pytest.mark.recording
def test_a_verb_goes_on_if_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    """The JSON is larger than the buffer, so that printing it fails; the page comes after it."""
    assert unread(SAMPLES / "demo", "--json", "--html", "page.html", cwd=tmp_path)[0] == 0
    assert (tmp_path / "page.html").is_file()
