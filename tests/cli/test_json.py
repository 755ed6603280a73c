"""Verbs that print results print them as JSON, too: against what else these verbs leave and say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import roslens as rl
from roslens.analysis.metrics import read_metrics
from roslens.tracing.suite import SHIPPED

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def asked(*words: object) -> Any:
    command = [sys.executable, "-m", "roslens", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, not collected."""
    folder = tmp_path_factory.mktemp("json") / "demo"
    for name in ("000_r0_executor-Events", "001_r0_executor-SingleThreaded"):
        uncollected = shutil.ignore_patterns("tables", "events")
        shutil.copytree(SAMPLES / "demo" / name, folder / name, ignore=uncollected)
    return folder


def test_collect_and_export(demo: Path, tmp_path: Path) -> None:
    first = asked("collect", demo)
    assert [row["rebuilt"] for row in first] == [True, True]
    assert [row["rebuilt"] for row in asked("collect", demo)] == [False, False]
    runs = rl.open(demo)
    assert sum(row["rows"]["messages"] for row in first) == runs.messages.collect().height
    graph = tmp_path / "graph.dot"
    told = asked("export", "--format", "dot", demo, graph)
    assert (told["file"], told["size_bytes"]) == (str(graph), graph.stat().st_size)


def test_report(demo: Path, tmp_path: Path) -> None:
    told = asked("report", "latency", demo, "-o", tmp_path / "report")
    assert told["answer"] == read_metrics(Path(told["metrics"])).answer
    assert Path(told["html"]).parent == Path(told["folder"]) == tmp_path / "report"


def test_suites() -> None:
    names = {x["name"] for x in asked("suites")}
    assert names == {path.stem for path in SHIPPED.glob("*.yaml")}
    told, written = asked("suites", "demo"), yaml.safe_load((SHIPPED / "demo.yaml").read_text())
    assert told["factors"] == written["factors"]
    assert told["combinations"] == 4
