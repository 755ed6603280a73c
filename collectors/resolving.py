"""What a PATH stands for: one recording, or the runs of a folder in which several sessions lie.

A folder of ours says by its manifests what its runs are. In a folder of bare traces, such as
``~/.ros/tracing``, each tracing session is a run of its own, unless sessions belong together:

* what LTTng and ``ros2 trace`` make of one session: domains, rotations, snapshots, the two parts of
  a dual session;
* sessions that were recorded at the same time: those of different hosts, of containers, or two of
  one program, of which the model counts each event once. Copies of one session are not two.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from roslens.collectors.reader import open_trace
from roslens.recording import Recording, RoslensError, UsageError, find_recordings
from roslens.recording.layout import STILL_RECORDED, find_traces
from roslens.recording.text import shown

T = TypeVar("T")

LEFT_OUT = "roslens: left out: "
"""Begins the line about a recording that cannot be read."""

_BELOW_SESSION = re.compile(r"ust|kernel|archives|runtime|snapshot(-\d+.*)?")
"""Folders in that of a session: LTTng's of domains, rotations and snapshots; and, from
tracetools_trace/trace.py, ``snapshot`` and ``runtime`` of a dual session."""


@dataclass(frozen=True)
class _Session:
    """One tracing session on disk: its folder, hosts, and first and last time of its packets."""

    folder: Path
    hosts: frozenset[str]
    begin_ns: int | None
    end_ns: int | None


def find_runs(path: Path) -> list[Recording]:
    """The recordings at or below a path, each one run; in the order of their paths.

    Raises
    ------
    UsageError
        There is none.
    """
    recordings = find_recordings(path)
    if recordings[0].has_manifest and recordings[0].path != path:
        # Sessions that something else recorded may lie beside them.
        runs = {run.path for run in recordings}
        bare = [
            folder for folder in find_sessions(path) if runs.isdisjoint((folder, *folder.parents))
        ]
        return sorted([*recordings, *map(Recording.at, bare)], key=lambda run: run.path)
    if len(recordings) > 1 or recordings[0].has_manifest or recordings[0].is_excerpt:
        return recordings
    folders = find_sessions(path)
    if len(folders) < 2:
        return recordings
    hosts: dict[Path, set[str]] = {folder: set() for folder in folders}
    try:
        # The hosts have one set of labels only when all traces are opened as one.
        for trace, host in open_trace(path).host_of.items():
            hosts[_session_of(path, path / trace)].add(host)
        sessions = [
            _Session(folder, frozenset(hosts[folder]), *open_trace(folder).span)
            for folder in folders
        ]
    except UsageError:
        # A damaged one says so when it is opened, and the others are whole.
        return [Recording.at(folder) for folder in folders]
    return [Recording.at(run) for run in _runs(path, sessions)]


def read_each(
    runs: Iterable[Recording], read: Callable[[Recording], T], named: Collection[Recording] = ()
) -> tuple[dict[Recording, T], dict[Recording, str]]:
    """What `read` makes of each run, and why others of a folder cannot be read.

    These get a line each on the standard error: one that is cut, or still being recorded, says
    nothing against its neighbours.

    Parameters
    ----------
    runs
        Those to be read.
    read
        Raises UsageError where that is not possible.
    named
        Those of which a path names each by itself; of them none is left out.

    Raises
    ------
    UsageError
        One of `named` cannot be read, or none of all.
    """
    done: dict[Recording, T] = {}
    errors: dict[Recording, str] = {}
    for run in runs:
        try:
            done[run] = read(run)
        except UsageError as error:
            errors[run] = why_not_read(run, error)
            if run in named:
                raise type(error)(errors[run]) from error
    if errors and not done:
        more = f" (and {len(errors) - 1} more of {len(errors)})" if len(errors) > 1 else ""
        raise UsageError(f"{next(iter(errors.values()))}{more}")
    for why in errors.values():
        print(shown(f"{LEFT_OUT}{why}"), file=sys.stderr)
    return done, errors


def why_not_read(run: Recording, error: RoslensError) -> str:
    """The error in a line that names the run, and says so where it is still being recorded."""
    text = " ".join(str(error).split())
    text = text if str(run.path) in text else f"{run.path}: {text}"
    return f"{run.path} {STILL_RECORDED}: {text}" if _is_recorded(run) else text


def _is_recorded(run: Recording) -> bool:
    """Whether its manifest says so; or LTTng, which writes metadata when they first are flushed."""
    with suppress(UsageError, OSError):
        if run.manifest is not None:
            return run.manifest.status == "running"
        return any(not (trace / "metadata").stat().st_size for trace in find_traces(run.trace_root))
    return False


def not_read_in_words(count: int) -> str:
    """Of runs that `read_each` left out, to follow how many there are."""
    return f"; {count:,} could not be read" if count else ""


def found_in_words(path: Path, runs: Sequence[Recording], not_read: int = 0) -> str:
    """What a path was taken for, where it holds several bare traces or runs."""
    bare = [run for run in runs if not run.has_manifest and not run.is_excerpt]
    sessions = len(find_sessions(path)) if bare else 0
    count = f"{len(runs)} run{'s' * (len(runs) != 1)}{not_read_in_words(not_read)}"
    return f"{shown(str(path))}: {f'{sessions} sessions found, ' * bool(sessions)}{count}"


def find_sessions(path: Path) -> list[Path]:
    """The folders of the tracing sessions whose traces lie below a path, sorted."""
    return sorted({_session_of(path, trace) for trace in find_traces(path)})


def _session_of(path: Path, trace: Path) -> Path:
    below = trace.relative_to(path).parts
    inside = next((i for i, name in enumerate(below) if _BELOW_SESSION.fullmatch(name)), len(below))
    return path.joinpath(*below[:inside])


def _runs(folder: Path, sessions: Sequence[_Session]) -> list[Path]:
    """The folders to be opened, each as one recording: this one, or some of those in it."""
    if len(sessions) == 1:
        return [sessions[0].folder]
    is_session = any(session.folder == folder for session in sessions)
    if is_session or _belong_together(sessions):
        return [folder]
    depth = len(folder.parts)
    inside: dict[str, list[_Session]] = {}
    for session in sessions:
        inside.setdefault(session.folder.parts[depth], []).append(session)
    return [run for child, members in inside.items() for run in _runs(folder / child, members)]


def _belong_together(sessions: Sequence[_Session]) -> bool:
    """Whether each begins before one that began earlier has ended, and none is a copy."""
    if len(set(map(_recorded, sessions))) < len(sessions):
        return False
    spans = sorted(
        (s.begin_ns, s.end_ns) for s in sessions if s.begin_ns is not None and s.end_ns is not None
    )
    ends = accumulate((end for _, end in spans), max)
    return all(begin <= until for (begin, _), until in zip(spans[1:], ends, strict=False))


def _recorded(session: _Session) -> tuple[object, ...]:
    """What two copies have in common; sessions of which nothing is known are no copies."""
    known = session.begin_ns is not None
    return (session.hosts, session.begin_ns, session.end_ns) if known else (session.folder,)
