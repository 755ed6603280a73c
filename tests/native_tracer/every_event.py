"""Write a C program that calls every ``ros_trace_*`` of a ROS 2 distribution.

The values are chosen here, so that what is read back is compared with what was passed.
"""

from __future__ import annotations

from typing import Any

from roslens.tracing.native_tracer.table import instrumentation_of

EXTREMES = {"int64_t": -(2**63), "uint64_t": 2**64 - 1}


def program(
    distribution: str, *, nulls: bool = True
) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Return C source and, in order, each event's name and fields.

    Each event is emitted three times: by ``ros_trace_X``, and by ``ros_trace_do_X`` with other
    pointers, strings and numbers, then with null pointers, which LTTng does not survive if they are
    an array's.
    """
    instrumentation = instrumentation_of(distribution)
    declarations, calls, expected = [], [], []
    for number, point in enumerate(instrumentation.tracepoints):
        parameters = instrumentation.functions[point.name]
        types = ", ".join(p.type for p in parameters) or "void"
        declarations.append(
            f"void ros_trace_{point.name}({types}); void ros_trace_do_{point.name}({types}); "
            f"bool ros_trace_enabled_{point.name}(void);"
        )
        for turn, function in enumerate(("", "do_", "do_")[: 3 if nulls else 2]):
            values = {p.name: _value(p.type, number, turn) for p in parameters}
            texts = [values[p.name][0] for p in parameters]
            calls.append(f"  ros_trace_{function}{point.name}({', '.join(texts)});")
            fields: dict[str, Any] = {}
            for field in point.fields:
                if field.name in values:
                    fields[field.name] = values[field.name][1]
                else:
                    fields[field.name] = instrumentation.version
                if field.kind == "ctf_array":
                    fields[field.name] = fields[field.name][: int(field.arguments[3])]
            expected.append((f"ros2:{point.name}", fields))
        calls.append(f"  if (!ros_trace_enabled_{point.name}()) return 3;")
    source = "\n".join(
        [
            "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>",
            "bool ros_trace_compile_status(void);",
            *declarations,
            "static const void * list0[] = {(void *) 7, (void *) 0xfffffffffffffff0u};",
            "static const uint8_t bytes0[32] = {0, 1, 2, 3, 250};",
            "int main(void)\n{",
            "  if (!ros_trace_compile_status()) return 2;",
            *calls,
            "  return 0;\n}\n",
        ]
    )
    return source, expected


def _value(kind: str, number: int, turn: int) -> tuple[str, Any]:
    """Return a value in C, and the value as it must be read."""
    null = turn == 2
    if kind == "const char *":
        text = ["/näme", "", None][turn]
        return ("0" if text is None else f'"{text}"', "(null)" if text is None else text)
    if kind == "const uint8_t *":
        return ("0", [0] * 32) if null else ("bytes0", [0, 1, 2, 3, 250] + [0] * 27)
    if kind == "const void **":
        return ("0", []) if null else ("list0", [7, 0xFFFFFFFFFFFFFFF0])
    if kind == "size_t":
        return "2", 2
    if kind == "const void *":
        value = 0 if null else (0x7F0000000000 + number) << turn
        return f"(void *) 0x{value:x}u", value
    if kind == "bool":
        return ("true", 1) if turn else ("false", 0)
    extreme = EXTREMES[kind]
    if turn == 1:
        return ("INT64_MIN" if extreme < 0 else "UINT64_MAX"), extreme
    return str(number + turn), number + turn
