"""Files of ``/proc``, read without waste.

Standard library only, as `processes`.
"""

from __future__ import annotations

import os

STARTED = 19
"""Field of ``/proc/<pid>/stat`` after the name: when the process began, in ticks since the boot."""
ENDED = (b"Z", b"X")
"""States of a process that has ended: nobody has waited for it yet."""


def read(path: str) -> bytes:
    """A file of ``/proc``, which fits one read; nothing if it cannot be read."""
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


def stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/<pid>/stat`` from the state on.

    Raises
    ------
    OSError
        There is no such process.
    """
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        raise ProcessLookupError(f"no process {pid}")
    return fields


def process_name(pid: int) -> str:
    """The name of a process's main thread; nothing if there is none."""
    return read(f"/proc/{pid}/comm").decode(errors="replace").rstrip("\n")


def number_after(text: bytes, name: bytes) -> int:
    """The number that follows `name`; 0 if it is not there."""
    rest = text.partition(name)[2].split(None, 1)
    return int(rest[0]) if rest else 0


def namespace_id(pid: int) -> int:
    """The id of a process or thread in its own PID namespace."""
    line = read(f"/proc/{pid}/status").partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
    return int(line[-1]) if line else pid
