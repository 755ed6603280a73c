"""Test the rclpy workload, recorded, against what it logs itself."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.record_suite import record_changed

import roslens as rl
from roslens.analysis.runs import Run
from roslens.studies.communication.published import published_cell, read_published
from roslens.studies.communication.report import (
    CommunicationParameters,
    CommunicationReport,
)
from roslens.tracing.suite import load_suite, with_changes

ROOT = Path(__file__).parents[2]

FACTORS: dict[str, list[Any]] = {
    "publishers": [2],
    "payload": [1000],
    "subscriptions": [1, 3],
    "processes": [1, 2],
}
EXCLUDED = [{"subscriptions": 1, "processes": 1}, {"subscriptions": 3, "processes": 2}]


@pytest.mark.live
def test_counts_are_those_that_the_workload_logged(tmp_path: Path) -> None:
    changes = {"factors": FACTORS, "exclude": EXCLUDED, "duration": 1, "repetitions": 1}
    opened = rl.open(record_changed("communication", tmp_path, changes))
    parameters = CommunicationParameters.checked({"recordings": str(tmp_path)})
    report = CommunicationReport(opened, parameters, ROOT / "studies" / "communication" / "data")
    rows = {row["run"]: row for row in report.cells.iter_rows(named=True)}
    assert len(opened.runs) == len(rows) == 2
    for recording, run in zip(opened.recordings, opened.runs, strict=True):
        with (recording.native / "messages.csv").open(newline="") as stream:
            logged = list(csv.DictReader(stream))
        row = rows[run.name]
        sent = {(line["topic"], line["sequence"]) for line in logged}
        assert {topic for topic, _ in sent} == {"/topic_0", "/topic_1"}
        assert len(logged) == len(sent) * int(run.cell["subscriptions"])
        assert row["publications"] == len(sent) > 10
        assert row["receptions"] == sum(bool(line["callback_realtime_ns"]) for line in logged)
        assert row["evidence"] == "exact" or row["unknown"]
        messages = report.analysed.messages.filter(pl.col("run") == run.name)
        together = messages["publisher_vpid"] == messages["subscription_vpid"]
        assert together.unique().to_list() == [run.cell["processes"] == 1]


def test_the_published_number_of_messages_fits_into_the_time_limit() -> None:
    """10,000 messages per publisher (the study's README) take 100 s at 100 Hz.

    They take longer if the period is longer, as it was in the study.
    """
    suite = with_changes(load_suite("communication-rclcpp")[0], {"duration": 100})
    assert suite.duration * float(suite.workload.parameters["rate"]) == 10_000
    published = read_published(ROOT / "studies" / "communication" / "data")
    longest = published["publisher_period_ms"].max()
    assert isinstance(longest, float)
    assert suite.limit_seconds > 2 * 10_000 * longest / 1000
    assert "'--duration 100'" in suite.description


@pytest.mark.parametrize(("name", "count"), [("communication", 5), ("communication-rclcpp", 28)])
def test_the_suites_have_the_cells_of_the_study_and_two_layouts_more(name: str, count: int) -> None:
    suite, _ = load_suite(name)
    cells = list(suite.combinations())
    assert len(cells) == count
    layouts = {(c["publishers"], c["payload"], c["subscriptions"], c["processes"]) for c in cells}
    # In addition there are loaned messages, whose size is fixed.
    loaned = {(1, 8, 1, 1), (1, 8, 1, 2)} if name == "communication-rclcpp" else set()
    assert layouts - loaned == {
        (100, 100_000, 1, 1),
        (10, 1_000_000, 1, 1),
        (1, 10_000_000, 1, 1),
        (1, 100_000, 50, 1),
        (1, 100_000, 1, 2),
    }
    assert loaned <= layouts
    published = {published_cell(Run("r", cell=cell)) for cell in cells} - {None}
    assert len(published) == (4 if name == "communication-rclcpp" else 0)
