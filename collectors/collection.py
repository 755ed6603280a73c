"""Collect a recording into ``events/`` and ``tables/``: the engine of ``roslens collect``.

Collecting is idempotent: ``tables/collected.json`` names the trace, the options and the version of
the collectors that the files were made from, and holds their digests; they are made again when any
of these changes. `roslens.collectors.store` puts all of them in place at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roslens.collectors import store
from roslens.collectors.collected import NOTE, Collected, CollectionRequest, read_note, write_note
from roslens.collectors.decoding import (
    ClockOffsets,
    Done,
    Progress,
    Written,
    write_events,
)
from roslens.collectors.schema import TABLES
from roslens.recording import Recording, RoslensError, RunFailedError, UsageError
from roslens.recording.errors import writing

# Imports for tables are local to the functions: raw events are written without polars.
if TYPE_CHECKING:
    import polars as pl

    from roslens.collectors.excerpt import Excerpt
    from roslens.collectors.limits import Limits
    from roslens.recording.manifest import Manifest


def collect(
    recording: Recording,
    *,
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
    """Make a recording's ``events/`` and ``tables/``, unless they exist and are up to date.

    Parameters
    ----------
    recording
        The recording whose traces are read and whose output folder is written.
    threads
        Number of threads to decode, make tables and write them; 0 for one per CPU.
    events_only
        Write only raw events, no tables.
    force
        Make the files even if they are up to date.
    verify
        Read all existing files and compare their digests, not only sizes and times.
    limits
        Limits of time, memory and output; with any, another process does the work.
    clock_offsets
        Nanoseconds to add to all times of a host, given by its name or label; or ``"auto"``, see
        `roslens.collectors.clocks`.
    excerpt
        Collect only a part, into an output that is not the recording's own.
    progress
        Called with the name of each step as it begins.
    done
        Called with the bytes read so far and the total, while reading.

    Raises
    ------
    UsageError
        The manifest is not valid, there is no trace, a trace cannot be read, the output folder
        cannot be written to, or the recording has nothing that the excerpt asks for.
    RunFailedError
        A file cannot be written (no space left), or a limit was reached.
    NotEnoughEvidenceError
        The clock offsets cannot be estimated.
    """
    say = progress if progress is not None else lambda _: None
    wanted = CollectionRequest(recording, events_only, clock_offsets or {}, excerpt)
    if recording.is_excerpt:
        return wanted.without_trace(force=force, verify=verify)
    apart = limits is not None and limits.any
    wanted.check(apart=apart)
    if (before := wanted.up_to_date(force=force, verify=verify)) is not None:
        return before
    if limits is not None and apart:
        return _collect_in_process(wanted, threads, limits, say, done)
    waiting = partial(say, "waiting for another roslens")
    with store.locked(recording, waiting):
        # Another process may have made them meanwhile.
        if (before := wanted.up_to_date(force=force, verify=verify)) is not None:
            return before
        return _make(wanted, threads, say, done)


def _make(wanted: CollectionRequest, threads: int, say: Progress, done: Done | None) -> Collected:
    """Make events and tables in a temporary folder, and put them in place."""
    recording, excerpt = wanted.recording, wanted.excerpt
    # The manifest is read before the work, not after it.
    manifest = recording.manifest
    with store.making(recording) as pending, store.describing(pending) as described:
        say("reading")
        with ThreadPoolExecutor(1) as pool:
            if not wanted.events_only:
                # Decoding does not hold the interpreter meanwhile.
                pool.submit(import_module, "roslens.collectors.ros2")
            written = write_events(
                pending, wanted.offsets, threads=threads, excerpt=excerpt,
                done=done,
            )  # fmt: skip
        # Files that will be cut are described later.
        final = described.begin if excerpt is None else lambda *_: None
        final(*pending.events.rglob("*.parquet"))
        rows = (
            {}
            if wanted.events_only
            else _model(written, pending, manifest, threads=threads, say=say, final=final)
        )
        about, rows = _without_traces(pending, recording, excerpt, written, rows)
        note = wanted.noted(written, rows, about)
        with writing(pending.output):
            note["files"] = described.all()
            write_note(note, pending.tables / NOTE)
        store.put_in_place(pending, recording)
    return Collected.of_note(recording, note, rebuilt=True)


def _without_traces(
    pending: Recording,
    recording: Recording,
    excerpt: Excerpt | None,
    written: Written,
    rows: dict[str, int],
) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """Make tables that lie without their traces readable by themselves; cut an excerpt."""
    if excerpt is None and not (rows and recording.is_elsewhere):
        return None, rows
    from roslens.collectors.excerpt import cut, take_along  # noqa: PLC0415  (few need it)

    if excerpt is not None:
        return cut(pending, recording, excerpt, written.window)
    about = {"of": recording.name, "in_words": "all of it", "whole": True}
    take_along(pending, recording, about, lambda _: ())
    return None, rows


def _model(
    written: Written,
    pending: Recording,
    manifest: Manifest | None,
    *,
    threads: int,
    say: Progress,
    final: Callable[[Path], object],
) -> dict[str, int]:
    """Write all tables, passing each finished file to `final`; return their numbers of rows."""
    from roslens.collectors.caret import with_caret  # noqa: PLC0415  (events need no model)
    from roslens.collectors.ros2 import make_tables  # noqa: PLC0415
    from roslens.collectors.ros2.losses import counted  # noqa: PLC0415
    from roslens.collectors.ros2.one_pass import Rows  # noqa: PLC0415
    from roslens.collectors.table_file import write_frame  # noqa: PLC0415

    say("model")
    raw = with_caret(written.frames())
    reported = {} if manifest is None else manifest.loss.model_dump()
    # Without traced events, the number of lost ones is unknown.
    loss = counted(raw.losses, reported) if raw.events else None
    written_rows: dict[str, int] = {}

    def give(name: str, table: pl.DataFrame | Rows) -> None:
        if not written_rows:
            say("tables")
        path = pending.tables / f"{name}.parquet"
        about = TABLES[name].about(loss)
        if isinstance(table, Rows):
            written_rows[name] = table.write(path, about)
        else:
            write_frame(table, path, about)
            written_rows[name] = table.height
        final(path)

    with writing(pending.tables):
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
            path=pending.output / "rows",
        )
    return {name: written_rows[name] for name in TABLES}


def _collect_in_process(
    wanted: CollectionRequest, threads: int, limits: Limits, say: Progress, done: Done | None
) -> Collected:
    """Collect in a separate process that is killed if it exceeds its limits."""
    from roslens.collectors.limits import run_limited  # noqa: PLC0415

    recording, excerpt = wanted.recording, wanted.excerpt
    options = {**wanted.options, "threads": threads, "excerpt": excerpt and excerpt.as_request}
    run_limited(recording, options, limits, say, done)
    note = read_note(recording)
    if note is None:
        raise RunFailedError(f"{recording.output}: its tables were removed as they were made")
    return Collected.of_note(recording, note, rebuilt=True)


def tables(recording: Recording) -> dict[str, pl.LazyFrame]:
    """Return the model tables of a collected recording as lazy frames.

    Raises
    ------
    UsageError
        The recording was not collected.
    """
    missing = [name for name in TABLES if not (recording.tables / f"{name}.parquet").is_file()]
    if missing:
        raise UsageError(
            f"{recording.path}: no table '{missing[0]}' yet; run 'roslens collect {recording.path}'"
        )
    from roslens.collectors.collected import check_tables  # noqa: PLC0415
    from roslens.collectors.table_file import scan_table  # noqa: PLC0415

    check_tables(recording)
    return {
        name: scan_table(table, recording.tables / f"{name}.parquet")
        for name, table in TABLES.items()
    }


def main(text: str) -> int:
    """Collect as `roslens.collectors.limits` asks; print progress and errors as lines of JSON."""
    from roslens.collectors.excerpt import Excerpt  # noqa: PLC0415

    asked = json.loads(text)
    if asked["excerpt"] is not None:
        asked["excerpt"] = Excerpt(**asked["excerpt"])
    recording = Recording.at(Path(asked.pop("path")), Path(asked.pop("output")))

    def send(*fields: object) -> None:
        print(json.dumps(fields), flush=True)

    try:
        collect(
            recording,
            **asked,
            force=True,
            progress=lambda step: send("step", step),
            done=lambda done, total: send("done", done, total),
        )
    except RoslensError as error:
        send("error", error.exit_code, str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
