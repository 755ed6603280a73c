"""Read what the native tracer wrote: packets, losses, and the end of files.

No length in a file is trusted, because the traced programs could write anything into it.
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
"""Magic, stream, begin, end, content and packet size in bits, number, discarded so far."""
MAGIC = 0xC1FC1FC1
_PACKET_BITS_AT = 32


@dataclass(frozen=True)
class Packet:
    """A packet: its offset in the file, its content size and total size in bytes, and its head."""

    offset: int
    content: int
    size: int
    begin: int
    end: int
    number: int
    discarded: int


def packets(file: int, offset: int = 0) -> Iterator[Packet]:
    """Yield the packets of an open stream file from an offset, up to the first invalid one."""
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
    """Open a file for reading, and yield its descriptor; refuse links and non-regular files.

    Raises
    ------
    OSError
        The file cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        yield file
    finally:
        os.close(file)


def read_written(trace: Path) -> tuple[bool, int]:
    """Return whether the files below a folder hold an event, and how many were discarded.

    The files may still be written.
    """
    any_event, discarded = False, 0
    for path in trace.glob("ros2-*/ros2_*"):
        last = 0
        with suppress(OSError), opened(path) as file:
            for packet in packets(file):
                any_event = any_event or packet.content > HEAD.size
                last = packet.discarded
        discarded += last
    return any_event, discarded


def cut_to_content(trace: Path) -> None:
    """Release the space that is reserved after the last event of each file.

    A file that a program may still write to is not changed: without its reserved pages, the program
    would be killed.
    """
    for path in trace.glob("ros2-*/ros2_*"):
        with suppress(OSError):
            with opened(path) as file:
                # The lease is refused while any process has the file open or mapped for writing.
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
