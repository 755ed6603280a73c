"""Access trees of recordings on this machine, or anywhere that fsspec reaches."""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from roslens.collectors.collected import NOTE
from roslens.collectors.schema import TABLES
from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import is_text, replaced_whole, text_path
from roslens.recording.layout import MANIFEST_NAME, session_of, walk
from roslens.tracing.ros.cache import cache_folder, private_folder


@dataclass(frozen=True)
class Place:
    """Recording in a tree.

    Attributes
    ----------
    path
        Relative to the tree's root; ``.`` for the root itself.
    has_manifest
        Whether it is a roslens run; else it is a bare trace.
    stamp
        Text that changes when the manifest or the note of the tables changes.
    """

    path: str
    has_manifest: bool
    stamp: str

    @property
    def tables(self) -> str:
        """Return the folder of the tables, relative to the root."""
        output = (
            PurePosixPath(self.path) if self.has_manifest else PurePosixPath(self.path, "roslens")
        )
        return (output / "tables").as_posix()


_CHANGES = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
"""Names by which file systems give a value that changes with the file."""

_READ_BY_POLARS = ("s3", "gs", "gcs", "az", "abfs", "abfss", "adl")


class Tree(ABC):
    """Place of recordings, as a catalog needs it.

    Attributes
    ----------
    where
        The root as the user gave it.
    """

    where: str

    @abstractmethod
    def places(self) -> Iterator[Place]:
        """Yield all recordings below, in path order."""

    @abstractmethod
    def local(self, place: Place, scratch: Path) -> Path:
        """Return the local path of the recording with manifest and tables, maybe in `scratch`."""

    def absolute(self) -> Tree:
        """Return the same tree, valid from any working directory."""
        return self

    def stamp(self, place: Place) -> str:
        """Return the recording's current stamp: that found before if nothing is written there."""
        return place.stamp

    def address(self, path: str) -> str:
        """Return the full path or address of a relative path."""
        return f"{self.where}/{path}"

    @abstractmethod
    def readable(self, path: str, stamp: str) -> str:
        """Return a path by which polars and DuckDB read a file of a recording with this stamp."""


def _stamped(path: str, stamp_of: Callable[[str], str], *, has_manifest: bool) -> Place:
    """Return a place with the stamps of its manifest and of the note of its tables."""
    place = Place(path, has_manifest, "")
    files = [f"{place.tables}/{NOTE}", *([f"{path}/{MANIFEST_NAME}"] if has_manifest else [])]
    return replace(place, stamp=" ".join(map(stamp_of, files)))


class LocalTree(Tree):
    """Tree in a local folder."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"{root}: no such folder; give a folder that holds recordings")
        self.root, self.where = root, str(root)

    def places(self) -> Iterator[Place]:
        """Yield all recordings below, in path order; those behind links come last."""
        bare: set[str] = set()
        for folder, folders, files in walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            path = folder.relative_to(self.root).as_posix()
            if not is_text(path):
                raise UsageError(f"{folder}: its name is no text, as a catalog holds; rename it")
            if MANIFEST_NAME in files:
                folders.clear()
                yield _stamped(path, self._stamp, has_manifest=True)
            elif "metadata" in files:
                folders.clear()
                session = session_of(path)
                if session not in bare:
                    bare.add(session)
                    yield _stamped(session, self._stamp, has_manifest=False)

    def absolute(self) -> LocalTree:
        """Return the same tree, valid from any working directory."""
        return LocalTree(self.root.absolute())

    def stamp(self, place: Place) -> str:
        """Return the recording's current stamp, of sizes and times."""
        return _stamped(place.path, self._stamp, has_manifest=place.has_manifest).stamp

    def _stamp(self, path: str) -> str:
        try:
            state = (self.root / path).stat()
        except OSError:
            return "-"
        return f"{state.st_size}:{state.st_mtime_ns}" if stat.S_ISREG(state.st_mode) else "-"

    def local(self, place: Place, scratch: Path) -> Path:
        """Return the recording's own path."""
        del scratch
        return self.root / place.path

    def address(self, path: str) -> str:
        """Return the full path."""
        return str(self.root / path)

    def readable(self, path: str, stamp: str) -> str:
        """Return the full path as text."""
        del stamp
        return text_path(self.root / path)


class RemoteTree(Tree):
    """Tree behind an address that fsspec knows, such as ``s3://bucket/nightly``."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415  (optional)
        except ImportError as error:
            raise UsageError(
                f"{url}: addresses need fsspec: pip install 'roslens[scale]'"
            ) from error
        self.where = url.rstrip("/")
        try:
            self._files, self._root = url_to_fs(self.where)
            is_folder = self._files.isdir(self._root)
        except Exception as error:  # each file system raises its own kinds
            raise UsageError(f"{url}: cannot be opened: {' '.join(str(error).split())}") from error
        if not is_folder:
            raise UsageError(f"{url}: no such folder; give a folder that holds recordings")

    def places(self) -> Iterator[Place]:
        """Yield all recordings below, in path order."""
        listing: dict[str, dict[str, Any]] = self._files.find(self._root, detail=True)
        prefix = self._root.rstrip("/") + "/"
        files = {path.removeprefix(prefix): about for path, about in listing.items()}
        runs = {parent(path) for path in files if PurePosixPath(path).name == MANIFEST_NAME}
        bare = {
            session_of(parent(path))
            for path in files
            if PurePosixPath(path).name == "metadata"
            and not any(str(p) in runs for p in PurePosixPath(path).parents)
        }
        for path in sorted(runs | bare):
            yield _stamped(path, partial(self._stamp, files), has_manifest=path in runs)

    def _stamp(self, files: Mapping[str, Mapping[str, Any]], name: str) -> str:
        about = files.get(PurePosixPath(name).as_posix())
        if about is None:
            return "-"
        mark = next((about[key] for key in _CHANGES if about.get(key) is not None), None)
        if mark is None:
            # The listing has no change marker, as with web servers.
            return hashlib.sha256(self._read(name)).hexdigest()[:16]
        return f"{about.get('size')}:{mark}".replace(" ", "_")

    def local(self, place: Place, scratch: Path) -> Path:
        """Copy what a catalog examines: manifest, tables, samples of resources."""
        target = scratch / "run"
        names = [MANIFEST_NAME] if place.has_manifest else []
        names.append("resources.parquet")
        tables = PurePosixPath(place.tables)
        names += [
            (tables / name).relative_to(place.path).as_posix()
            for name in (NOTE, *(f"{table}.parquet" for table in TABLES))
        ]
        target.mkdir(parents=True)
        if not place.has_manifest:
            # The metadata file marks a bare trace; its events are not read.
            (target / "metadata").touch()
        wanted = {self._at(f"{place.path}/{name}"): name for name in names}
        contents = self._files.cat(list(wanted), on_error="omit")
        for path, content in contents.items():
            copy = target / wanted[path]
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        return target

    def readable(self, path: str, stamp: str) -> str:
        """Return the full address, or a copy in the user's cache if polars cannot read the address.

        Raises
        ------
        RunFailedError
            The file cannot be copied.
        """
        if self.where.split("://")[0] in _READ_BY_POLARS:
            return self.address(path)
        mark = hashlib.sha256(f"{self.address(path)} {stamp}".encode()).hexdigest()[:24]
        copy = cache_folder() / "remote" / mark / PurePosixPath(path).name
        if not copy.is_file():
            try:
                private_folder(copy.parent)
                with replaced_whole(copy) as part:
                    part.write_bytes(self._read(path))
            except OSError as error:
                raise RunFailedError(f"{self.address(path)}: cannot be copied: {error}") from error
        return str(copy)

    def _read(self, path: str) -> bytes:
        content: bytes = self._files.cat_file(self._at(path))
        return content

    def _at(self, path: str) -> str:
        """Return the path in the file system; for a web server it is the whole address."""
        return f"{self._root.rstrip('/')}/{PurePosixPath(path).as_posix()}"


def open_tree(where: str | os.PathLike[str]) -> Tree:
    """Open a folder, or an address (``protocol://...``), as a tree.

    Raises
    ------
    UsageError
        The place does not exist, or fsspec is missing for an address.
    """
    text = os.fspath(where)
    if "://" in text and not text.startswith("file://"):
        return RemoteTree(text)
    return LocalTree(Path(text.removeprefix("file://")).expanduser())


def parent(path: str) -> str:
    """Return the parent folder of a path."""
    return PurePosixPath(path).parent.as_posix()
