"""Recordings of any size: decoded in parts, modelled by stretches of time, resumed if interrupted.

Everything unfinished lies in the folder ``work`` beside the events and tables that are made (see
`collectors.store`); `collectors.ros2.windows.Work` says what of it is finished.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import polars as pl

from collectors import _native
from collectors.ros2.windows import Work, cut, write_tables
from collectors.ros2.windows.work import State

if TYPE_CHECKING:
    from collectors.collect import Raw
    from collectors.reader import Trace, TraceInfo
    from tracing.recording import Recording

PART_BYTES = 512 << 20
"""Bytes of trace that are decoded at once."""
WINDOW_EVENTS = 500_000
"""Events in a stretch of time."""
WHOLE_EVENTS = 6_000_000
"""So many events are modelled in one piece: several times as fast, and takes up to a gibibyte."""


def work_of(made: Recording, say: Callable[[str], object]) -> Work:
    """The work that is under way for a new output."""

    def tell(stage: str, done: int, steps: int) -> None:
        say(f"{stage} {done}/{steps}")

    return Work(made.output / "work", tell)


def decode(
    trace: Trace,
    made: Recording,
    work: Work,
    *,
    threads: int,
    done: Callable[[int, int], object] | None,
) -> TraceInfo:
    """Decode a trace into the new events, some hundred MiB after the other.

    The files are as those of `Trace.write_events`, but for where their row groups end.

    Raises
    ------
    UsageError
        A stream file can no longer be read.
    RunFailedError
        A file cannot be written.
    """
    spans = trace.windows(size=PART_BYTES)
    parts = work.folder / "decoded"

    def step(number: int, state: State) -> State:
        begin, end = spans[number]
        folder = parts / f"{number:06}"

        def tell(now: int, total: int) -> None:
            if done is not None:
                done(number * total + now, len(spans) * total)

        shutil.rmtree(folder, ignore_errors=True)
        trace.write_events(folder, begin_ns=begin, end_ns=end, threads=threads, progress=tell)
        for path in folder.rglob("*.parquet"):
            work.wrote(path)
        return state

    work.stage("reading", len(spans), step)

    def together(_: int, state: State) -> State:
        names = {path.relative_to(parts / path.parts[len(parts.parts)]) for path in
                 parts.glob("*/*/*.parquet")}  # fmt: skip
        for name in sorted(names):
            path = made.events / name
            path.parent.mkdir(exist_ok=True)
            _native.concat(sorted(parts.glob(f"*/{name}")), path)
            work.wrote(path)
        return state

    work.stage("events", 1, together)
    work.save()
    shutil.rmtree(parts, ignore_errors=True)
    return trace.info(threads=threads)


def model(
    raw: Raw,
    made: Recording,
    work: Work,
    *,
    rmw: str | None,
    synchronisation: str | None,
) -> dict[str, int]:
    """Write all tables; their numbers of rows.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    try:
        return write_tables(
            raw.events,
            made.tables,
            work,
            cut(raw.events, WINDOW_EVENTS),
            losses=raw.losses,
            warnings=raw.warnings,
            hosts=raw.hosts,
            rmw=rmw,
            synchronisation=synchronisation,
        )
    except pl.exceptions.ComputeError as error:
        # polars tells of a full disk by this, too.
        if "os error" not in str(error).lower():
            raise
        raise OSError(str(error)) from error


def is_large(counts: Mapping[str, int]) -> bool:
    """Whether so many events, by name, are too many to be modelled in one piece."""
    return sum(counts.values()) > WHOLE_EVENTS
