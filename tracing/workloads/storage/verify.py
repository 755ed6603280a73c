"""Reads a recording back with libraries that did not write it: Python's sqlite3, and mcap."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RECORDING = "recording"
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


def read_back(folder: Path) -> ReadBack:
    """Read a whole recording.

    Parameters
    ----------
    folder
        The folder with the file ``recording``.

    Raises
    ------
    NotAsWrittenError
        It cannot be read, or its own checks fail.
    """
    path = folder / RECORDING
    with path.open("rb") as stream:
        is_mcap = stream.read(len(_MCAP_MAGIC)) == _MCAP_MAGIC
    reader, found = _mcap(path) if is_mcap else _sqlite(path)
    messages = total = crc = 0
    try:
        for data in found:
            messages += 1
            total += len(data)
            crc = zlib.crc32(data, crc)
    except Exception as error:
        raise NotAsWrittenError(f"{reader} cannot read it: {error}") from error
    return ReadBack(reader, messages, total, crc)


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
