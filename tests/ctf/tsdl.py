"""Write the CTF 2 metadata fragments that CTF 1.8 can express as TSDL."""

from __future__ import annotations

import json
from typing import Any

from tests.ctf.ctf2_writer import UUID_OF_TRACES, Fragments

CHAR = "integer { size = 8; align = 8; signed = true; encoding = UTF8; }"
ORDER = {"little-endian": "le", "big-endian": "be"}
UNCHANGED = {"uuid", "cpu_id", "id", "v"}
"""Names without the underscore that LTTng puts before each field of an event."""


def as_tsdl(fragments: Fragments) -> str:
    """Return CTF 1.8 metadata."""
    by_type = {fragment["type"]: fragment for fragment in fragments}
    clock = by_type["clock-class"]
    stream = by_type["data-stream-class"]
    trace = by_type["trace-class"]
    members = stream["packet-context-field-class"]["member-classes"]
    order = ORDER[members[0]["field-class"]["byte-order"]]
    text = f"""/* CTF 1.8 */
trace {{ major = 1; minor = 8; byte_order = {order}; uuid = "{UUID_OF_TRACES}";
  packet.header := {declared(trace["packet-header-field-class"], "")}; }};
{environment(trace["environment"])}
clock {{ name = mono; freq = {clock["frequency"]};
  offset_s = {clock["offset-from-origin"]["seconds"]};
  offset = {clock["offset-from-origin"]["cycles"]}; }};
stream {{ id = 0;
  packet.context := {declared(stream["packet-context-field-class"], "")};
  event.header := {declared(stream["event-record-header-field-class"], "")};
"""
    if "event-record-common-context-field-class" in stream:
        context = declared(stream["event-record-common-context-field-class"], "")
        text += f"  event.context := {context};\n"
    text += "};\n"
    for event in fragments:
        if event["type"] != "event-record-class":
            continue
        text += f'event {{ id = {event["id"]}; stream_id = 0; name = "{event["name"]}";\n'
        if "specific-context-field-class" in event:
            text += f"  context := {declared(event['specific-context-field-class'], '')};\n"
        text += f"  fields := {declared(event['payload-field-class'], '')}; }};\n"
    return text


def environment(values: dict[str, Any]) -> str:
    """Return the environment block; empty if there are no values."""
    words = "".join(f" {name} = {json.dumps(value)};" for name, value in values.items())
    return f"env {{{words} }};" if words else ""


def declared(kind: dict[str, Any], name: str) -> str:  # noqa: C901
    """Return a type and the name that it declares."""
    match kind["type"]:
        case "structure":
            fields = " ".join(
                declared(
                    member["field-class"],
                    member["name"] if "roles" in member["field-class"] else field(member["name"]),
                )
                + ";"
                for member in kind["member-classes"]
            )
            align = kind.get("minimum-alignment", 1)
            return f"struct {{ {fields} }}{f' align({align})' if align > 1 else ''} {name}".rstrip()
        case "static-length-array":
            return array(kind["element-field-class"], name, str(kind["length"]))
        case "dynamic-length-array":
            return array(kind["element-field-class"], name, path(kind["length-field-location"]))
        case "variant":
            options = " ".join(declared(o["field-class"], o["name"]) + ";" for o in kind["options"])
            tag = path(kind["selector-field-location"])
            return f"variant <{tag}> {{ {options} }} {name}"
        case "null-terminated-string":
            return f"string {name}"
        case "static-length-string":
            return f"{CHAR} {name}[{kind['length']}]"
        case "dynamic-length-string":
            return f"{CHAR} {name}[{path(kind['length-field-location'])}]"
        case "static-length-blob":
            return f"integer {{ size = 8; align = 8; }} {name}[{kind['length']}]"
        case "fixed-length-floating-point-number":
            digits = {32: (8, 24), 64: (11, 53)}[kind["length"]]
            return (
                f"floating_point {{ exp_dig = {digits[0]}; mant_dig = {digits[1]}; "
                f"align = {kind['alignment']}; byte_order = {ORDER[kind['byte-order']]}; }} {name}"
            )
    clock = any(role.endswith("default-clock-timestamp") for role in kind.get("roles", []))
    integer = (
        f"integer {{ size = {kind['length']}; align = {kind['alignment']}; "
        f"signed = {str(kind['type'] == 'fixed-length-signed-integer').lower()}; "
        f"byte_order = {ORDER[kind['byte-order']]}; "
        f"{'base = ' + kind['base'] + '; ' if 'base' in kind else ''}"
        f"{'map = clock.mono.value; ' if clock else ''}}}"
    )
    if "mappings" not in kind:
        return f"{integer} {name}"
    labels = ", ".join(
        f'"{label}" = {low} ... {high}'
        for label, ranges in kind["mappings"].items()
        for low, high in ranges
    )
    return f"enum : {integer} {{ {labels} }} {name}"


def array(element: dict[str, Any], name: str, length: str) -> str:
    """Return an array, whose outermost length is written first."""
    head, mark, rest = declared(element, "\0").partition("\0")
    return f"{head}{name}[{length}]{rest}" if mark else f"{head} {name}[{length}]"


def path(location: dict[str, Any]) -> str:
    """Return a field location without origin."""
    return ".".join(map(field, location["path"]))


def field(name: str) -> str:
    """Return the name of a field in TSDL."""
    return name if name in UNCHANGED else f"_{name}"
