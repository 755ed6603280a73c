"""Encode fields of protobuf messages one by one (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return a varint without a field key."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    """Return a field with a number that is not negative."""
    return varint(field << 3) + varint(value)


def message_field(field: int, body: bytes) -> bytes:
    """Return a field with a message, or another value that has a length."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def text_field(field: int, value: str) -> bytes:
    """Return a field with a string."""
    return message_field(field, value.encode())
