"""Test what a plain installation can do: record, count, collect, watch, and judge metrics.

The packages of the extras are blocked here; tests/project/test_wheels.py installs the wheel without
them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import polars as pl
import pytest
from tests.programs import EXTRAS, PLAIN, without_command
from tests.samples import RUN, SAMPLES, uncollected

ROOT = Path(__file__).parents[2]
NO_NUMPY = "roslens: error: numpy is missing: run \"pip install 'roslens[numpy]'\"\n"
DEMO = SAMPLES / "demo"


def without(
    names: tuple[str, ...], *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        without_command(names, *arguments),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uncollected(RUN, tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the metrics.json of a report with the whole installation."""
    out = tmp_path_factory.mktemp("report") / "made"
    done = without((), "report", "latency", DEMO, "-o", out)
    assert done.returncode == 0, done.stderr
    return out / "metrics.json"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("info RUN", 0),
        ("info --check RUN", 0),
        ("events RUN --name ros2:rcl_init", 0),
        ("collect RUN", 0),
        ("compare METRICS METRICS", 3),
        ("check BUDGETS METRICS", 0),
        ("pack RUN -o OUT/run.roslens", 0),
        ("record --suite demo --dry-run", 0),
        ("record --tracer native -o OUT/recorded -- true", 0),
        ("dump --help", 0),
        ("watch --help", 0),
        ("suites", 0),
        ("dev schema", 0),
    ],
)
def test_a_verb_needs_no_extra(
    arguments: str, code: int, run: Path, reports: Path, tmp_path: Path
) -> None:
    budgets = tmp_path / "budgets.yaml"
    budgets.write_text("budgets:\n- latency_p50 < 1 s\n")
    places = {"RUN": run, "METRICS": reports, "BUDGETS": budgets, "OUT": tmp_path}
    done = without(PLAIN, *words_of(arguments, places))
    assert done.returncode == code, done.stdout + done.stderr
    assert "error" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("RUN", 0),
        ("why RUN", 0),
        ("compare RUN RUN", 3),
        ("trend RUN", 3),
        ("chains RUN", 0),
        ("estimates RUN", 0),
        ("export --format perfetto RUN OUT/trace.pftrace", 0),
        ("dev generate OUT/made", 0),
    ],
)
def test_what_analyses_needs_numpy_alone(
    arguments: str, code: int, run: Path, tmp_path: Path
) -> None:
    words = words_of(arguments, {"RUN": run, "OUT": tmp_path})
    done = without(EXTRAS, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "error" not in done.stderr
    shutil.rmtree(tmp_path / "made", ignore_errors=True)
    lacking = without(PLAIN, *words)
    assert (lacking.returncode, lacking.stderr) == (2, NO_NUMPY)


def words_of(arguments: str, places: dict[str, Path]) -> list[str]:
    words = arguments.split()
    for name, place in places.items():
        words = [
            str(place) + word[len(name) :] if word.startswith(name) else word for word in words
        ]
    return words


def test_threads_that_wait_for_each_other_are_collected_without_numpy(tmp_path: Path) -> None:
    sample = SAMPLES / "chain.tar.zst"
    done = without(PLAIN, "collect", sample, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.rglob("executor_intervals.parquet")
    assert "blocked" in pl.read_parquet(path)["state"]


@pytest.mark.parametrize("kernel", ["ftrace", "perf"])
def test_the_kernel_is_not_recorded_without_numpy(kernel: str, tmp_path: Path) -> None:
    """The error comes before the program runs, not when its events are to be converted."""
    command = ("record", "--tracer", "native", "-o", tmp_path / "out", "--kernel")
    done = without(PLAIN, *command, kernel, "--", "touch", tmp_path / "ran")
    assert done.returncode == 2, done.stderr
    assert NO_NUMPY.partition("error: ")[2] in done.stderr
    assert not (tmp_path / "ran").exists()


def test_comparing_says_the_same_with_and_without(reports: Path, tmp_path: Path) -> None:
    """The whole installation is the second opinion."""
    metrics = json.loads(reports.read_text())
    for estimate in metrics["estimates"]:
        for name in ("value", "low", "high"):
            estimate[name] = estimate[name] and 1.3 * estimate[name]
    slower = tmp_path / "metrics.json"
    slower.write_text(json.dumps(metrics))
    light, whole = (without(names, "compare", reports, slower) for names in (PLAIN, ()))
    assert (light.returncode, light.stdout) == (whole.returncode, whole.stdout)
    assert (whole.returncode, "regression" in whole.stdout) == (1, True)


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
    words = [
        tmp_path / argument if str(argument).startswith("OUT") else argument
        for argument in arguments
    ]
    done = without(EXTRAS, *words)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line == f"roslens: error: {lacks} is missing: run \"pip install 'roslens[{extra}]'\""


@pytest.mark.parametrize(
    "arguments",
    [["info", RUN], ["record", "--suite", "demo", "--dry-run"]],
    ids=lambda words: words[0],
)
def test_recording_and_counting_need_no_polars(
    arguments: list[str | Path], run: Path, tmp_path: Path
) -> None:
    # The recording has no tables, from which 'info' would tell what fell silent.
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("tables"))
    words = [tmp_path / "run" if word is RUN else word for word in arguments]
    done = without((*PLAIN, "polars"), *words)
    assert done.returncode == 0, done.stderr


def test_polars_comes_after_what_is_recorded_has_ended(tmp_path: Path) -> None:
    """polars writes the samples beside the program; nothing before that needs it."""
    done = without(
        (*PLAIN, "polars"),
        *("record", "--tracer", "native", "-o", tmp_path / "out", "--", "touch", tmp_path / "ran"),
        TMPDIR=str(tmp_path),
    )
    assert (tmp_path / "ran").is_file()
    assert "polars" in done.stderr


def test_the_extras_are_no_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert not names & set(EXTRAS)
