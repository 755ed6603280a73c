"""Files that are there whole or not at all, and those that come with roslens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; it becomes `path` when the block ends well.

    A crash leaves the old file or the new one. The temporary name begins with a dot and is of
    this process alone, so that two writers do not tear each other.

    Raises
    ------
    OSError
        It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write `path` so that a crash leaves the old file or the new one, never half of one.

    Raises
    ------
    OSError
        It cannot be written.
    """
    with replaced_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def shipped(*parts: str) -> Path:
    """What comes with roslens by its place: ``notebooks``, ``data``, ``tracing/suites``, ...

    The rooms at the root of a checkout are links within the package, so both look alike.
    """
    return Path(str(files("roslens"))).joinpath(*parts)


def sync(path: Path) -> None:
    """Have the disk hold what was written to a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
