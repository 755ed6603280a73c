"""What a plain installation can do: all verbs but those of notebooks, pages and pictures.

Here what the extras bring is blocked; tests/project/test_wheels.py installs the wheel without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.samples import RUN, SAMPLES, uncollected

ROOT = Path(__file__).parents[2]
DEMO = SAMPLES / "demo"
EXTRAS = (
    *("IPython", "PIL", "anywidget", "distributed", "duckdb", "fsspec", "hdrh", "ipykernel"),
    *("ipywidgets", "jinja2", "jupyter_client", "jupyterlab", "lz4", "matplotlib", "mcap"),
    *("nbclient", "nbconvert", "nbformat", "pandas", "papermill", "pyarrow", "scipy", "seaborn"),
    *("anyio", "mcp", "opentelemetry", "prometheus_client", "traitlets", "zstandard"),
)
BLOCKED = """
import importlib.abc, sys
class Blocks(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocks())
from roslens.__main__ import run
run()
"""


def without(
    names: tuple[str, ...], *arguments: str | Path, scratch: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **({} if scratch is None else {"TMPDIR": str(scratch)})},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uncollected(RUN, tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The metrics.json of a report, which the whole installation writes."""
    out = tmp_path_factory.mktemp("report") / "made"
    done = without((), "report", "latency", DEMO, "-o", out)
    assert done.returncode == 0, done.stderr
    return out / "metrics.json"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("RUN", 0),
        ("info RUN", 0),
        ("info --check RUN", 0),
        ("events RUN --name ros2:rcl_init", 0),
        ("collect RUN", 0),
        ("why RUN", 0),
        ("compare RUN RUN", 3),
        ("compare METRICS METRICS", 3),
        ("check BUDGETS METRICS", 0),
        ("trend RUN", 3),
        ("chains RUN", 0),
        ("estimates RUN", 0),
        ("export --format perfetto RUN OUT/trace.pftrace", 0),
        ("pack RUN -o OUT/run.roslens", 0),
        ("record --suite demo --dry-run", 0),
        ("record --tracer native -o OUT/recorded -- true", 0),
        ("dump --help", 0),
        ("watch --help", 0),
        ("suites", 0),
        ("dev generate OUT/made", 0),
        ("dev schema", 0),
    ],
)
def test_a_verb_needs_no_extra(
    arguments: str, code: int, run: Path, reports: Path, tmp_path: Path
) -> None:
    budgets = tmp_path / "budgets.yaml"
    budgets.write_text("budgets:\n- latency_p50 < 1 s\n")
    places = {"RUN": run, "METRICS": reports, "BUDGETS": budgets, "OUT": tmp_path}
    words = arguments.split()
    for name, place in places.items():
        words = [str(place) + x[len(name) :] if x.startswith(name) else x for x in words]
    done = without(EXTRAS, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "error" not in done.stderr


def test_comparing_says_the_same_with_and_without(reports: Path) -> None:
    """The whole installation is the second opinion."""
    light = without(EXTRAS, "compare", reports, DEMO)
    whole = without((), "compare", reports, DEMO)
    assert (light.returncode, light.stdout) == (whole.returncode, whole.stdout)


@pytest.mark.parametrize(
    ("arguments", "lacks", "extra"),
    [
        (["report", "latency", RUN], "nbformat", "report"),
        (["compare", DEMO, DEMO, "--plot", "OUT.png"], "matplotlib", "report"),
        (["export", "--format", "mcap", RUN, "OUT.mcap"], "mcap", "report"),
        (["lab"], "jupyterlab", "lab"),
        (["sql", "SELECT 1", RUN], "duckdb", "sql"),
        (["mcp", RUN], "anyio", "mcp"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_verb_that_lacks_its_extra_says_the_line_to_type(
    arguments: list[str | Path], lacks: str, extra: str, tmp_path: Path
) -> None:
    words = [tmp_path / x if str(x).startswith("OUT") else x for x in arguments]
    done = without(EXTRAS, *words)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line == f"roslens: error: {lacks} is missing: run \"pip install 'roslens[{extra}]'\""


@pytest.mark.parametrize(
    "arguments", [["info", RUN], ["record", "--suite", "demo", "--dry-run"]], ids=lambda x: x[0]
)
def test_recording_and_counting_need_no_polars(
    arguments: list[str | Path], run: Path, tmp_path: Path
) -> None:
    # Nothing made tables of it, by which 'info' would tell what fell silent.
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("tables"))
    words = [tmp_path / "run" if word is RUN else word for word in arguments]
    done = without((*EXTRAS, "polars"), *words)
    assert done.returncode == 0, done.stderr


def test_polars_comes_after_what_is_recorded_has_ended(tmp_path: Path) -> None:
    """It writes what was sampled beside the program; nothing before that needs it."""
    done = without(
        (*EXTRAS, "polars"),
        *("record", "--tracer", "native", "-o", tmp_path / "out", "--", "touch", tmp_path / "ran"),
        scratch=tmp_path,
    )
    assert (tmp_path / "ran").is_file()
    assert "polars" in done.stderr


def test_the_extras_are_no_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert not names & set(EXTRAS)
