"""Generate the metadata of a CTF trace made from ring-buffer pages, and find its clock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from roslens.tracing.ftrace.formats import Field, Format, split_strings
from roslens.tracing.ftrace.raw import Clock, RawTrace

NAME_BYTES = 16
_METADATA_READ = 1 << 16
_FRAGMENT = b"\x1e"
"""First byte of each fragment of CTF 2 metadata."""


def clock_of_other_trace(root: Path, own: Clock) -> Clock | None:
    """Return the clock `own` with the offset of another trace below a folder, or None.

    Two traces of a machine are joined exactly if they share the offset: the clock itself is the
    same.
    """
    for text, offset in _metadata_beginnings(root):
        lttng = re.search(rb'tracer_name"?\s*[=:]\s*"lttng', text) is not None
        return replace(own, offset_ns=offset, absolute=lttng)
    return None


def host_of_other_trace(root: Path) -> str | None:
    """Return the host name in the trace that `clock_of_other_trace` uses, if there is one."""
    for text, _ in _metadata_beginnings(root):
        match = re.search(rb'\bhostname"?\s*[=:]\s*"([^"\n]{1,255})"', text)
        return match and match[1].decode(errors="replace")
    return None


def _metadata_beginnings(root: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the beginning of each metadata file with a monotonic clock, and its offset."""
    for path in sorted(root.rglob("metadata")):
        try:
            with path.open("rb") as stream:
                text = stream.read(_METADATA_READ)
        except OSError:
            continue
        offset = _ctf2_offset(text) if text.startswith(_FRAGMENT) else _tsdl_offset(text)
        if offset is not None:
            yield text, offset


def _tsdl_offset(text: bytes) -> int | None:
    clock = re.search(rb"clock\s*\{[^}]*?\bname\s*=\s*\"?monotonic\"?\s*;[^}]*\}", text)
    match = clock and re.search(rb"\boffset\s*=\s*(\d{1,19})\s*;", clock[0])
    return int(match[1]) if match else None


def _ctf2_offset(text: bytes) -> int | None:
    """Parse the offset in the format of LTTng 2.15 and newer: seconds, and cycles of 1 ns."""
    for fragment in text.split(_FRAGMENT):
        with suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
            definition = json.loads(fragment)
            if definition["type"] == "clock-class" and definition["name"] == "monotonic":
                offset = definition["offset-from-origin"]
                return int(offset["seconds"]) * 1_000_000_000 + int(offset["cycles"])
    return None


def metadata(raw: RawTrace, clock: Clock, own: UUID) -> str:
    """Return the TSDL text that describes the streams."""
    facts = {
        "hostname": raw.hostname,
        "domain": raw.domain,
        "sysname": "Linux",
        "kernel_release": raw.release,
        "tracer_name": raw.tracer,
    }
    env = "".join(f"\t{k} = {_quoted(v)};\n" for k, v in facts.items() if v)
    boot = f"\tuuid = {_quoted(clock.uuid)};\n" if clock.uuid else ""
    thread = _int(4, signed=True)
    context = f"{thread} _tid; {_int(1)} _flags;"
    if raw.threads is not None:
        text = "integer { size = 8; align = 8; signed = true; encoding = UTF8; }"
        context = f"{thread} _vpid; {thread} _vtid; {text} _procname[{NAME_BYTES}];"
    events = "".join(map(_event, (raw.formats[n] for n in sorted(raw.formats))))
    return (
        "/* CTF 1.8 */\n\n"
        f'trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = "{own}";\n'
        "\tbyte_order = le;\n"
        f"\tpacket.header := struct {{ {_int(4)} magic; {_int(4)} stream_id; }};\n}};\n\n"
        f"env {{\n{env}}};\n\n"
        f"clock {{\n\tname = {_quoted(clock.name)};\n{boot}\tfreq = 1000000000;\n"
        f"\tabsolute = {str(clock.absolute).upper()};\n"
        f"\toffset = {clock.offset_ns};\n}};\n\n"
        f"typealias integer {{ size = 64; align = 8; signed = false; "
        f"map = clock.{clock.name}.value; }} := moment_t;\n\n"
        "stream {\n\tid = 0;\n"
        f"\tevent.header := struct {{ {_int(2)} id; moment_t timestamp; }};\n"
        "\tpacket.context := struct {\n"
        "\t\tmoment_t timestamp_begin; moment_t timestamp_end;\n"
        f"\t\t{_int(8)} content_size; {_int(8)} packet_size;\n"
        f"\t\t{_int(8)} events_discarded; {_int(4)} cpu_id;\n\t}};\n"
        f"\tevent.context := struct {{ {context} }};\n}};\n\n{events}"
    )


def _event(described: Format) -> str:
    fixed, strings = split_strings(described)
    fields = "".join(
        f"\t\t{_type(field)[0]} _{field.name}{_type(field)[1]};\n" for field in [*fixed, *strings]
    )
    return (
        f"event {{\n\tname = {_quoted(described.name)};\n\tid = {described.number};\n"
        f"\tstream_id = 0;\n\tfields := struct {{\n{fields}\t}};\n}};\n\n"
    )


def _type(field: Field) -> tuple[str, str]:
    if "string" in field.kind:
        return "string { encoding = UTF8; }", ""
    if field.kind == "text":
        return "integer { size = 8; align = 8; signed = true; encoding = UTF8; }", f"[{field.size}]"
    suffix = f"[{field.count}]" if field.kind == "ints" else ""
    return _int(field.size, signed=field.signed), suffix


def _int(size: int, *, signed: bool = False) -> str:
    return f"integer {{ size = {size * 8}; align = 8; signed = {str(signed).lower()}; }}"


def _quoted(text: str) -> str:
    kept = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in text)
    return f'"{kept}"'
