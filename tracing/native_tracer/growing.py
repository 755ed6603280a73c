"""Read the files of native tracers while they grow: the new part since the last reading.

The new part of a stream is put into its own small stream file, in a trace that any CTF reader can
read. As in `trace_files`, no length in a file is trusted, and lengths beyond what a tracer writes
are rejected.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from roslens.recording import UsageError
from roslens.tracing.native_tracer.snapshot import FLIGHT_METADATA, LOSS_NAME, STREAM
from roslens.tracing.native_tracer.trace_files import HEAD, MAGIC, opened, packets

_LARGEST_PACKET = 1 << 20
_LARGEST_METADATA = 4 << 20
_MOST_BYTES = 64 << 20
"""The maximum number of bytes of a stream that are read at once."""
_MOST_MISSING = 1 << 32
_END = struct.Struct("=Q")
_END_AT = 16
_DEEPEST = 3
_BOOT = re.compile(r"-([0-9a-f]{8})$")
_WHERE = (
    "give the folder of 'roslens env -o FOLDER', or of a recording that "
    "'roslens record --tracer native' makes"
)


@dataclass(frozen=True)
class Grown:
    """The result of `Growing.copy`.

    Attributes
    ----------
    any
        Whether there are any new packets.
    lost
        Whether events were discarded or packets are missing.
    more
        Whether there is more than was read.
    """

    any: bool
    lost: bool
    more: bool


class Growing:
    """A trace that native tracers write.

    Parameters
    ----------
    folder
        The trace's folder, which contains the file ``ros2_discarded``.

    Attributes
    ----------
    is_flight
        Whether the trace is written by flight recorders.
    clock_offset_ns
        Nanoseconds from the trace's clock to the system clock.
    broken
        Names of streams with invalid content, which are not read any further.

    Raises
    ------
    UsageError
        The trace has no metadata.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_flight = (folder / FLIGHT_METADATA).is_file()
        try:
            with opened(folder / (FLIGHT_METADATA if self.is_flight else "metadata")) as file:
                self._metadata = os.pread(file, _LARGEST_METADATA, 0)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error
        match = re.search(rb"\toffset = (\d{1,19});", self._metadata)
        self.clock_offset_ns = int(match.group(1)) if match else 0
        self.broken: set[str] = set()
        self._streams: dict[str, _Stream] = {}

    def copy(self, into: Path, since_ns: int | None = None) -> Grown:
        """Copy the new packets into a separate trace.

        Parameters
        ----------
        into
            A new folder, which is created.
        since_ns
            Skip packets that ended before this time of the trace's clock, except in files that hold
            only names.

        Raises
        ------
        OSError
            `into` cannot be written.
        """
        into.mkdir(mode=0o700, parents=True)
        (into / "metadata").write_bytes(self._metadata)
        any_new = lost = more = False
        for name in self._names() - self.broken:
            since = None if "names" in name or name == LOSS_NAME else since_ns
            stream = self._streams.get(name)
            if stream is None:
                # The numbers of a flight recorder's packets begin with 1.
                before = 0 if self.is_flight and name != LOSS_NAME else -1
                stream = self._streams[name] = _Stream(before)
            with ExitStack() as stack:
                new = stream.new(self._files(name, stack), since)
            if stream.is_broken:
                self.broken.add(name)
            if new:
                with (into / name).open("wb") as file:
                    file.writelines(new)
            any_new, lost, more = any_new or bool(new), lost or stream.lost, more or stream.more
        return Grown(any_new, lost, more)

    def last_ns(self) -> int:
        """Return when the last event was written, by the trace's clock, or 0 without any events."""
        ends = [0]
        for name in self._names() - {LOSS_NAME}:
            with ExitStack() as stack:
                ends += [
                    packet.end for file in self._files(name, stack) for packet in packets(file)
                ]
        return max(ends)

    def _names(self) -> set[str]:
        """Return the names of existing streams, and forget streams that are gone."""
        filenames: list[str] = []
        with suppress(OSError):
            filenames = [path.name for path in self.folder.iterdir()]
        names = {match.group(1) for name in filenames if (match := STREAM.fullmatch(name))}
        names |= {LOSS_NAME} & set(filenames)
        for name in self._streams.keys() - names:
            del self._streams[name]
        return names

    def _files(self, name: str, stack: ExitStack) -> Iterator[int]:
        # The older file is read again, because a file may have been renamed to it meanwhile.
        parts = (f"{name}_before", name, f"{name}_before") if self.is_flight else (name,)
        for part in parts:
            with suppress(OSError):
                yield stack.enter_context(opened(self.folder / part))


class _Stream:
    """The position up to which a stream was read: its last packet, and the packet's file."""

    def __init__(self, number: int) -> None:
        self._file: tuple[int, ...] = ()
        self._made = 0
        self._offset = self._content = self._end = self._discarded = 0
        self._number = number
        self.is_broken = self.lost = self.more = False

    def new(self, files: Iterator[int], since_ns: int | None) -> list[bytes]:
        """Return new packets; an empty one precedes them and tells what was before them."""
        by_key = {}
        for file in files:
            first = next(packets(file), None)
            if first is not None:
                # The inode number of a file may be reused when the file is gone.
                by_key[first.number, first.begin, os.fstat(file).st_ino] = file
        self.lost = self.more = False
        pieces: list[bytes] = []
        for key in sorted(by_key):
            if key == self._file or key[0] > self._number:
                self._read(key, by_key[key], since_ns, pieces)
        return pieces

    def _read(
        self, key: tuple[int, ...], file: int, since_ns: int | None, pieces: list[bytes]
    ) -> None:
        looked_at = 0
        for packet in packets(file, self._offset if key == self._file else 0):
            same = key == self._file and packet.offset == self._offset
            bytes_read = self._content if same else HEAD.size
            missing = packet.number - self._number - (not same)
            if packet.content > _LARGEST_PACKET or packet.content < bytes_read or missing < 0:
                self.is_broken = True
                return
            looked_at += packet.content - bytes_read + HEAD.size
            if looked_at > _MOST_BYTES:
                self.more = True
                return
            old = since_ns is not None and packet.end < since_ns
            if not old and (packet.content > bytes_read or packet.discarded != self._discarded):
                begin = self._end if same else packet.begin
                if not pieces:
                    pieces.append(_head(0, 0 if missing else self._end or begin, self._discarded))
                    self._made = 0
                self._made += 1 + min(missing, _MOST_MISSING)
                content = os.pread(file, packet.content - bytes_read, packet.offset + bytes_read)
                # The head may be older than the packet's length, which is written last.
                (end,) = _END.unpack(os.pread(file, _END.size, packet.offset + _END_AT))
                pieces += [_head(self._made, begin, packet.discarded, end, len(content)), content]
                self.lost |= missing > 0 or packet.discarded != self._discarded
            self._file, self._offset, self._content = key, packet.offset, packet.content
            self._number, self._end, self._discarded = packet.number, packet.end, packet.discarded


def _head(
    number: int, begin: int, discarded: int, end: int | None = None, content: int = 0
) -> bytes:
    """Pack the head of a packet with `content` bytes after it."""
    bits = 8 * (HEAD.size + content)
    end = begin if end is None else end
    return HEAD.pack(MAGIC, 0, begin, end, bits, bits, number, discarded)


def find_growing(path: Path) -> list[Path]:
    """Return the latest traces of native tracers at or below a folder that belong together.

    They belong to one recording and to one boot, and have the clock of that boot.

    Raises
    ------
    UsageError
        No trace is found.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: no such folder; {_WHERE}")
    traces = [
        place.parent
        for depth in range(_DEEPEST + 1)
        for place in path.glob("*/" * depth + LOSS_NAME)
        if any((place.parent / name).is_file() for name in ("metadata", FLIGHT_METADATA))
    ]
    if not traces:
        raise UsageError(f"{path}: no native tracer writes there; {_WHERE}")

    def changed_ns(trace: Path) -> int:
        return (trace / LOSS_NAME).stat().st_ctime_ns

    def group(trace: Path) -> tuple[Path, str]:
        boot = _BOOT.search(trace.name)
        return trace.absolute().parent, boot.group(1) if boot else ""

    latest = group(max(traces, key=changed_ns))
    return sorted(trace for trace in traces if group(trace) == latest)


def is_of_this_boot(trace: Path) -> bool:
    """Return whether a trace has the clock of the current boot."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return trace.name.endswith(f"-{boot[:8]}")
    return False
