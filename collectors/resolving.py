"""Resolve a PATH to one recording, or to the runs of a folder that holds several sessions.

The manifests of a folder made by roslens list its runs. In a folder of bare traces, such as
``~/.ros/tracing``, each tracing session is a separate run, unless sessions belong together:

* parts that LTTng and ``ros2 trace`` make of one session: domains, rotations, snapshots, the two
  parts of a dual session;
* sessions that were recorded at the same time, on different hosts, in containers, or two of one
  program, whose events the model counts once. Copies of one session are not two.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from roslens.collectors.reader import open_trace
from roslens.recording import Recording, RoslensError, UsageError, find_recordings
from roslens.recording.layout import STILL_RECORDED, find_traces, session_of
from roslens.recording.text import shown

T = TypeVar("T")

LEFT_OUT = "roslens: left out: "
"""The beginning of the line about a recording that cannot be read."""


@dataclass(frozen=True)
class _Session:
    """One tracing session on disk: its folder, hosts, and first and last time of its packets."""

    folder: Path
    hosts: frozenset[str]
    begin_ns: int | None
    end_ns: int | None


def find_runs(path: Path) -> list[Recording]:
    """Return the recordings at or below a path, each one run, in order of their paths.

    Raises
    ------
    UsageError
        There is no recording.
    """
    recordings = find_recordings(path)
    if recordings[0].has_manifest and recordings[0].path != path:
        # Sessions that another tool recorded may lie beside them.
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
    hosts: dict[str, set[str]] = defaultdict(set)
    try:
        # Labels of hosts are consistent only when all traces are opened as one.
        for trace, host in open_trace(path).host_of.items():
            hosts[session_of(trace)].add(host)
        sessions = [
            _Session(
                folder,
                frozenset(hosts[shown(folder.relative_to(path).as_posix())]),
                *open_trace(folder).span,
            )
            for folder in folders
        ]
    except UsageError:
        # A damaged session is reported when it is opened; the others are complete.
        return [Recording.at(folder) for folder in folders]
    return [Recording.at(run) for run in _runs(path, sessions)]


def read_each(
    runs: Iterable[Recording], read: Callable[[Recording], T], named: Collection[Recording] = ()
) -> tuple[dict[Recording, T], dict[Recording, str]]:
    """Read each run; return the results, and the reasons why other runs cannot be read.

    Each unreadable run is reported in a line on standard error: a run that is truncated, or still
    being recorded, does not make the others unusable.

    Parameters
    ----------
    runs
        Runs to be read.
    read
        Function that reads a run; it raises UsageError if that is not possible.
    named
        Runs that were named individually by a path; all of these must be readable.

    Raises
    ------
    UsageError
        A run of `named` cannot be read, or no run can.
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
    """Return the error as a line that names the run, and states whether it is still recorded."""
    text = " ".join(str(error).split())
    text = text if str(run.path) in text else f"{run.path}: {text}"
    return f"{run.path} {STILL_RECORDED}: {text}" if _is_recorded(run) else text


def _is_recorded(run: Recording) -> bool:
    """Return whether a run is still recorded, by its manifest or by empty metadata of LTTng."""
    with suppress(UsageError, OSError):
        if run.manifest is not None:
            return run.manifest.status == "running"
        return any(not (trace / "metadata").stat().st_size for trace in find_traces(run.trace_root))
    return False


def not_read_in_words(count: int) -> str:
    """Return a phrase for the number of runs that `read_each` left out, to append to a count."""
    return f"; {count:,} could not be read" if count else ""


def resolved_in_words(
    path: Path, runs: Sequence[Recording], not_read: int = 0, given: Path | None = None
) -> str:
    """Return how a path was understood: how many sessions and runs it holds, in words.

    It is called `given`, if that is an archive that was unpacked at `path`.
    """
    bare = [run for run in runs if not run.has_manifest and not run.is_excerpt]
    sessions = len(find_sessions(path)) if bare else 0
    count = f"{len(runs)} run{'s' * (len(runs) != 1)}{not_read_in_words(not_read)}"
    return f"{shown(str(given or path))}: {f'{sessions} sessions found, ' * bool(sessions)}{count}"


def find_sessions(path: Path) -> list[Path]:
    """Return the folders of the tracing sessions whose traces lie below a path, sorted."""
    return sorted(
        {path / session_of(trace.relative_to(path).as_posix()) for trace in find_traces(path)}
    )


def _runs(folder: Path, sessions: Sequence[_Session]) -> list[Path]:
    """Return the folders to open as one recording each: this folder, or some within it."""
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
    """Return whether sessions overlap in time without a break, and none is a copy of another."""
    if len(set(map(_recorded, sessions))) < len(sessions):
        return False
    spans = sorted(
        (s.begin_ns, s.end_ns) for s in sessions if s.begin_ns is not None and s.end_ns is not None
    )
    ends = accumulate((end for _, end in spans), max)
    return all(begin <= until for (begin, _), until in zip(spans[1:], ends, strict=False))


def _recorded(session: _Session) -> tuple[object, ...]:
    """Return what two copies have in common; sessions without known times are no copies."""
    known = session.begin_ns is not None
    return (session.hosts, session.begin_ns, session.end_ns) if known else (session.folder,)
