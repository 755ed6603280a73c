"""Locate the sample recordings, and make copies of them to work on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"
RUN = SAMPLES / "two_process" / "000_r0_fastrtps"
MAIN = "/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink"
"""The chain of ``chain.tar.zst``."""
REQUIRED = f"""
chains:
  - name: main
    path: {MAIN}
    response_time: {{p50: 8 ms, max: 12 ms}}
    rate: 10 Hz
    complete: 99 %
"""
"""What is required of this chain."""


def uncollected(source: Path, target: Path) -> Path:
    """Copy a recording without the files derived from it: its tables and its index of events."""
    made = shutil.ignore_patterns("events", "tables")
    return Path(shutil.copytree(source, target, ignore=made))


def amend(run: Path, **fields: object) -> None:
    """Change fields of a run's manifest."""
    file = run / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
