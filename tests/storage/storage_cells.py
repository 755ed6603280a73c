"""What tests of the storage benchmark share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from roslens.recording.scratch import _held

ROOT = Path(__file__).parents[2]
RUN = ROOT / "studies" / "storage" / "workloads" / "storage" / "run.py"
SHM = Path("/dev/shm")


@dataclass
class Done:
    """What a run of ``run.py`` gave."""

    status: int
    said: str
    folder: Path

    @property
    def facts(self) -> dict:
        return json.loads((self.folder / "run.json").read_text())


Cell = Callable[..., Done]


def left_over() -> list[Path]:
    """Those that nobody holds: others may be under way on this machine."""
    found = []
    for folder in SHM.glob("roslens-storage-*"):
        with _held(folder) as free:
            found += [folder] if free else []
    return found
