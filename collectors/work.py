"""Steps of a long piece of work that goes on where it was interrupted.

A stage is a sequence of steps, each of which writes files of its own. Every few seconds these
files and the number of steps done are brought to the disk; whoever begins again in the same folder
repeats at most what came after that. A step writes the same files each time, so that one begun
twice leaves no trace of the first time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.recording.files import sync, write_atomically

if TYPE_CHECKING:
    from roslens.recording import Recording

_NOTE = "done.json"
KEEP_SECONDS = 5.0


class Work:
    """A folder of stages.

    Parameters
    ----------
    folder
        Of this work alone; made where it is missing.
    say
        Called with the name of a stage, the steps done and how many there are.
    """

    def __init__(self, folder: Path, say: Callable[[str, int, int], object]) -> None:
        self.folder = folder
        self.say = say
        self._written: dict[Path, None] = {}
        self._unsaved: dict[Path, int] = {}
        self._saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def stage(self, name: str, steps: int, step: Callable[[int], object]) -> None:
        """Do what is left of a stage; `step` is called with the number of the step."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for number in range(_done(folder), steps):
            self.say(name, number, steps)
            step(number)
            self._unsaved[folder] = number + 1
            if time.monotonic() - self._saved_at >= KEEP_SECONDS:
                self.save()

    def wrote(self, path: Path) -> None:
        """A step wrote this file: it is on the disk before the step counts as done."""
        self._written[path] = None

    def save(self) -> None:
        """Bring all that was done to the disk."""
        for path in self._written:
            sync(path)
        for parent in {path.parent for path in self._written}:
            sync(parent)
        for folder, done in self._unsaved.items():
            write_atomically(folder / _NOTE, json.dumps({"done": done}))
        self._written.clear()
        self._unsaved.clear()
        self._saved_at = time.monotonic()


def _done(folder: Path) -> int:
    """How many steps of a stage are done."""
    try:
        return int(json.loads((folder / _NOTE).read_text(encoding="utf-8"))["done"])
    except (OSError, ValueError):
        return 0


def work_of(made: Recording, say: Callable[[str], object]) -> Work:
    """The work that is under way for a new output, which lies beside what is made."""

    def tell(stage: str, done: int, steps: int) -> None:
        say(f"{stage} {done}/{steps}")

    return Work(made.output / "work", tell)
