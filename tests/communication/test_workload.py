"""The rclpy workload, recorded: the truth is what it logs itself."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import roslens as rl
from analysis.communication.report import CommunicationParameters, CommunicationReport
from tracing.suite import SHIPPED

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.live

LAYOUTS: dict[str, dict[str, Any]] = {
    "fan-out": {"publishers": 2, "subscriptions": 3, "payload": 1000},
    "two processes": {"publishers": 1, "payload": 100_000, "processes": 2},
}


def test_counts_are_those_that_the_workload_logged(tmp_path: Path) -> None:
    suite = yaml.safe_load((SHIPPED / "communication.yaml").read_text())
    changes = {
        "factors": {"layout": list(LAYOUTS)},
        "levels": {"layout": {name: {"parameters": value} for name, value in LAYOUTS.items()}},
        "duration": 1,
        "repetitions": 1,
    }
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump(suite | changes))
    command = [sys.executable, "-m", "roslens", "record", "--suite", str(file)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "recordings")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    opened = rl.open(tmp_path / "recordings")
    parameters = CommunicationParameters.checked({"recordings": str(tmp_path)})
    report = CommunicationReport(opened, parameters, ROOT / "data" / "published" / "communication")
    of_layout = {row["layout"]: row for row in report.cells.iter_rows(named=True)}
    for recording, run in zip(opened.recordings, opened.runs, strict=True):
        with (recording.native / "messages.csv").open(newline="") as stream:
            logged = list(csv.DictReader(stream))
        row = of_layout[str(run.cell["layout"])]
        layout = LAYOUTS[str(run.cell["layout"])]
        sent = {(line["topic"], line["sequence"]) for line in logged}
        assert len(logged) == len(sent) * layout.get("subscriptions", 1)
        assert len({topic for topic, _ in sent}) == layout["publishers"]
        assert row["publications"] == len(sent) > 10
        assert row["receptions"] == sum(bool(line["callback_realtime_ns"]) for line in logged)
        assert row["evidence"] == "exact" or row["unknown"]
    both = {(m["publisher_vpid"] == m["subscription_vpid"]) for m in of_two(report)}
    assert both == {False}


def of_two(report: CommunicationReport) -> list[dict[str, Any]]:
    """Messages of the run with two processes."""
    name = next(run.name for run in report.counting if run.cell["layout"] == "two processes")
    return [row for row in report.found.messages.iter_rows(named=True) if row["run"] == name]
