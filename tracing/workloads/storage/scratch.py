"""A folder of a run's own on the RAM disk, gone afterwards; and what killed runs left there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "roslens-storage-"
RAM_DISK = "/dev/shm"  # noqa: S108 (the RAM disk of every Linux)


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A folder of our own in `place` that is gone afterwards, whatever happens."""
    _remove_left_over(place)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(place: Path) -> None:
    """Remove what runs left that were killed, for a RAM disk is memory."""
    for folder in place.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another run removes it meanwhile
            if (
                pid.isdigit()
                and not Path("/proc", pid).exists()
                and folder.stat().st_uid == os.getuid()
            ):
                shutil.rmtree(folder, ignore_errors=True)
