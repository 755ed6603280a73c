"""Write data streams that fragments of CTF 2 metadata describe, as CTF2-SPEC-2.0 specifies.

`as_sequence` writes the fragments as CTF 2 metadata; `tsdl.py` those that CTF 1.8 knows as TSDL:
its types are a subset of those of CTF 2, with the same alignment and bits. Shares no code with the
reader.
"""

from __future__ import annotations

import json
import struct
from typing import Any
from uuid import UUID

Class = dict[str, Any]
Fragments = list[Class]
UUID_OF_TRACES = UUID("5b1d0a3c-7f0e-4d6b-9a52-0c1d2e3f4a5b")
UUID_NUMBERS = list(UUID_OF_TRACES.bytes)
MAGIC_AND_UUID = {"magic": 0xC1FC1FC1, "uuid": UUID_NUMBERS, "stream_id": 0}
HEADER_ID = {"roles": ["event-record-class-id"]}
HEADER_TIME = {"roles": ["default-clock-timestamp"]}


def uint(bits: int, order: str, align: int = 8, **more: Any) -> Class:
    """Return a fixed-length unsigned integer class."""
    return {
        "type": "fixed-length-unsigned-integer",
        "length": bits,
        "byte-order": order,
        "alignment": align,
        **more,
    }


def structure(members: dict[str, Class], align: int = 1) -> Class:
    """Return a structure of these members."""
    return {
        "type": "structure",
        "member-classes": [{"name": n, "field-class": k} for n, k in members.items()],
        "minimum-alignment": align,
    }


def plain_header(order: str, *, compact: bool) -> Class:
    """Return an event header with a number and a timestamp."""
    bits, align = ((5, 27), 1) if compact else ((16, 32), 8)
    number = uint(bits[0], order, align) | HEADER_ID
    return structure({"id": number, "timestamp": uint(bits[1], order, align) | HEADER_TIME}, 8)


def lttng_header(order: str, *, compact: bool) -> Class:
    """Return the plain header with LTTng's second form for numbers and times that do not fit."""
    number, time = (
        member["field-class"] for member in plain_header(order, compact=compact)["member-classes"]
    )
    last = (1 << number["length"]) - 1
    whole = {"id": uint(32, order) | HEADER_ID, "timestamp": uint(64, order) | HEADER_TIME}
    forms = {
        "compact": ([[0, last - 1]], {"timestamp": time}),
        "extended": ([[last, last]], whole),
    }
    options = [
        {"name": name, "selector-field-ranges": numbers, "field-class": structure(members)}
        for name, (numbers, members) in forms.items()
    ]
    variant = {"type": "variant", "selector-field-location": {"path": ["id"]}, "options": options}
    mappings = {name: numbers for name, (numbers, _) in forms.items()}
    return structure({"id": number | {"mappings": mappings}, "v": variant}, 8)


def in_header(header: Class, number: int, cycles: int, since: int) -> dict[str, Any]:
    """Return header values of an event `since` cycles after the one before."""
    short, second = (member["field-class"] for member in header["member-classes"])
    if second["type"] != "variant":
        return {"id": number, "timestamp": lowest(cycles, second)}
    stamp = second["options"][0]["field-class"]["member-classes"][0]["field-class"]
    last = (1 << short["length"]) - 1
    # A short timestamp can reveal only one wrap.
    if number < last and since < 1 << stamp["length"]:
        return {"id": number, "v": (0, {"timestamp": lowest(cycles, stamp)})}
    return {"id": last, "v": (1, {"id": number, "timestamp": cycles})}


def lowest(cycles: int, stamp: Class) -> int:
    """Return a timestamp's value; one of variable length is whole, so that no wrap is missed."""
    return cycles & ((1 << stamp["length"]) - 1) if "length" in stamp else cycles


def as_sequence(fragments: Fragments) -> str:
    """Return a JSON text sequence (RFC 7464)."""
    return "".join(f"\x1e{json.dumps(fragment)}\n" for fragment in fragments)


def alignment(kind: Class) -> int:
    """Return the alignment of a class (6.4.1)."""
    match kind["type"]:
        case "structure":
            inside = [member["field-class"] for member in kind.get("member-classes", [])]
            return max([kind.get("minimum-alignment", 1), *map(alignment, inside)])
        case "static-length-array" | "dynamic-length-array":
            return max(kind.get("minimum-alignment", 1), alignment(kind["element-field-class"]))
        case "optional" | "variant":
            return 1
    return kind.get("alignment", 1) if kind["type"].startswith("fixed-length") else 8


class PacketWriter:
    """A writer of the fields of one packet, bit by bit."""

    def __init__(self) -> None:
        self.bits: list[int] = []
        # Each byte is laid out at the end, in the byte order of its fields.
        self.orders: list[str] = []
        self.patches: dict[str, tuple[int, dict[str, Any]]] = {}
        self.cycles = 0

    def align(self, to: int) -> None:
        """Add zeros up to a multiple of `to` bits."""
        while len(self.bits) % to:
            self._bit(0, self.orders[-1])

    def _bit(self, bit: int, order: str) -> None:
        if len(self.bits) % 8 == 0:
            self.orders.append(order)
        assert self.orders[-1] == order
        self.bits.append(bit)

    def value(self, kind: Class, value: Any) -> None:
        """Add one field."""
        self.align(alignment(kind))
        match kind["type"]:
            case "structure":
                for member in kind.get("member-classes", []):
                    self.value(member["field-class"], value[member["name"]])
            case "static-length-array" | "dynamic-length-array":
                for item in value:
                    self.value(kind["element-field-class"], item)
            case "optional":
                if value is not None:
                    self.value(kind["field-class"], value)
            case "variant":
                self.value(kind["options"][value[0]]["field-class"], value[1])
            case _:
                self.scalar(kind, value)

    def scalar(self, kind: dict[str, Any], value: Any) -> None:
        """Add a field without fields in it."""
        encoding = kind.get("encoding", "utf-8")
        for role in kind.get("roles", []):
            self.patches[role] = (len(self.bits), kind)
        match kind["type"]:
            case "null-terminated-string":
                self.bytes((value + "\0").encode(encoding))
            case "static-length-string":
                self.bytes(value.encode(encoding).ljust(kind["length"], b"\0"))
            case "dynamic-length-string":
                self.bytes(value.encode(encoding))
            case "static-length-blob" | "dynamic-length-blob":
                self.bytes(bytes(value))
            case "variable-length-unsigned-integer" | "variable-length-signed-integer":
                self.bytes(leb128(value))
            case "fixed-length-floating-point-number":
                code = {16: "<e", 32: "<f", 64: "<d"}[kind["length"]]
                self.number(kind, int.from_bytes(struct.pack(code, value), "little"))
            case _:
                self.number(kind, int(value))

    def number(self, kind: dict[str, Any], value: int) -> None:
        """Add the bits of an integer."""
        for bit in digits(kind, value):
            self._bit(bit, kind["byte-order"])

    def bytes(self, data: bytes) -> None:
        """Add whole bytes."""
        for byte in data:
            for i in range(8):
                self._bit(byte >> i & 1, "little-endian")

    def patch(self, role: str, value: int) -> None:
        """Set a fixed-length integer that was already written."""
        if role in self.patches:
            at, kind = self.patches[role]
            self.bits[at : at + kind["length"]] = digits(kind, value)

    def finish(self, padding: int) -> bytes:
        """Return the packet, with its lengths."""
        self.patch("packet-content-length", len(self.bits))
        total = -(-len(self.bits) // 8) + padding
        self.patch("packet-total-length", total * 8)
        packet = bytearray()
        for i, order in enumerate(self.orders):
            bits = self.bits[i * 8 : i * 8 + 8]
            bits += [0] * (8 - len(bits))
            if order == "big-endian":
                bits.reverse()
            packet.append(sum(bit << k for k, bit in enumerate(bits)))
        return bytes(packet).ljust(total, b"\xa5")


def digits(kind: dict[str, Any], value: int) -> list[int]:
    """Return the bits in the order in which they lie in the stream."""
    bits = [value >> i & 1 for i in range(kind["length"])]
    usual = "first-to-last" if kind["byte-order"] == "little-endian" else "last-to-first"
    return bits if kind.get("bit-order", usual) == "first-to-last" else bits[::-1]


def leb128(value: int) -> bytes:
    """Return a LEB128 number; the sign bit of a signed one is its last."""
    encoded = []
    while True:
        byte = value & 0x7F
        value >>= 7
        # There may be one more byte than an unsigned number needs, which is equally valid.
        if (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40):
            encoded.append(byte)
            return bytes(encoded)
        encoded.append(byte | 0x80)
