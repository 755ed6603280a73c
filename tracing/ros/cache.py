"""Manage the user's cache folder for environments and libraries that are built once."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from roslens.recording import UsageError
from roslens.recording.errors import kind_of


def cache_folder() -> Path:
    """Return ``$ROSLENS_CACHE``, else the user's cache folder; create it if missing.

    Raises
    ------
    UsageError
        The folder cannot be created or written, or another user could write to it.
    """
    configured = os.environ.get("ROSLENS_CACHE")
    folder = Path(configured) if configured else platformdirs.user_cache_path("roslens")
    try:
        private_folder(folder)
        trusted(folder.resolve())
        # Files in our own folder are loaded into programs, so nobody else may access it.
        if not configured and folder.stat().st_uid == os.geteuid():
            folder.chmod(0o700)
    except OSError as error:
        raise kind_of(error)(
            f"{folder}: cannot make the cache folder ({error.strerror}); set ROSLENS_CACHE"
        ) from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: the cache folder cannot be written; set ROSLENS_CACHE")
    return folder.resolve()


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to the owner."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def trusted(path: Path) -> Path:
    """Return `path` if only this user and root own it or may write to it.

    Raises
    ------
    UsageError
        Another user may write to it, so that its contents may be theirs.
    """
    state = path.lstat()
    if state.st_uid not in {0, os.geteuid()}:
        why = f"belongs to user {state.st_uid}"
    elif stat.S_ISLNK(state.st_mode):
        why = "is a link"
    elif state.st_mode & 0o022:
        why = "can be written by others"
    else:
        return path
    raise UsageError(
        f"{path}: {why}, and what lies in the cache is loaded into programs; remove it, or set "
        "ROSLENS_CACHE"
    )


def cached_file(path: Path) -> bool:
    """Return whether a cached file exists that nobody else can have put there.

    Raises
    ------
    UsageError
        The file exists, but another user may write to it or to one of its folders.
    """
    if not path.is_file() and not path.is_symlink():
        return False
    root = cache_folder()
    for part in (path, *path.parents):
        if part == root:
            break
        trusted(part)
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, so that two simultaneous roslens build a thing only once.

    Files created meanwhile belong to their owner alone, even if the user's umask allows groups: a
    library that a group may write to is not `trusted`.
    """
    before = os.umask(0o077)
    try:
        private_folder(path.parent)
        with path.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
    finally:
        os.umask(before)
