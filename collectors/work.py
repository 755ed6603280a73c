"""Steps of a long piece of work that goes on where it was interrupted.

A stage is a sequence of steps, each of which writes files of its own and hands a small state to
the next one. Every few seconds the states and files are brought to the disk; whoever begins again
in the same folder repeats at most what came after that. A step writes the same files each time, so
that one begun twice leaves no trace of the first time.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from roslens.tracing.recording.files import sync, write_atomically

if TYPE_CHECKING:
    import polars as pl

    from roslens.tracing.recording import Recording

State: TypeAlias = "dict[str, pl.DataFrame | int]"
"""What one step tells the next one; small."""

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
        self._useless: list[Path] = []
        self._unsaved: dict[Path, tuple[int, State]] = {}
        self._saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def stage(
        self,
        name: str,
        steps: int,
        step: Callable[[int, State], State],
        start: Mapping[str, pl.DataFrame | int] | None = None,
    ) -> State:
        """Do what is left of a stage; returns the state after its last step.

        Parameters
        ----------
        step
            Called with the number of the step and the state before it.
        start
            The state before the first step.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        done, state = self._load(folder)
        if state is None:
            done, state = 0, dict(start or {})
        for number in range(done, steps):
            self.say(name, number, steps)
            state = step(number, state)
            self._unsaved[folder] = number + 1, state
            if time.monotonic() - self._saved_at >= KEEP_SECONDS:
                self.save()
        return state

    def wrote(self, path: Path) -> None:
        """A step wrote this file: it is on the disk before the step counts as done."""
        self._written[path] = None

    def drop(self, folder: Path) -> None:
        """What lies here is not needed by any later step: remove it once they are the next."""
        self._useless.append(folder)

    def _load(self, folder: Path) -> tuple[int, State | None]:
        try:
            note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0, None
        state: State = dict(note["numbers"])
        if note["frames"]:
            import polars as pl  # noqa: PLC0415  (most memory of a stage that has none)
        for key in note["frames"]:
            state[key] = pl.read_ipc(_path(folder, note["done"], key))
        return note["done"], state

    def save(self) -> None:
        """Bring all that was done to the disk."""
        notes = {}
        for folder, (done, state) in self._unsaved.items():
            frames = {key: x for key, x in state.items() if not isinstance(x, int)}
            for key, frame in frames.items():
                path = _path(folder, done, key)
                frame.write_ipc(path, compression="zstd")
                self.wrote(path)
            numbers = {key: x for key, x in state.items() if key not in frames}
            notes[folder] = {"done": done, "numbers": numbers, "frames": list(frames)}
        for path in self._written:
            sync(path)
        for parent in {path.parent for path in self._written}:
            sync(parent)
        for folder, note in notes.items():
            write_atomically(folder / _NOTE, json.dumps(note))
            for old in set(folder.glob("*.state")) - self._written.keys():
                old.unlink()
        for folder in self._useless:
            shutil.rmtree(folder, ignore_errors=True)
        self._useless.clear()
        self._written.clear()
        self._unsaved.clear()
        self._saved_at = time.monotonic()


def work_of(made: Recording, say: Callable[[str], object]) -> Work:
    """The work that is under way for a new output, which lies beside what is made."""

    def tell(stage: str, done: int, steps: int) -> None:
        say(f"{stage} {done}/{steps}")

    return Work(made.output / "work", tell)


def _path(folder: Path, done: int, key: str) -> Path:
    # The state before must be whole while this one is written.
    return folder / f"{key}-{done}.state"
