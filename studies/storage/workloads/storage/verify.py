"""Read a recording back with libraries that did not write it: Python's sqlite3, and mcap."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcap.records import Chunk

RECORDINGS = ("recording.db3", "recording.mcap", "recording")
"""Names of files that rosbag2's plugins write, and of the folder that its writer writes."""
MCAP_MAGIC = b"\x89MCAP0\r\n"
_MESSAGE = 5
_HEAD = struct.Struct("<BQHIQQ")
"""Opcode, length, channel, sequence, log time and publish time of a message in MCAP."""
_AFTER_LENGTH = 9


class NotAsWrittenError(Exception):
    """Error of data that cannot be read, or differ from the data written."""


@dataclass(frozen=True)
class ReadBack:
    """Result of an independent reader.

    Attributes
    ----------
    reader
        Library and version.
    messages, bytes, crc32
        Number of messages, total bytes, and the CRC-32 over their content in order.
    """

    reader: str
    messages: int
    bytes: int
    crc32: int


def recording_in(folder: Path) -> Path:
    """Return the path of the recording; the first name where there is none."""
    names = [folder / name for name in RECORDINGS]
    return next((path for path in names if path.exists()), names[0])


def read_back(folder: Path, compression: str = "") -> ReadBack:
    """Read a whole recording.

    Parameters
    ----------
    folder
        The folder with one of `RECORDINGS`.
    compression
        ``message`` or ``file``: the unit that rosbag2's writer compressed, to be unpacked.

    Raises
    ------
    NotAsWrittenError
        The recording cannot be read, its own checks fail, or messages are not in the order of
        their times, which are their numbers.
    """
    path = recording_in(folder)
    if path.is_dir():
        path = _file_of_bag(path, unpack=compression == "file")
    reader, pairs = messages_of(path)
    if compression == "message":
        pairs = _unpacked(pairs)
    messages = total = crc = 0
    crc32 = zlib.crc32
    for time, data in pairs:
        if time != messages:
            raise NotAsWrittenError(f"message {messages} has the time {time}")
        messages += 1
        total += len(data)
        crc = crc32(data, crc)
    return ReadBack(reader, messages, total, crc)


def messages_of(path: Path) -> tuple[str, Iterator[tuple[int, bytes]]]:
    """Return the reader of a file, and time and content of each message in the order of writing.

    Raises
    ------
    NotAsWrittenError
        While reading: the file cannot be read, or its own checks fail.
    """
    with path.open("rb") as stream:
        is_mcap = stream.read(len(MCAP_MAGIC)) == MCAP_MAGIC
    reader, messages = _mcap(path) if is_mcap else _sqlite(path)

    def checked() -> Iterator[tuple[int, bytes]]:
        try:
            yield from messages
        except Exception as error:
            why = str(error) or type(error).__name__
            raise NotAsWrittenError(f"{reader} cannot read it: {why}") from error

    return reader, checked()


def _sqlite(path: Path) -> tuple[str, Iterator[tuple[int, bytes]]]:
    def rows() -> Iterator[tuple[int, bytes]]:
        connection = sqlite3.connect(path)
        try:
            # What can be read of a damaged file is read first.
            yield from connection.execute("SELECT timestamp, data FROM messages ORDER BY id")
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
            if answer != "ok":
                raise NotAsWrittenError(f"quick_check says {answer}")
        finally:
            connection.close()

    return f"sqlite3 {sqlite3.sqlite_version} (Python)", rows()


def _mcap(path: Path) -> tuple[str, Iterator[tuple[int, bytes]]]:
    import mcap  # noqa: PLC0415  (only where it is needed: a run counts its seconds)
    from mcap.records import Chunk, Message  # noqa: PLC0415
    from mcap.stream_reader import StreamReader  # noqa: PLC0415

    def records() -> Iterator[tuple[int, bytes]]:
        with path.open("rb") as stream:
            for record in StreamReader(stream, emit_chunks=True, validate_crcs=True).records:
                if isinstance(record, Chunk):
                    yield from _chunk_messages(record)
                elif isinstance(record, Message):
                    yield record.log_time, record.data

    return f"mcap {mcap.__version__} (Python)", records()


def _chunk_messages(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    """Yield a chunk's messages, unpacked and checked by the library; cut here, for speed."""
    from mcap.stream_reader import get_chunk_data_stream  # noqa: PLC0415

    stream, length = get_chunk_data_stream(chunk, validate_crc=True)
    records, at = stream.read(length), 0
    while at < length:
        opcode, size, _, _, time, _ = _HEAD.unpack_from(records, at)
        begin, at = at, at + _AFTER_LENGTH + size
        if opcode == _MESSAGE:
            yield time, records[begin + _HEAD.size : at]


def _file_of_bag(bag: Path, *, unpack: bool) -> Path:
    """Return the one file of a bag of rosbag2's writer, unpacked next to it if compressed."""
    path = next(bag.glob("recording_0.*"))
    if not unpack:
        return path
    import zstandard  # noqa: PLC0415

    unpacked = path.with_suffix("")
    with path.open("rb") as packed, unpacked.open("wb") as stream:
        try:
            zstandard.ZstdDecompressor().copy_stream(packed, stream)
        except zstandard.ZstdError as error:
            raise NotAsWrittenError(f"zstandard cannot unpack it: {error}") from error
    return unpacked


def _unpacked(messages: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    import zstandard  # noqa: PLC0415

    unpack = zstandard.ZstdDecompressor().decompress
    for time, data in messages:
        try:
            yield time, unpack(data)
        except zstandard.ZstdError as error:
            raise NotAsWrittenError(f"zstandard cannot unpack a message: {error}") from error
