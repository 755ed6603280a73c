"""Write every event of CTF traces as JSON lines, in the interpreter that has python3-bt2.

Run by `tests.oracle.babeltrace` as a script with the system's Python; it needs only bt2.
Arguments: ``rows|counts`` and trace folders. Lines on stdout:

* ``["trace", index, hostname or null]``
* ``["class", number, event name, [[context name, type], ...], [[payload name, type], ...]]``
* ``["event", class number, trace index, stream, time_ns, cpu_id or null, [values], [values]]``
* ``["counts", {event name: count}]`` with ``counts``
* ``["error", text]``, last, if babeltrace2 gives up

A type is ``["int", bits, signed]``, ``["float", bits]``, ``["string"]``, ``["bool"]``,
``["enum", bits, signed]``, ``["list", type]`` or ``["struct", [[name, type], ...]]``. An
enumeration's value is ``[number, label or null]``; a variant is a struct with one member set.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import Any

import bt2  # type: ignore[import-not-found]
from bt2 import field_class as fc

STRUCT = fc._StructureFieldClassConst
VARIANT = fc._VariantFieldClassConst
ARRAY = fc._ArrayFieldClassConst
ENUM = (
    fc._UnsignedEnumerationFieldClassConst,
    fc._SignedEnumerationFieldClassConst,
)
SIGNED = fc._SignedIntegerFieldClassConst
UNSIGNED = fc._UnsignedIntegerFieldClassConst
SINGLE = fc._SinglePrecisionRealFieldClassConst
DOUBLE = fc._DoublePrecisionRealFieldClassConst
STRING = fc._StringFieldClassConst
BOOL = fc._BoolFieldClassConst


def describe(cls: Any) -> tuple[list[Any], Any]:
    """Return the type and the reader (field -> plain value) of a field class."""
    if isinstance(cls, STRUCT):
        return describe_structure(cls)
    if isinstance(cls, VARIANT):
        return describe_variant(cls)
    if isinstance(cls, ARRAY):
        kind, read = describe(cls.element_field_class)
        return ["list", kind], lambda field: [read(element) for element in field]
    return describe_scalar(cls)


def describe_scalar(cls: Any) -> tuple[list[Any], Any]:
    """Do the same as `describe` for a class without members."""
    if isinstance(cls, ENUM):
        return ["enum", cls.field_value_range, isinstance(cls, SIGNED)], enumerator(cls)
    if isinstance(cls, (SIGNED, UNSIGNED)):
        return ["int", cls.field_value_range, isinstance(cls, SIGNED)], int
    if isinstance(cls, (SINGLE, DOUBLE)):
        return ["float", 32 if isinstance(cls, SINGLE) else 64], float
    if isinstance(cls, STRING):
        return ["string"], text
    if isinstance(cls, BOOL):
        return ["bool"], bool
    raise TypeError("cannot hand over a field of class " + type(cls).__name__)


def describe_structure(cls: Any) -> tuple[list[Any], Any]:
    """Do the same as `describe` for a structure."""
    members = [(name, *describe(member.field_class)) for name, member in cls.items()]

    def structure(field: Any) -> list[Any]:
        return [read(field[name]) for name, _, read in members]

    return ["struct", [[name, kind] for name, kind, _ in members]], structure


def describe_variant(cls: Any) -> tuple[list[Any], Any]:
    """Do the same as `describe` for a variant: a structure of which one member is set."""
    options = [(name, *describe(option.field_class)) for name, option in cls.items()]

    def variant(field: Any) -> list[Any]:
        chosen = field.selected_option_index
        return [
            read(field.selected_option) if i == chosen else None
            for i, (_, _, read) in enumerate(options)
        ]

    return ["struct", [[name, kind] for name, kind, _ in options]], variant


def enumerator(cls: Any) -> Any:
    """Return a reader of value and first label; `field.labels` fails if there is none."""
    mappings = [
        (label, [(r.lower, r.upper) for r in mapping.ranges]) for label, mapping in cls.items()
    ]

    def read(field: Any) -> list[Any]:
        value = int(field)
        for label, ranges in mappings:
            if any(low <= value <= high for low, high in ranges):
                return [value, label]
        return [value, None]

    return read


def text(field: Any) -> str:
    """Return text, with bytes that are not UTF-8 replaced."""
    if len(field) == 0:
        # babeltrace2 2.0.4 would give the text that the same field held before.
        return ""
    return str(field).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def describe_event(event_class: Any) -> list[tuple[list[Any], Any]]:
    """Return members and readers of common context, specific context and payload."""
    stream_class = event_class.stream_class
    parts = []
    for cls in (
        stream_class.event_common_context_field_class,
        event_class.specific_context_field_class,
        event_class.payload_field_class,
    ):
        kind, read = (["struct", []], lambda _: []) if cls is None else describe(cls)
        parts.append((kind[1], read))
    return parts


def emit(line: list[Any]) -> None:
    """Write one line."""
    print(json.dumps(line, separators=(",", ":")))


def messages(folder: str) -> Any:
    """Iterate over the messages of one trace, by time."""
    spec = bt2.ComponentSpec.from_named_plugin_and_component_class(
        "ctf", "fs", {"inputs": [folder]}
    )
    return bt2.TraceCollectionMessageIterator(spec)


def counts(folders: list[str]) -> None:
    """Write the number of events by name."""
    by_name: Counter[str] = Counter()
    for folder in folders:
        for message in messages(folder):
            if isinstance(message, bt2._EventMessageConst):
                by_name[message.event.name] += 1
    emit(["counts", by_name])


def rows(folders: list[str]) -> None:
    """Write every event."""
    readers: dict[tuple[int, int, int], Any] = {}
    for index, folder in enumerate(folders):
        seen = False
        for message in messages(folder):
            if isinstance(message, bt2._StreamBeginningMessageConst) and not seen:
                seen = True
                declare(index, message.stream.trace, readers)
            if not isinstance(message, bt2._EventMessageConst):
                continue
            event = message.event
            stream = event.stream
            number, common, specific, payload = readers[index, stream.cls.id, event.cls.id]
            packet = event.packet.context_field if event.packet is not None else None
            cpu = int(packet["cpu_id"]) if packet is not None and "cpu_id" in packet else None
            emit(
                [
                    "event",
                    number,
                    index,
                    [stream.cls.id, stream.id],
                    message.default_clock_snapshot.ns_from_origin,
                    cpu,
                    common(event.common_context_field) + specific(event.specific_context_field),
                    payload(event.payload_field),
                ]
            )


def declare(index: int, trace: Any, readers: dict[tuple[int, int, int], Any]) -> None:
    """Write a trace and its event classes."""
    environment = trace.environment
    emit(["trace", index, str(environment["hostname"]) if "hostname" in environment else None])
    for stream_id in sorted(trace.cls):
        stream_class = trace.cls[stream_id]
        for event_id in sorted(stream_class):
            event_class = stream_class[event_id]
            parts = describe_event(event_class)
            number = len(readers)
            readers[index, stream_id, event_id] = (number, *(read for _, read in parts))
            emit(["class", number, event_class.name, parts[0][0] + parts[1][0], parts[2][0]])


def main() -> None:
    """Run the command."""
    command, folders = sys.argv[1], sys.argv[2:]
    try:
        {"rows": rows, "counts": counts}[command](folders)
    except bt2._Error as error:
        first = next((cause.message for cause in error), str(error))
        emit(["error", re.sub(r"[a-z-]+-addr=0x[0-9a-f]+,? ?", "", first).rstrip(" :,")])


if __name__ == "__main__":
    main()
