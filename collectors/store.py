"""Make a collection's files, and put them in place atomically: all of them, or none.

Everything is written into a folder within the output, synced to the disk, and put in place by
renaming two folders. Whenever a collector is killed, ``tables/`` afterwards is the old one, the new
one, or missing, but never a mixture. ``tables/collected.json``, within it, names each file
with its size and SHA-256.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from roslens.recording import Recording, RoslensError
from roslens.recording.errors import kind_of, writing
from roslens.recording.files import sync

_MAKING, _OLD = ".collecting-", ".collected-before-"
_PARTS = ("events", "tables")

Files: TypeAlias = dict[str, dict[str, Any]]
"""File descriptions by name relative to the output: bytes, sha256, mtime_ns, ctime_ns."""


@contextmanager
def locked(recording: Recording, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock a recording's output folder for collecting; the folder is made if missing.

    If the folder was missing and nothing was put into it, it is removed again.

    The kernel releases the lock however its holder ends. File systems without locks give no lock:
    the files are put in place atomically all the same.

    Parameters
    ----------
    waiting
        Called once if another process holds the lock.

    Raises
    ------
    UsageError
        The folder cannot be made or written to.
    """
    try:
        new = not recording.output.exists()
        recording.output.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(recording.output, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot_write(recording, error) from error
    try:
        if _lock(descriptor, waiting):
            for left in leftovers(recording):
                shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
        # After an error the folder may have been made for nothing; it stays if it has files.
        if new:
            with suppress(OSError):
                recording.output.rmdir()


def _lock(descriptor: int, waiting: Callable[[], None]) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EBADF, errno.ENOTSUP, errno.EINVAL):
            return False
        raise
    return True


def leftovers(recording: Recording) -> list[Path]:
    """Return folders in which a collector works, or that a killed one left."""
    return [path for start in (_MAKING, _OLD) for path in recording.output.glob(f"{start}*")]


@contextmanager
def making(recording: Recording) -> Iterator[Recording]:
    """Yield the recording with a new empty output, which is removed in the end in any case.

    Raises
    ------
    UsageError
        The folder of the output cannot be written to.
    RunFailedError
        The disk is full.
    """
    folder = recording.output / f"{_MAKING}{secrets.token_hex(4)}"
    try:
        for part in _PARTS:
            (folder / part).mkdir(parents=True)
    except OSError as error:
        raise cannot_write(recording, error) from error
    try:
        yield replace(recording, output=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Describing:
    """Descriptions of a new output's files, synced and hashed while others are being made."""

    def __init__(self, made: Recording, beside: Executor) -> None:
        self._made = made
        self._beside = beside
        self._begun: dict[Path, Future[dict[str, Any]]] = {}

    def begin(self, *paths: Path) -> None:
        """Start to describe files that will not change any more."""
        for path in paths:
            self._begun[path] = self._beside.submit(_described, path)

    def all(self) -> Files:
        """Return the descriptions of all files.

        Raises
        ------
        OSError
            A file cannot be read back, or the disk is full.
        """
        output = self._made.output
        paths = sorted(path for part in _PARTS for path in (output / part).rglob("*.parquet"))
        self.begin(*(path for path in paths if path not in self._begun))
        return {path.relative_to(output).as_posix(): self._begun[path].result() for path in paths}


@contextmanager
def describing(made: Recording) -> Iterator[Describing]:
    """Yield an object that describes the files of a new output on separate threads."""
    pool = ThreadPoolExecutor(4)
    try:
        yield Describing(made, pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _described(path: Path) -> dict[str, Any]:
    sync(path)
    return _file_times(path) | {"sha256": sha256(path)}


def put_in_place(made: Recording, recording: Recording) -> None:
    """Replace the recording's events and tables by those just made.

    Raises
    ------
    RunFailedError
        A folder cannot be renamed.
    """
    old = recording.output / f"{_OLD}{secrets.token_hex(4)}"
    try:
        with writing(recording.output):
            for folder in {path.parent for path in made.output.rglob("*")}:
                sync(folder)
            old.mkdir()
            # The tables hold the note that vouches for all files: they go first and come last.
            for part in ("tables", "events"):
                if (recording.output / part).exists():
                    (recording.output / part).rename(old / part)
            for part in ("events", "tables"):
                (made.output / part).rename(recording.output / part)
            sync(recording.output)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def examine(recording: Recording, files: Files, *, read_all: bool) -> tuple[bool, bool]:
    """Return whether the files are those of the note, and whether their times have changed.

    A file with the noted size and times is assumed to be unchanged, as only the kernel sets the
    time of the last change; else it is read and its digest compared. A file of events that is
    not in the note is an error, too.

    Parameters
    ----------
    read_all
        Read every file: a disk may lose bits silently.
    """
    touched = False
    try:
        present = {
            path.relative_to(recording.output).as_posix()
            for path in recording.events.rglob("*.parquet")
        }
        if not recording.events.is_dir() or present - files.keys():
            return False, touched
        for name, noted in files.items():
            whole, same = _compared(recording.output / name, noted, read_all=read_all)
            touched |= not same
            if not whole:
                return False, touched
    except (OSError, KeyError, TypeError, AttributeError):
        return False, touched
    return True, touched


def changed_file(recording: Recording, files: Files, folder: Path) -> Path | None:
    """Return the first file at or below a folder that differs from the note; None if all match."""
    present = {path.relative_to(recording.output).as_posix() for path in folder.rglob("*.parquet")}
    noted = {name for name in files if (recording.output / name).is_relative_to(folder)}
    for name in sorted(noted | present):
        path = recording.output / name
        try:
            if not _compared(path, files[name])[0]:
                return path
        except (OSError, KeyError, TypeError, AttributeError):
            return path
    return None


def _compared(path: Path, noted: Mapping[str, Any], *, read_all: bool = False) -> tuple[bool, bool]:
    """Return whether a file's content is the noted one, and whether its size and times are."""
    stamp = _file_times(path)
    same = all(noted.get(key) == value for key, value in stamp.items())
    whole = stamp["bytes"] == noted["bytes"] and (
        (same and not read_all) or sha256(path) == noted["sha256"]
    )
    return whole, same


def stamped(recording: Recording, files: Mapping[str, Mapping[str, Any]]) -> Files:
    """Return the descriptions of the files with their present times."""
    return {
        name: {**_file_times(recording.output / name), "sha256": noted["sha256"]}
        for name, noted in files.items()
    }


def cannot_write(recording: Recording, error: OSError) -> RoslensError:
    """Return the error for an output folder that cannot be written to."""
    return kind_of(error)(
        f"{recording.output}: cannot be written to ({error.strerror}); "
        "give another folder for the output with -o"
    )


def _file_times(path: Path) -> dict[str, int]:
    state = path.stat()
    return {
        "bytes": state.st_size,
        "mtime_ns": state.st_mtime_ns,
        "ctime_ns": state.st_ctime_ns,
    }


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
