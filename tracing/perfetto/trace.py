"""Convert kernel events in a Perfetto trace (``protos/perfetto/trace/trace.proto``) to CTF."""

from __future__ import annotations

import mmap
import tempfile
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import BinaryIO

from roslens.recording import UsageError
from roslens.recording.arrays import Ints, np
from roslens.tracing.ftrace.ctf import Converted, write_ctf
from roslens.tracing.ftrace.parts import Limit, mapped
from roslens.tracing.ftrace.raw import Clock, RawTrace, Records
from roslens.tracing.ftrace.tsdl import clock_of_other_trace, host_of_other_trace
from roslens.tracing.perfetto.events import (
    CLOCK,
    COMPACT,
    CPU,
    EVENT,
    KINDS,
    LATEST,
    LOST,
    Decoder,
)
from roslens.tracing.perfetto.protobuf import fields, number, sized, varint

Snapshot = Mapping[int, int]
"""Times in ns by Perfetto's clock numbers."""
REALTIME, MONOTONIC, MONOTONIC_RAW, BOOTTIME = 1, 3, 5, 6
_NAMES = {MONOTONIC_RAW: "monotonic_raw", BOOTTIME: "boottime"}
_PACKET = 0x0A
# Fields of TracePacket
_FTRACE, _SNAPSHOT, _STATS, _SYSTEM, _PACKED = map(sized, (1, 6, 34, 45, 50))
_SEQUENCE, _DROPPED = number(10), number(42)
# Fields of ClockSnapshot and its Clock; FtraceStats and its FtraceCpuStats; SystemInfo and Utsname
_CLOCKS, _CLOCK_ID, _CLOCK_TIME = sized(1), number(1), number(2)
_PHASE, _OF_CPU, _LOSSES = number(1), sized(2), (number(3), number(4), number(8))
_UTSNAME, _RELEASE = sized(1), sized(3)
_FIRST_PHASE, _LAST_PHASE = 1, 2
_CLOCK_OF = {0: BOOTTIME, 4: MONOTONIC_RAW}
"""Clocks by FtraceClock; other clocks have no snapshots."""
_LARGEST_PACKET = 16 << 20
_MOST_CPUS = 1 << 14


@dataclass
class _Cpu:
    """The bundles of a CPU: offset and size of each, and before which of them events were lost."""

    places: array[int] = field(default_factory=lambda: array("Q"))
    lossy: list[int] = field(default_factory=list)
    drops: int = 0


@dataclass
class _Content:
    """The contents of a file, as far as they are read."""

    bundles: BinaryIO
    cpus: dict[int, _Cpu] = field(default_factory=dict)
    clocks: set[int] = field(default_factory=set)
    snapshots: list[Snapshot] = field(default_factory=list)
    losses: dict[int, dict[int, int]] = field(default_factory=dict)
    release: str | None = None
    sequences: set[int] = field(default_factory=set)
    drops: int = 0


def is_perfetto(path: Path) -> bool:
    """Return whether a file begins with a packet of Perfetto."""
    with path.open("rb") as stream:
        if stream.read(1) != bytes([_PACKET]) or not stream.peek(1):
            return False
    with mapped(path) as data:
        try:
            return all(tag >> 3 for tag, _ in fields(next(_packets(data))))
        except ValueError:
            return False


def convert_perfetto(path: Path, folder: Path, *, beside: Path, max_bytes: int) -> Converted:
    """Convert the kernel's events in a trace of Perfetto to a CTF trace.

    Parameters
    ----------
    path
        The file.
    folder
        The new trace.
    beside
        A folder that may hold traces of programs, whose clock and machine are then used.
    max_bytes
        The maximum number of bytes of events to read.

    Raises
    ------
    UsageError
        The file is damaged, holds no kernel events, or has a clock that cannot be joined with other
        traces.
    OSError
        Something cannot be read or written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Bundles go to a file: they may be compressed, and are read CPU by CPU.
    with mapped(path) as data, tempfile.TemporaryFile(dir=folder.parent) as bundles:
        file_content = _Content(bundles)
        _read(data, file_content, Limit(max_bytes), str(path))
        return _converted(file_content, str(path), folder, beside)


def _converted(file_content: _Content, where: str, folder: Path, beside: Path) -> Converted:
    if not file_content.cpus:
        raise UsageError(f"{where}: holds no events of the kernel (data source linux.ftrace)")
    source = _CLOCK_OF.get(min(file_content.clocks), 0) if len(file_content.clocks) == 1 else 0
    joined = join(file_content.snapshots, source)
    own_clock = Clock(joined.epoch_ns or 0) if joined.is_known else Clock(name=joined.name)
    clock = clock_of_other_trace(beside, own_clock)
    if clock is not None and not joined.is_known:
        raise UsageError(
            f"{where}: its clock cannot be joined with that of the trace beside it: no snapshot "
            "tells both; record with ftrace's clock 'boot' and snapshots of clocks, as by default"
        )
    unread: Counter[int] = Counter()
    trace = RawTrace(
        formats={code: kind.format for code, kind in KINDS.items()},
        records={n: partial(_records, file_content, n, joined, unread) for n in file_content.cpus},
        hostname=host_of_other_trace(beside),
        release=file_content.release,
        tracer="perfetto",
    )
    done = write_ctf(trace, folder, clock or own_clock)
    done.notes.append(
        str(joined) if joined.is_known else f"clock {joined.name}, joined with no other"
    )
    if unread:
        numbers = ", ".join(map(str, sorted(unread)[:10])) + (", ..." if len(unread) > 10 else "")
        done.notes.append(
            f"{unread.total():,} events are left out, of numbers (FtraceEvent) {numbers}"
        )
    return done


def _packets(data: bytes | mmap.mmap) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if data[at] != _PACKET:
            raise ValueError(f"no packet at byte {at:,}")
        size, begin = varint(data, at + 1)
        if begin + size > len(data):
            raise ValueError("ends within what it announces")
        if size > _LARGEST_PACKET:
            raise ValueError(f"a packet of {size:,} B, more than Perfetto's recorders write")
        at = begin + size
        yield data[begin:at]


def _read(data: bytes | mmap.mmap, file_content: _Content, limit: Limit, where: str) -> None:
    for packet in _packets(data):
        message = dict(fields(packet))
        if (bundle := _bytes(message, _FTRACE)) is not None:
            limit.take(len(bundle), where)
            _bundle(bundle, message, file_content)
        elif (content := _bytes(message, _SNAPSHOT)) is not None:
            file_content.snapshots.append(_snapshot(content))
        elif (content := _bytes(message, _STATS)) is not None:
            _stats(content, file_content)
        elif (content := _bytes(message, _SYSTEM)) is not None:
            uname = dict(fields(_bytes(dict(fields(content)), _UTSNAME) or b""))
            file_content.release = (_bytes(uname, _RELEASE) or b"")[:255].decode(
                errors="replace"
            ) or None
        elif (content := _bytes(message, _PACKED)) is not None:
            if isinstance(data, bytes):
                raise ValueError("packets compressed twice")
            _read(_inflated(content, limit, where), file_content, limit, where)


def _bytes(message: dict[int, int | bytes], tag: int) -> bytes | None:
    content = message.get(tag)
    return content if isinstance(content, bytes) else None


def _inflated(content: bytes, limit: Limit, where: str) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(content, _LARGEST_PACKET)
    if not unpacker.eof:
        raise ValueError("compressed packets that are too long, or not whole")
    limit.take(len(unpacked), where)
    return unpacked


def _bundle(bundle: bytes, packet: dict[int, int | bytes], file_content: _Content) -> None:
    cpu = clock = lost = 0
    events = False
    for tag, value in fields(bundle):
        if tag in (EVENT, COMPACT):
            events = True
        elif isinstance(value, int):
            cpu = value if tag == CPU else cpu
            clock = value if tag == CLOCK else clock
            lost = value if tag == LOST else lost
    sequence = packet.get(_SEQUENCE, 0)
    # The first packet of a sequence always reports drops.
    if packet.get(_DROPPED) and sequence in file_content.sequences:
        file_content.drops += 1
    if isinstance(sequence, int):
        file_content.sequences.add(sequence)
    if cpu >= _MOST_CPUS:
        raise ValueError(f"CPU {cpu:,}")
    if not events and not lost:
        return
    on_cpu = file_content.cpus.setdefault(cpu, _Cpu(drops=file_content.drops))
    if lost or on_cpu.drops != file_content.drops:
        # The report of dropped packets does not state their CPU.
        on_cpu.drops = file_content.drops
        on_cpu.lossy.append(len(on_cpu.places) // 2)
    file_content.clocks.add(clock)
    on_cpu.places.extend((file_content.bundles.tell(), len(bundle)))
    file_content.bundles.write(bundle)


def _snapshot(content: bytes) -> Snapshot:
    times = {}
    for tag, value in fields(content):
        if tag == _CLOCKS and isinstance(value, bytes):
            clock = dict(fields(value))
            name, time = clock.get(_CLOCK_ID), clock.get(_CLOCK_TIME)
            if isinstance(name, int) and isinstance(time, int) and time <= LATEST:
                times[name] = time
    return times


def _stats(content: bytes, file_content: _Content) -> None:
    """Read how many events each CPU had lost at the beginning, or at the end."""
    message = list(fields(content))
    phase = dict(message).get(_PHASE)
    if phase not in (_FIRST_PHASE, _LAST_PHASE):
        return
    for tag, value in message:
        if tag == _OF_CPU and isinstance(value, bytes):
            stats = dict(fields(value))
            cpu, lost = stats.get(CPU, 0), (stats.get(loss, 0) for loss in _LOSSES)
            if isinstance(cpu, int) and cpu < _MOST_CPUS:
                total = sum(count for count in lost if isinstance(count, int))
                file_content.losses.setdefault(cpu, {})[phase] = total


def _records(
    file_content: _Content, cpu: int, joined: Join, unread: Counter[int]
) -> Iterator[Records]:
    on_cpu, by_phase = file_content.cpus[cpu], file_content.losses.get(cpu, {})
    total = max(0, by_phase[_LAST_PHASE] - by_phase[_FIRST_PHASE]) if len(by_phase) > 1 else 0
    # The first loss gets all events that the other losses leave of the kernel's total.
    losses = dict.fromkeys(on_cpu.lossy, 1)
    if losses:
        losses[on_cpu.lossy[0]] = max(1, total - len(losses) + 1)
    decoder, last = Decoder(unread), 0
    for place in range(len(on_cpu.places) // 2):
        if place in losses:
            decoder.forget_threads()
        file_content.bundles.seek(on_cpu.places[2 * place])
        read = decoder.records(file_content.bundles.read(on_cpu.places[2 * place + 1]))
        time = joined.monotonic(read.time)
        if len(time):
            if time[0] < last or (np.diff(time) < 0).any() or time[-1] > LATEST:
                raise ValueError(f"times of CPU {cpu} go back")
            last = int(time[-1])
        yield Records(read.data, read.begin, read.size, time, losses.get(place, 0))
    rest = max(0 if losses else total, int(on_cpu.drops != file_content.drops))
    if rest:
        none = np.empty(0, dtype=np.int64)
        yield Records(np.empty(0, dtype=np.uint8), none, none, none, rest)


@dataclass(frozen=True)
class Join:
    """The relation of the monotonic clock to another clock.

    Attributes
    ----------
    name
        The name of the other clock.
    times, differences
        Increasing times of that clock, and the differences to add; interpolated in between.
    epoch_ns
        The monotonic clock's offset to the epoch, if a snapshot states it.
    """

    name: str
    times: Ints
    differences: Ints
    epoch_ns: int | None = None

    @property
    def is_known(self) -> bool:
        """Return whether the two clocks can be joined."""
        return len(self.times) > 0

    @property
    def error_ns(self) -> int | None:
        """Return the largest change from snapshot to snapshot in ns; None with fewer than two."""
        steps = np.abs(np.diff(self.differences))
        return int(steps.max()) if len(steps) else None

    def monotonic(self, times: Ints) -> Ints:
        """Convert times of the other clock to the monotonic clock; unchanged if not `known`."""
        if not self.is_known:
            return times
        # Relative to the first time, floats are exact to the nanosecond.
        first, base = self.times[0], self.differences[0]
        since, more = (self.times - first).astype(float), (self.differences - base).astype(float)
        changed = np.interp((times - first).astype(float), since, more)
        shifted: Ints = times + base + np.rint(changed).astype(np.int64)
        return shifted

    def __str__(self) -> str:
        """Describe which clocks are joined, by how many snapshots, and how accurately."""
        count = len(self.times)
        error = self.error_ns
        accuracy = "without a known error" if error is None else f"within {error:,} ns"
        return f"clock {self.name} joined with monotonic by {count} snapshots, {accuracy}"


def join(snapshots: Sequence[Snapshot], clock: int) -> Join:
    """Relate a clock to the monotonic clock by snapshots of both."""
    offset_by_time = {
        snapshot[clock]: snapshot[MONOTONIC] - snapshot[clock]
        for snapshot in snapshots
        if {clock, MONOTONIC} <= snapshot.keys()
    }
    epochs = [
        snapshot[REALTIME] - snapshot[MONOTONIC]
        for snapshot in snapshots
        if {REALTIME, MONOTONIC} <= snapshot.keys()
    ]
    times = sorted(offset_by_time)
    return Join(
        _NAMES.get(clock, "perfetto"),
        np.array(times, dtype=np.int64),
        np.array([offset_by_time[time] for time in times], dtype=np.int64),
        max(0, int(median(epochs))) if epochs else None,
    )
