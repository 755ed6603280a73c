"""Make working folders that are removed even if their process was killed; set variables."""

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
    """Yield a new folder; remove folders that killed processes left behind.

    The process that works in a folder holds its lock. Folders of another user stay.

    Parameters
    ----------
    place
        The parent folder.
    prefix
        The prefix of the names of all folders of one kind.

    Raises
    ------
    OSError
        The folder cannot be made.
    """
    for old in place.glob(f"{prefix}*"):
        with lock_of(old) as free, suppress(OSError):
            if free and old.lstat().st_uid == os.getuid():
                shutil.rmtree(old, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        with lock_of(folder) as free:
            # Another process that removes old folders may have been quicker.
            if free is False or not folder.exists():
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other roslens processes from writing into a folder, which is made if missing.

    Raises
    ------
    UsageError
        Another roslens writes there.
    OSError
        The folder cannot be made.
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
    """Try to lock a folder until the block ends; yield whether its lock was free.

    Yield None if there is no such folder, or its file system has no locks.
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


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables of this process, and of those it starts, until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
