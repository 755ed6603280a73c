"""The user's cache folder: environments and libraries that are made once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from roslens.tracing.recording import UsageError


def cache_folder() -> Path:
    """``$ROSLENS_CACHE``, else the platform's cache folder of the user; made if missing.

    Raises
    ------
    UsageError
        It cannot be made or written.
    """
    configured = os.environ.get("ROSLENS_CACHE")
    folder = Path(configured) if configured else platformdirs.user_cache_path("roslens")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot make the cache folder ({error.strerror}); set ROSLENS_CACHE"
        ) from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: the cache folder cannot be written; set ROSLENS_CACHE")
    return folder.resolve()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, so that two roslens at once make a thing only once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
