"""Test that names in a recording are shown, never obeyed, and that any folder name works."""

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text
from tests.programs import roslens_command
from tests.samples import RUN, uncollected

import roslens as rl
from roslens.analysis.interop.graph_text import dot, mermaid
from roslens.analysis.statistics.hdr import log
from roslens.printed import escaped
from roslens.recording.terminal import Console, say
from roslens.recording.text import shown

pytestmark = pytest.mark.timeout(240)

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\r\n\x7f\udcff<u>`x`</u>"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\udc80-\udcff]")


def roslens(*arguments: str | bytes | Path, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "roslens", *arguments], capture_output=True, check=False, cwd=cwd
    )


def in_terminal(*arguments: str, cwd: Path) -> str:
    """Return a verb's output in a terminal to which rich sends no sequences of its own."""
    ours, its = os.openpty()
    written = bytearray()
    with subprocess.Popen(
        roslens_command(*arguments),
        stdin=subprocess.DEVNULL, stdout=its, stderr=its, cwd=cwd,
        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"},
    ):  # fmt: skip
        os.close(its)
        # The terminal is gone when the last process that writes to it is.
        with suppress(OSError):
            while block := os.read(ours, 1 << 16):
                written += block
    os.close(ours)
    return written.decode(errors="surrogateescape").replace("\r\n", "\n")


def test_one_function_shows_them() -> None:
    """Expected texts are made by hand, from the code points."""
    assert shown("a\x1b[31mb\x07\x9b\u202e\udcff\n") == r"a\x1b[31mb\x07\x9b\u202e\xff\x0a"
    assert shown("a\tb\nc\r", lines=True) == "a\tb\nc\\x0d"
    assert shown("/täg 日本") == "/täg 日本"


def test_no_text_that_we_write_holds_any() -> None:
    table = Table(HOSTILE)
    table.add_row(Text(HOSTILE))
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=200)
    console.print(HOSTILE, markup=False)
    console.print(table)
    with Progress(TextColumn(HOSTILE, markup=False), console=console) as bar:
        bar.add_task(HOSTILE, total=1)
    # Rich's own sequences move the cursor; there are no others.
    text = re.sub(r"\x1b\[(\?25[lh]|[12]?[AK])", "", file.getvalue())
    assert not BAD.search(text.replace("\r", ""))
    graph = pl.DataFrame(
        {"node": ["/" + HOSTILE[:20]], "topic": ["/<u>\x1b"], "publishes": [True], "count": [1]}
    )
    for text in (dot(graph), mermaid(graph), log({HOSTILE: [1, 2]}), escaped(HOSTILE)):
        assert not BAD.search(text)
    assert "<" not in mermaid(graph)
    assert mermaid(graph).splitlines()[2] == '  t0(["/#60;u#62;\\x1b"])'


def test_sentences_are_shown_and_paths_are_exact(capfd: pytest.CaptureFixture[str]) -> None:
    """Sentences in a pipe may be viewed in a terminal; a path is for the next program."""
    say(f"The slowest of 2 chains, /{HOSTILE}, takes 2 ms.")
    written = capfd.readouterr().out
    assert not BAD.search(written)
    assert r"/\x1b]0;title\x07" in written
    say(Path("a\x1b"))
    say("export A=\x1b", exact=True)
    assert capfd.readouterr().out == "a\x1b\nexport A=\x1b\n"


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a recording whose program, node, topic and one event have names a terminal obeys."""
    run = uncollected(RUN, tmp_path_factory.mktemp("hostile") / "r\x1b]0;\x07\u202en")
    changed = 0
    for path in (run / "trace").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            new = content.replace(b"wl_pubsub", b"w\x1b]\x07\xe2\x80\xaeub")
            new = new.replace(b"talker", b"t\x1b\x07\xe2\x80\xae")
            new = new.replace(b"/data\0", b"/\x07\xe2\x80\xae\0")
            if path.name == "metadata":
                new = new.replace(b"ros2:rmw_take", b"ros2:\x1b[2J_ake")
            changed += new != content
            assert len(new) == len(content)
            path.write_bytes(new)
    assert changed > 2
    return run


@pytest.mark.timeout(900)
def test_verbs_show_a_hostile_trace(hostile_run: Path, tmp_path: Path) -> None:
    verbs: list[tuple[str, ...]] = [
        ("info", str(hostile_run)),
        ("info", str(hostile_run), "--json"),
        ("events", str(hostile_run)),
        ("events", str(hostile_run), "--format", "json"),
        ("events", str(hostile_run), "--name", "nothing"),
        ("collect", str(hostile_run)),
        ("why", str(hostile_run)),
        ("why", str(hostile_run), "--json"),
        ("info", "--check", str(hostile_run)),
        ("sql", "select distinct topic, node from messages", str(hostile_run)),
        ("chains", str(hostile_run)),
        ("compare", str(hostile_run), str(hostile_run)),
        ("check", "budgets.yaml", str(hostile_run)),
        ("catalog", str(hostile_run.parent)),
        ("trend", str(hostile_run.parent)),
        ("watch", str(hostile_run), "--once"),
        ("snapshot", str(hostile_run), "-o", "snapshot"),
        ("merge", str(hostile_run), str(hostile_run), "-o", "merged"),
        ("report", "communication", str(hostile_run), "-o", "report"),
        ("report", "latency", str(hostile_run), "-o", "report"),
        ("index", "report"),
        ("pack", str(hostile_run), "-o", "x.tar.zst"),
        ("unpack", "x.tar.zst", "unpacked"),
        ("export", "--format", "dot", str(hostile_run), "graph.dot"),
        ("export", "--format", "mermaid", str(hostile_run), "graph.mmd"),
        ("info", "no\x1b[2J"),
    ]
    (tmp_path / "budgets.yaml").write_text("budgets:\n- latency_p99 < 50 ms\n")
    by_verb = {verb: in_terminal(*verb, cwd=tmp_path) for verb in verbs}
    assert {verb: match[0] for verb, text in by_verb.items() if (match := BAD.search(text))} == {}
    for verb, text in by_verb.items():
        assert text or verb[0] == "export"
        assert "Traceback" not in text
        assert "error of roslens itself" not in text
    assert r"w\x1b]\u202eub (" in by_verb["info", str(hostile_run)]
    assert r"/t\x1b\u202e -> " in by_verb["chains", str(hostile_run)]
    files = [
        path
        for path in tmp_path.rglob("*")
        if path.suffix in {".html", ".md", ".json", ".dot", ".mmd"}
    ]
    assert {path.suffix for path in files} == {".html", ".md", ".json", ".dot", ".mmd"}
    assert [file for file in files if BAD.search(file.read_text())] == []
    notebooks = [json.loads(path.read_text()) for path in (tmp_path / "report").glob("*.ipynb")]
    outputs = [
        output
        for notebook in notebooks
        for cell in notebook["cells"]
        for output in outputs_of(cell)
    ]
    assert len(outputs) > 20
    assert not BAD.search("".join(outputs))
    assert r"/\x07\u202e" in "".join(outputs)


def outputs_of(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the outputs of an executed notebook's cell, as texts."""
    for output in cell.get("outputs", ()):
        for part in (*output.get("data", {}).values(), output.get("text", "")):
            yield "".join(part) if isinstance(part, list) else str(part)


def test_what_an_interpreter_shows_holds_none(hostile_run: Path) -> None:
    """In a terminal a repr is printed as it is."""
    opened = rl.open(hostile_run)
    nouns = (opened.latency, opened.chains, opened.callbacks, opened.loss, opened.why)
    for thing in (opened, *nouns):
        assert not BAD.search(repr(thing)), type(thing)
    assert r"/\x07\u202e" in repr(opened) + repr(opened.latency)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Copy a run under names that are patterns to some programs, and one that is not UTF-8."""
    for name in ("a*b", "aXXb", "[old] run", "bad\udcff\udcfe"):
        uncollected(RUN, tmp_path / name)
    return tmp_path


def test_any_legal_name_works(named: Path) -> None:
    """Each run has the same number of rows: the name makes no difference."""
    rows = set()
    for name in ("aXXb", "a*b", "[old] run", "bad\udcff\udcfe"):
        out = f"{name}.csv"
        done = roslens("export", "--format", "csv", "--table", "messages", name, out, cwd=named)
        assert done.returncode == 0, done.stderr
        rows.add((named / out).read_bytes().count(b"\n"))
    assert len(rows) == 1
    for verb in (["pack"], ["report", "latency"]):
        done = roslens(*verb, "bad\udcff\udcfe", cwd=named)
        assert done.returncode == 0, done.stderr
    done = roslens("unpack", "bad\udcff\udcfe.tar.zst", "there\udcff", cwd=named)
    assert done.returncode == 0, done.stderr
    assert (named / "there\udcff" / "bad\udcff\udcfe" / "manifest.json").is_file()
    done = roslens("catalog", ".", cwd=named)
    assert done.returncode == 2
    assert rb"bad\xff\xfe: its name is no text" in done.stderr


def test_no_path_is_taken_for_a_pattern() -> None:
    """Each call of polars that takes patterns disables them."""
    root = Path(__file__).resolve().parents[2]
    for room in ("src/roslens", "collectors", "analysis", "studies", "tracing"):
        for file in (root / room).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    name, given = call.func.attr, ast.unparse(call)
                    if name in {"scan_parquet", "read_parquet", "scan_csv"}:
                        assert "glob=False" in given, (file, given)
                    if name == "read_csv":
                        assert "read_bytes()" in given or "content" in given, (file, given)
