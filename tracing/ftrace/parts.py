"""Read foreign files defensively: never beyond their end, and no more than a limit."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roslens.recording import UsageError
from roslens.recording.errors import TooLargeError


class Reader:
    """A reader of numbers and texts in sequence, which never reads beyond the end."""

    def __init__(self, data: bytes | mmap.mmap, where: str, at: int = 0) -> None:
        self.data, self.where, self.at = data, where, at

    def bytes(self, size: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise UsageError(f"{self.where}: damaged: ends within what it announces")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """Return the next number."""
        return int.from_bytes(self.bytes(size), "little")

    def text(self, longest: int = 1 << 16) -> str:
        """Return the next zero-terminated text."""
        end = self.data.find(b"\0", self.at, min(len(self.data), self.at + longest))
        if end < 0:
            raise UsageError(f"{self.where}: damaged: a text without end")
        text = self.bytes(end - self.at).decode(errors="replace")
        self.at += 1
        return text

    def sized(self, size: int) -> str:
        """Return the next text, whose length precedes it as a number of `size` bytes."""
        return self.bytes(self.number(size)).decode(errors="replace")


class Limit:
    """A limit on the bytes of pages that are read; every page may be read twice."""

    def __init__(self, size: int) -> None:
        self._left = 2 * size

    def take(self, size: int, where: str) -> None:
        """Count bytes that are read, and raise an error above the limit."""
        self._left -= size
        if self._left < 0:
            raise TooLargeError(
                f"{where}: unpacks to more than allowed; if you trust it, give --max-size"
            )


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file into memory."""
    with path.open("rb") as stream:
        if not stream.read(1):
            raise UsageError(f"{path}: is empty")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
