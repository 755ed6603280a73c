"""What the native tracer wrote: its loss, and the end of its files.

No length in a file is trusted: the traced programs could write anything into it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_HEAD = struct.Struct("=IIQQQQQQ")
"""magic, stream, begin, end, content and packet in bits, number, discarded events so far."""
_MAGIC = 0xC1FC1FC1
_PACKET_BITS_AT = 32


@dataclass(frozen=True)
class Written:
    """What is in a trace.

    Attributes
    ----------
    any_event
        Whether it holds any event.
    discarded
        How many were discarded.
    """

    any_event: bool
    discarded: int


@dataclass(frozen=True)
class _Packet:
    offset: int
    content: int
    size: int
    discarded: int


def read_written(trace: Path) -> Written:
    """What the files below a folder hold; may be asked while they are written."""
    any_event, discarded = False, 0
    for path in _stream_files(trace):
        last = 0
        with suppress(OSError), path.open("rb") as stream:
            for packet in _packets(stream.fileno()):
                any_event = any_event or packet.content > _HEAD.size
                last = packet.discarded
        discarded += last
    return Written(any_event, discarded)


def cut_to_content(trace: Path) -> None:
    """Give back the space that is reserved behind the last event of each file.

    A file that a program may still write to is left as it is: without its pages, the program
    would be killed.
    """
    for path in _stream_files(trace):
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                # Refused while anybody has it open for writing, or mapped so.
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                packets = list(_packets(file))
            finally:
                os.close(file)
            _cut(path, packets)


def _cut(path: Path, packets: list[_Packet]) -> None:
    if not packets:
        return
    last = packets[-1]
    with path.open("r+b") as stream:
        stream.seek(last.offset + _PACKET_BITS_AT)
        stream.write(struct.pack("=Q", last.content * 8))
        stream.truncate(last.offset + last.content)


def _stream_files(trace: Path) -> Iterator[Path]:
    for path in trace.glob("ros2-*/ros2_*"):
        if path.is_file() and not path.is_symlink():
            yield path


def _packets(file: int) -> Iterator[_Packet]:
    """The packets of a stream, up to the first one that is none."""
    size, offset = os.fstat(file).st_size, 0
    while offset + _HEAD.size <= size:
        magic, _, _, _, content, total, _, discarded = _HEAD.unpack(
            os.pread(file, _HEAD.size, offset)
        )
        if magic != _MAGIC or not _HEAD.size * 8 <= content <= total or content % 8 or total % 8:
            return
        if offset + content // 8 > size:
            return
        yield _Packet(offset, content // 8, total // 8, discarded)
        offset += total // 8
