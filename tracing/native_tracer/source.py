"""Generate the C source of the ``ros_trace_*`` functions of a tracetools, on top of ``tracer.c``.

The functions record the same events, fields and types as LTTng does. Calls into rcl that no
tracepoint shows are recorded in addition.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatch

from roslens.tracing.lttng.settings import INIT_EVENTS
from roslens.tracing.ros.calls import FUNCTIONS, THREADS, noted, with_calls
from roslens.tracing.ros.header import Field, HeaderError, Instrumentation, Tracepoint
from roslens.tracing.ros.provider import passed_arguments

_INTEGERS = {
    # C type: bits, signed
    "int": (32, True),
    "bool": (8, False),
    "char": (8, True),
    "size_t": (64, False),
    **{
        f"{'' if signed else 'u'}int{bits}_t": (bits, signed)
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
}
_MOST_ELEMENTS = 8192
"""Longest recorded sequence; a longer one fits into no packet, and its event is discarded."""


@dataclass(frozen=True)
class _Type:
    bits: int
    signed: bool
    base: int
    c_type: str

    @property
    def tsdl(self) -> str:
        return (
            f"integer {{ size = {self.bits}; align = 8; signed = {int(self.signed)}; "
            f"encoding = none; base = {self.base}; }}"
        )

    @property
    def size(self) -> int:
        return self.bits // 8


def library_source(instrumentation: Instrumentation, name: str) -> str:
    """Return a C file with the functions that ROS calls and the metadata of their events.

    Parameters
    ----------
    instrumentation
        The events and functions.
    name
        The name of their version, such as ``kilted``, which appears in the names of trace folders.

    Raises
    ------
    HeaderError
        A field has an unsupported type.
    """
    instrumentation = with_calls(instrumentation)
    points = instrumentation.tracepoints
    events = [_event(number, point, instrumentation) for number, point in enumerate(points)]
    metadata = "".join(described for described, _ in events)
    # Programs with different events must not share a folder.
    digest = hashlib.sha256(metadata.encode()).hexdigest()[:8]
    lines = [
        "#define _GNU_SOURCE",
        "#include <dlfcn.h>",
        "#include <errno.h>",
        "#include <pthread.h>",
        "#include <stdlib.h>",
        '#include "tracer.h"',
        *(f"#define {key} {value}" for key, value in instrumentation.constants.items()),
        f'const char tracer_abi[] = "{instrumentation.provider}-{name}-{digest}";',
        f"const unsigned tracer_event_count = {len(points)};",
        f"unsigned char tracer_enabled[{len(points)}];",
        "const char * const tracer_event_names[] = {",
        *(f'  "{instrumentation.provider}:{point.name}",' for point in points),
        "};",
        "const char tracer_event_metadata[] =",
        *(f"  {_quoted(line)}" for line in metadata.splitlines(keepends=True)),
        ";",
        THREADS,
        *(functions for _, functions in events),
        FUNCTIONS,
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def _type(text: str, *, hexadecimal: bool, where: str) -> _Type:
    bare = text.replace("const", " ").strip()
    base = 16 if hexadecimal else 10
    if bare.endswith("*"):
        return _Type(64, False, base, "uint64_t")
    if bare not in _INTEGERS:
        raise HeaderError(f"{where}: a field of type '{text}' is not understood")
    bits, signed = _INTEGERS[bare]
    return _Type(bits, signed, base, f"{'' if signed else 'u'}int{bits}_t")


def _length(field: Field, instrumentation: Instrumentation) -> int:
    text = field.arguments[3]
    try:
        return int(instrumentation.constants.get(text, text).rstrip("uUlL"), 0)
    except ValueError:
        raise HeaderError(f"{field.name}: the length '{text}' of an array is no number") from None


_Written = tuple[str, str, str, str]
"""A field as the metadata describe it, and in C what prepares, adds its size, and writes it."""
_NO_FIELD: _Written = ("", "", "0", "")


def _written(at: int, field: Field, event: str, instrumentation: Instrumentation) -> _Written:
    """Return how the field number `at` of an event is written."""
    kind, name = field.kind.removesuffix("_hex"), field.name
    if kind == "ctf_string":
        return (
            f"\t\tstring _{name};\n",
            (
                f"  const char * text{at} = {field.arguments[1]};\n"
                f'  text{at} = text{at} ? text{at} : "(null)";\n'
                f"  size_t length{at} = strlen(text{at});\n"
            ),
            f" + length{at} + 1",
            f"  at = tracer_put_string(at, text{at}, length{at});\n",
        )
    if kind not in {"ctf_integer", "ctf_array", "ctf_sequence"}:
        raise HeaderError(f"{event}: a field of kind {field.kind} is not understood")
    text, value = field.arguments[0], field.arguments[2]
    element = _type(text, hexadecimal=kind != field.kind, where=event)
    if kind == "ctf_integer":
        cast = "(uintptr_t) " if "*" in text else ""
        return (
            f"\t\t{element.tsdl} _{name};\n",
            f"  {element.c_type} value{at} = ({element.c_type}) {cast}({value});\n",
            f" + {element.size}",
            f"  at = tracer_put(at, &value{at}, {element.size});\n",
        )
    if kind == "ctf_array":
        count = _length(field, instrumentation)
        size = str(count * element.size)
        put = f"  at = tracer_put_array(at, {value}, {size});\n"
        return f"\t\t{element.tsdl} _{name}[{count}];\n", "", f" + {size}", put
    length = _type(field.arguments[3], hexadecimal=False, where=event)
    return (
        f"\t\t{length.tsdl} __{name}_length;\n\t\t{element.tsdl} _{name}[__{name}_length];\n",
        (
            f"  {length.c_type} length{at} = {value} ? {field.arguments[4]} : 0;\n"
            f"  length{at} = length{at} < {_MOST_ELEMENTS} ? length{at} : {_MOST_ELEMENTS};\n"
        ),
        f" + {length.size} + length{at} * {element.size}",
        (
            f"  at = tracer_put(at, &length{at}, {length.size});\n"
            f"  at = tracer_put_array(at, {value}, length{at} * {element.size});\n"
        ),
    )


def _event(number: int, point: Tracepoint, instrumentation: Instrumentation) -> tuple[str, str]:
    """Return an event's metadata, and the functions that record it."""
    event = f"{instrumentation.provider}:{point.name}"
    fields = [_written(at, field, event, instrumentation) for at, field in enumerate(point.fields)]
    described, prepare, size, put = map("".join, zip(_NO_FIELD, *fields, strict=True))
    metadata = (
        f'event {{\n\tname = "{event}";\n\tid = {number};\n\tstream_id = 0;\n\tloglevel = 13;\n'
        f"\tfields := struct {{\n{described}\t}};\n}};\n\n"
    )
    names = any(fnmatch(event, pattern) for pattern in INIT_EVENTS)
    kind_of_writer = "tracer_kind_of_names" if names else "TRACER_EVENTS"
    parameters = instrumentation.functions[point.name]
    declared = ", ".join(f"{p.type} {p.name}" for p in parameters) or "void"
    passed = ", ".join(passed_arguments(point, parameters))
    recorded = ", ".join(f"{p.type} {p.name}" for p in point.parameters) or "void"
    functions = (
        f"static inline void event_{point.name}({recorded})\n"
        f"{{\n{noted(point.name, point.parameters)}\n"
        f"  if (!tracer_enabled[{number}]) {{return;}}\n"
        f"{prepare}"
        f"  struct tracer_writer * writer = &tracer_writers[{kind_of_writer}];\n"
        f"  unsigned char * at = tracer_begin(writer, {number}, {size});\n"
        "  if (!at) {return;}\n"
        f"{put}"
        "  tracer_end(writer, at);\n}\n"
        f"TRACER_PUBLIC void ros_trace_{point.name}({declared})\n"
        f"{{event_{point.name}({passed});}}\n"
        f"TRACER_PUBLIC bool ros_trace_enabled_{point.name}(void)\n"
        f"{{return tracer_enabled[{number}];}}\n"
        f"TRACER_PUBLIC void ros_trace_do_{point.name}({declared})\n"
        f"{{event_{point.name}({passed});}}\n"
    )
    return metadata, functions
