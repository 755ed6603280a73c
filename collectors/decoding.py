"""Traces become events: in memory, or as Parquet files below ``events/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from roslens.collectors import store
from roslens.collectors.schema import RAW_EVENT_COLUMNS, TABLES
from roslens.tracing.recording import Recording
from roslens.tracing.recording.files import text_path
from roslens.tracing.recording.layout import find_traces

# What only makes tables is imported where they are made: raw events are written without polars.
if TYPE_CHECKING:
    import polars as pl

    from roslens.collectors.excerpt import Excerpt
    from roslens.collectors.reader import Trace, TraceInfo
    from roslens.collectors.ros2.host_clocks import ClockOffset

Engine: TypeAlias = Literal["native", "babeltrace2"]
ClockOffsets: TypeAlias = Mapping[str, int] | Literal["auto"]
"""Nanoseconds to add to all times of a host, by its name or label; or estimated from messages."""
Progress: TypeAlias = Callable[[str], None]
"""Called with what begins now: reading, model, tables."""
Done: TypeAlias = Callable[[int, int], object]
"""Called with the bytes of trace that were read, and how many there are."""

_NO_TRACE = "no program of this run made a CTF trace: there are no events"
_NO_LOSSES = "the engine babeltrace2 does not tell what the tracer dropped: losses are not known"


@dataclass(frozen=True)
class Raw:
    """A decoded recording.

    Attributes
    ----------
    events
        Event name to frame, columns as in `RAW_EVENT_COLUMNS` and the payload; a declared event
        that did not occur has an empty frame.
    losses
        What the tracer dropped, columns of the table ``losses``.
    counts
        Number of events by name, of those that occurred.
    warnings
        What the reader has to say, one line each.
    hosts
        Labels of all hosts, where they are known.
    """

    events: Mapping[str, pl.DataFrame] | Mapping[str, pl.LazyFrame]
    losses: pl.DataFrame
    counts: Mapping[str, int]
    warnings: list[str] = field(default_factory=list)
    hosts: Sequence[str] = ()


@dataclass(frozen=True)
class Written:
    """What was decoded into ``events/``; `frames` is what the model reads of it.

    An excerpt is of the times in `window`.
    """

    counts: Mapping[str, int]
    discarded_events: int
    warnings: list[str]
    frames: Callable[[], Raw]
    window: tuple[int | None, int | None] = (None, None)
    clock_offsets: Sequence[str] = ()

    @classmethod
    def of(cls, raw: Raw) -> Written:
        """What is in memory."""
        return cls(raw.counts, 0, raw.warnings, lambda: raw)


def read_raw(recording: Recording, *, engine: Engine = "native", threads: int = 0) -> Raw:
    """Decode all traces of a recording into memory, writing nothing.

    Raises
    ------
    UsageError
        No trace there, or a trace cannot be read.
    """
    root = recording.trace_root
    if engine == "babeltrace2":
        from roslens.collectors import babeltrace  # noqa: PLC0415

        events = babeltrace.read(root)
        counts = {name: frame.height for name, frame in events.items() if frame.height}
        return Raw(events, TABLES["losses"].empty(), counts, [_NO_LOSSES])
    trace = _open([root])
    events = trace.read(threads=threads)
    info = trace.info(threads=threads)
    return Raw(events, info.losses, info.events_by_name, info.warnings, info.hosts)


def write_events(
    recording: Recording,
    clock_offsets: ClockOffsets,
    *,
    engine: Engine,
    threads: int,
    excerpt: Excerpt | None,
    done: Done | None,
    resumed: Progress | None,
) -> Written:
    """Decode all traces into ``events/``; with `resumed`, which is told the steps, in parts."""
    if recording.has_manifest and not any(map(find_traces, recording.trace_roots)):
        # A run of programs without tracepoints: no event, and other files that count.
        return Written.of(Raw({}, TABLES["losses"].empty(), {}, [_NO_TRACE]))
    if engine == "babeltrace2":
        raw = read_raw(recording, engine=engine)
        for name in raw.counts:
            provider, _, event = name.rpartition(":")
            path = recording.events / (provider or "kernel") / f"{event}.parquet"
            path.parent.mkdir(exist_ok=True)
            write_frame(raw.events[name].lazy().collect(), path)
        return Written.of(raw)
    trace = _open(recording.trace_roots, {} if clock_offsets == "auto" else clock_offsets)
    found: Sequence[ClockOffset] = ()
    if clock_offsets == "auto" and (found := _estimate_offsets(trace, threads)):
        trace = _open(recording.trace_roots, {one.host: -one.ahead_ns for one in found})
    window: tuple[int | None, int | None] = (None, None)
    if resumed is not None:
        from roslens.collectors import parts, work  # noqa: PLC0415

        with store.writing(recording.events):
            under_way = work.work_of(recording, resumed)
            info = parts.decode(trace, recording, under_way, threads=threads, done=done)
    elif excerpt is None:
        info = trace.write_events(recording.events, threads=threads, progress=done)
    else:
        from roslens.collectors.excerpt import write_events  # noqa: PLC0415

        window = excerpt.window(trace)
        info = write_events(trace, recording.events, excerpt, window, threads=threads, done=done)
    return Written(
        info.events_by_name,
        info.discarded_events,
        info.warnings,
        lambda: _scanned(recording.events, trace, info),
        window,
        [str(one) for one in found],
    )


def _scanned(folder: Path, trace: Trace, info: TraceInfo) -> Raw:
    """The events of a trace as they were written below a folder."""
    import polars as pl  # noqa: PLC0415

    events = {
        f"{path.parent.name}:{path.stem}": pl.scan_parquet(text_path(path), glob=False)
        for path in sorted(folder.glob("*/*.parquet"))
    }
    none = pl.LazyFrame(schema={c.name: c.dtype for c in RAW_EVENT_COLUMNS})
    for name in trace.event_names:
        if name not in info.events_by_name:
            events[name] = none
    return Raw(events, info.losses, info.events_by_name, info.warnings, info.hosts)


def _estimate_offsets(trace: Trace, threads: int) -> Sequence[ClockOffset]:
    """How far the hosts' clocks are ahead of the first one's; nothing for one host."""
    from roslens.collectors.ros2 import host_clocks  # noqa: PLC0415  (only who asks waits for it)

    if len(trace.hosts) < 2:
        return []
    names = [name for name in trace.event_names if name in host_clocks.EVENTS]
    frames = trace.read(names, fields=host_clocks.COLUMNS, threads=threads)
    return host_clocks.clock_offsets(host_clocks.find_crossings(frames), trace.hosts)


def _open(roots: Sequence[Path], clock_offsets: Mapping[str, int] | None = None) -> Trace:
    from roslens.collectors.reader import open_trace  # noqa: PLC0415  (babeltrace2 needs no native code)

    return open_trace(roots, clock_offsets=clock_offsets)


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a table.

    Raises
    ------
    RunFailedError
        It cannot be written.
    """
    from roslens.collectors.table_file import write_table  # noqa: PLC0415  (events need no tables)

    with store.writing(path):
        write_table(frame, path)
