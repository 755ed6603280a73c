"""End a recorder that another host started when its standard input ends or falls silent."""

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
class BeginMessage:
    """A recorder's message that it has begun: its version, its absolute folder, its process id."""

    roslens: str
    recording: str
    pid: int

    @classmethod
    def read(cls, line: str) -> Self | None:
        """Parse a line of the recorder's output; return None if it is another message."""
        try:
            facts = json.loads(line)
            return cls(str(facts["roslens"]), str(facts["recording"]), int(facts["pid"]))
        except (ValueError, TypeError, KeyError):
            return None


class Lifeline:
    """A watch on a recorder's input: recording ends when the input ends or falls silent.

    The time limit is needed because a broken connection may not end the input for hours.

    Parameters
    ----------
    stream
        The file descriptor to read.
    silent_seconds
        Seconds without a byte after which the other end is considered gone.
    """

    def __init__(self, stream: int = 0, silent_seconds: float = SILENT_SECONDS) -> None:
        self._stream, self._silent = stream, silent_seconds
        self._heard = time.monotonic()
        self.lost = False

    def tell(self, folder: Path) -> None:
        """Announce that the recording has begun."""
        begun = BeginMessage(version("roslens"), str(folder.resolve()), os.getpid())
        print(json.dumps(asdict(begun)), flush=True)

    def ended(self) -> bool:
        """Return whether to stop; `lost` then states whether the other end has gone silently."""
        now = time.monotonic()
        if select.select([self._stream], [], [], 0)[0]:
            if not os.read(self._stream, 4096):
                return True
            self._heard = now
        self.lost = now - self._heard > self._silent
        return self.lost
