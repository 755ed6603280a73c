"""Reads a recording back with libraries that did not write it: Python's sqlite3, and mcap."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RECORDINGS = ("recording", "recording.db3", "recording.mcap")
"""What the crates write, and rosbag2's plugins."""
_MCAP_MAGIC = b"\x89MCAP0\r\n"


class NotAsWrittenError(Exception):
    """What was read is not what was written, or cannot be read."""


@dataclass(frozen=True)
class ReadBack:
    """What an independent reader found.

    Attributes
    ----------
    reader
        Library and version.
    messages, bytes, crc32
        How many, how large together, and the CRC-32 over their content in order.
    """

    reader: str
    messages: int
    bytes: int
    crc32: int


def recording_in(folder: Path) -> Path:
    """The recording's file; the first name where there is none."""
    names = [folder / name for name in RECORDINGS]
    return next((x for x in names if x.exists()), names[0])


def read_back(folder: Path) -> ReadBack:
    """Read a whole recording.

    Parameters
    ----------
    folder
        The folder with one of `RECORDINGS`.

    Raises
    ------
    NotAsWrittenError
        It cannot be read, or its own checks fail.
    """
    reader, found = messages_of(recording_in(folder))
    messages = total = crc = 0
    for data in found:
        messages += 1
        total += len(data)
        crc = zlib.crc32(data, crc)
    return ReadBack(reader, messages, total, crc)


def messages_of(path: Path) -> tuple[str, Iterator[bytes]]:
    """Who reads a file, and the content of each message in the order in which they were written.

    Raises
    ------
    NotAsWrittenError
        While reading: it cannot be read, or its own checks fail.
    """
    with path.open("rb") as stream:
        is_mcap = stream.read(len(_MCAP_MAGIC)) == _MCAP_MAGIC
    reader, found = _mcap(path) if is_mcap else _sqlite(path)

    def checked() -> Iterator[bytes]:
        try:
            yield from found
        except Exception as error:
            raise NotAsWrittenError(f"{reader} cannot read it: {error}") from error

    return reader, checked()


def _sqlite(path: Path) -> tuple[str, Iterator[bytes]]:
    def rows() -> Iterator[bytes]:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
            if answer != "ok":
                raise NotAsWrittenError(f"quick_check says {answer}")
            for (data,) in connection.execute("SELECT data FROM messages ORDER BY id"):
                yield data
        finally:
            connection.close()

    return f"sqlite3 {sqlite3.sqlite_version} (Python)", rows()


def _mcap(path: Path) -> tuple[str, Iterator[bytes]]:
    import mcap  # noqa: PLC0415  (only where it is needed: a run counts its seconds)
    from mcap.records import Message  # noqa: PLC0415
    from mcap.stream_reader import StreamReader  # noqa: PLC0415

    def records() -> Iterator[bytes]:
        with path.open("rb") as stream:
            for record in StreamReader(stream, validate_crcs=True).records:
                if isinstance(record, Message):
                    yield record.data

    return f"mcap {mcap.__version__} (Python)", records()
