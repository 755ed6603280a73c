"""Test wrong use and unreadable input: one line on stderr, exit code 2, no traceback."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Roslens
from polars.exceptions import PanicException
from pydantic_core import SchemaValidator, core_schema
from tests import programs
from tests.samples import RUN, SAMPLES

from roslens import cli


def check_one_line(run: object, code: int, *words: str) -> None:
    assert run.returncode == code, run.stderr
    lines = run.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("roslens: error: ")]
    assert len(errors) == 1, lines
    assert "Traceback" not in run.stderr
    for word in words:
        assert word in errors[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "no/such/folder"], ["no/such/folder", "no such file"]),
        (["collect", "no/such/folder"], ["no/such/folder", "no such file"]),
        (["frobnicate"], ["frobnicate"]),
        (["info", SAMPLES, "--frobnicate"], ["frobnicate"]),
        (["report", "no_such_notebook", SAMPLES], ["no_such_notebook", "latency"]),
        (["record"], ["--suite"]),
        (["record", "--suite", "no_such_suite"], ["no_such_suite", "demo"]),
    ],
)
def test_what_is_not_there(roslens: Roslens, arguments: list[str | Path], words: list[str]) -> None:
    check_one_line(roslens(*arguments), 2, *words)


def test_closed_streams_change_no_exit_code() -> None:
    shell = f'{sys.executable} -m roslens info --check "$0" {{}}'
    codes = [
        subprocess.run(
            ["bash", "-c", shell.format(closed), SAMPLES / "demo"], check=False
        ).returncode
        for closed in (">/dev/null", ">&-", "2>&- >/dev/null", "<&- >&- 2>&-")
    ]
    assert codes == [codes[0]] * 4
    assert codes[0] in (0, 3)


@pytest.mark.parametrize("verb", ["info", "collect"])
def test_folder_without_metadata(roslens: Roslens, tmp_path: Path, verb: str) -> None:
    (tmp_path / "stream_0").write_bytes(b"\xc1\x1f\xfc\xc1" * 16)
    check_one_line(roslens(verb, tmp_path), 2, "metadata", tmp_path.name)


@pytest.mark.parametrize("words", [["schema"], ["suites"], ["events", RUN]], ids=lambda w: w[0])
def test_output_that_cannot_be_written(tmp_path: Path, words: list[str | Path]) -> None:
    """The verbs write more, and less, than is buffered until the end."""
    with Path("/dev/full").open("w") as full:
        streams = {"capture_output": False, "stdout": full, "stderr": subprocess.PIPE}
        run = programs.roslens(*words, cwd=tmp_path, timeout=300, **streams)
    check_one_line(run, 4, "output", "No space left")


@pytest.mark.parametrize(
    "words",
    [
        ["pack", RUN, "-o", "/dev/null/x"],
        ["predict", SAMPLES / "two_process", "--model", "/dev/null/x"],
        ["record", "-o", "/dev/null/x", "--", "true"],
        ["dev", "generate", "/dev/null/x"],
        ["report", "latency", RUN, "-o", "/dev/null/x"],
    ],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written_is_wrong_use(
    roslens: Roslens, words: list[str | Path]
) -> None:
    check_one_line(roslens(*words), 2, "/dev/null/x")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


@pytest.mark.recording
def test_broken_manifest(roslens: Roslens, copy: Path) -> None:
    (copy / "manifest.json").write_text('{"schema_version": 99}')
    check_one_line(roslens("collect", copy), 2, "manifest.json", "99")


def in_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pydantic compile a pattern while SIGINT is raised."""
    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", lambda *_: signal.raise_signal(signal.SIGINT))
        SchemaValidator(core_schema.str_schema(pattern="a", regex_engine="python-re"))


class Unheard:
    """An object whose __del__ raises: Python has no caller to tell and would print the error."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def in_polars(_: pytest.MonkeyPatch) -> None:
    Unheard()
    raise PanicException("called `Result::unwrap()` on an `Err` value")


@pytest.mark.parametrize("native", [in_pydantic, in_polars])
def test_ctrl_c_within_native_code(
    native: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Native code turns an interruption that comes meanwhile into an error of its own."""
    monkeypatch.setattr(cli, "app", lambda *_, **__: native(monkeypatch))
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)  # not pytest's hook
    # SIGINT is ignored when tests run in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main([])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "roslens: error: interrupted\n"
