"""Names in a recording are shown, never obeyed, and any legal name of a folder works."""

import ast
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from roslens.analysis.interop.graph_text import dot, mermaid
from roslens.analysis.statistics.hdr import log
from roslens.recording.terminal import Console, say
from roslens.recording.text import shown
from roslens.summary_text import escaped

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
RUN = next((SAMPLES / "two_process").rglob("manifest.json")).parent
pytestmark = pytest.mark.timeout(240)

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\r\n\x7f\udcff<u>`x`</u>"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\udc80-\udcff]")


def roslens(*arguments: str | bytes | Path, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "roslens", *arguments], capture_output=True, check=False, cwd=cwd
    )


def test_one_function_shows_them() -> None:
    """By hand, from the code points."""
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
    # Rich's own sequences move the cursor; no other is there.
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
    """Into a pipe: a log is looked at in a terminal; a path is for the next program."""
    say(f"The slowest of 2 chains, /{HOSTILE}, takes 2 ms.")
    written = capfd.readouterr().out
    assert not BAD.search(written)
    assert r"/\x1b]0;title\x07" in written
    say(Path("a\x1b"))
    say("export A=\x1b", exact=True)
    assert capfd.readouterr().out == "a\x1b\nexport A=\x1b\n"


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose program, node and one event have names that clear the screen."""
    run = tmp_path_factory.mktemp("hostile") / "run"
    shutil.copytree(RUN, run, ignore=shutil.ignore_patterns("events", "tables"))
    changed = 0
    for path in (run / "trace").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            new = content.replace(b"wl_pubsub", b"w\x1b[2J\r\x07ub")
            new = new.replace(b"talker", b"t\x1b[2Jr")
            if path.name == "metadata":
                new = new.replace(b"ros2:rmw_take", b"ros2:\x1b[2J_ake")
            changed += new != content
            assert len(new) == len(content)
            path.write_bytes(new)
    assert changed > 2
    return run


def test_verbs_show_a_hostile_trace(hostile_run: Path, tmp_path: Path) -> None:
    verbs: list[tuple[str, ...]] = [
        ("info", str(hostile_run)),
        ("info", str(hostile_run), "--json"),
        ("events", str(hostile_run)),
        ("events", str(hostile_run), "--format", "json"),
        ("events", str(hostile_run), "--name", "nothing"),
        ("collect", str(hostile_run)),
        ("chains", str(hostile_run)),
        ("export", "--format", "dot", str(hostile_run), "graph.dot"),
        ("export", "--format", "mermaid", str(hostile_run), "graph.mmd"),
        ("info", "no\x1b[2J"),
    ]
    for verb in verbs:
        done = roslens(*verb, cwd=tmp_path)
        said = (done.stdout + done.stderr).decode()
        assert said or verb[0] == "export"
        assert not BAD.search(said), verb
        assert "Traceback" not in said
    assert rb"w\x1b[2J" in roslens("info", str(hostile_run), cwd=tmp_path).stdout
    assert rb"/t\x1b[2Jr -> " in roslens("chains", str(hostile_run), cwd=tmp_path).stdout
    for file in tmp_path.iterdir():
        assert not BAD.search(file.read_text()), file


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Copies of a run under names that are patterns to some, and one that is no UTF-8."""
    for name in ("a*b", "aXXb", "[old] run", "bad\udcff\udcfe"):
        made = shutil.ignore_patterns("events", "tables")
        shutil.copytree(RUN, tmp_path / name, ignore=made)
    return tmp_path


def test_any_legal_name_works(named: Path) -> None:
    """Each as many rows as any other has: the name makes no difference."""
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
    """Each call of polars that takes patterns is told not to."""
    root = Path(__file__).resolve().parents[2]
    for room in ("src/roslens", "collectors", "analysis", "tracing"):
        for file in (root / room).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    name, given = call.func.attr, ast.unparse(call)
                    if name in {"scan_parquet", "read_parquet", "scan_csv"}:
                        assert "glob=False" in given, (file, given)
                    if name == "read_csv":
                        assert "read_bytes()" in given or "content" in given, (file, given)
