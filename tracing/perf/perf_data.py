"""Convert tracepoints in a file of perf (``perf record``, ``perf sched record``) to a CTF trace.

The file format is described in ``tools/perf/Documentation/perf.data-file-format.txt`` of the
kernel's sources, its records in ``man 2 perf_event_open``. A tracepoint's sample holds the event
in ftrace's format, which the file describes.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from roslens.recording import UsageError
from roslens.recording.arrays import np
from roslens.tracing.ftrace.ctf import Converted, write_ctf
from roslens.tracing.ftrace.formats import parse_formats
from roslens.tracing.ftrace.parts import Limit, Reader, mapped
from roslens.tracing.ftrace.raw import Clock, RawTrace, Records
from roslens.tracing.ftrace.trace_dat import formats_of_perf
from roslens.tracing.ftrace.tsdl import clock_of_other_trace

MAGIC = b"PERFILE2"
_HEADER = struct.Struct("<8s2Q6Q4Q")
"""Magic, sizes of header and of attributes; offset and size of attributes, data, event types;
bits of the features that are present."""
_SECTION = struct.Struct("<2Q")
_RECORD = struct.Struct("<IHH")
_ATTRIBUTES = struct.Struct("<II5Q44xi")
"""Kind, size; event, period, parts of a sample, parts of a reading; flags; clock."""
_TRACEPOINT = 2
_LOST, _SAMPLE, _COMPRESSED = 2, 9, 81
_TRACING_DATA, _HOSTNAME, _RELEASE = 1, 3, 4
_USE_CLOCK, _ALL_TELL_ID = 1 << 25, 1 << 18
_MONOTONIC = 1
_IDENTIFIER, _IP, _TID, _TIME, _ADDRESS = 1 << 16, 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ID, _STREAM, _CPU, _PERIOD, _CALLS, _RAW = 1 << 6, 1 << 9, 1 << 7, 1 << 8, 1 << 5, 1 << 10
_BEFORE_RAW = (_IDENTIFIER, _IP, _TID, _TIME, _ADDRESS, _ID, _STREAM, _CPU, _PERIOD)
"""Parts of a sample in order, 8 bytes each."""
_TRAILER = (_TID, _TIME, _ID, _STREAM, _CPU, _IDENTIFIER)
"""Parts of the trailer of each other record, in order."""
_MOST_CPUS = 1 << 16
_BLOCK = 50_000


@dataclass
class _Cpu:
    """A CPU's events (time, offset in the file, size in bytes), and its losses (time, count)."""

    events: array[int] = field(default_factory=lambda: array("q"))
    lost: list[tuple[int, int]] = field(default_factory=list)


def convert_perf_data(path: Path, folder: Path, *, beside: Path, max_bytes: int) -> Converted:
    """Convert the tracepoints in a file of perf to a CTF trace.

    Parameters
    ----------
    path
        The file.
    folder
        The new trace.
    beside
        A folder that may hold traces of programs, whose clock is then used.
    max_bytes
        The maximum file size in bytes.

    Raises
    ------
    UsageError
        The file is damaged, holds no tracepoints, or has a clock that fits no other trace.
    OSError
        Something cannot be read or written.
    """
    with mapped(path) as data:
        Limit(max_bytes).take(len(data), str(path))
        return _converted(data, path, folder, beside)


def _converted(data: mmap.mmap, path: Path, folder: Path, beside: Path) -> Converted:
    where = str(path)
    _, size, attr_size, *places = _HEADER.unpack_from(data, 0)
    attributes, content = tuple(places[:2]), tuple(places[2:4])
    if size != _HEADER.size or not _ATTRIBUTES.size + 16 <= attr_size <= 1 << 12:
        raise UsageError(f"{where}: not written by 'perf record -o FILE'")
    parts, clock = _sample_format(_part(data, attributes, where), attr_size, where)
    features = _features(data, sum(content), places[6])
    described = _part(data, features.get(_TRACING_DATA, (0, 0)), where)
    if not described:
        raise UsageError(f"{where}: holds no tracepoints, such as those of 'perf sched record'")
    own_clock = Clock(name="monotonic" if clock == _MONOTONIC else "perf")
    joined = clock_of_other_trace(beside, own_clock)
    if joined is not None and clock != _MONOTONIC:
        raise UsageError(
            f"{where}: its clock is not that of the trace beside it; record with "
            "'perf record -k CLOCK_MONOTONIC'"
        )
    cpus = _events(data, content, parts, where)
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    trace = RawTrace(
        formats=parse_formats(formats_of_perf(described, where)),
        records={cpu: partial(_records, whole, events) for cpu, events in cpus.items()},
        hostname=_text(data, features.get(_HOSTNAME), where),
        release=_text(data, features.get(_RELEASE), where),
        tracer="perf",
    )
    return write_ctf(trace, folder, joined or own_clock)


def _part(data: mmap.mmap, place: tuple[int, ...], where: str) -> bytes:
    at, size = place
    return Reader(data, where, at).bytes(size)


def _sample_format(content: bytes, size: int, where: str) -> tuple[int, int | None]:
    """Return the parts of samples and the clock, which must be equal for all events."""
    layouts = set()
    for at in range(0, len(content) - size + 1, size):
        kind, _, _, _, parts, _, flags, clock = _ATTRIBUTES.unpack_from(content, at)
        # Events that are no tracepoints carry bookkeeping.
        if kind == _TRACEPOINT:
            layouts.add((parts, clock if flags & _USE_CLOCK else None))
            if not flags & _ALL_TELL_ID:
                raise UsageError(f"{where}: written by a perf that is too old to be read")
    needed = _TIME | _CPU | _RAW
    allowed = sum(_BEFORE_RAW) | _RAW | _CALLS
    if len(layouts) != 1 or any(
        parts & needed != needed or parts & ~allowed for parts, _ in layouts
    ):
        raise UsageError(
            f"{where}: its samples are not all tracepoints with time and CPU; record with "
            "'perf sched record' or 'perf record -a -e sched:sched_switch'"
        )
    return layouts.pop()


def _features(data: mmap.mmap, at: int, bits: int) -> Mapping[int, tuple[int, int]]:
    """Return the position of each feature by its number."""
    numbers = [bit for bit in range(64) if bits >> bit & 1]
    return {
        number: _SECTION.unpack_from(data, at + place * _SECTION.size)
        for place, number in enumerate(numbers)
    }


def _text(data: mmap.mmap, place: tuple[int, int] | None, where: str) -> str | None:
    content = b"" if place is None else _part(data, place, where)
    return content[4:].partition(b"\0")[0].decode(errors="replace") or None


def _events(data: mmap.mmap, content: tuple[int, ...], parts: int, where: str) -> dict[int, _Cpu]:
    """Return by CPU the position of each sample's event, and the losses."""
    before = [part for part in _BEFORE_RAW if parts & part]
    place = {part: 8 * (number + 1) for number, part in enumerate(before)}
    trailer = [part for part in _TRAILER if parts & part]
    from_end = {part: 8 * (len(trailer) - number) for number, part in enumerate(trailer)}
    cpus: dict[int, _Cpu] = {}
    at, end = content[0], sum(content)
    if end > len(data):
        raise UsageError(f"{where}: damaged, or perf still records: it ends too early")
    while at < end:
        kind, _, size = _RECORD.unpack_from(data, at)
        if size < _RECORD.size or at + size > end:
            raise UsageError(f"{where}: damaged: a record that cannot be, at byte {at:,}")
        if kind == _COMPRESSED:
            raise UsageError(f"{where}: compressed; record without -z")
        if kind in (_SAMPLE, _LOST):
            tail = kind == _LOST
            times, numbers = (
                at + size - from_end[part] if tail else at + place[part] for part in (_TIME, _CPU)
            )
            (time,) = struct.unpack_from("<Q", data, times)
            (number,) = struct.unpack_from("<I", data, numbers)
            if number > _MOST_CPUS or time >= 1 << 62:
                raise UsageError(f"{where}: damaged: a record that cannot be, at byte {at:,}")
            cpu = cpus.setdefault(number, _Cpu())
            if tail:
                cpu.lost.append((time, struct.unpack_from("<8xQ", data, at + 8)[0]))
            else:
                begin = at + 8 * (len(before) + 1)
                if parts & _CALLS:
                    begin += 8 + 8 * struct.unpack_from("<Q", data, begin)[0]
                (length,) = struct.unpack_from("<I", data, begin)
                if begin + 4 + length > at + size:
                    raise UsageError(f"{where}: damaged: an event beyond its record")
                cpu.events.extend((time, begin + 4, length))
        at += size
    return cpus


def _records(data: np.ndarray[tuple[int], np.dtype[np.uint8]], cpu: _Cpu) -> Iterator[Records]:
    """Yield events ordered by time, in blocks that end where events were lost."""
    events = np.frombuffer(cpu.events, dtype=np.int64).reshape(-1, 3)
    events = events[np.argsort(events[:, 0], kind="stable")]
    lost = sorted(cpu.lost)
    edges = np.searchsorted(events[:, 0], [time for time, _ in lost]).tolist()
    starts = sorted({0, *edges, *range(0, len(events), _BLOCK)})
    for start, stop in zip(starts, [*starts[1:], len(events)], strict=True):
        block = events[start:stop]
        missing = sum(n for edge, (_, n) in zip(edges, lost, strict=True) if edge == start)
        yield Records(data, block[:, 1], block[:, 2], block[:, 0], missing)
