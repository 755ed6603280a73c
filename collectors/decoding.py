"""Decode traces into events: in memory, or as Parquet files below ``events/``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from roslens.collectors.clocks import Clocks, Points, find_clocks, read_clocks
from roslens.collectors.schema import RAW_EVENT_COLUMNS, TABLES
from roslens.recording import Recording
from roslens.recording.files import text_path
from roslens.recording.layout import find_traces

# Imports for tables are local to the functions: raw events are written without polars.
if TYPE_CHECKING:
    import polars as pl

    from roslens.collectors.excerpt import Excerpt
    from roslens.collectors.reader import Trace, TraceInfo

ClockOffsets: TypeAlias = Mapping[str, int] | Literal["auto"]
"""Nanoseconds to add to all times of a host, by name or label; or "auto" to estimate them."""
Progress: TypeAlias = Callable[[str], None]
"""Called with the name of the step that begins: reading, model, tables."""
Done: TypeAlias = Callable[[int, int], object]
"""Called with the number of trace bytes read so far and the total."""

_FEW = 10_000
"""Up to so many events of a name stay in memory: each look at a file takes a millisecond."""
_NO_TRACE = "no program of this run made a CTF trace: there are no events"


@dataclass(frozen=True)
class Raw:
    """A decoded recording.

    Attributes
    ----------
    events
        Frame by event name, with the columns of `RAW_EVENT_COLUMNS` and the payload; a declared
        event that did not occur has an empty frame.
    losses
        Events that the tracer dropped, with the columns of the table ``losses``.
    warnings
        Warnings of the reader, one line each.
    hosts
        Labels of all hosts, where they are known.
    files
        File of the events by name, where they were written.
    clocks
        How the hosts' clocks were brought together; None if they are as recorded.
    """

    events: Mapping[str, pl.DataFrame] | Mapping[str, pl.LazyFrame]
    losses: pl.DataFrame
    warnings: list[str] = field(default_factory=list)
    hosts: Sequence[str] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    clocks: Clocks | None = None


@dataclass(frozen=True)
class Written:
    """The events decoded into ``events/``; `frames` returns them for the model.

    `window` holds the first and last time of an excerpt.
    """

    counts: Mapping[str, int]
    discarded_events: int
    warnings: list[str]
    frames: Callable[[], Raw]
    window: tuple[int | None, int | None] = (None, None)
    clock_offsets: Sequence[str] = ()


def read_raw(recording: Recording) -> Raw:
    """Decode all traces of a recording into memory, writing nothing.

    Raises
    ------
    UsageError
        There is no trace, or a trace cannot be read.
    """
    trace, _ = _open_together(recording, {}, 0)
    events, info = trace.read(), trace.info()
    return Raw(events, info.losses, info.warnings, info.hosts)


def write_events(
    recording: Recording,
    clock_offsets: ClockOffsets,
    *,
    threads: int,
    excerpt: Excerpt | None,
    done: Done | None,
) -> Written:
    """Decode all traces into ``events/``."""
    if recording.has_manifest and not find_traces(recording.trace_root):
        # A run of programs without tracepoints has no events, but other files that count.
        none = Raw({}, TABLES["losses"].empty(), [_NO_TRACE])
        return Written({}, 0, none.warnings, lambda: none)
    trace, clocks = _open_together(recording, clock_offsets, threads)
    window: tuple[int | None, int | None] = (None, None)
    if excerpt is None:
        info = trace.write_events(recording.events, threads=threads, progress=done)
    else:
        from roslens.collectors.excerpt import write_events  # noqa: PLC0415

        window = excerpt.window(trace)
        info = write_events(trace, recording.events, excerpt, window, threads=threads, done=done)
    return Written(
        info.events_by_name,
        info.discarded_events,
        info.warnings,
        lambda: _scanned(recording.events, trace, info, clocks),
        window,
        [] if clocks is None else clocks.sentences,
    )


def _scanned(folder: Path, trace: Trace, info: TraceInfo, clocks: Clocks | None) -> Raw:
    """Scan the events of a trace from the files written below a folder."""
    import polars as pl  # noqa: PLC0415

    paths = sorted(folder.glob("*/*.parquet"))
    files = {f"{path.parent.name}:{path.stem}": path for path in paths}
    events = {n: pl.scan_parquet(text_path(path), glob=False) for n, path in files.items()}
    if len(trace.host_of) == 1:
        # One trace holds no event twice, and this text takes long to read.
        events = {n: frame.drop("trace") for n, frame in events.items()}
    few = [n for n in files if info.events_by_name.get(n, _FEW + 1) <= _FEW]
    read = pl.collect_all([events[n] for n in few])
    events |= {n: frame.lazy() for n, frame in zip(few, read, strict=True)}
    none = pl.LazyFrame(schema={c.name: c.dtype for c in RAW_EVENT_COLUMNS})
    for name in trace.event_names:
        if name not in info.events_by_name:
            events[name] = none
    return Raw(events, info.losses, info.warnings, info.hosts, files, clocks)


def _open_together(
    recording: Recording, clock_offsets: ClockOffsets, threads: int
) -> tuple[Trace, Clocks | None]:
    """Open all traces on one time line; return the clocks unless offsets were given."""
    if clock_offsets and clock_offsets != "auto":
        return _open(recording, clock_offsets), None
    clocks = read_clocks(recording.clocks)
    if clocks is None and clock_offsets:
        clocks = find_clocks(_open(recording), threads=threads, strict=True)
    return _open(recording, clocks.added if clocks else None), clocks


def open_recording(path: Path) -> Trace:
    """Open all traces at or below a folder, with clocks aligned if it was merged.

    Raises
    ------
    UsageError
        There is no trace, or a trace cannot be read.
    """
    recording = Recording.at(path)
    clocks = read_clocks(recording.clocks)
    return _open(recording, clocks.added if clocks else None, path)


def _open(
    recording: Recording,
    clock_offsets: Mapping[str, int | Points] | None = None,
    root: Path | None = None,
) -> Trace:
    from roslens.collectors.reader import open_trace  # noqa: PLC0415  (reading tables needs no native code)

    root = recording.trace_root if root is None else root
    return open_trace(root, clock_offsets=clock_offsets, cpus=_cpus_recorded(recording))


def _cpus_recorded(recording: Recording) -> int | None:
    """Return the machine's CPU count if LTTng has a file per CPU; None if the trace is limited."""
    about = recording.manifest
    if about is None or about.members or about.tracing.max_disk_bytes is not None:
        return None
    return about.host.cpu_count if about.tracing.tracer.startswith("lttng") else None


def recorded_until(recording: Recording) -> int | None:
    """Return when the tracer stopped recording, ns since the epoch; None if unknown."""
    if not find_traces(recording.trace_root):
        return None
    until, manifest = open_recording(recording.path).span[1], recording.manifest
    if until and manifest and manifest.tracing.tracer == "native":
        # The native tracer's trace ends with the last event, though it recorded until the end.
        now = time.time_ns() if manifest.status == "running" else until
        return max(until, manifest.end_ns or now)
    return until
