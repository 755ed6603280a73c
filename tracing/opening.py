"""A path as it is given: what an archive holds is unpacked first, into the user's cache."""

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
"""What an archive was unpacked into goes when it was not opened for so long."""


def opened(path: Path) -> Path:
    """`path`; of an archive or a file of a kernel recorder the folder that it is unpacked into.

    That is in the user's cache, and done once.

    Raises
    ------
    UsageError, RunFailedError
        As of `roslens.tracing.unpacking.unpack`.
    """
    if not path.is_file():
        return path
    # What takes files apart takes long to import, and most is not needed twice.
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
        # In a place of its own first: another process may be at the same archive.
        with tempfile.TemporaryDirectory(dir=parent) as scratch:
            unpack(path, Path(scratch) / "content")
            folder.parent.mkdir(exist_ok=True)
            with suppress(OSError):
                (Path(scratch) / "content").rename(folder)
        _tidy(parent)
    with suppress(OSError):
        os.utime(folder.parent)
    return folder


def _tidy(parent: Path) -> None:
    """Remove what nobody opened for long, and what unpacking left when it was killed."""
    for old in parent.iterdir():
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
                shutil.rmtree(old, ignore_errors=True)
