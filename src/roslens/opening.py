"""Find recordings, collect them if necessary, and open them as runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from roslens.analysis.runs import runs_of, unique_names
from roslens.collectors.collected import CollectionRequest, check_tables
from roslens.collectors.resolving import find_runs, read_each
from roslens.collectors.store import sha256
from roslens.factors import Factors, factors_by_system, factors_in_names
from roslens.paths import PathLike, resolve
from roslens.recording import Recording, UsageError
from roslens.recording.files import ONLY_READ
from roslens.recording.layout import MANIFEST_NAME, find_traces
from roslens.runs import Runs
from roslens.tracing.opening import opened
from roslens.tracing.ros.cache import cache_folder

R = TypeVar("R", bound=Runs)
Progress = Callable[[int, int, Recording], None]
"""Called before each recording is collected: the number done, the total, the next recording."""


def open_as(
    kind: type[R],
    paths: PathLike | Iterable[PathLike],
    *,
    factors: PathLike | None = None,
    collect: bool = True,
    progress: Progress | None = None,
) -> R:
    """Open recordings as runs of a class; parameters and errors as `roslens.recordings.open`."""
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not given or "" in given:
        raise UsageError("no recording given; give the folder of one")
    for path in (*given, factors or ""):
        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(f"{path!r} is no path of a recording or of factors")
    factors_file = Factors.read(resolve(factors)) if factors else None
    places = [opened(resolve(path)) for path in given]
    candidates, named = _find_recordings(
        places, factors_file, _writable if collect else lambda recording: recording
    )
    readable, not_read = read_each(candidates, attrgetter("manifest"), named)
    recordings, copies = without_copies(list(readable))
    given_factors = (
        factors_in_names(recordings, places)
        if factors_file is None
        else factors_file.factors_of_all(recordings, places)
    )
    if collect:
        collected, not_collected = _collect(recordings, named, progress)
        not_read |= not_collected
        if given_factors is not None:
            pairs = zip(recordings, given_factors, strict=True)
            given_factors = [given for recording, given in pairs if recording in collected]
        recordings = list(collected)
    else:
        for recording in recordings:
            check_tables(recording)
    if given_factors is None:
        given_factors = factors_by_system(recordings)
    runs = runs_of(recordings, given_factors)
    return kind(
        recordings, runs, copies=copies, not_read=[recording.name for recording in not_read]
    )


def _find_recordings(
    places: Iterable[Path], factors: Factors | None, opened_as: Callable[[Recording], Recording]
) -> tuple[list[Recording], set[Recording]]:
    """Return all recordings, each once, and those that a path names individually."""
    by_path: dict[Path, Recording] = {}
    named: set[Recording] = set()
    for place in places:
        runs = find_runs(place) if factors is None else factors.recordings(place)
        members = [by_path.setdefault(run.path.resolve(), opened_as(run)) for run in runs]
        named |= set(members) if len(members) == 1 else set()
    return list(by_path.values()), named


def _writable(recording: Recording) -> Recording:
    if recording.is_excerpt:
        return recording
    parent = recording.output if recording.output.exists() else recording.path
    # Tables that are missing or of another version would be written.
    wanted = CollectionRequest(recording, events_only=False, offsets={}, excerpt=None)
    if os.access(parent, os.W_OK) and (
        ONLY_READ not in os.environ or wanted.up_to_date(force=False, verify=False) is not None
    ):
        return recording
    where = hashlib.sha256(os.fsencode(recording.path.resolve())).hexdigest()[:16]
    return Recording.at(recording.path, cache_folder() / where)


def _collect(
    recordings: Sequence[Recording], named: Collection[Recording], progress: Progress | None
) -> tuple[dict[Recording, None], dict[Recording, str]]:
    """Collect recordings; return those that have tables now, and why others cannot be read."""
    from roslens.collectors.collection import collect  # noqa: PLC0415  (loads the native reader)

    numbers = count()

    def read(recording: Recording) -> None:
        if progress is not None:
            progress(next(numbers), len(recordings), recording)
        collect(recording)

    return read_each(recordings, read, named)


def without_copies(
    recordings: Sequence[Recording],
) -> tuple[list[Recording], dict[str, list[str]]]:
    """Return recordings without copies, and the copies by the first, by names that tell them apart.

    The metadata of a trace contain its UUID: streams are only read if the metadata are equal.
    Traces without a UUID, or without any stream, tell nothing, and runs with different manifests
    are meant to be separate.
    """
    first: dict[tuple[str, ...], list[Recording]] = {}
    kept: list[Recording] = []
    copies: dict[Recording, list[Recording]] = {}
    for recording in recordings:
        mark = _mark(recording)
        for earlier in first.get(mark, ()):
            if mark and _content(earlier.path) == _content(recording.path):
                copies.setdefault(earlier, []).append(recording)
                break
        else:
            first.setdefault(mark, []).append(recording)
            kept.append(recording)
    involved = [one for first, others in copies.items() for one in (first, *others)]
    names = dict(zip(involved, unique_names([one.path for one in involved]), strict=True))
    return kept, {names[one]: [names[other] for other in copies[one]] for one in copies}


def _mark(recording: Recording) -> tuple[str, ...]:
    """Return a cheap fingerprint that copies share; empty if there is no trace."""
    if recording.is_excerpt:
        return ()
    files = [trace / "metadata" for trace in find_traces(recording.trace_root)]
    try:
        if not all(b"uuid" in file.read_bytes() for file in files):
            return ()
    except OSError:  # the reader of the trace reports why
        return ()
    if files and recording.has_manifest:
        files.append(recording.path / MANIFEST_NAME)
    return tuple(sha256(file) for file in files)


def _content(folder: Path) -> tuple[str, ...]:
    return tuple(
        sha256(file)
        for trace in find_traces(Recording.at(folder).trace_root)
        for file in sorted(trace.iterdir())
        if file.is_file()
    )
