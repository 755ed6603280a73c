"""Test a small storage-recorder campaign: rosbag2's writer compiled, run, and read back."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from storage_cells import ON_SHM, left_over
from tests.rclcpp import need_sources

import roslens as rl
from roslens.studies.storage.report import StorageParameters, StorageReport
from roslens.tracing import campaign
from roslens.tracing.ros_choice import is_sourced
from roslens.tracing.suite import load_suite

pytestmark = ON_SHM


def test_every_message_is_accounted_for(tmp_path: Path) -> None:
    if not is_sourced():
        need_sources("rosbag2")
    before = set(left_over())
    suite, text = load_suite("storage-recorder")
    # A cache of one byte holds one message: others that come while it is written are dropped.
    parameters = {**suite.workload.parameters, "cache": "1B"}
    small = suite.workload.model_copy(update={"parameters": parameters})
    suite = suite.model_copy(update={"workload": small, "duration": 1.0, "repetitions": 1})
    result = campaign.run_campaign(
        suite,
        text,
        root=tmp_path,
        only=[
            *("message_size=10KiB", "rate=20MiB"),
            *("plugin_config=sqlite_default", "plugin_config=mcap_default"),
        ],
    )
    assert [m.failure for m in result.failed] == []
    report = StorageReport(
        rl.open(result.folder), pl.DataFrame(), StorageParameters(recordings=[str(result.folder)])
    )
    assert len(report.recorded) == 2
    for recorded in report.recorded:
        facts = recorded.facts
        # 20 MiB in messages of 10 KiB, by two publishers.
        assert facts.published == 2048
        assert 0 < facts.written == facts.received - facts.lost_in_cache <= facts.published
    # The readers did not write the files.
    readers = {
        recorded.facts.plugin_config: recorded.facts.reader.split()[0]
        for recorded in report.recorded
    }
    assert readers == {"sqlite_default": "sqlite3", "mcap_default": "mcap"}
    assert any("at 20 MiB/s" in line for line in report.sentences())
    assert "written" in str(report.recorder())
    assert set(left_over()) <= before
