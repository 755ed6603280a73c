"""Test the JSON of verbs that print results, against the files and the text of these verbs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.programs import roslens
from tests.samples import SAMPLES, uncollected

import roslens as rl
from roslens.analysis.metrics import read_metrics
from roslens.tracing.suite import suite_path

ROOT = Path(__file__).parents[2]


def asked(*words: object) -> Any:
    done = roslens(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a campaign of two runs that are not collected."""
    folder = tmp_path_factory.mktemp("json") / "demo"
    for name in ("000_r0_executor-Events", "001_r0_executor-SingleThreaded"):
        uncollected(SAMPLES / "demo" / name, folder / name)
    return folder


def test_collect_and_export(demo: Path, tmp_path: Path) -> None:
    first = asked("collect", demo)
    assert [row["rebuilt"] for row in first] == [True, True]
    assert [row["rebuilt"] for row in asked("collect", demo)] == [False, False]
    runs = rl.open(demo)
    assert sum(row["rows"]["messages"] for row in first) == runs.messages.collect().height
    graph = tmp_path / "graph.dot"
    answer = asked("export", "--format", "dot", demo, graph)
    assert (answer["file"], answer["size_bytes"]) == (str(graph), graph.stat().st_size)


def test_report(demo: Path, tmp_path: Path) -> None:
    answer = asked("report", "latency", demo, "-o", tmp_path / "report")
    assert answer["answer"] == read_metrics(Path(answer["metrics"])).answer
    assert Path(answer["html"]).parent == Path(answer["folder"]) == tmp_path / "report"


def test_suites() -> None:
    names = {suite["name"] for suite in asked("suites")}
    rooms = (ROOT / "tracing", *(ROOT / "studies").glob("*"))
    assert names == {path.stem for room in rooms for path in room.glob("suites/*.yaml")}
    answer, written = asked("suites", "demo"), yaml.safe_load(suite_path("demo").read_text())
    assert answer["factors"] == written["factors"]
    assert answer["combinations"] == 4


def test_plan_of_a_suite() -> None:
    """By hand: two payloads times two executors times five repetitions."""
    plan = asked("record", "--suite", "demo", "--dry-run", "--seed", "7")
    assert (plan["seed"], len(plan["runs"])) == (7, 20)
    assert {run["factors"]["payload"] for run in plan["runs"]} == {100, 100000}
    assert [run["order"] for run in plan["runs"]] == list(range(20))
    assert {run["repetition"] for run in plan["runs"]} == set(range(5))


@pytest.mark.live
def test_what_was_recorded_is_the_last_line(tmp_path: Path) -> None:
    words = ("record", "--json", "--kernel", "off", "-o", str(tmp_path / "run"), "--", "echo", "hi")
    done = roslens(*words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    (run,) = answer["runs"]
    assert answer["folder"] == str(tmp_path / "run")
    assert (run["status"], run["disturbances"]) == ("complete", manifest["disturbances"])
    assert run["discarded_events"] == manifest["loss"]["discarded_events"] == 0
    assert asked("record", "--status", "-o", tmp_path) == []  # no campaign
