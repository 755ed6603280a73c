"""Test the reading back: files of Python's own writers, and each way of being wrong."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zstandard
from mcap.records import Message
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from roslens.studies.storage.workloads.storage.verify import (
    NotAsWrittenError,
    messages_of,
    read_back,
)

CONTENT = [bytes([i % 251 + 1]) * (i % 97) for i in range(3000)]
KINDS = ("sqlite", "unchunked", "chunks", "zstd", "lz4")


def numbered(content: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    return zip(range(len(content)), content, strict=True)


def write(path: Path, kind: str, messages: Iterator[tuple[int, bytes]]) -> None:
    path.parent.mkdir(exist_ok=True)
    if kind == "sqlite":
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, timestamp, data)")
            insert = "INSERT INTO messages (timestamp, data) VALUES (?, ?)"
            connection.executemany(insert, messages)
        connection.close()
        return
    compression = {"zstd": CompressionType.ZSTD, "lz4": CompressionType.LZ4}
    writer = Writer(
        str(path),
        chunk_size=10_000,
        use_chunking=kind != "unchunked",
        compression=compression.get(kind, CompressionType.NONE),
    )
    writer.start()
    channel = writer.register_channel("/t", "cdr", writer.register_schema("T", "ros2msg", b""))
    for time, data in messages:
        writer.add_message(channel, time, data, time)
    writer.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_is_read_in_order(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "recording", kind, numbered(CONTENT))
    content = read_back(tmp_path)
    assert (content.messages, content.bytes) == (3000, sum(map(len, CONTENT)))
    assert content.crc32 == zlib.crc32(b"".join(CONTENT))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_chunks_are_cut_as_the_library_cuts_them(kind: str, tmp_path: Path) -> None:
    """Second implementation: mcap's own reader of every record."""
    path = tmp_path / "recording"
    write(path, kind, ((i * 7, data) for i, data in numbered(CONTENT)))
    with path.open("rb") as stream:
        records = [record for record in StreamReader(stream).records if isinstance(record, Message)]
    assert [*messages_of(path)[1]] == [(record.log_time, record.data) for record in records]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_as_written_is_seen(kind: str, tmp_path: Path) -> None:
    swapped = [*numbered(CONTENT)]
    swapped[1], swapped[2] = swapped[2], swapped[1]
    write(tmp_path / "swapped" / "recording", kind, iter(swapped))
    with pytest.raises(NotAsWrittenError, match="message 1 has the time 2"):
        read_back(tmp_path / "swapped")
    write(tmp_path / "cut" / "recording", kind, numbered(CONTENT))
    path = tmp_path / "cut" / "recording"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(NotAsWrittenError, match="cannot read it"):
        read_back(tmp_path / "cut")
    altered = [*CONTENT[:-1], b"?"]
    write(tmp_path / "other" / "recording", kind, numbered(altered))
    assert read_back(tmp_path / "other").crc32 == zlib.crc32(b"".join(altered))


@pytest.mark.parametrize("kind", ["sqlite", "chunks"])
def test_what_rosbag2_compressed_is_unpacked(kind: str, tmp_path: Path) -> None:
    """The files are packed here by zstandard, and laid out as rosbag2's writer does."""
    pack = zstandard.ZstdCompressor(level=1).compress
    plain, messages, file = (tmp_path / mode / "recording" for mode in ("none", "message", "file"))
    for folder in (plain, messages, file):
        folder.mkdir(parents=True)
    name = "recording_0.db3" if kind == "sqlite" else "recording_0.mcap"
    write(plain / name, kind, numbered(CONTENT))
    write(messages / name, kind, ((i, pack(data)) for i, data in numbered(CONTENT)))
    (file / f"{name}.zstd").write_bytes(pack((plain / name).read_bytes()))
    for mode in ("none", "message", "file"):
        content = read_back(tmp_path / mode, mode)
        assert (content.messages, content.crc32) == (3000, zlib.crc32(b"".join(CONTENT)))
    with pytest.raises(NotAsWrittenError, match="unpack a message"):
        read_back(tmp_path / "none", "message")
    (file / f"{name}.zstd").write_bytes(b"not packed at all" * 9)
    with pytest.raises(NotAsWrittenError, match="unpack it"):
        read_back(tmp_path / "file", "file")
