"""Shared memory that Fast DDS leaves behind when a process is killed.

Fast DDS moves messages between processes through files in ``/dev/shm``. A process that ends
well removes its own; one that is killed does not. Each segment and each port has a lock file
(``..._el``) that its owner holds as long as it lives, so one without an owner can be told.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_OWNED = re.compile(r"(fast(?:dds|rtps)_(?:[0-9a-f]{16}|port[0-9]+))_el")
_SETTLED_SECONDS = 0.2  # between a lock file's creation and its locking pass microseconds


@contextmanager
def without_leftovers() -> Iterator[list[str]]:
    """Remove, at the end, the shared memory of Fast DDS that killed processes left meanwhile.

    Only what appeared meanwhile, belongs to this user, and has an owner that no longer lives:
    nothing that a living process uses, and nothing that was there before.

    Yields
    ------
    list of str
        Filled, at the end, with the names of what was removed.
    """
    before = set(_names())
    removed: list[str] = []
    try:
        yield removed
    finally:
        names = set(_names()) - before
        for name in sorted(names):
            owned = _OWNED.fullmatch(name)
            if owned is None or not _is_abandoned(SHARED_MEMORY / name):
                continue
            base = owned.group(1)
            for part in (base, f"{base}_sl", f"sem.{base}_mutex", name):
                if part in names:
                    with suppress(OSError):
                        (SHARED_MEMORY / part).unlink()
                        removed.append(part)


def _names() -> list[str]:
    try:
        return os.listdir(SHARED_MEMORY)  # noqa: PTH208 (names are wanted, not paths)
    except OSError:
        return []


def _is_abandoned(lock: Path) -> bool:
    """Whether a lock file is this user's, no longer new, and nobody holds its lock."""
    try:
        with lock.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SETTLED_SECONDS:
                return False
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
