"""Provide what the tests of the storage benchmark share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from roslens.recording.scratch import lock_of
from roslens.studies.storage.results.runs import Facts

ROOT = Path(__file__).parents[2]
RUN = ROOT / "studies" / "storage" / "workloads" / "storage" / "run.py"
SHM = Path("/dev/shm")
ON_SHM = [pytest.mark.live, pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")]
"""Marks of tests that write to /dev/shm."""


@dataclass
class Done:
    """The result of a run of ``run.py``."""

    status: int
    said: str
    folder: Path

    @property
    def facts(self) -> dict:
        return json.loads((self.folder / "run.json").read_text())


Cell = Callable[..., Done]


def left_over() -> list[Path]:
    """Return folders that nobody holds: others may be in use on this machine."""
    folders = []
    for folder in SHM.glob("roslens-storage-*"):
        with lock_of(folder) as free:
            folders += [folder] if free else []
    return folders


def facts_of(**told: object) -> Facts:
    """Make the content of a run's run.json; facts that are not given do not matter."""
    usual = {
        "schema_version": 1,
        "plugin_config": "a",
        "messages": "100B",
        "rss_before_bytes": 0,
        "rss_peak_bytes": 1_000_000,
        "file_system": "tmpfs",
        "tracepoints": False,
        "sqlite_version": "3",
        "mcap_version": "1",
        "rosbag2_version": "0.29.0",
        **dict.fromkeys(("open_ns", "close_ns", "cpu_ns", "content_bytes", "bytes_on_disk"), 1),
        **dict.fromkeys(("crc32", "seed"), 0),
    }
    return Facts.model_validate(usual | told)
