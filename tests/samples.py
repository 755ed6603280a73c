"""The sample recordings, and copies of them to work on."""

from __future__ import annotations

import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"
RUN = SAMPLES / "two_process" / "000_r0_fastrtps"


def uncollected(source: Path, target: Path) -> Path:
    """A copy without what is made of a recording: its tables and its index of events."""
    made = shutil.ignore_patterns("events", "tables")
    return Path(shutil.copytree(source, target, ignore=made))
