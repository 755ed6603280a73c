"""Collect within limits: in a separate process that is watched, and killed beyond a limit.

Whatever a hostile or broken recording does to that process (memory without end, a crash of native
code, the kernel's out-of-memory killer) costs this one recording and one line of output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roslens.collectors import store
from roslens.recording import Recording, RoslensError, RunFailedError, UsageError

_LOOK_SECONDS = 0.05
_WORDS_OF_A_CRASH = 200


@dataclass(frozen=True)
class Limits:
    """Limits of the collection of one recording; None for no limit.

    Attributes
    ----------
    seconds
        Wall time from start to end.
    memory_bytes
        Resident memory of the process.
    output_bytes
        Size of events and tables on disk.
    """

    seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return any(
            limit is not None for limit in (self.seconds, self.memory_bytes, self.output_bytes)
        )

    def exceeded(self, seconds: float, memory_bytes: int, output_bytes: int) -> str | None:
        """Return the exceeded limit in words; None if there is none."""
        if self.seconds is not None and seconds > self.seconds:
            return f"took more than {self.seconds:g} s"
        if self.memory_bytes is not None and memory_bytes > self.memory_bytes:
            return f"took more than {_mib(self.memory_bytes)} of memory"
        if self.output_bytes is not None and output_bytes > self.output_bytes:
            return f"wrote more than {_mib(self.output_bytes)}"
        return None


def run_limited(
    recording: Recording,
    options: Mapping[str, Any],
    limits: Limits,
    say: Callable[[str], None],
    done: Callable[[int, int], object] | None,
) -> None:
    """Collect a recording in a process that is killed when it exceeds a limit.

    Parameters
    ----------
    options
        Options of `roslens.collectors.collection.collect`: ``threads``, ``events_only``,
        ``excerpt`` (as plain data).
    say, done
        `progress` and `done` of that function.

    Raises
    ------
    UsageError, RunFailedError
        The error that the process reports; RunFailedError also for a limit or a crash.
    """
    asked = {"path": str(recording.path), "output": str(recording.output), **options}
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "roslens.collectors.collection", json.dumps(asked)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        output = _ProcessOutput(process, say, done)
        try:
            beyond = _watch(process, recording, limits, begin)
        finally:
            process.kill()
            process.wait()
        output.join()
    # Locking removes the unfinished output; the lock is free because the process is dead.
    with store.locked(recording):
        pass
    if beyond is not None:
        raise RunFailedError(f"{recording.path}: collecting {beyond}; give a higher limit")
    if output.error is not None:
        raise output.error
    if process.returncode:
        raise RunFailedError(f"{recording.path}: collecting {_death(process.returncode, output)}")


class _ProcessOutput:
    """The output of the process, read by threads as it is printed."""

    def __init__(
        self,
        process: subprocess.Popen[str],
        say: Callable[[str], None],
        done: Callable[[int, int], object] | None,
    ) -> None:
        self.error: RoslensError | None = None
        self.crash = ""
        self._say, self._done = say, done
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def join(self) -> None:
        for reader in self._readers:
            reader.join()

    def _read(self, lines: Any) -> None:
        for line in lines:
            match json.loads(line):
                case ["step", str(step)]:
                    self._say(step)
                case ["done", int(done), int(total)] if self._done is not None:
                    self._done(done, total)
                case ["error", int(code), str(text)]:
                    kind = UsageError if code == UsageError.exit_code else RunFailedError
                    self.error = kind(text)

    def _read_errors(self, lines: Any) -> None:
        for line in lines:
            self.crash = line.strip() or self.crash


def _watch(
    process: subprocess.Popen[str], recording: Recording, limits: Limits, begin: float
) -> str | None:
    """Wait until the process ends or exceeds a limit, which is returned in words."""
    import psutil  # noqa: PLC0415  (without limits there is nothing to watch)

    watched = psutil.Process(process.pid)
    while True:
        try:
            process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        else:
            return None
        try:
            memory = watched.memory_info().rss
        except psutil.Error:
            continue
        written = sum(map(_folder_size, store.leftovers(recording))) if limits.output_bytes else 0
        beyond = limits.exceeded(time.monotonic() - begin, memory, written)
        if beyond is not None:
            return beyond


def _folder_size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total


def _death(code: int, output: _ProcessOutput) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"crashed ({name}); the recording may be damaged, or memory too small"
    return f"crashed: {output.crash[:_WORDS_OF_A_CRASH]}"


def _mib(number: int) -> str:
    return f"{number / 2**20:,g} MiB"
