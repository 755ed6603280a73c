"""Write files that exist whole or not at all, and find files shipped with roslens."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path

from roslens.recording.text import shown

ONLY_READ = "ROSLENS_ONLY_READ"
"""Environment variable: if it is set, nothing is written beside a recording."""


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; it becomes `path` when the block ends well.

    A crash leaves the old file or the new one. The temporary name begins with a dot and belongs to
    this process alone, so that two writers do not corrupt each other's file. A link stays a link:
    its target is replaced. What is not a file, such as ``/dev/stdout``, is written to directly.

    Raises
    ------
    OSError
        The file cannot be written; the error's ``filename`` is `path`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve() if path.is_symlink() else path
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)
    except OSError as error:
        # An error of a full disk, for example, names no file.
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `path` so that a crash leaves the old file or the new one, never half of one.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with replaced_whole(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link, with its folder; a copy where links are not possible, such as elsewhere."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with replaced_whole(target) as part:
            shutil.copy2(source, part)


def shipped(*parts: str) -> Path:
    """Return the path of shipped content: ``notebooks``, ``data``, ``tracing/suites``, ...

    In a checkout, the package contains links to the rooms at the root, so both look alike.
    """
    return Path(str(files("roslens"))).joinpath(*parts)


def is_text(name: str) -> bool:
    """Return whether the bytes of a file name are UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_path(path: Path) -> str:
    """Return `path` as text; if its bytes are not UTF-8, as a link in a temporary folder.

    The link exists until the process ends.
    """
    text = str(path)
    if not is_text(text):
        link = Path(_links()) / f"{next(_link_numbers)}" / shown(path.name)
        link.parent.mkdir()
        link.symlink_to(path.absolute())
        return str(link)
    return text


_link_numbers = count()


@cache
def _links() -> str:
    folder = tempfile.mkdtemp(prefix="roslens-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
