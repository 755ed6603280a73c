"""Lock a campaign, so that only one recorder and its guards work on it at a time.

There are two locks, and the kernel releases both however their holders end: one on the campaign's
folder, held by the recorder; one on its plan, held also by the guards of its session daemons. To
resume a campaign whose recorder was killed, roslens thus waits until nothing writes into it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.scratch import lock_of, locked_folder
from roslens.tracing.plan import PLAN_NAME

CLEARING_SECONDS = 60.0
"""How long to wait for a guard, which asks programs to end and kills them after 9 s."""


@contextmanager
def claimed(folder: Path, note: Callable[[str], None] = lambda _: None) -> Iterator[int]:
    """Lock a campaign that has a plan; yield the file descriptor that its guards must hold.

    Raises
    ------
    UsageError
        Another roslens records this campaign.
    RunFailedError
        Processes that a killed recorder left do not end.
    """
    with locked_folder(folder):
        guards = os.open(folder / PLAN_NAME, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _wait(guards, folder, note)
            yield guards
        finally:
            os.close(guards)


def is_claimed(folder: Path) -> bool:
    """Return whether a recorder works on a campaign."""
    with lock_of(folder) as free:
        return free is False


def _wait(descriptor: int, folder: Path, note: Callable[[str], None]) -> None:
    deadline = time.monotonic() + CLEARING_SECONDS
    noted = False
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if not noted:
            note(f"{folder.name}: waiting until what the killed recorder left has ended")
            noted = True
        if time.monotonic() > deadline:
            raise RunFailedError(
                f"{folder}: processes of a killed recorder still run after "
                f"{CLEARING_SECONDS:.0f} s; end them and resume again"
            )
        time.sleep(0.05)
