"""Copies of one recording: they are one run, however many there are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from roslens.recording import Recording
from roslens.recording.layout import MANIFEST_NAME, find_traces


def without_copies(
    recordings: Sequence[Recording],
) -> tuple[list[Recording], dict[str, list[str]]]:
    """Recordings without the copies among them, and the names of these by that of the first.

    The metadata of a trace hold its UUID: only where these are equal the streams are read. Traces
    without one, or without any stream, tell nothing, and runs whose manifests differ were meant to
    be two.
    """
    first: dict[tuple[str, ...], list[Recording]] = {}
    kept: list[Recording] = []
    copies: dict[str, list[str]] = {}
    for recording in recordings:
        mark = _mark(recording)
        for other in first.get(mark, ()):
            if mark and _content(other.path) == _content(recording.path):
                copies.setdefault(other.name, []).append(recording.name)
                break
        else:
            first.setdefault(mark, []).append(recording)
            kept.append(recording)
    return kept, copies


def _mark(recording: Recording) -> tuple[str, ...]:
    """What copies have in common, at little cost; empty where there is no trace."""
    if recording.is_excerpt:
        return ()
    files = [trace / "metadata" for trace in find_traces(recording.trace_root)]
    if not all(b"uuid" in file.read_bytes() for file in files):
        return ()
    if files and recording.has_manifest:
        files.append(recording.path / MANIFEST_NAME)
    return tuple(_hash(file) for file in files)


def _content(folder: Path) -> tuple[str, ...]:
    return tuple(
        _hash(file)
        for trace in find_traces(Recording.at(folder).trace_root)
        for file in sorted(trace.iterdir())
        if file.is_file()
    )


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
