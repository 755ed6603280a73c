"""Parse protobuf's wire format (https://protobuf.dev/programming-guides/encoding) as far as needed.

A field is identified by its tag: its number, and whether it is a number or has a length. A field
of an unexpected type therefore counts as an unknown field, as protobuf requires. An invalid
message raises ValueError.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from roslens.recording.arrays import NDArray, np

_NUMBER, _FIXED_8, _SIZED, _FIXED_4 = 0, 1, 2, 5
_MOST_BYTES = 10
_64_BITS = (1 << 64) - 1


def number(field: int) -> int:
    """Return the tag of a number field."""
    return field << 3 | _NUMBER


def sized(field: int) -> int:
    """Return the tag of a text, a message, or packed numbers."""
    return field << 3 | _SIZED


def varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """Return the number that begins at an offset, and the offset after it."""
    value = 0
    for place, byte in enumerate(data[at : at + _MOST_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _64_BITS, at + place + 1
    raise ValueError("a number without end")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield tag and content of each field of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at) if data[at] > 0x7F else (data[at], at + 1)
        kind = tag & 7
        size = 8 if kind == _FIXED_8 else 4
        if kind in (_NUMBER, _SIZED):
            if at < end and data[at] < 0x80:
                size, at = data[at], at + 1
            else:
                size, at = varint(data, at)
            if kind == _NUMBER:
                yield tag, size
                continue
        elif kind not in (_FIXED_8, _FIXED_4):
            raise ValueError("a field of no known type")
        at += size
        if at > end:
            raise ValueError("a field that is longer than what it lies in")
        yield tag, data[at - size : at]


def varints(data: bytes) -> NDArray[np.uint64]:
    """Return the packed numbers of a field."""
    content = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(content < 0x80) + 1
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    size = ends - begins
    if len(content) and (not len(ends) or ends[-1] != len(content) or size.max() > _MOST_BYTES):
        raise ValueError("a number without end")
    numbers = np.zeros(len(ends), dtype=np.uint64)
    for place in range(int(size.max(initial=0))):
        longer = size > place
        low = (content[begins[longer] + place] & np.uint8(0x7F)).astype(np.uint64)
        numbers[longer] |= low << np.uint64(7 * place)
    return numbers
