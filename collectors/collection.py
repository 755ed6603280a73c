"""The engine of ``roslens collect``: a recording becomes ``events/`` and ``tables/``.

Idempotent: ``tables/collected.json`` says from which trace, with which options and by which
version of the collectors the files were made, and holds their digests; they are made again when
any of these changes. `roslens.collectors.store` puts all of them in place at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roslens.collectors import store
from roslens.collectors.decoding import (
    ClockOffsets,
    Done,
    Engine,
    Progress,
    Written,
    write_events,
    write_frame,
)
from roslens.collectors.schema import TABLES
from roslens.tracing.recording import Recording, RoslensError, RunFailedError, UsageError
from roslens.tracing.recording.bags import refuse_bag
from roslens.tracing.recording.files import text_path, write_atomically
from roslens.tracing.recording.layout import find_traces

# What only makes tables is imported where they are made: raw events are written without polars.
if TYPE_CHECKING:
    import polars as pl

    from roslens.collectors.excerpt import Excerpt
    from roslens.collectors.limits import Limits
    from roslens.tracing.recording.manifest import Manifest

_LONG_BYTES = 256 << 20
"""A trace of this size is decoded in parts, so that the work goes on where it was interrupted."""

NOTE = "collected.json"
_NOTE_VERSION = 2
_FIELDS = frozenset(
    ("collector", "options", "trace", "events_by_name", "rows", "discarded_events", "warnings")
)


@dataclass(frozen=True)
class Collected:
    """What a collection left.

    Attributes
    ----------
    recording
        Where it lies.
    events_by_name
        Number of events per name.
    rows
        Number of rows per table; empty with ``events_only``.
    discarded_events
        What the tracer says that it dropped.
    warnings
        What the reader had to say.
    rebuilt
        False if everything was up to date and nothing was read.
    clock_offsets
        What is known of the hosts' clocks, where they were brought together; one line each.
    excerpt
        Which part of the recording this is, in words; None for all of it.
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

    @property
    def lacks_events(self) -> bool:
        """Whether there is none, though nothing says that there may be none."""
        if self.events:
            return False
        manifest = self.recording.manifest
        return manifest is None or manifest.events_expected


def collect(
    recording: Recording,
    *,
    engine: Engine = "native",
    threads: int = 0,
    events_only: bool = False,
    force: bool = False,
    verify: bool = False,
    limits: Limits | None = None,
    clock_offsets: ClockOffsets | None = None,
    excerpt: Excerpt | None = None,
    progress: Progress | None = None,
    done: Done | None = None,
) -> Collected:
    """Make a recording's ``events/`` and ``tables/``, unless they are there and up to date.

    Parameters
    ----------
    recording
        Its traces are read, its output folder is written.
    engine
        Our reader, or babeltrace2 (slow, for comparison).
    threads
        Threads that decode, make tables and write them; 0 for one per CPU.
    events_only
        Raw events only, no tables.
    force
        Make them even if they are up to date.
    verify
        Read all files that are there and compare their digests, not only sizes and times.
    limits
        What it may take; with any, another process does the work.
    clock_offsets
        Nanoseconds to add to all times of a host, given by its name or label; or ``"auto"``, see
        `roslens.collectors.clocks`.
    excerpt
        Only part of it, into an output that is not the recording's own.
    progress
        Called with the name of each step as it begins.
    done
        Called with bytes read and bytes in all, as they are read.

    Raises
    ------
    UsageError
        The manifest is not valid, no trace there, a trace cannot be read, the output folder
        cannot be written to, or there is nothing of which an excerpt is wanted.
    RunFailedError
        A file cannot be written (no space left), or a limit was reached.
    NotEnoughEvidenceError
        The clocks' offsets cannot be estimated.
    """
    say = progress if progress is not None else lambda _: None
    if recording.is_excerpt:
        return _of_excerpt(recording, verify=verify, asked=force or excerpt is not None)
    if excerpt is not None:
        excerpt.check(recording)
    options = {"engine": engine, "events_only": events_only}
    # Read before the work, not after it.
    manifest = recording.manifest
    offsets = clock_offsets or {}
    apart = limits is not None and limits.any
    _check_options(options, excerpt, offsets, apart=apart)
    fingerprint = _fingerprint(recording, offsets)

    def known() -> Collected | None:
        if force:
            return None
        return _up_to_date(recording, options, fingerprint, excerpt, verify=verify)

    if (before := known()) is not None:
        return before
    if limits is not None and apart:
        wanted = {**options, "threads": threads, "excerpt": excerpt and excerpt.asked}
        return _collect_apart(recording, wanted, limits, say, done)
    # Long work goes on where it was interrupted.
    long = engine == "native" and excerpt is None and _bytes(recording) >= _LONG_BYTES
    key = _digest(f"{collector_version()} {options} {fingerprint}".encode())[:16] if long else None
    waiting = partial(say, "waiting for another roslens")
    with store.locked(recording, waiting, key) as alone:
        # Another may have made them meanwhile.
        if (before := known()) is not None:
            return before
        with (
            store.making(recording, key if alone else None) as made,
            store.describing(made) as described,
        ):
            say("reading")
            with ThreadPoolExecutor(1) as beside:
                if not events_only:
                    # Decoding leaves the interpreter alone meanwhile.
                    beside.submit(import_module, "roslens.collectors.ros2")
                written = write_events(
                    made, offsets, engine=engine, threads=threads, excerpt=excerpt, done=done,
                    resumed=say if long else None,
                )  # fmt: skip
            # What is cut out of later is described later.
            final = described.begin if excerpt is None else lambda *_: None
            final(*made.events.rglob("*.parquet"))
            rows = (
                {}
                if events_only
                else _model(written, made, manifest, threads=threads, say=say, final=final)
            )
            about, rows = _without_traces(made, recording, excerpt, written, rows)
            note = {
                "note_version": _NOTE_VERSION,
                "collector": collector_version(),
                "options": options,
                "trace": fingerprint,
                "events_by_name": dict(sorted(written.counts.items())),
                "rows": rows,
                "excerpt": about,
                "discarded_events": written.discarded_events,
                "warnings": written.warnings,
                "clock_offsets": list(written.clock_offsets),
            }
            with store.writing(made.output):
                note["files"] = described.all()
                _write_note(note, made.tables / NOTE)
            store.put_in_place(made, recording)
    return _from_note(recording, note, rebuilt=True)


def _without_traces(
    made: Recording,
    recording: Recording,
    excerpt: Excerpt | None,
    written: Written,
    rows: dict[str, int],
) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """Make tables that will lie without their traces open by themselves; an excerpt is cut."""
    if excerpt is None and not (rows and recording.is_elsewhere):
        return None, rows
    from roslens.collectors.excerpt import cut, take_along  # noqa: PLC0415  (few need it)

    if excerpt is not None:
        return cut(made, recording, excerpt, written.window, write_frame)
    of = {"of": recording.name, "in_words": "all of it", "whole": True}
    take_along(made, recording, of, lambda _: (), write_frame)
    return None, rows


def _model(
    written: Written,
    made: Recording,
    manifest: Manifest | None,
    *,
    threads: int,
    say: Progress,
    final: Callable[[Path], object],
) -> dict[str, int]:
    """Write all tables, telling each one's file when it is; their numbers of rows."""
    from roslens.collectors.caret import with_caret  # noqa: PLC0415  (events need no model)
    from roslens.collectors.ros2 import make_tables  # noqa: PLC0415
    from roslens.collectors.ros2.one_pass import Rows  # noqa: PLC0415

    say("model")
    raw = with_caret(written.frames())
    written_rows: dict[str, int] = {}

    def give(name: str, table: pl.DataFrame | Rows) -> None:
        if not written_rows:
            say("tables")
        path = made.tables / f"{name}.parquet"
        if isinstance(table, Rows):
            written_rows[name] = table.write(path)
        else:
            write_frame(table, path)
            written_rows[name] = table.height
        final(path)

    with store.writing(made.tables):
        make_tables(
            raw.events,
            give,
            raw.losses,
            raw.warnings,
            hosts=raw.hosts,
            rmw=None if manifest is None else manifest.environment.rmw,
            synchronisation=None if manifest is None else manifest.clock.synchronisation,
            clocks=raw.clocks,
            files=raw.files,
            threads=threads,
            path=made.output / "rows",
        )
    return {name: written_rows[name] for name in TABLES}


def _check_options(
    options: Mapping[str, Any],
    excerpt: Excerpt | None,
    offsets: ClockOffsets,
    *,
    apart: bool,
) -> None:
    native = options["engine"] == "native"
    if offsets and (apart or not native):
        raise UsageError("clock offsets go with the native engine, without limits")
    if excerpt is not None and not native:
        raise UsageError("part of a recording goes with the native engine")
    if excerpt is not None and options["events_only"] and (excerpt.topics or excerpt.nodes):
        raise UsageError("--topic and --node choose rows of tables: leave out --events-only")


def _collect_apart(
    recording: Recording,
    options: Mapping[str, Any],
    limits: Limits,
    say: Progress,
    done: Done | None,
) -> Collected:
    """Collect in a process of its own that is ended if it goes beyond its limits."""
    from roslens.collectors.limits import run_limited  # noqa: PLC0415

    run_limited(recording, options, limits, say, done)
    note = _read_note(recording)
    if note is None:
        raise RunFailedError(f"{recording.output}: its tables were removed as they were made")
    return _from_note(recording, note, rebuilt=True)


def tables(recording: Recording) -> dict[str, pl.LazyFrame]:
    """The model tables of a collected recording, lazily.

    Raises
    ------
    UsageError
        It was not collected.
    """
    missing = [name for name in TABLES if not (recording.tables / f"{name}.parquet").is_file()]
    if missing:
        raise UsageError(
            f"{recording.path}: no table '{missing[0]}' yet; run 'roslens collect {recording.path}'"
        )
    import polars as pl  # noqa: PLC0415

    files = {name: text_path(recording.tables / f"{name}.parquet") for name in TABLES}
    return {name: pl.scan_parquet(file, glob=False) for name, file in files.items()}


def _write_note(note: Mapping[str, Any], path: Path) -> None:
    write_atomically(path, json.dumps(note, indent=1) + "\n")


def _read_note(recording: Recording) -> dict[str, Any] | None:
    try:
        note = json.loads((recording.tables / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(note, dict) and note.get("note_version") == _NOTE_VERSION
    return note if known and note.keys() >= _FIELDS | {"files"} else None


def _up_to_date(
    recording: Recording,
    options: Mapping[str, Any],
    fingerprint: str,
    excerpt: Excerpt | None,
    *,
    verify: bool,
) -> Collected | None:
    note = _read_note(recording)
    if (
        note is None
        or note["collector"] != collector_version()
        or note["trace"] != fingerprint
        or note["options"]["engine"] != options["engine"]
        or _asked(note) != (None if excerpt is None else excerpt.asked)
        # Tables were asked for, and were not made.
        or (note["options"]["events_only"] and not options["events_only"])
    ):
        return None
    whole, touched = store.examine(recording, note["files"], read_all=verify)
    if not whole:
        return None
    if touched:
        _stamp_again(recording, note)
    return _from_note(recording, note, rebuilt=False)


def _asked(note: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the excerpt was asked for of which the note tells; None for a whole recording."""
    about = note.get("excerpt")
    return None if about is None else about.get("asked", {})


def _of_excerpt(recording: Recording, *, verify: bool, asked: bool) -> Collected:
    """What lies there: without the traces it cannot be made again.

    Raises
    ------
    UsageError
        It is damaged, of another version of the collectors, or something else was asked for.
    """
    from roslens.collectors.excerpt import source_of  # noqa: PLC0415

    about = source_of(recording)
    note = _read_note(recording)
    problem = None
    if asked:
        problem = "more of it is not here"
    elif about is None or note is None or (_asked(note) is None) != about.get("whole", False):
        problem = "it is damaged"
    elif note["collector"] != collector_version():
        problem = "another version of the collectors made it"
    elif not store.examine(recording, note["files"], read_all=verify)[0]:
        problem = "it is damaged"
    if problem is not None or note is None:
        of = "the recording" if about is None else f"'{about['of']}'"
        raise UsageError(
            f"{recording.path}: tables without their trace, and {problem}: "
            f"run 'roslens collect' on {of} again, "
            f"with -o {recording.path}"
        )
    return _from_note(recording, note, rebuilt=False)


def _stamp_again(recording: Recording, note: dict[str, Any]) -> None:
    """Save reading all files of a copied recording each time, where it can be written to."""
    with suppress(OSError, UsageError), store.locked(recording):
        if _read_note(recording) == note:
            files = store.stamped(recording, note["files"])
            _write_note(note | {"files": files}, recording.tables / NOTE)


def _from_note(recording: Recording, note: Mapping[str, Any], *, rebuilt: bool) -> Collected:
    return Collected(
        recording=recording,
        events_by_name=note["events_by_name"],
        rows=note["rows"],
        discarded_events=note["discarded_events"],
        warnings=note["warnings"],
        rebuilt=rebuilt,
        clock_offsets=note.get("clock_offsets", ()),
        excerpt=(note.get("excerpt") or {}).get("in_words"),
    )


def _bytes(recording: Recording) -> int:
    """Size of all traces."""
    files = (
        path
        for trace in find_traces(recording.trace_root)
        for path in trace.iterdir()
        if path.is_file()
    )
    return sum(path.stat().st_size for path in files)


def _fingerprint(recording: Recording, clock_offsets: ClockOffsets) -> str:
    """Digest of names, sizes and times of all files of its traces, and of what is done to them.

    Raises
    ------
    UsageError
        There is no trace, nor the manifest of a run that made none.
    """
    found = find_traces(recording.trace_root)
    if not found and not recording.has_manifest:
        refuse_bag(recording.trace_root)
        raise UsageError(
            f"{recording.trace_root}: no CTF trace here (no file named 'metadata' at or below it)"
        )
    manifest = recording.manifest
    # What the model takes from the manifest.
    lines = (
        [] if manifest is None else [f"{manifest.environment.rmw} {manifest.clock.synchronisation}"]
    )
    if clock_offsets == "auto":
        lines.append("clock auto")
    else:
        lines += [f"clock {host} {ns}" for host, ns in sorted(clock_offsets.items())]
    own = [recording.events, recording.tables]
    if recording.output != recording.path:
        own.append(recording.output)
    own += store.leftovers(recording)
    clocks = [recording.clocks] if recording.clocks.is_file() else []
    for path in (*clocks, *(path for trace in found for path in sorted(trace.rglob("*")))):
        if path.is_file() and not any(path.is_relative_to(folder) for folder in own):
            state = path.stat()
            name = path.relative_to(recording.path).as_posix()
            lines.append(f"{name} {state.st_size} {state.st_mtime_ns}")
    return _digest(os.fsencode("\n".join(lines)))


@cache
def collector_version() -> str:
    """Version of the collectors: the distribution's and a digest of the code itself."""
    try:
        number = version("roslens")
    except PackageNotFoundError:
        number = "0"
    here = Path(__file__).parent
    # Bit by bit: the native code is large.
    code = map(store.sha256, sorted([*here.rglob("*.py"), *here.glob("_native*")]))
    return f"{number}+{_digest(''.join(code).encode())[:16]}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main(text: str) -> int:
    """Collect what `roslens.collectors.limits` asks for; progress and errors as lines of JSON."""
    from roslens.collectors.excerpt import Excerpt  # noqa: PLC0415

    asked = json.loads(text)
    if asked["excerpt"] is not None:
        asked["excerpt"] = Excerpt(**asked["excerpt"])
    recording = Recording.at(Path(asked.pop("path")), Path(asked.pop("output")))

    def tell(*what: object) -> None:
        print(json.dumps(what), flush=True)

    try:
        collect(
            recording,
            **asked,
            force=True,
            progress=lambda step: tell("step", step),
            done=lambda done, total: tell("done", done, total),
        )
    except RoslensError as error:
        tell("error", error.exit_code, str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
