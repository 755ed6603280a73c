"""Decode CTF data streams as section 6 of CTF2-SPEC-2.0 specifies: slowly, bit by bit.

The decoder takes the fragments of CTF 2 metadata as Python dictionaries. Traces of CTF 1.8 are
decoded by the same procedures: their types are a subset of those of CTF 2, with the same alignment
and bits (`tsdl.py` writes the same fragments as TSDL). Used by tests only; shares no code with the
reader.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

UNITS = {"utf-8": 1, "utf-16be": 2, "utf-16le": 2, "utf-32be": 4, "utf-32le": 4}
ORIGINS = {
    "packet-header": 0,
    "packet-context": 1,
    "event-record-header": 2,
    "event-record-common-context": 3,
    "event-record-specific-context": 4,
    "event-record-payload": 5,
}


class DecodingError(Exception):
    """An error for data that contradict the metadata."""


@dataclass
class Event:
    """An event record."""

    name: str
    cycles: int
    packet: dict[str, Any]
    common: dict[str, Any]
    specific: dict[str, Any]
    payload: dict[str, Any]


@dataclass
class Packet:
    """The decoding state of 6.1."""

    data: bytes
    x: int = 0
    clock: int = 0
    content: float = float("inf")
    total: float = float("inf")
    stream_class: int = 0
    event_class: int = 0
    last_byte_order: str | None = None
    roots: list[Any] = field(default_factory=lambda: [None] * 6)


class Decoder:
    """A decoder of all packets of a trace's data streams."""

    def __init__(self, fragments: list[dict[str, Any]]) -> None:
        self.aliases = {
            f["name"]: f["field-class"] for f in fragments if f["type"] == "field-class-alias"
        }
        self.trace = next((f for f in fragments if f["type"] == "trace-class"), {})
        self.preamble = fragments[0]
        self.streams = {f.get("id", 0): f for f in fragments if f["type"] == "data-stream-class"}
        self.events = {
            (f.get("data-stream-class-id", 0), f.get("id", 0)): f
            for f in fragments
            if f["type"] == "event-record-class"
        }

    def stream(self, data: bytes) -> list[Event]:
        """Return all events of a stream (6)."""
        events: list[Event] = []
        while data:
            packet = Packet(data)
            self.packet(packet, events)
            if packet.total == float("inf"):
                break
            data = data[int(packet.total) // 8 :]
        return events

    def packet(self, p: Packet, events: list[Event]) -> None:
        """Decode a packet (6.1)."""
        self.root(p, 0, self.trace.get("packet-header-field-class"))
        if p.stream_class not in self.streams:
            raise DecodingError(f"no data stream class {p.stream_class}")
        stream = self.streams[p.stream_class]
        self.root(p, 1, stream.get("packet-context-field-class"))
        if p.total == float("inf"):
            p.total = p.content
        if p.content == float("inf"):
            p.content = p.total
        if p.content > p.total:
            raise DecodingError("content longer than the packet")
        while p.x < p.content and p.x < len(p.data) * 8:
            events.append(self.event(p, stream))

    def event(self, p: Packet, stream: dict[str, Any]) -> Event:
        """Decode an event record (6.2)."""
        p.event_class = 0
        self.root(p, 2, stream.get("event-record-header-field-class"))
        cycles = p.clock
        if (p.stream_class, p.event_class) not in self.events:
            raise DecodingError(f"no event record class {p.event_class}")
        event = self.events[p.stream_class, p.event_class]
        self.root(p, 3, stream.get("event-record-common-context-field-class"))
        self.root(p, 4, event.get("specific-context-field-class"))
        self.root(p, 5, event.get("payload-field-class"))
        return Event(event["name"], cycles, p.roots[1], *p.roots[3:])

    def root(self, p: Packet, number: int, kind: Any) -> None:
        """Decode one of the six root structures."""
        p.roots[number] = {} if kind is None else self.value(p, kind, [], number)

    def value(self, p: Packet, kind: Any, parents: list[Any], root: int) -> Any:  # noqa: C901
        """Decode a value (6.4); `parents` are the structures around it, outermost first."""
        if isinstance(kind, str):
            return self.value(p, self.aliases[kind], parents, root)
        self.align(p, self.alignment(kind))
        before = p.x
        match kind["type"]:
            case "structure":
                members: dict[str, Any] = {}
                if not parents:
                    p.roots[root] = members
                for member in kind.get("member-classes", []):
                    members[member["name"]] = self.value(
                        p, member["field-class"], [*parents, members], root
                    )
                return members
            case "static-length-array" | "dynamic-length-array":
                items: list[Any] = []
                for _ in range(self.length(p, kind, parents)):
                    items.append(
                        self.value(p, kind["element-field-class"], [*parents, items], root)
                    )
                return items
            case "optional":
                selector = self.located(p, kind["selector-field-location"], parents)
                ranges = kind.get("selector-field-ranges")
                if selector is True or (
                    ranges is not None and any(low <= selector <= high for low, high in ranges)
                ):
                    return self.value(p, kind["field-class"], parents, root)
                return None
            case "variant":
                selector = self.located(p, kind["selector-field-location"], parents)
                for option in kind["options"]:
                    if any(
                        low <= selector <= high for low, high in option["selector-field-ranges"]
                    ):
                        return self.value(p, option["field-class"], parents, root)
                raise DecodingError(f"no option for {selector}")
        value = self.scalar(p, kind, parents)
        for role in kind.get("roles", []):
            self.role(p, kind, role, value, p.x - before)
        return value

    def scalar(self, p: Packet, kind: dict[str, Any], parents: list[Any]) -> Any:
        """Decode a scalar (6.4.3 to 6.4.15)."""
        match kind["type"]:
            case "fixed-length-boolean":
                return any(self.bits(p, kind))
            case "fixed-length-signed-integer":
                return signed(number(self.bits(p, kind)), kind["length"])
            case "fixed-length-floating-point-number":
                raw = number(self.bits(p, kind)).to_bytes(kind["length"] // 8, "little")
                return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(raw)], raw)[0]
            case "variable-length-unsigned-integer":
                return number(self.leb128(p))
            case "variable-length-signed-integer":
                digits = self.leb128(p)
                return signed(number(digits), len(digits))
            case "null-terminated-string":
                unit = UNITS[kind.get("encoding", "utf-8")]
                text = b""
                while any(part := self.bytes(p, unit)):
                    text += part
                return text.decode(kind.get("encoding", "utf-8"))
            case "static-length-string" | "dynamic-length-string":
                data = self.bytes(p, self.length(p, kind, parents))
                unit = UNITS[kind.get("encoding", "utf-8")]
                parts = [data[i : i + unit] for i in range(0, len(data), unit)]
                zero = next((i for i, part in enumerate(parts) if not any(part)), len(parts))
                return b"".join(parts[:zero]).decode(kind.get("encoding", "utf-8"))
            case "static-length-blob" | "dynamic-length-blob":
                return list(self.bytes(p, self.length(p, kind, parents)))
        return number(self.bits(p, kind))

    def role(self, p: Packet, kind: dict[str, Any], role: str, value: Any, bits: int) -> None:
        """Do what 6.1 and 6.2 require after a field with a role."""
        match role:
            case "data-stream-class-id":
                p.stream_class = value
            case "packet-magic-number":
                if value != 0xC1FC1FC1:
                    raise DecodingError("magic number")
            case "metadata-stream-uuid":
                if value != self.preamble["uuid"]:
                    raise DecodingError("UUID")
            case "packet-content-length":
                p.content = value
            case "packet-total-length":
                p.total = value
            case "event-record-class-id":
                p.event_class = value
            case "default-clock-timestamp":
                # Section 6.3.
                length = kind.get("length", bits // 8 * 7)
                mask = (1 << length) - 1
                high, current = p.clock & ~mask, p.clock & mask
                p.clock = high + value if value >= current else high + mask + 1 + value

    def alignment(self, kind: Any) -> int:
        """Return the alignment of a class (6.4.1)."""
        if isinstance(kind, str):
            return self.alignment(self.aliases[kind])
        match kind["type"]:
            case "structure":
                members = kind.get("member-classes", [])
                return max(
                    [
                        kind.get("minimum-alignment", 1),
                        *(self.alignment(member["field-class"]) for member in members),
                    ]
                )
            case "static-length-array" | "dynamic-length-array":
                element = self.alignment(kind["element-field-class"])
                return max(kind.get("minimum-alignment", 1), element)
            case "optional" | "variant":
                return 1
        return kind.get("alignment", 1) if kind["type"].startswith("fixed-length") else 8

    def align(self, p: Packet, to: int) -> None:
        """Align the position (6.4.1)."""
        p.x = (p.x + to - 1) & -to
        if p.x > p.content:
            raise DecodingError("alignment beyond the packet")

    def located(self, p: Packet, location: dict[str, Any], parents: list[Any]) -> Any:
        """Return the value at a field location (6.4.2)."""
        if "origin" in location:
            root = ORIGINS[location["origin"]]
            value = p.roots[root]
            around = [value]
        else:
            around = [v for v in parents if isinstance(v, dict)]
            value = around[-1]
        for step in location["path"]:
            if step is None:
                around.pop()
                value = around[-1]
            elif step not in value:
                # The structure being decoded may lie in a member that is not complete yet.
                inside = [v for v in parents if isinstance(v, dict)]
                at = next(i for i, v in enumerate(inside) if v is value)
                value = inside[at + 1]
                around.append(value)
            else:
                value = value[step]
                around.append(value)
        return value

    def length(self, p: Packet, kind: dict[str, Any], parents: list[Any]) -> int:
        """Return the fixed length, or the one in a field."""
        if "length" in kind:
            return kind["length"]
        return self.located(p, kind["length-field-location"], parents)

    def bits(self, p: Packet, kind: dict[str, Any]) -> list[bool]:
        """Read the bits of a fixed-length field (6.4.3)."""
        length, order = kind["length"], kind["byte-order"]
        usual = "first-to-last" if order == "little-endian" else "last-to-first"
        first_to_last = kind.get("bit-order", usual) == "first-to-last"
        if p.x + length > min(p.content, len(p.data) * 8):
            raise DecodingError("beyond the packet")
        if p.x % 8 and p.last_byte_order != order:
            raise DecodingError("the byte order changes within a byte")
        value = [False] * length
        for i in range(length):
            bit = p.x % 8 if order == "little-endian" else 7 - p.x % 8
            value[i if first_to_last else length - i - 1] = bool(p.data[p.x // 8] >> bit & 1)
            p.x += 1
        p.last_byte_order = order
        return value

    def bytes(self, p: Packet, count: int) -> bytes:
        """Read whole bytes."""
        if p.x + count * 8 > min(p.content, len(p.data) * 8):
            raise DecodingError("beyond the packet")
        p.x += count * 8
        return p.data[p.x // 8 - count : p.x // 8]

    def leb128(self, p: Packet) -> list[bool]:
        """Return the effective bits of a LEB128 number (6.4.9), the lowest first."""
        digits: list[bool] = []
        while True:
            byte = self.bytes(p, 1)[0]
            digits += [bool(byte >> i & 1) for i in range(7)]
            if not byte & 0x80:
                return digits


def number(bits: list[bool]) -> int:
    """Return the number of these bits (6.4.6), of which the first is the lowest."""
    return sum(1 << i for i, bit in enumerate(bits) if bit)


def signed(value: int, length: int) -> int:
    """Return the two's complement (6.4.7)."""
    return value - (1 << length) if value >> (length - 1) & 1 else value
