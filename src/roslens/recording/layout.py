"""Define the layout of a recording, and find recordings below a folder.

A roslens recording is a folder with ``manifest.json``; its CTF traces are below ``trace/``.
A folder that ``ros2 trace`` or ``lttng`` wrote is a recording without a manifest: any folder
with CTF traces (a file named ``metadata``) somewhere below it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.recording.bags import refuse_bag
from roslens.recording.errors import UsageError
from roslens.recording.schema import SAMPLED
from roslens.recording.text import shown

if TYPE_CHECKING:
    from roslens.recording.manifest import Manifest

MANIFEST_NAME = "manifest.json"

STILL_RECORDED = "is still being recorded, or its recorder was killed"
"""Text, after a recording's name, if nothing shows that the recording has ended."""

CLOCKS_NAME = "clocks.json"

NOT_SAMPLED = "not_sampled"
"""The stream that records pauses made on purpose, and the kind of such losses."""

EXCERPT_NAME = "excerpt.json"
"""File beside tables without their traces: names the recording, or part of one, they are from."""

EXCERPT_MANIFEST_NAME = "run.json"
"""The recording's manifest, beside it; not named so, because the folder is not a recording."""

_OUTPUT_OF_BARE_TRACE = "roslens"
_MOST_FOLDERS = 1_000_000

_BELOW_SESSION = re.compile(
    r"((^|/)(archives/[^/]+|runtime|snapshot(-\d[^/]*)?))*"
    r"((^|/)(ust(/(uid|pid)/.+)?|uid/\d+/\d+-bit|pid/[^/]+-\d+-\d{8}-\d{6}|kernel))?\Z",
    re.DOTALL,
)
"""End of a path within a session's folder: folders of LTTng for rotations, snapshots and domains,
also where ``ust`` was renamed; and, from tracetools_trace/trace.py, ``snapshot`` and ``runtime`` of
a dual session."""


@dataclass(frozen=True)
class Recording:
    """One recording on disk.

    Attributes
    ----------
    path
        The run's folder, or the bare trace's folder.
    output
        The folder for ``events/`` and ``tables/``; by default the run's folder, or
        ``<path>/roslens`` for a bare trace.
    """

    path: Path
    output: Path

    @classmethod
    def at(cls, path: Path, output: Path | None = None) -> Recording:
        """Take `path` as one recording, without looking at its traces."""
        if output is None:
            is_ours = (path / MANIFEST_NAME).is_file() or (path / "tables" / EXCERPT_NAME).is_file()
            output = path if is_ours else path / _OUTPUT_OF_BARE_TRACE
        return cls(path=path, output=output)

    def absolute(self) -> Recording:
        """Return the same recording with absolute paths."""
        return Recording(self.path.absolute(), self.output.absolute())

    @property
    def name(self) -> str:
        """Return the folder's name, with bytes that are not UTF-8 escaped."""
        return shown(self.path.resolve().name)

    @property
    def has_manifest(self) -> bool:
        """Return whether this is a roslens run, with a manifest."""
        return (self.path / MANIFEST_NAME).is_file()

    @property
    def is_excerpt(self) -> bool:
        """Return whether only tables are here, of all or part of a recording, without traces."""
        has_excerpt = (self.path / "tables" / EXCERPT_NAME).is_file()
        return has_excerpt and not self.has_manifest

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the tables are stored in a different place than the traces."""
        folders = {Recording.at(self.path).output.resolve(), self.path.resolve()}
        return self.output.resolve() not in folders

    @cached_property
    def manifest(self) -> Manifest | None:
        """Return the validated manifest, or None for a bare trace.

        Raises
        ------
        UsageError
            The manifest exists but is not valid.
        """
        excerpt = self.tables / EXCERPT_MANIFEST_NAME
        file = excerpt if self.is_excerpt else self.path / MANIFEST_NAME
        if not file.is_file():
            return None
        from roslens.recording.manifest import read_manifest  # noqa: PLC0415  (needs pydantic)

        return read_manifest(file)

    @property
    def trace_root(self) -> Path:
        """Return the folder below which all CTF traces are."""
        folder = self.path / "trace"
        return folder if self.has_manifest and folder.is_dir() else self.path

    @property
    def clocks(self) -> Path:
        """Return ``clocks.json``, which aligns the clocks of the hosts if there are several.

        See `roslens.collectors.clocks`.
        """
        return self.path / CLOCKS_NAME

    @property
    def samples(self) -> dict[str, Path]:
        """Return the existing files of tables that were sampled beside the run, by table name.

        ``resources.csv`` is used if another harness recorded the run and no Parquet file exists.
        """
        folder = self.tables if self.is_excerpt else self.path
        files = {table.name: folder / f"{table.name}.parquet" for table in SAMPLED}
        files = {name: file for name, file in files.items() if file.is_file()}
        resources = self.path / "resources.csv"
        return {"resources": resources, **files} if resources.is_file() else files

    @property
    def native(self) -> Path:
        """Return the benchmark's own files; another harness left them in the run's folder."""
        folder = self.path / "native"
        return folder if folder.is_dir() else self.path

    @property
    def events(self) -> Path:
        """Return the folder of raw events, ``<provider>/<event>.parquet``."""
        return self.output / "events"

    @property
    def tables(self) -> Path:
        """Return the folder of model tables, ``<table>.parquet``."""
        return self.output / "tables"


def walk(root: Path, *, links: bool = True) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk like ``os.walk``, also through symbolic links, but each folder once, none above `root`.

    Names are sorted; targets of links come last, so that a folder is found by its own name.

    Yields
    ------
    tuple of Path, list of str, list of str
        A folder, its subfolders' names (remove names to skip folders), and the other names.

    Raises
    ------
    UsageError
        There are more than a million folders.
    """
    whole = root.resolve()
    seen = {_identity(above) for above in whole.parents}
    folders, linked = [root], deque[Path]()
    while folders or linked:
        folder = folders.pop() if folders else linked.popleft()
        try:
            with os.scandir(folder) as iterator:
                entries = sorted(iterator, key=lambda entry: entry.name)
            identity = _identity(folder)
        except OSError:  # The folder has gone, or is not readable; skip it as os.walk does.
            continue
        if identity in seen:
            continue
        seen.add(identity)
        if len(seen) > _MOST_FOLDERS:
            raise UsageError(
                f"{root}: more than {_MOST_FOLDERS:,} folders; give the folder of a recording"
            )
        below = {entry.name: entry for entry in entries if _is_folder(entry)}
        names = list(below)
        yield folder, names, [entry.name for entry in entries if entry.name not in below]
        linked += [folder / name for name in names if links and below[name].is_symlink()]
        folders += [folder / name for name in reversed(names) if not below[name].is_symlink()]


def _identity(folder: Path) -> tuple[int, int]:
    state = folder.stat()
    return state.st_dev, state.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def find_traces(root: Path) -> list[Path]:
    """Return folders at or below `root` with a CTF ``metadata`` file, sorted."""
    return sorted(folder for folder, _, files in walk(root) if "metadata" in files)


def session_of(path: str) -> str:
    """Return the folder of the session to which a CTF trace's folder belongs, both as POSIX paths.

    The names decide, so it holds for paths of any file system; ``.`` is the folder that the paths
    are relative to.
    """
    return _BELOW_SESSION.sub("", path, count=1) or "."


def _with_links(path: Path, runs: Iterable[Path]) -> list[Path]:
    """Add runs that a folder links to, each once; links inside a run are parts of that run."""
    runs_by_path = {run.resolve(): run for run in runs}
    for entry in sorted(path.iterdir()):
        if entry.is_symlink() and (entry / MANIFEST_NAME).is_file():
            runs_by_path.setdefault(entry.resolve(), entry)
    return list(runs_by_path.values())


def find_recordings(path: Path) -> list[Recording]:
    """Return all recordings at or below `path`, in path order.

    Each folder with a manifest is one recording. If there is none, `path` as a whole is
    one bare recording if any CTF trace is below it. Excerpts of recordings are found only if
    there is neither: tables beside whole recordings must not count twice.

    Raises
    ------
    UsageError
        `path` does not exist or contains no recording.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    if not path.is_dir():
        refuse_bag(path)
        raise UsageError(
            f"{path}: not a folder; give the folder of a recording (for a result file of another "
            "tool: 'roslens report tool FILE')"
        )
    below = [(folder, files) for folder, _, files in walk(path, links=False)]
    runs = [folder for folder, files in below if MANIFEST_NAME in files]
    if path not in runs:
        runs = _with_links(path, runs)
    if runs:
        return [Recording.at(run) for run in sorted(runs)]
    if find_traces(path):
        return [Recording.at(path)]
    excerpts = sorted(
        folder.parent
        for folder, files in below
        if folder.name == "tables" and EXCERPT_NAME in files
    )
    if excerpts:
        return [Recording.at(folder) for folder in excerpts]
    refuse_bag(path)
    raise UsageError(
        f"{path}: no recording here: neither a {MANIFEST_NAME} nor a CTF trace (a file named "
        "'metadata') below it; give the folder that 'ros2 trace' or 'roslens record' wrote"
    )
