"""Recover messages from a recording that was cut off, with other libraries."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roslens.studies.storage.workloads.storage.verify import messages_of

Expected = Callable[[int], bytes]
"""Returns the content of a message by its number."""


@dataclass
class Recovered:
    """Messages that a reader recovered.

    Attributes
    ----------
    messages
        Number of messages with the content that was written.
    wrong
        Number of messages with other content, or repeated.
    whole
        Whether the reader ended without complaint.
    tool
        Name of the reader or tool.
    """

    messages: int = 0
    wrong: int = 0
    whole: bool = False
    tool: str = "nothing"


def recover(path: Path, expected: Expected) -> tuple[Recovered, Recovered]:
    """Return the messages that a plain reader recovers, and those of the best recovery tool.

    MCAP is read by the reader of Python's mcap up to its first complaint; there is no other tool
    here. SQLite is read by Python's sqlite3, which rolls back or replays a journal as any open
    does. Where that complains, the better of two counts: reading although the header's number of
    pages is wrong (``PRAGMA writable_schema``), from the first row on and from the last one back;
    and ``.recover`` of the command line ``sqlite3``, where it is installed.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return Recovered(), Recovered()
    reader, messages = messages_of(path)
    plain = _count(messages, expected, reader)
    if plain.whole or reader.startswith("mcap"):
        return plain, plain
    attempts = [plain, _count(_sqlite_salvage(path), expected, "sqlite3, writable_schema")]
    program = shutil.which("sqlite3")
    if program is not None:
        attempts.append(_count(_sqlite_recover(path, program), expected, "sqlite3 .recover"))
    return plain, max(attempts, key=lambda attempt: attempt.messages)


def _count(messages: Iterable[tuple[int, bytes]], expected: Expected, tool: str) -> Recovered:
    result = Recovered()
    seen: set[int] = set()
    try:
        for number, data in messages:
            if number in seen or number < 0 or data != expected(number):
                result.wrong += 1
            else:
                seen.add(number)
        result.whole = True
    except Exception:  # noqa: BLE001  (readers raise what they like at what they cannot read)
        result.whole = False
    result.messages = len(seen)
    result.tool = tool if seen else result.tool
    return result


def _sqlite_salvage(path: Path) -> Iterable[tuple[int, bytes]]:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA writable_schema=ON")
        rows: dict[int, tuple[int, bytes]] = {}
        for order in ("ASC", "DESC"):
            query = f"SELECT id, timestamp, data FROM messages NOT INDEXED ORDER BY id {order}"  # noqa: S608
            with suppress(sqlite3.DatabaseError):
                for number, timestamp, data in connection.execute(query):
                    if number in rows:
                        break
                    rows[number] = (timestamp, data)
        yield from rows.values()
    finally:
        connection.close()


def _sqlite_recover(path: Path, program: str) -> Iterable[tuple[int, bytes]]:
    mended = path.with_name("mended")
    mended.unlink(missing_ok=True)
    dump = subprocess.run([program, str(path), ".recover"], capture_output=True, check=False)
    subprocess.run([program, str(mended)], input=dump.stdout, capture_output=True, check=False)
    try:
        yield from messages_of(mended)[1]
    finally:
        mended.unlink(missing_ok=True)
