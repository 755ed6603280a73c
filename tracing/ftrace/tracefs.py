"""Access the kernel's tracing folder, and the instances in it that belong to roslens.

An instance's name identifies its recorder: pid namespace, process, start time of the process. So
a recorder finds what a killed one left, and nothing else is ever touched. Only the standard
library is imported, because the guard uses this module to remove an instance.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roslens.recording.arrays import why_no_numpy
from roslens.tracing.proc import ENDED, STARTED, own_namespace, stat

MOUNTED = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
HOW = "run it as root, in a container with --privileged"
PROBES = "roslens_"
"""Prefix of the groups of our probes."""
_NAME = re.compile(r"roslens[-_](\d+)[-_](\d+)[-_](\d+)[-_]([0-9a-f]{8})")
# These system calls have the same numbers on all architectures (Linux 5.2).
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CREATE, _CLOSE_ON_EXEC = 6, 1
_BUSY_SECONDS = 3.0


@contextmanager
def tracefs() -> Iterator[Path]:
    """Yield the kernel's tracing folder, for as long as the context lasts.

    If it is not mounted, root gets a mount that is not part of the file tree and ends with its
    descriptor, so that nobody has to unmount it.

    Raises
    ------
    OSError
        The folder is not available.
    """
    for path in MOUNTED:
        if (path / "instances").is_dir():
            yield path
            return
    descriptor = _detached_mount()
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def why_no_ftrace() -> str | None:
    """Return in one line why ftrace cannot record the kernel, or None if it can."""
    try:
        with tracefs() as root:
            if os.access(root / "instances", os.W_OK):
                lacking = why_no_numpy()
                return lacking and f"no kernel trace by ftrace: {lacking}"
            reason = "the kernel's tracing folder is not yours to write"
    except PermissionError:
        reason = "the kernel's tracing folder cannot be mounted or read"
    except OSError as error:
        reason = f"there is no tracefs ({error.strerror})"
    return f"no kernel trace by ftrace: {reason}; {HOW}"


def new_name() -> str:
    """Return a unique name for an instance of this process."""
    own = os.getpid()
    return f"roslens-{own_namespace()}-{own}-{_start_ticks(own)}-{secrets.token_hex(4)}"


def group_of(name: str) -> str:
    """Return the group of the probes that belong to an instance."""
    return name.replace("-", "_")


def write(path: Path, text: str) -> None:
    """Write a control file in a single write.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def remove(root: Path, name: str) -> None:
    """Remove an instance and its probes, if they exist."""
    if _NAME.fullmatch(name) is None:
        return
    instance = root / "instances" / name
    with suppress(OSError):
        write(instance / "tracing_on", "0")
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            instance.rmdir()
        except OSError as error:
            # A recorder that was just killed may still hold one of the instance's files.
            if error.errno == errno.EBUSY and time.monotonic() < until:
                time.sleep(0.05)
                continue
        break
    group = group_of(name)
    with suppress(OSError):
        for probe in sorted((root / "events" / group).iterdir()):
            if probe.is_dir():
                with suppress(OSError):
                    write(root / "uprobe_events", f"-:{group}/{probe.name}\n")


def remove_by_name(name: str) -> None:
    """Remove an instance and its probes when the tracing folder is not mounted yet."""
    with suppress(OSError), tracefs() as root:
        remove(root, name)


def remove_leftovers() -> list[str]:
    """Remove the instances and probes of recorders that are gone; return the instances' names."""
    with suppress(OSError), tracefs() as root:
        names = {path.name for path in (root / "instances").iterdir()}
        names |= {path.name.replace("_", "-") for path in (root / "events").glob(f"{PROBES}*")}
        leftovers = sorted(filter(_is_leftover, names))
        for name in leftovers:
            remove(root, name)
        return leftovers
    return []


def _is_leftover(name: str) -> bool:
    match = _NAME.fullmatch(name)
    # Processes of another namespace are not visible.
    if match is None or int(match[1]) != own_namespace():
        return False
    return _start_ticks(int(match[2])) != int(match[3])


def _start_ticks(pid: int) -> int:
    """Return when a process began, in ticks since boot; -1 if it does not exist."""
    try:
        fields = stat(pid)
    except OSError:
        return -1
    # A killed process that has not been waited for holds no files any more.
    return -1 if fields[0] in ENDED else int(fields[STARTED])


def _detached_mount() -> int:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        result = int(libc.syscall(number, *arguments))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    context = call(_FSOPEN, b"tracefs", _CLOSE_ON_EXEC)
    try:
        call(_FSCONFIG, context, _CREATE, None, None, 0)
        return call(_FSMOUNT, context, _CLOSE_ON_EXEC, 0)
    finally:
        os.close(context)
