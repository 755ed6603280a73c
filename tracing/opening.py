"""Open a path as given; an archive is first unpacked into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from roslens.tracing.archive_names import SUFFIXES, bare_name

KEPT_DAYS = 30
"""Days after which an unpacked archive is removed if it was not opened again."""


def opened(path: Path) -> Path:
    """Return `path`, or the folder into which an archive or a kernel recorder's file is unpacked.

    The folder is in the user's cache, and the file is unpacked only once.

    Raises
    ------
    UsageError, RunFailedError
        As for `roslens.tracing.unpacking.unpack`.
    """
    if not path.is_file():
        return path
    # Modules for unpacking take long to import, and most files are unpacked only once.
    if not path.name.endswith(SUFFIXES):
        from roslens.tracing.kernel_files import reader_of  # noqa: PLC0415

        if reader_of(path) is None:
            return path
    from roslens.tracing.ros.cache import cache_folder, private_folder  # noqa: PLC0415

    about = path.stat()
    mark = f"{path.resolve()} {about.st_size} {about.st_mtime_ns}"
    parent = cache_folder() / "unpacked"
    folder = parent / hashlib.sha256(os.fsencode(mark)).hexdigest()[:16] / bare_name(path)
    if not folder.is_dir():
        from roslens.tracing.unpacking import unpack  # noqa: PLC0415

        private_folder(parent)
        # Unpack into a separate folder first: another process may be unpacking the same archive.
        with tempfile.TemporaryDirectory(dir=parent) as scratch:
            unpack(path, Path(scratch) / "content")
            folder.parent.mkdir(exist_ok=True)
            with suppress(OSError):
                (Path(scratch) / "content").rename(folder)
        _remove_old(parent)
    with suppress(OSError):
        os.utime(folder.parent)
    return folder


def _remove_old(parent: Path) -> None:
    """Remove folders that were not opened for long, and remains of killed processes."""
    for old in parent.iterdir():
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
                shutil.rmtree(old, ignore_errors=True)
