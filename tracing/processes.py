"""Find a recording's processes by a mark in their environment, and end them.

Only the standard library is used, so that the guard starts quickly and without any package.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from roslens.tracing.proc import ENDED, stat

PROC = Path("/proc")
_POLL_SECONDS = 0.01

Grace = tuple[signal.Signals, float]
"""A signal, and the seconds to wait for processes to end after it."""

GENTLE: tuple[Grace, ...] = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
FIRM: tuple[Grace, ...] = ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


def process_ids() -> list[int]:
    """Return all process ids of this PID namespace."""
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended (a zombie has ended)."""
    try:
        return stat(pid)[0] not in ENDED
    except OSError:
        return False


def members(group: int) -> list[int]:
    """Return the running processes of a process group, or of the session that it started."""
    return [pid for pid in process_ids() if is_member(pid, group)]


def is_member(pid: int, group: int) -> bool:
    """Return whether a process runs and belongs to a process group, or to that group's session."""
    with suppress(OSError):
        state, _, pgrp, session = stat(pid)[:4]
        return str(group).encode() in {pgrp, session} and state not in ENDED
    return False


def marked(mark: str) -> list[int]:
    """Return the running processes, except this one, with ``NAME=VALUE`` in their environment.

    Only processes of this user are visible.
    """
    pids = [pid for pid in process_ids() if has_mark(pid, mark)]
    return [pid for pid in pids if is_running(pid)]


def has_mark(pid: int, mark: str) -> bool:
    """Return whether another process, if readable, has ``NAME=VALUE`` in its environment."""
    with suppress(OSError):
        given = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return mark.encode() in given and pid != os.getpid()
    return False


def end_all(
    find: Callable[[], Iterable[int]],
    graces: Sequence[Grace] = GENTLE,
    *,
    hurry: Callable[[], bool] = lambda: False,
    reap: Callable[[], object] = lambda: None,
) -> list[int]:
    """End processes with increasingly forceful signals.

    Parameters
    ----------
    find
        Returns the processes that still run; called repeatedly, because they may start others.
    graces
        The signals in order, each with the seconds to wait.
    hurry
        Returns whether to proceed to the next signal at once.
    reap
        Called while waiting, to collect exit statuses.

    Returns
    -------
    list of int
        The processes that could not be ended.
    """
    left = list(find())
    for number, seconds in graces:
        if not left:
            break
        for pid in left:
            with suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            reap()
            if not any(is_running(pid) for pid in left):
                break
            if hurry() and number != signal.SIGKILL:
                break
            time.sleep(_POLL_SECONDS)
        left = list(find())
    return left


def end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End a child process with SIGTERM, and after `seconds` with SIGKILL."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
