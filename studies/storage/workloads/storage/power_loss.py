"""Build files as a power loss leaves them: writes up to the last sync, later ones dropped or torn.

Data written before a sync of its file is on the disk. Of later writes the disk may have all,
nothing, or any part: *dropped* has nothing of them; *torn* has each 4 KiB block of each later write
or not, with equal chances, and cuts the last write at a sector of 512 bytes. That is the worst
that a disk may do; a file system that keeps order loses less.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

OPEN, WRITE, TRUNCATE, SYNC, UNLINK = 1, 2, 3, 4, 5
BLOCK, SECTOR = 4096, 512
_HEAD = struct.Struct("=QQQQ")

Later = Literal["dropped", "torn"]


@dataclass(frozen=True)
class Operation:
    """One operation on a file, see write_log.c.

    Attributes
    ----------
    name
        Name of the file, without its folder.
    offset, data
        Position and data of a write; for a truncation, `offset` is the new length.
    """

    kind: int
    name: str
    offset: int = 0
    data: bytes = b""


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    later: list[Operation] = field(default_factory=list)


def read_log(path: Path) -> list[Operation]:
    """Read the operations in order, without a torn end, as the writer may have been killed."""
    data = path.read_bytes()
    names: dict[int, str] = {}
    operations, position = [], 0
    while position + _HEAD.size <= len(data):
        kind, file, offset, length = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        content = data[position : position + length]
        if len(content) < length:
            break
        position += length
        if kind in (OPEN, UNLINK):
            name = Path(content.decode(errors="surrogateescape")).name
            if kind == OPEN:
                names[file] = name
            operations.append(Operation(kind, name))
        else:
            operations.append(Operation(kind, names[file], offset, content))
    return operations


def after_power_loss(
    operations: Sequence[Operation], folder: Path, later: Later, source: random.Random
) -> None:
    """Write into `folder` the files as a power loss at the end of `operations` leaves them.

    Creating and removing files counts as durable at once: the state is that of the data, and a
    file system that also loses a name loses more.
    """
    files: dict[str, _File] = {}
    for operation in operations:
        if operation.kind == UNLINK:
            files.pop(operation.name, None)
            continue
        file = files.setdefault(operation.name, _File())
        if operation.kind == SYNC:
            for waiting in file.later:
                _apply(file.durable, waiting, waiting.data)
            file.later.clear()
        elif operation.kind in (WRITE, TRUNCATE):
            file.later.append(operation)
    for name, file in files.items():
        if later == "torn":
            _cut_file(file, source)
        (folder / name).write_bytes(file.durable)


def _cut_file(file: _File, source: random.Random) -> None:
    for place, operation in enumerate(file.later):
        last = place == len(file.later) - 1
        if operation.kind == TRUNCATE:
            if source.random() < 0.5:
                _apply(file.durable, operation, b"")
            continue
        data = operation.data
        if last:
            data = data[: source.randrange(len(data) // SECTOR + 1) * SECTOR]
        for part in _blocks(operation.offset, data):
            if source.random() < 0.5:
                _apply(file.durable, part, part.data)


def _blocks(offset: int, data: bytes) -> Iterator[Operation]:
    begin = 0
    while begin < len(data):
        end = begin + BLOCK - (offset + begin) % BLOCK
        yield Operation(WRITE, "", offset + begin, data[begin:end])
        begin = end


def _apply(content: bytearray, operation: Operation, data: bytes) -> None:
    if operation.kind == TRUNCATE:
        del content[operation.offset :]
        content.extend(bytes(operation.offset - len(content)))
        return
    if len(content) < operation.offset:
        content.extend(bytes(operation.offset - len(content)))
    content[operation.offset : operation.offset + len(data)] = data
