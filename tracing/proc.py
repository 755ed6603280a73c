"""Read files of ``/proc`` cheaply.

Only the standard library is used, as in `processes`.
"""

from __future__ import annotations

import os
from pathlib import Path

STARTED = 19
"""Field of ``/proc/<pid>/stat`` after the name: start time of the process in ticks since boot."""
ENDED = (b"Z", b"X")
"""States of an ended process that has not been waited for."""


def read(path: str) -> bytes:
    """Return a file of ``/proc`` that fits into one read, or nothing if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def own_namespace() -> int:
    """Return the number of the PID namespace of this process."""
    return Path("/proc/self/ns/pid").stat().st_ino


def stat(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/<pid>/stat``, beginning with the state.

    Raises
    ------
    OSError
        The process does not exist.
    """
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        raise ProcessLookupError(f"no process {pid}")
    return fields


def process_name(pid: int) -> str:
    """Return the name of a process's main thread, or nothing if it does not exist."""
    return read(f"/proc/{pid}/comm").decode(errors="replace").rstrip("\n")


def number_after(text: bytes, name: bytes) -> int:
    """Return the number that follows `name`, or 0 if the name is missing."""
    rest = text.partition(name)[2].split(None, 1)
    return int(rest[0]) if rest else 0


def environment(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started.

    Raises
    ------
    OSError
        The process is gone, or belongs to another user.
    """
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 (as for all files here)
        words = file.read().decode(errors="replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def namespace_id(pid: int) -> int:
    """Return the id of a process or thread in its own PID namespace."""
    return innermost(read(f"/proc/{pid}/status"), b"\nNSpid:", pid)


def innermost(status: bytes, name: bytes, otherwise: int) -> int:
    """Return the id in the innermost PID namespace that follows `name` in a ``status``."""
    line = status.partition(name)[2].partition(b"\n")[0].split()
    return int(line[-1]) if line else otherwise
