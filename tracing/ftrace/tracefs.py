"""The kernel's tracing folder, and what in it is ours.

An instance has a name that tells its recorder: pid namespace, process, when that began. What a
killed recorder left is so found by the next one, and nothing else is ever touched. Only the
standard library is imported: the guard removes an instance with it.
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
from roslens.tracing.proc import ENDED, STARTED, stat

MOUNTED = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
HOW = "run it as root, in a container with --privileged"
PROBES = "roslens_"
"""How the groups of probes of ours begin."""
_NAME = re.compile(r"roslens[-_](\d+)[-_](\d+)[-_](\d+)[-_]([0-9a-f]{8})")
# The numbers of these calls are the same on all architectures (Linux 5.2).
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CREATE, _CLOSE_ON_EXEC = 6, 1
_BUSY_SECONDS = 3.0


@contextmanager
def tracefs() -> Iterator[Path]:
    """The kernel's tracing folder, for as long as the context lasts.

    Where it is mounted nowhere, root gets a mount that has no place in the tree and ends with its
    descriptor, so that nobody has to unmount it.

    Raises
    ------
    OSError
        It cannot be had.
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
    """Why the kernel cannot be recorded by ftrace, on one line; None if it can be."""
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
    """A name for an instance of this process, which nobody else uses."""
    return f"roslens-{_namespace()}-{os.getpid()}-{_began(os.getpid())}-{secrets.token_hex(4)}"


def group_of(name: str) -> str:
    """The group of the probes that belong to an instance."""
    return name.replace("-", "_")


def write(path: Path, text: str) -> None:
    """Write a control file, in one piece.

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
    """Remove an instance and its probes; nothing happens where there are none."""
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
            # Whoever was killed a moment ago may still hold one of its files.
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
    """The same where the folder is not at hand."""
    with suppress(OSError), tracefs() as root:
        remove(root, name)


def remove_leftovers() -> list[str]:
    """Remove what recorders of ours left that are gone; returns the names of their instances."""
    with suppress(OSError), tracefs() as root:
        names = {path.name for path in (root / "instances").iterdir()}
        names |= {path.name.replace("_", "-") for path in (root / "events").glob(f"{PROBES}*")}
        leftovers = sorted(filter(_is_left, names))
        for name in leftovers:
            remove(root, name)
        return leftovers
    return []


def _is_left(name: str) -> bool:
    match = _NAME.fullmatch(name)
    # Of another namespace the processes cannot be seen.
    if match is None or int(match[1]) != _namespace():
        return False
    return _began(int(match[2])) != int(match[3])


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _began(pid: int) -> int:
    """When a process began, in ticks since the boot; -1 if there is none."""
    try:
        fields = stat(pid)
    except OSError:
        return -1
    # One that was killed and that nobody has waited for holds nothing any more.
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
