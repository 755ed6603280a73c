"""The standard input of a recorder that one on another host began: it records while that lives."""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

BEAT_SECONDS = 5.0
SILENT_SECONDS = 30.0
STOPPED = "asked to stop by the host that began it"


@dataclass(frozen=True)
class Begun:
    """What a recorder says when it has begun: its version, its absolute folder, its process."""

    roslens: str
    recording: str
    pid: int

    @classmethod
    def read(cls, line: str) -> Self | None:
        """From a line of its output; None where it says something else."""
        try:
            facts = json.loads(line)
            return cls(str(facts["roslens"]), str(facts["recording"]), int(facts["pid"]))
        except (ValueError, TypeError, KeyError):
            return None


class Lifeline:
    """Ends a recording when its input ends, or when nothing came from there for a while.

    A connection that broke off ends no input for hours, hence the second.

    Parameters
    ----------
    stream
        The descriptor to read.
    silent_seconds
        After how many seconds without a byte the other end is taken to be gone.
    """

    def __init__(self, stream: int = 0, silent_seconds: float = SILENT_SECONDS) -> None:
        self._stream, self._silent = stream, silent_seconds
        self._heard = time.monotonic()
        self.lost = False

    def tell(self, folder: Path) -> None:
        """Say that the recording has begun."""
        begun = Begun(version("roslens"), str(folder.resolve()), os.getpid())
        print(json.dumps(asdict(begun)), flush=True)

    def ended(self) -> bool:
        """Whether to stop; `lost` then tells whether the other end has gone without a word."""
        now = time.monotonic()
        if select.select([self._stream], [], [], 0)[0]:
            if not os.read(self._stream, 4096):
                return True
            self._heard = now
        self.lost = now - self._heard > self._silent
        return self.lost
