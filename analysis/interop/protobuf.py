"""Fields of protobuf messages, a value at a time (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A varint without its field."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    """A number that is not negative."""
    return varint(field << 3) + varint(value)


def message_field(field: int, body: bytes) -> bytes:
    """A message, or what else has a length."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def text_field(field: int, value: str) -> bytes:
    """A string."""
    return message_field(field, value.encode())
