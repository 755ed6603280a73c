"""Write CTF 1.8 traces as LTTng lays them out, for these tests, without the readers' code."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ctf.ctf2_writer import (
    MAGIC_AND_UUID,
    UUID_OF_TRACES,
    Class,
    PacketWriter,
    in_header,
    lttng_header,
    structure,
)
from tests.ctf.tsdl import as_tsdl


def integer(bits: int, signed: bool = False, align: int = 8, **more: Any) -> Class:
    """Return an integer class in the trace's byte order; ``base`` is named as in TSDL."""
    kind = f"fixed-length-{'' if signed else 'un'}signed-integer"
    return {"type": kind, "length": bits, "alignment": align, **more}


def real(bits: int) -> Class:
    """Return a floating-point class."""
    return {"type": "fixed-length-floating-point-number", "length": bits, "alignment": 8}


def text() -> Class:
    """Return a class of text that ends with NUL."""
    return {"type": "null-terminated-string"}


def chars(length: int) -> Class:
    """Return a class of text in a fixed number of bytes, padded with NUL."""
    return {"type": "static-length-string", "length": length}


def array(element: Class, length: int) -> Class:
    """Return a class of `length` elements."""
    return {"type": "static-length-array", "element-field-class": element, "length": length}


def sequence(element: Class, length_field: str) -> Class:
    """Return a class of elements counted by the earlier field `length_field`."""
    location = {"path": [length_field]}
    kind = {"type": "dynamic-length-array", "element-field-class": element}
    return kind | {"length-field-location": location}


def in_order(kind: Any, order: str) -> Any:
    """Return the class with this byte order wherever it has none."""
    if isinstance(kind, list):
        return [in_order(item, order) for item in kind]
    if not isinstance(kind, dict):
        return kind
    converted = {name: in_order(item, order) for name, item in kind.items()}
    fields = {"byte-order": order} if str(kind.get("type")).startswith("fixed-length") else {}
    return fields | converted


@dataclass
class Event:
    name: str
    number: int
    payload: Class
    context: Class | None = None


@dataclass
class Stream:
    """A stream file: events are added, packets cut, and the bytes taken."""

    trace: TraceWriter
    instance: int = 0
    cpu: int = 0
    data: bytearray = field(default_factory=bytearray)
    entries: list[list[int]] = field(default_factory=list)
    """Entries for each packet as in LTTng's index of the file."""
    sequence: int = 0
    discarded: int = 0
    now: int = 0
    begin: int | None = None
    bits: PacketWriter = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self.begin = None
        self.bits = PacketWriter()
        self.head, _, self.stream, *self.events = self.trace.fragments

    def _head(self, cycles: int) -> None:
        self.begin = self.now = cycles
        header = self.head["packet-header-field-class"]
        self.bits.value(header, MAGIC_AND_UUID | {"stream_instance_id": self.instance})
        # Values known only when the packet is closed are written then.
        values = {"timestamp_begin": cycles, "cpu_id": self.cpu}
        context = self.stream["packet-context-field-class"]
        later = {member["name"]: 0 for member in context["member-classes"]}
        self.bits.value(context, later | values)

    def event(
        self, event: Event, cycles: int, value: dict, common: dict, own: dict | None = None
    ) -> None:
        assert cycles >= self.now
        if self.begin is None:
            self._head(cycles)
        header = self.stream["event-record-header-field-class"]
        self.bits.value(header, in_header(header, event.number, cycles, cycles - self.now))
        self.now = cycles
        about = next(known for known in self.events if known["id"] == event.number)
        for kind, values in (
            (self.stream.get("event-record-common-context-field-class"), common),
            (about.get("specific-context-field-class"), own),
            (about["payload-field-class"], value),
        ):
            if kind is not None:
                self.bits.value(kind, values)

    def packet(self, *, padding: int = 0, discarded: int = 0, skipped: int = 0) -> None:
        """Close the packet, with `padding` bytes after its content, and lost events and packets."""
        self.discarded += discarded
        self.sequence += skipped
        if self.begin is None:
            self._head(self.now)
        self.bits.patch("packet-end-default-clock-timestamp", self.now)
        self.bits.patch("packet-sequence-number", self.sequence)
        self.bits.patch("discarded-event-record-counter-snapshot", self.discarded)
        content, data = len(self.bits.bits), self.bits.finish(padding)
        counts = [self.discarded, 0, self.instance, self.sequence]
        self.entries.append([len(self.data), 8 * len(data), content, self.begin, self.now, *counts])
        self.data += data
        self.sequence += 1
        self._open()


@dataclass
class TraceWriter:
    """A trace of one stream class with LTTng's packet header and context."""

    events: list[Event]
    context: Class | None = None
    order: str = "little-endian"
    compact: bool = False
    frequency: int = 1_000_000_000
    offset_s: int = 0
    offset: int = 0
    hostname: str | None = "host"
    domain: str = "ust"

    head_bits = 32 + 128 + 32 + 64 * 7 + 32

    def __post_init__(self) -> None:
        def role(bits: int, name: str) -> Class:
            return integer(bits, roles=[name])

        header = {
            "magic": role(32, "packet-magic-number"),
            "uuid": {"type": "static-length-blob", "length": 16},
            "stream_id": role(32, "data-stream-class-id"),
            "stream_instance_id": role(64, "data-stream-id"),
        }
        packet = {
            "timestamp_begin": role(64, "default-clock-timestamp"),
            "timestamp_end": role(64, "packet-end-default-clock-timestamp"),
            "content_size": role(64, "packet-content-length"),
            "packet_size": role(64, "packet-total-length"),
            "packet_seq_num": role(64, "packet-sequence-number"),
            "events_discarded": role(64, "discarded-event-record-counter-snapshot"),
            "cpu_id": integer(32),
        }
        stream = {
            "type": "data-stream-class",
            "id": 0,
            "packet-context-field-class": structure(packet),
            "event-record-header-field-class": lttng_header(self.order, compact=self.compact),
        }
        if self.context is not None:
            stream["event-record-common-context-field-class"] = self.context
        environment = {"hostname": self.hostname, "domain": self.domain} if self.hostname else {}
        fragments = [
            {
                "type": "trace-class",
                "environment": environment,
                "packet-header-field-class": structure(header),
            },
            {
                "type": "clock-class",
                "frequency": self.frequency,
                "offset-from-origin": {"seconds": self.offset_s, "cycles": self.offset},
            },
            stream,
        ]
        for event in self.events:
            context = {"specific-context-field-class": event.context} if event.context else {}
            payload = {"payload-field-class": event.payload}
            about = {"type": "event-record-class", "id": event.number, "name": event.name}
            fragments.append(about | context | payload)
        self.fragments = in_order(fragments, self.order)

    def metadata(self) -> str:
        return as_tsdl(self.fragments)

    def save(self, folder: Path, **streams: Stream) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(self.metadata())
        for name, stream in streams.items():
            (folder / name).write_bytes(bytes(stream.data))
        return folder


def index(entries: list[list[int]], minor: int = 1) -> bytes:
    """Return an index as LTTng writes it beside each stream: versions 1.0 and 1.1, big-endian."""
    words = 9 if minor else 7
    head = struct.pack(">4I", 0xC1F1DCC1, 1, minor, 8 * words)
    return head + b"".join(struct.pack(f">{words}Q", *entry[:words]) for entry in entries)


def packetized(text: str, order: str = "little", size: int = 256) -> bytes:
    """Split metadata text into LTTng's metadata packets of `size` bytes."""
    room = size - 37
    packets = b""
    data = text.encode()
    for at in range(0, len(data), room):
        part = data[at : at + room]
        packets += (
            (0x75D11D57).to_bytes(4, order)
            + UUID_OF_TRACES.bytes
            + (0).to_bytes(4, order)
            + ((37 + len(part)) * 8).to_bytes(4, order)
            + (size * 8).to_bytes(4, order)
            + bytes([0, 0, 0, 1, 8])
            + part
        ).ljust(size, b"\0")
    return packets
