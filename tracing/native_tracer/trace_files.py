"""What the native tracer wrote: its packets, its loss, and the end of its files.

No length in a file is trusted: the traced programs could write anything into it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HEAD = struct.Struct("=IIQQQQQQ")
"""magic, stream, begin, end, content and packet in bits, number, discarded events so far."""
MAGIC = 0xC1FC1FC1
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
class Packet:
    """One packet: where it is in its file, its content and whole size in bytes, and its head."""

    offset: int
    content: int
    size: int
    begin: int
    end: int
    number: int
    discarded: int


def packets(file: int, offset: int = 0) -> Iterator[Packet]:
    """The packets of an open stream file from one on, up to the first one that is none."""
    size = os.fstat(file).st_size
    while offset + HEAD.size <= size:
        magic, _, begin, end, content, total, number, discarded = HEAD.unpack(
            os.pread(file, HEAD.size, offset)
        )
        if magic != MAGIC or not HEAD.size * 8 <= content <= total or content % 8 or total % 8:
            return
        if offset + content // 8 > size:
            return
        yield Packet(offset, content // 8, total // 8, begin, end, number, discarded)
        offset += total // 8


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor to read a file, which must not be a link, nor anything that has no end.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        yield file
    finally:
        os.close(file)


def read_written(trace: Path) -> Written:
    """What the files below a folder hold; may be asked while they are written."""
    any_event, discarded = False, 0
    for path in trace.glob("ros2-*/ros2_*"):
        last = 0
        with suppress(OSError), opened(path) as file:
            for packet in packets(file):
                any_event = any_event or packet.content > HEAD.size
                last = packet.discarded
        discarded += last
    return Written(any_event, discarded)


def cut_to_content(trace: Path) -> None:
    """Give back the space that is reserved behind the last event of each file.

    A file that a program may still write to is left as it is: without its pages, the program
    would be killed.
    """
    for path in trace.glob("ros2-*/ros2_*"):
        with suppress(OSError):
            with opened(path) as file:
                # Refused while anybody has it open for writing, or mapped so.
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                in_file = list(packets(file))
            if in_file:
                _cut(path, in_file[-1])


def _cut(path: Path, last: Packet) -> None:
    with path.open("r+b") as stream:
        stream.seek(last.offset + _PACKET_BITS_AT)
        stream.write(struct.pack("=Q", last.content * 8))
        stream.truncate(last.offset + last.content)
