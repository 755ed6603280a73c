"""The user's cache folder: environments and libraries that are made once."""

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
    """``$ROSLENS_CACHE``, else the platform's cache folder of the user; made if missing.

    Raises
    ------
    UsageError
        It cannot be made or written, or somebody else could write to it.
    """
    configured = os.environ.get("ROSLENS_CACHE")
    folder = Path(configured) if configured else platformdirs.user_cache_path("roslens")
    try:
        private_folder(folder)
        trusted(folder.resolve())
        # What lies in ours is loaded into programs: nobody else has any business there.
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
    """Make a folder, and those above it that are missing, for its owner alone."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def trusted(path: Path) -> Path:
    """`path`, where nobody but this user and root owns it or may write to it.

    Raises
    ------
    UsageError
        Somebody else may, so that what lies there may be theirs.
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
    """Whether a file of the cache is there, and nobody else can have put it there.

    Raises
    ------
    UsageError
        It is there, but somebody else may write to it or to a folder that it lies in.
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
    """Hold the lock file `path`, so that two roslens at once make a thing only once.

    What is made meanwhile is its owner's alone, also where the user's umask is for groups: a
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
