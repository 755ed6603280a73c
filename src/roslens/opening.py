"""Recordings are found, collected where that is missing, and become runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from roslens.analysis.runs import runs_of
from roslens.collectors.resolving import find_runs
from roslens.collectors.table_file import check_version
from roslens.copies import without_copies
from roslens.factors import Factors
from roslens.paths import PathLike, resolve
from roslens.recording import Recording, UsageError
from roslens.runs import Runs
from roslens.tracing.opening import opened
from roslens.tracing.ros.cache import cache_folder

R = TypeVar("R", bound=Runs)
Progress = Callable[[int, int, Recording], None]
"""Called before each recording is collected: how many are done, of how many, which is next."""


def open_as(
    kind: type[R],
    paths: PathLike | Iterable[PathLike],
    *,
    factors: PathLike | None = None,
    collect: bool = True,
    progress: Progress | None = None,
) -> R:
    """Open recordings as runs of this kind; parameters and errors of `roslens.recordings.open`."""
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not given or "" in given:
        raise UsageError("no recording given; give the folder of one")
    for path in (*given, factors or ""):
        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(f"{path!r} is no path of a recording or of factors")
    told = Factors.read(resolve(factors)) if factors else None
    places = [opened(resolve(path)) for path in given]
    found: dict[Path, Recording] = {}
    for place in places:
        for recording in find_runs(place) if told is None else told.recordings(place):
            found.setdefault(
                recording.path.resolve(), _writable(recording) if collect else recording
            )
    recordings, copies = without_copies(list(found.values()))
    runs = runs_of(recordings, None if told is None else told.of(recordings, places))
    if collect:
        _collect(recordings, progress)
    else:
        for recording in recordings:
            check_version(recording)
    return kind(recordings, runs, copies=copies)


def _writable(recording: Recording) -> Recording:
    if recording.is_excerpt:
        return recording
    parent = recording.output if recording.output.exists() else recording.path
    if os.access(parent, os.W_OK):
        return recording
    where = hashlib.sha256(os.fsencode(recording.path.resolve())).hexdigest()[:16]
    return Recording.at(recording.path, cache_folder() / where)


def _collect(recordings: Sequence[Recording], progress: Progress | None) -> None:
    from roslens.collectors.collection import collect  # noqa: PLC0415  (loads the native reader)

    for index, recording in enumerate(recordings):
        if progress is not None:
            progress(index, len(recordings), recording)
        collect(recording)
