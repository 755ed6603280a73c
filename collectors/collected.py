"""Read the note beside collected tables, and decide whether the files there are up to date."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from roslens.collectors import store
from roslens.collectors.fingerprint import collector_version, fingerprint
from roslens.recording import Recording, UsageError
from roslens.recording.files import ONLY_READ, write_atomically
from roslens.recording.foreign import SECONDS, read_foreign
from roslens.recording.json_file import read_json
from roslens.recording.layout import find_traces

if TYPE_CHECKING:
    from roslens.collectors.decoding import ClockOffsets, Written
    from roslens.collectors.excerpt import Excerpt

NOTE = "collected.json"
_NOTE_VERSION = 2
_FIELDS = frozenset(
    ("collector", "options", "trace", "events_by_name", "rows", "discarded_events", "warnings")
)


@dataclass(frozen=True)
class Collected:
    """The result of a collection.

    Attributes
    ----------
    recording
        The recording that was collected.
    events_by_name
        Number of events per name.
    rows
        Number of rows per table; empty with ``events_only``.
    discarded_events
        Number of events that the tracer reports as dropped.
    warnings
        Warnings of the reader.
    rebuilt
        False if everything was up to date and nothing was read.
    clock_offsets
        Findings on the hosts' clocks, where they were brought together; one line each.
    excerpt
        The part of the recording that was collected, in words; None for all of it.
    """

    recording: Recording
    events_by_name: dict[str, int]
    rows: dict[str, int]
    discarded_events: int
    warnings: list[str]
    rebuilt: bool
    clock_offsets: Sequence[str] = ()
    excerpt: str | None = None

    @property
    def events(self) -> int:
        """Number of events."""
        return sum(self.events_by_name.values())

    def to_json(self) -> dict[str, Any]:
        """Return the object that `roslens collect --json` prints."""
        return {
            "recording": str(self.recording.path),
            "output": str(self.recording.output),
            "excerpt": self.excerpt,
            "rebuilt": self.rebuilt,
            "events": self.events,
            "discarded_events": self.discarded_events,
            "rows": self.rows,
            "clock_offsets": list(self.clock_offsets),
            "warnings": self.warnings,
        }

    @property
    def lacks_events(self) -> bool:
        """Whether there are no events, though the manifest does not say that none are expected."""
        if self.events:
            return False
        manifest = self.recording.manifest
        return manifest is None or manifest.events_expected

    @classmethod
    def of_note(cls, recording: Recording, note: Mapping[str, Any], *, rebuilt: bool) -> Self:
        """Make the result from the note beside the tables."""
        return cls(
            recording=recording,
            events_by_name=note["events_by_name"],
            rows=note["rows"],
            discarded_events=note["discarded_events"],
            warnings=note["warnings"],
            rebuilt=rebuilt,
            clock_offsets=note.get("clock_offsets", ()),
            excerpt=(note.get("excerpt") or {}).get("in_words"),
        )


@dataclass(frozen=True)
class CollectionRequest:
    """A request: what a collection is to make of a recording.

    Attributes
    ----------
    recording, events_only, excerpt
        As of `roslens.collectors.collection.collect`.
    offsets
        Offsets of the hosts' clocks; empty for none.
    """

    recording: Recording
    events_only: bool
    offsets: ClockOffsets
    excerpt: Excerpt | None

    @property
    def options(self) -> dict[str, Any]:
        """The options that the note records."""
        return {"events_only": self.events_only}

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the traces, computed when first asked for, which is before the work.

        Raises
        ------
        UsageError
            There is no trace.
        """
        return fingerprint(self.recording, self.offsets)

    def check(self, *, apart: bool) -> None:
        """Reject options that contradict each other; `apart`: collect in a separate process.

        Raises
        ------
        UsageError
            An option contradicts another one.
        """
        excerpt = self.excerpt
        if excerpt is not None:
            excerpt.check(self.recording)
        if self.offsets and apart:
            raise UsageError("clock offsets go without limits")
        if excerpt is not None and self.events_only and (excerpt.topics or excerpt.nodes):
            raise UsageError("--topic and --node choose rows of tables: leave out --events-only")

    def up_to_date(self, *, force: bool, verify: bool) -> Collected | None:
        """Return what was collected before if it is up to date; None if it must be made.

        Parameters
        ----------
        force
            Return None unless the trace is gone.
        verify
            Read all files and compare their digests, not only sizes and times.

        Raises
        ------
        UsageError
            There is no trace, nor whole tables of this version that were made of it.
        """
        # Always before the work, never after it.
        traces = self.fingerprint
        note = read_note(self.recording)
        if (
            force
            or note is None
            or note["collector"] != collector_version()
            or note["trace"] != traces
            or _requested_excerpt(note)
            != (None if self.excerpt is None else self.excerpt.as_request)
            # Tables are wanted, but only events were made.
            or (note["options"]["events_only"] and not self.events_only)
        ):
            # Nothing could be made anew of a trace that was removed.
            if note is None or not note["events_by_name"] or find_traces(self.recording.trace_root):
                return None
            return self.without_trace(force=force, verify=verify)
        whole, touched = store.examine(self.recording, note["files"], read_all=verify)
        if not whole:
            return None
        if touched:
            _note_file_times(self.recording, note)
        return Collected.of_note(self.recording, note, rebuilt=False)

    def without_trace(self, *, force: bool, verify: bool) -> Collected:
        """Return what was collected for tables without their traces, which cannot be made again.

        Raises
        ------
        UsageError
            The tables are damaged or of another collector version, or something else was asked for.
        """
        from roslens.collectors.excerpt import source_of  # noqa: PLC0415

        about = source_of(self.recording)
        note = read_note(self.recording)
        problem = None
        if force or self.excerpt is not None:
            problem = "more of it is not here"
        elif note is None or (_requested_excerpt(note) is None) != (
            about is None or about.get("whole", False)
        ):
            problem = "it is damaged"
        elif note["collector"] != collector_version():
            problem = "another version of the collectors made it"
        elif not store.examine(self.recording, note["files"], read_all=verify)[0]:
            problem = "it is damaged"
        if problem is not None or note is None:
            path = self.recording.path
            remedy = (
                f"restore the trace below {self.recording.trace_root}"
                if about is None
                else f"run 'roslens collect' on '{about['of']}' again, with -o {path}"
            )
            raise UsageError(f"{path}: tables without their trace, and {problem}: {remedy}")
        return Collected.of_note(self.recording, note, rebuilt=False)

    def noted(
        self, written: Written, rows: Mapping[str, int], about: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the note of what was made, without its files; `about` describes an excerpt."""
        return {
            "note_version": _NOTE_VERSION,
            "collector": collector_version(),
            "options": self.options,
            "trace": self.fingerprint,
            "events_by_name": dict(sorted(written.counts.items())),
            "rows": rows,
            "excerpt": about,
            "discarded_events": written.discarded_events,
            "warnings": written.warnings,
            "clock_offsets": list(written.clock_offsets),
        }


def _requested_excerpt(note: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the request for the excerpt that a note describes; None for a whole recording."""
    about = note.get("excerpt")
    return None if about is None else about.get("asked", {})


def _note_file_times(recording: Recording, note: dict[str, Any]) -> None:
    """Note new file times, so that a copied recording is not read in full each time."""
    if ONLY_READ in os.environ:
        return
    with suppress(OSError, UsageError), store.locked(recording):
        if read_note(recording) == note:
            files = store.stamped(recording, note["files"])
            write_note(note | {"files": files}, recording.tables / NOTE)


def read_note(recording: Recording) -> dict[str, Any] | None:
    """Read the note of a recording's tables; None if there is none that this version can read."""
    try:
        note = read_json(recording.tables / NOTE)
    except UsageError:
        return None
    known = isinstance(note, dict) and note.get("note_version") == _NOTE_VERSION
    return note if known and note.keys() >= _FIELDS | {"files"} else None


def check_tables(recording: Recording) -> None:
    """Reject tables that are to be read without collecting if damaged or of a later version.

    Raises
    ------
    UsageError
        The tables are of a later version, cannot be read, or differ from those written.
    """
    files = sorted(recording.tables.glob("*.parquet"))
    # Where the note has digests, these show damage, and one file shows the version of all.
    from roslens.collectors.table_file import check_versions  # noqa: PLC0415  (polars, for tables only)

    check_versions(recording, files if read_note(recording) is None else files[:1])
    check_files(recording, recording.tables)


def check_files(recording: Recording, folder: Path) -> None:
    """Reject a folder's collected tables or events that cannot be read as they are.

    Raises
    ------
    UsageError
        The files cannot be read, or differ from those written.
    """
    note = read_note(recording)
    if note is None:
        sizes = [path.stat().st_size for path in folder.rglob("*.parquet")]
        if sizes:
            read_foreign(
                "roslens.collectors.table_file:decode_all",
                folder,
                "tables",
                "run 'roslens collect' again",
                seconds=SECONDS + (sum(sizes) >> 20),
            )
        return
    changed = store.changed_file(recording, note["files"], folder)
    if changed is not None:
        raise UsageError(
            f"{changed}: damaged, or changed since it was written; run 'roslens collect' again"
        )


def write_note(note: Mapping[str, Any], path: Path) -> None:
    """Write the note atomically."""
    write_atomically(path, json.dumps(note, indent=1) + "\n")
