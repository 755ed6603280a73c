"""Files that are there whole or not at all, and those that come with roslens."""

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
"""Variable of the environment: where it is set, nothing is written beside a recording."""


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; it becomes `path` when the block ends well.

    A crash leaves the old file or the new one. The temporary name begins with a dot and is of
    this process alone, so that two writers do not tear each other. A link stays one: the file that
    it leads to is replaced. What is no file, such as ``/dev/stdout``, is written to as it is.

    Raises
    ------
    OSError
        It cannot be written; its ``filename`` is `path`.
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
        # Also where the disk is full, which tells of no file.
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `path` so that a crash leaves the old file or the new one, never half of one.

    Raises
    ------
    OSError
        It cannot be written.
    """
    with replaced_whole(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def shipped(*parts: str) -> Path:
    """What comes with roslens by its place: ``notebooks``, ``data``, ``tracing/suites``, ...

    The rooms at the root of a checkout are links within the package, so both look alike.
    """
    return Path(str(files("roslens"))).joinpath(*parts)


def is_text(name: str) -> bool:
    """Whether the bytes of a file's name are UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_path(path: Path) -> str:
    """`path` for those who take only text: by a link in a folder of ours where its bytes are none.

    The link is there until the process ends.
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
    """Have the disk hold what was written to a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
