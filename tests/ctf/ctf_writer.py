"""A small writer of CTF 1.8, made for these tests: types, their TSDL, and their bits.

It shares no code with the readers. Values are plain Python.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

UUID_OF_TRACES = UUID("5b1d0a3c-7f0e-4d6b-9a52-0c1d2e3f4a5b")
MAGIC = 0xC1FC1FC1


class Bits:
    """Bits in one byte order: from the lowest of each byte up, or from the highest down."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.bits: list[int] = []

    def align(self, bits: int) -> None:
        while len(self.bits) % bits:
            self.bits.append(0)

    def number(self, value: int, bits: int) -> None:
        digits = [value >> i & 1 for i in range(bits)]
        self.bits += digits if self.order == "le" else digits[::-1]

    def __bytes__(self) -> bytes:
        self.align(8)
        found = bytearray()
        for i in range(0, len(self.bits), 8):
            byte = self.bits[i : i + 8]
            if self.order == "le":
                byte = byte[::-1]
            found.append(int("".join(map(str, byte)), 2))
        return bytes(found)


@dataclass(frozen=True)
class Int:
    bits: int
    signed: bool = False
    align: int = 8

    def tsdl(self) -> str:
        signed = str(self.signed).lower()
        return f"integer {{ size = {self.bits}; align = {self.align}; signed = {signed}; }}"

    def write(self, bits: Bits, value: int) -> None:
        bits.align(self.align)
        bits.number(value, self.bits)


@dataclass(frozen=True)
class Float:
    bits: int
    align = 8

    def tsdl(self) -> str:
        exponent, mantissa = {32: (8, 24), 64: (11, 53)}[self.bits]
        return f"floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = 8; }}"

    def write(self, bits: Bits, value: float) -> None:
        bits.align(8)
        raw = struct.pack("<f" if self.bits == 32 else "<d", value)
        bits.number(int.from_bytes(raw, "little"), self.bits)


@dataclass(frozen=True)
class Text:
    def tsdl(self) -> str:
        return "string"

    def write(self, bits: Bits, value: str) -> None:
        write_bytes(bits, value.encode() + b"\0")


def write_bytes(bits: Bits, data: bytes) -> None:
    """Bytes, aligned to one."""
    bits.align(8)
    for byte in data:
        bits.number(byte, 8)


CHAR = "integer { size = 8; align = 8; signed = true; encoding = UTF8; }"


@dataclass(frozen=True)
class Chars:
    """Text in a fixed number of bytes, filled with NUL."""

    length: int

    def tsdl(self) -> str:
        return CHAR

    @property
    def suffix(self) -> str:
        return f"[{self.length}]"

    def write(self, bits: Bits, value: str) -> None:
        write_bytes(bits, value.encode().ljust(self.length, b"\0"))


@dataclass(frozen=True)
class Array:
    element: object
    length: int

    def tsdl(self) -> str:
        return self.element.tsdl()

    @property
    def suffix(self) -> str:
        # The outermost array is the first one written.
        return f"[{self.length}]" + getattr(self.element, "suffix", "")

    def write(self, bits: Bits, value: list) -> None:
        bits.align(align_of(self.element))
        for item in value:
            self.element.write(bits, item)


@dataclass(frozen=True)
class Sequence:
    """Elements counted by the field `length_field`, which comes before."""

    element: object
    length_field: str

    def tsdl(self) -> str:
        return self.element.tsdl()

    @property
    def suffix(self) -> str:
        return f"[{self.length_field}]" + getattr(self.element, "suffix", "")

    write = Array.write


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, object], ...]

    def tsdl(self) -> str:
        fields = " ".join(f"{t.tsdl()} {n}{getattr(t, 'suffix', '')};" for n, t in self.fields)
        return f"struct {{ {fields} }}"

    def write(self, bits: Bits, value: dict) -> None:
        bits.align(align_of(self))
        for name, kind in self.fields:
            kind.write(bits, value[name])


def align_of(kind: object) -> int:
    match kind:
        case Int() | Float():
            return kind.align
        case Array() | Sequence():
            return align_of(kind.element)
        case Struct():
            return max((align_of(t) for _, t in kind.fields), default=1)
    return 8


COMPACT = """
struct event_header {
  enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
  variant <id> {
    struct { integer { size = 27; align = 1; map = clock.mono.value; } timestamp; } compact;
    struct {
      integer { size = 32; align = 8; } id;
      integer { size = 64; align = 8; map = clock.mono.value; } timestamp;
    } extended;
  } v;
} align(8);
"""
LARGE = """
struct event_header {
  enum : integer { size = 16; align = 8; } { compact = 0 ... 65534, extended = 65535 } id;
  variant <id> {
    struct { integer { size = 32; align = 8; map = clock.mono.value; } timestamp; } compact;
    struct {
      integer { size = 32; align = 8; } id;
      integer { size = 64; align = 8; map = clock.mono.value; } timestamp;
    } extended;
  } v;
} align(8);
"""


@dataclass
class Event:
    name: str
    number: int
    payload: Struct
    context: Struct | None = None


@dataclass
class Stream:
    """One stream file: events are added, packets cut, and the bytes taken."""

    trace: TraceWriter
    instance: int = 0
    cpu: int = 0
    data: bytearray = field(default_factory=bytearray)
    entries: list[list[int]] = field(default_factory=list)
    """What LTTng's index of the file would say of each packet."""
    sequence: int = 0
    discarded: int = 0
    now: int = 0
    begin: int | None = None
    bits: Bits = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self.begin = None
        self.bits = Bits(self.trace.order)
        # The head is written when the packet is closed; it has a fixed size.
        self.bits.bits = [0] * self.trace.head_bits

    def event(
        self, event: Event, cycles: int, value: dict, common: dict, own: dict | None = None
    ) -> None:
        assert cycles >= self.now
        if self.begin is None:
            self.begin = cycles
            self.now = cycles
        self._header(event.number, cycles)
        self.now = cycles
        if self.trace.context is not None:
            self.trace.context.write(self.bits, common)
        if event.context is not None:
            event.context.write(self.bits, own)
        event.payload.write(self.bits, value)

    def _header(self, number: int, cycles: int) -> None:
        bits = self.bits
        tag, stamp, limit = (5, 27, 31) if self.trace.compact else (16, 32, 65535)
        bits.align(8)
        # A short stamp can tell one wrap only.
        if number < limit and cycles - self.now < 1 << stamp:
            bits.number(number, tag)
            bits.number(cycles, stamp)
        else:
            bits.number(limit, tag)
            bits.align(8)
            bits.number(number, 32)
            bits.number(cycles, 64)

    def packet(self, *, padding: int = 0, discarded: int = 0, skipped: int = 0) -> None:
        """Close the packet: `padding` bytes after its content, events and packets lost."""
        self.discarded += discarded
        self.sequence += skipped
        content = len(self.bits.bits)
        total = math.ceil(content / 8) * 8 + padding * 8
        head = Bits(self.trace.order)
        begin = self.now if self.begin is None else self.begin
        head.number(MAGIC, 32)
        for byte in UUID_OF_TRACES.bytes:
            head.number(byte, 8)
        for value, bits in (
            (0, 32),
            (self.instance, 64),
            (begin, 64),
            (self.now, 64),
            (content, 64),
            (total, 64),
            (self.sequence, 64),
            (self.discarded, self.trace.discarded_bits),
            (self.cpu, 32),
        ):
            head.number(value, bits)
        assert len(head.bits) == self.trace.head_bits
        self.bits.bits[: self.trace.head_bits] = head.bits
        counts = [self.discarded, 0, self.instance, self.sequence]
        self.entries.append([len(self.data), total, content, begin, self.now, *counts])
        self.data += bytes(self.bits).ljust(total // 8, b"\0")
        self.sequence += 1
        self._open()


@dataclass
class TraceWriter:
    """A trace of one stream class with LTTng's packet header and context."""

    events: list[Event]
    context: Struct | None = None
    order: str = "le"
    compact: bool = False
    frequency: int = 1_000_000_000
    offset_s: int = 0
    offset: int = 0
    hostname: str | None = "host"
    domain: str = "ust"
    discarded_bits: int = 64

    @property
    def head_bits(self) -> int:
        return 32 + 128 + 32 + 64 * 6 + self.discarded_bits + 32

    def metadata(self) -> str:
        u = "integer {{ size = {}; align = 8; }}".format
        clocked = "integer { size = 64; align = 8; map = clock.mono.value; }"
        text = f"""/* CTF 1.8 */
trace {{
  major = 1; minor = 8; uuid = "{UUID_OF_TRACES}"; byte_order = {self.order};
  packet.header := struct {{
    {u(32)} magic; {u(8)} uuid[16]; {u(32)} stream_id; {u(64)} stream_instance_id;
  }};
}};
"""
        if self.hostname is not None:
            text += f'env {{ hostname = "{self.hostname}"; domain = "{self.domain}"; }};\n'
        text += f"""clock {{
  name = "mono"; freq = {self.frequency}; offset_s = {self.offset_s}; offset = {self.offset};
}};
{COMPACT if self.compact else LARGE}
stream {{
  id = 0;
  event.header := struct event_header;
  packet.context := struct {{
    {clocked} timestamp_begin; {clocked} timestamp_end;
    {u(64)} content_size; {u(64)} packet_size; {u(64)} packet_seq_num;
    {u(self.discarded_bits)} events_discarded; {u(32)} cpu_id;
  }};
"""
        if self.context is not None:
            text += f"  event.context := {self.context.tsdl()};\n"
        text += "};\n"
        for event in self.events:
            text += f'event {{\n  name = "{event.name}"; id = {event.number}; stream_id = 0;\n'
            if event.context is not None:
                text += f"  context := {event.context.tsdl()};\n"
            text += f"  fields := {event.payload.tsdl()};\n}};\n"
        return text

    def save(self, folder: Path, **streams: Stream) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(self.metadata())
        for name, stream in streams.items():
            (folder / name).write_bytes(bytes(stream.data))
        return folder


def index(entries: list[list[int]], minor: int = 1) -> bytes:
    """An index as LTTng writes it beside each stream: versions 1.0 and 1.1, big-endian."""
    words = 9 if minor else 7
    found = struct.pack(">4I", 0xC1F1DCC1, 1, minor, 8 * words)
    return found + b"".join(struct.pack(f">{words}Q", *entry[:words]) for entry in entries)


def packetized(text: str, order: str = "little", size: int = 256) -> bytes:
    """Metadata text in LTTng's metadata packets of `size` bytes."""
    room = size - 37
    found = b""
    data = text.encode()
    for at in range(0, len(data), room):
        part = data[at : at + room]
        found += (
            (0x75D11D57).to_bytes(4, order)
            + UUID_OF_TRACES.bytes
            + (0).to_bytes(4, order)
            + ((37 + len(part)) * 8).to_bytes(4, order)
            + (size * 8).to_bytes(4, order)
            + bytes([0, 0, 0, 1, 8])
            + part
        ).ljust(size, b"\0")
    return found
