"""The suite micro-ros from recording to report, in small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from board_tools import on_board
from rich.console import Console

from roslens.report import run_report
from roslens.tracing.suite import SHIPPED, load_suite


def test_the_shipped_suite_names_its_notebook_and_needs_no_ros() -> None:
    suite, _ = load_suite("micro-ros")
    assert suite.report == "micro_ros"
    assert suite.workload.ros == "none"
    assert suite.repetitions >= 3


@pytest.mark.live
@on_board
def test_recorded_collected_reported(tmp_path: Path) -> None:
    suite = yaml.safe_load((SHIPPED / "micro-ros.yaml").read_text())
    suite["factors"] = {"part": ["service", "tcp"]}
    suite["repetitions"], suite["duration"] = 1, 1
    suite["workload"]["parameters"] |= {"counts": "1,2,4", "payloads": "100"}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(suite))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "roslens", "record", "--suite", str(path)),
            *("--name", "c", "--output", str(tmp_path / "recordings")),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    campaign = Path(run.stdout.splitlines()[-1])
    result = run_report("micro_ros", [campaign], tmp_path / "out", {}, Console(quiet=True))
    slopes = pl.read_csv(result.folder / "slopes.csv")
    assert dict(slopes.select("memory", "slope").iter_rows()) == pytest.approx(
        {"static": 184, "stack": 16, "dynamic": 320, "total": 520}, abs=1e-6
    )
    assert result.metrics is not None
    metrics = json.loads(result.metrics.read_text())
    assert [r["counts"] for r in metrics["recordings"]] == [True, True]
    found = {e["metric"] for e in metrics["estimates"] if e["cell"].get("transport") == "tcp"}
    assert {"throughput", "client_latency_p50", "rtt_p99", "clock_offset"} <= found
    # The device's own trace is collected with the run's.
    (events,) = campaign.glob("*/events/device/entity_created.parquet")
    assert pl.read_parquet(events).height == 1 + 2 + 4
    # A run without any trace is a run all the same.
    assert not list(campaign.glob("*tcp/events/*/*.parquet"))
