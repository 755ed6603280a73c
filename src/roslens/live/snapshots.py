"""Make recordings of a flight recorder's last seconds on triggers, and note each hit."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from roslens.live.triggers import Settings
from roslens.recording import RoslensError, RunFailedError
from roslens.recording.files import write_atomically
from roslens.recording.manifest import Hit
from roslens.tracing.campaign import utc_name
from roslens.tracing.native_tracer.snapshot import record_snapshot


class Snapshots:
    """Snapshots and notes that triggers make.

    Parameters
    ----------
    folder
        The flight recorder's folder; None if everything is recorded: hits make no snapshots.
    output
        The folder for recordings.
    settings
        Delay after a trigger, cooldown, and maximum size.
    noted
        The file that lists all hits; None: no file.

    Attributes
    ----------
    due
        When the next snapshot is due, by `time.monotonic`; None: none is due.

    Raises
    ------
    RunFailedError
        `output` cannot be made.
    """

    def __init__(
        self, folder: Path | None, output: Path, settings: Settings, noted: Path | None = None
    ) -> None:
        self._folder = folder
        self._output = output
        self._settings = settings
        self._noted = noted
        self._hits: list[Hit] = []
        self._last: dict[str, float] = {}
        self.due: float | None = None
        self._waiting: list[Hit] = []
        if folder is not None and settings.triggers:
            try:
                # Make the folder now, not when a snapshot is due.
                output.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise RunFailedError(f"{output}: cannot be made: {error.strerror}") from error

    def outside_cooldown(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits that are not in a cooldown; their snapshot is made some seconds later.

        Raises
        ------
        RunFailedError
            The hits cannot be written to the file.
        """
        now = time.monotonic()
        heeded = []
        for hit in hits:
            last = self._last.get(hit.trigger)
            if last is not None and now - last < self._settings.cooldown_s:
                continue
            self._last[hit.trigger] = now
            heeded.append(hit)
        if heeded and self._noted is not None:
            self._hits += heeded
            try:
                write_atomically(self._noted, json.dumps([hit.model_dump() for hit in self._hits]))
            except OSError as error:
                raise RunFailedError(f"{self._noted}: not written: {error.strerror}") from error
        if heeded and self._folder is not None:
            self._waiting += heeded
            self.due = self.due or now + self._settings.after_s
        return heeded

    def take(self, *, at_once: bool = False) -> str | None:
        """Make a snapshot that is due; return what was made, or why not, or None if none is due."""
        due = self.due is not None and (at_once or time.monotonic() >= self.due)
        if self._folder is None or not due:
            return None
        hits, self._waiting, self.due = self._waiting, [], None
        taken = sum(file.stat().st_size for file in self._output.rglob("*") if file.is_file())
        needed = sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())
        if taken + needed > self._settings.most_mb * 1e6:
            return (
                f"no snapshot: {taken / 1e6:,.0f} MB of them are in {self._output}, and most_mb is "
                f"{self._settings.most_mb:g}"
            )
        name, number = utc_name(), 0
        while (folder := self._output / (f"{name}-{number}" if number else name)).exists():
            number += 1
        try:
            record_snapshot(self._folder, folder, hits)
        except (RoslensError, OSError) as error:
            # There may be room, or a recorder, later.
            shutil.rmtree(folder, ignore_errors=True)
            return f"no snapshot: {error}"
        return f"snapshot {folder}: {'; '.join(dict.fromkeys(hit.trigger for hit in hits))}"
