"""Parse tracetools' installed headers: every tracepoint, its arguments and its fields.

``tracetools/tp_call.h`` defines all ``ros2:*`` events of a ROS 2 distribution;
``tracetools/tracetools.h`` declares the functions that call them. Their arguments differ in a
few places (a function may keep an argument that its event no longer records), so both are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from roslens.recording import RunFailedError

FIELD_KINDS = {
    # header macro: number of its arguments
    "ctf_integer": 3,
    "ctf_integer_hex": 3,
    "ctf_float": 3,
    "ctf_string": 2,
    "ctf_array": 4,
    "ctf_array_hex": 4,
    "ctf_sequence": 5,
    "ctf_sequence_hex": 5,
}
"""The supported field macros of LTTng-UST."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a C function."""

    type: str
    name: str


@dataclass(frozen=True)
class Field:
    """A field of an event.

    Attributes
    ----------
    kind
        The field macro (a key of `FIELD_KINDS`).
    name
        The field's name in the trace.
    arguments
        The macro's arguments in order, in C.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Tracepoint:
    """An event: its parameters and the fields that it records."""

    name: str
    parameters: tuple[Parameter, ...]
    fields: tuple[Field, ...]


_KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "pointer": ("const void *", "ctf_integer_hex", ("const void *", "{0}", "{0}")),
    "string": ("const char *", "ctf_string", ("{0}", "{0}")),
    "int64": ("int64_t", "ctf_integer", ("int64_t", "{0}", "{0}")),
    "uint64": ("uint64_t", "ctf_integer", ("uint64_t", "{0}", "{0}")),
    "bool": ("bool", "ctf_integer", ("int", "{0}", "({0} ? 1 : 0)")),
    "gid": ("const uint8_t *", "ctf_array", ("uint8_t", "{0}", "{0}", "{1}")),
    "pointers": (
        *("const void **", "ctf_sequence_hex"),
        ("const void *", "{0}", "{0}", "size_t", "{0}_length"),
    ),
}
"""C type, field macro and its arguments of each kind of an event's arguments."""


def tracepoint(
    name: str, *arguments: str, gid_bytes: int = 16, unrecorded: Collection[str] = ()
) -> Tracepoint:
    """Return an event that records its arguments, each given as ``kind name`` (see `_KINDS`).

    `unrecorded` names the arguments that it does not record.
    """
    parameters, fields = [], []
    for kind, argument in map(str.split, arguments):
        c_type, macro, parts = _KINDS[kind]
        parameters.append(Parameter(c_type, argument))
        if kind == "pointers":
            parameters.append(Parameter("size_t", f"{argument}_length"))
        if argument not in unrecorded:
            passed = tuple(part.format(argument, gid_bytes) for part in parts)
            fields.append(Field(macro, argument, passed))
    return Tracepoint(name, tuple(parameters), tuple(fields))


@dataclass(frozen=True)
class Instrumentation:
    """All definitions in the headers of one version of tracetools.

    Attributes
    ----------
    provider
        The provider's name, ``ros2``.
    version
        The version of tracetools, which ``rcl_init`` records.
    tracepoints
        The events, in the header's order.
    functions
        The parameters of each event's ``ros_trace_<event>`` function.
    constants
        Names that field arguments use, with their values in C.
    """

    provider: str
    version: str
    tracepoints: tuple[Tracepoint, ...]
    functions: dict[str, tuple[Parameter, ...]]
    constants: dict[str, str] = field(default_factory=dict)


class HeaderError(RunFailedError):
    """A header of tracetools cannot be read or is not supported."""


def read_instrumentation(include: Path) -> Instrumentation:
    """Read the headers below the folder `include`, which holds ``tp_call.h``.

    Raises
    ------
    HeaderError
        A header is missing or has unsupported content; the message states which and where.
    """
    calls = include / "tp_call.h"
    functions = include / "tracetools.h"
    versions = include / "version.h"
    return parse_instrumentation(
        _read(calls), _read(functions), _read(versions), names=(str(calls), str(functions))
    )


def parse_instrumentation(
    calls: str,
    functions: str,
    versions: str,
    names: tuple[str, str] = ("tp_call.h", "tracetools.h"),
) -> Instrumentation:
    """Parse the text of ``tp_call.h``, ``tracetools.h`` and ``version.h``.

    Raises
    ------
    HeaderError
        As for `read_instrumentation`.
    """
    defines = _defines(calls)
    provider = defines.pop("TRACEPOINT_PROVIDER", "")
    if not provider.isidentifier():
        raise HeaderError(f"{names[0]}: no TRACEPOINT_PROVIDER is defined; is it tracetools' own?")
    version = _defines(versions).get("TRACETOOLS_VERSION_STR", '""').strip('"')
    tracepoints = tuple(_tracepoints(calls, names[0]))
    declared = _declarations(functions, names[1])
    missing = [t.name for t in tracepoints if t.name not in declared]
    if missing:
        raise HeaderError(f"{names[1]}: declares no function for {', '.join(missing)}")
    return Instrumentation(
        provider=provider,
        version=version,
        tracepoints=tracepoints,
        functions={t.name: declared[t.name] for t in tracepoints},
        constants={
            **{k: v for k, v in defines.items() if k.startswith("TRACETOOLS_") and v},
            "TRACETOOLS_VERSION_STR": f'"{version}"',
        },
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeaderError(f"{path}: cannot be read ({error}); is tracetools installed?") from error


def _without_comments(text: str) -> str:
    # Newlines are kept, so that line numbers stay valid.
    return re.sub(
        r"/\*.*?\*/|//[^\n]*",
        lambda match: re.sub(r"[^\n]", " ", match.group()),
        text,
        flags=re.DOTALL,
    )


def _defines(text: str) -> dict[str, str]:
    """Return object-like macros with their values."""
    pairs = re.findall(
        r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?!\()[ \t]*(.*)$", _without_comments(text), re.MULTILINE
    )
    return {name: value.strip() for name, value in pairs}


def _tracepoints(text: str, name: str) -> list[Tracepoint]:
    tracepoints = []
    text = _without_comments(text)
    for where, arguments in _calls(text, "TRACEPOINT_EVENT", name):
        if len(arguments) != 4:
            raise HeaderError(
                f"{name}:{where}: TRACEPOINT_EVENT with {len(arguments)} parts, not 4"
            )
        event = arguments[1]
        inner = _body_of(arguments[2], "TP_ARGS", name, where)
        pieces = _split(inner)
        if len(pieces) % 2:
            raise HeaderError(f"{name}:{where}: {event}: TP_ARGS is no list of type, name")
        parameters = tuple(
            Parameter(kind, argument)
            for kind, argument in zip(pieces[::2], pieces[1::2], strict=True)
        )
        fields = tuple(
            _fields(_body_of(arguments[3], "TP_FIELDS", name, where), name, where, event)
        )
        tracepoints.append(Tracepoint(event, parameters, fields))
    if not tracepoints:
        raise HeaderError(f"{name}: defines no TRACEPOINT_EVENT; is it tracetools' own?")
    return tracepoints


def _fields(text: str, name: str, where: int, event: str) -> list[Field]:
    fields = []
    rest = text.strip()
    while rest:
        macro = re.match(r"(\w+)\s*\(", rest)
        if macro is None or macro.group(1) not in FIELD_KINDS:
            unknown = rest.split("(")[0].strip()
            raise HeaderError(f"{name}:{where}: {event}: field macro '{unknown}' is not understood")
        kind = macro.group(1)
        inner, end = _balanced(rest, macro.end() - 1, name, where)
        arguments = tuple(_split(inner))
        if len(arguments) != FIELD_KINDS[kind]:
            raise HeaderError(f"{name}:{where}: {event}: {kind} with {len(arguments)} arguments")
        fields.append(Field(kind, arguments[0 if kind == "ctf_string" else 1], arguments))
        rest = rest[end:].strip()
    return fields


def _declarations(text: str, name: str) -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of each function that ``_DECLARE_TRACEPOINT`` declares."""
    text = re.sub(r"\\\n", "  ", _without_comments(text))
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    declared = {}
    for where, arguments in _calls(text, "_DECLARE_TRACEPOINT", name):
        parameters = []
        for argument in arguments[1:]:
            split = re.fullmatch(r"(.*?[\s*])(\w+)", argument, re.DOTALL)
            if split is None:
                raise HeaderError(f"{name}:{where}: {arguments[0]}: '{argument}' is no parameter")
            parameters.append(Parameter(" ".join(split.group(1).split()), split.group(2)))
        declared[arguments[0]] = tuple(parameters)
    return declared


def _calls(text: str, macro: str, name: str) -> list[tuple[int, list[str]]]:
    """Return line and arguments of each use of a macro."""
    calls = []
    for match in re.finditer(rf"^[ \t]*{macro}\s*\(", text, re.MULTILINE):
        where = text.count("\n", 0, match.start()) + 1
        inner, _ = _balanced(text, match.end() - 1, name, where)
        calls.append((where, _split(inner)))
    return calls


def _body_of(text: str, macro: str, name: str, where: int) -> str:
    match = re.fullmatch(rf"{macro}\s*(\(.*\))", text, re.DOTALL)
    if match is None:
        raise HeaderError(f"{name}:{where}: {macro}(...) expected")
    return _balanced(match.group(1), 0, name, where)[0]


def _balanced(text: str, start: int, name: str, where: int) -> tuple[str, int]:
    """Return the text inside the parenthesis at `start`, and the position after its end."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "(":
            depth += 1
        elif text[position] == ")":
            depth -= 1
            if depth == 0:
                return text[start + 1 : position], position + 1
    raise HeaderError(f"{name}:{where}: a parenthesis is never closed")


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses; collapse spaces."""
    pieces, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    cleaned = [" ".join(piece.split()) for piece in pieces]
    return [] if cleaned == [""] else cleaned
