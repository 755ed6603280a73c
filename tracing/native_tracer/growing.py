"""The files of native tracers while they grow: what is new in them since they were read last.

What is new of a stream is put into a small stream file of its own, as a trace that any reader of
CTF reads. No length in a file is trusted, as in `trace_files`, and none is larger than a tracer
writes.
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
"""Of a stream that are looked at at once."""
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
    """What `Growing.copy` found.

    Attributes
    ----------
    any
        Whether there is anything new.
    lost
        Whether something was dropped or is gone.
    more
        Whether there is more than was looked at.
    """

    any: bool
    lost: bool
    more: bool


class Growing:
    """One trace that native tracers write.

    Parameters
    ----------
    folder
        Of the trace: it has the file ``ros2_discarded``.

    Attributes
    ----------
    is_flight
        Whether its programs are flight recorders.
    clock_offset_ns
        What its clock is behind the system clock.
    broken
        Names of streams that hold what no tracer writes, and are not read any further.

    Raises
    ------
    UsageError
        It has no metadata.
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
        """Put what is new into a trace of its own.

        Parameters
        ----------
        into
            A new folder, made.
        since_ns
            Packets that ended before this time of the trace's clock are passed over, but for those
            of files that hold nothing but names.

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
                # Those of a flight recorder begin with 1.
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
        """When the last event was written, by the trace's clock; 0 without any."""
        ends = [0]
        for name in self._names() - {LOSS_NAME}:
            with ExitStack() as stack:
                ends += [
                    packet.end for file in self._files(name, stack) for packet in packets(file)
                ]
        return max(ends)

    def _names(self) -> set[str]:
        """Of the streams that there are; those that are gone are forgotten."""
        filenames: list[str] = []
        with suppress(OSError):
            filenames = [path.name for path in self.folder.iterdir()]
        names = {match.group(1) for name in filenames if (match := STREAM.fullmatch(name))}
        names |= {LOSS_NAME} & set(filenames)
        for name in self._streams.keys() - names:
            del self._streams[name]
        return names

    def _files(self, name: str, stack: ExitStack) -> Iterator[int]:
        # Once more what may have got its other name meanwhile.
        parts = (f"{name}_before", name, f"{name}_before") if self.is_flight else (name,)
        for part in parts:
            with suppress(OSError):
                yield stack.enter_context(opened(self.folder / part))


class _Stream:
    """How far a stream was read: its last packet, and of which file."""

    def __init__(self, number: int) -> None:
        self._file: tuple[int, ...] = ()
        self._made = 0
        self._offset = self._content = self._end = self._discarded = 0
        self._number = number
        self.is_broken = self.lost = self.more = False

    def new(self, files: Iterator[int], since_ns: int | None) -> list[bytes]:
        """What is new, as packets of which the first is empty and says what was before."""
        by_key = {}
        for file in files:
            first = next(packets(file), None)
            if first is not None:
                # The number of a file may be given again when it is gone.
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
                # The head may be older than its length, which is written last.
                (end,) = _END.unpack(os.pread(file, _END.size, packet.offset + _END_AT))
                pieces += [_head(self._made, begin, packet.discarded, end, len(content)), content]
                self.lost |= missing > 0 or packet.discarded != self._discarded
            self._file, self._offset, self._content = key, packet.offset, packet.content
            self._number, self._end, self._discarded = packet.number, packet.end, packet.discarded


def _head(
    number: int, begin: int, discarded: int, end: int | None = None, content: int = 0
) -> bytes:
    """Of a packet that has so many bytes beside it."""
    bits = 8 * (HEAD.size + content)
    end = begin if end is None else end
    return HEAD.pack(MAGIC, 0, begin, end, bits, bits, number, discarded)


def find_growing(path: Path) -> list[Path]:
    """The traces of native tracers at or below a folder that belong together, the latest ones.

    Those are of one recording, and of one boot, whose clock they have.

    Raises
    ------
    UsageError
        There is none.
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
    """Whether a trace has the clock that runs now."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return trace.name.endswith(f"-{boot[:8]}")
    return False
