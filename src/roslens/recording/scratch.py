"""Folders to work in that are taken away also if whoever works in one was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roslens.recording import UsageError


@contextmanager
def scratch_folder(place: Path, prefix: str) -> Iterator[Path]:
    """A folder of our own; those that earlier ones left because they were ended are taken away.

    Whoever works in one holds its lock. What belongs to another user stays.

    Parameters
    ----------
    place
        Where it is made.
    prefix
        What the names of all of a kind begin with.

    Raises
    ------
    OSError
        It cannot be made.
    """
    for old in place.glob(f"{prefix}*"):
        with lock_of(old) as free, suppress(OSError):
            if free and old.lstat().st_uid == os.getuid():
                shutil.rmtree(old, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        with lock_of(folder) as free:
            # Whoever looked for old ones may have been quicker.
            if free is False or not folder.exists():
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one that writes into a folder, which is made if missing.

    Raises
    ------
    UsageError
        Another roslens writes there.
    OSError
        It cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with lock_of(folder) as free:
        if free is False:
            raise UsageError(
                f"{folder}: another roslens writes there; wait for its end, or give another folder"
            )
        yield


@contextmanager
def lock_of(folder: Path) -> Iterator[bool | None]:
    """Whether nobody else holds the lock of the folder; it is ours until the block ends.

    None where there is no such folder, or its file system has no locks.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:
            yield None
        else:
            yield True
    finally:
        os.close(descriptor)
