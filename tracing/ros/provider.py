"""Generate C source of a libtracetools from tracetools' headers.

The library has the same functions as the one that ROS was built with, so that it can replace it
(``LD_PRELOAD``), but is compiled against this machine's LTTng-UST.
"""

from __future__ import annotations

from roslens.tracing.ros.calls import FUNCTIONS, THREADS, noted
from roslens.tracing.ros.header import Instrumentation, Parameter, Tracepoint

HEADER_NAME = "roslens_ros2_events.h"
SOURCE_NAME = "roslens_tracetools.c"


def header_source(instrumentation: Instrumentation) -> str:
    """Return the header with the event definitions, which LTTng-UST reads several times."""
    lines = [
        "#undef TRACEPOINT_PROVIDER",
        f"#define TRACEPOINT_PROVIDER {instrumentation.provider}",
        "#undef TRACEPOINT_INCLUDE",
        f'#define TRACEPOINT_INCLUDE "{HEADER_NAME}"',
        "#if !defined(ROSLENS_ROS2_EVENTS_H) || defined(TRACEPOINT_HEADER_MULTI_READ)",
        "#define ROSLENS_ROS2_EVENTS_H",
        "#include <lttng/tracepoint.h>",
        "#include <stdbool.h>",
        "#include <stdint.h>",
    ]
    for name, value in instrumentation.constants.items():
        lines += [f"#ifndef {name}", f"#define {name} {value}", "#endif"]
    lines += [_event(t) for t in instrumentation.tracepoints]
    lines += ["#endif", "#include <lttng/tracepoint-event.h>", ""]
    return "\n".join(lines)


def library_source(instrumentation: Instrumentation) -> str:
    """Return the C file with the functions that ROS calls."""
    lines = [
        "#define _GNU_SOURCE",
        "#define TRACEPOINT_CREATE_PROBES",
        "#define TRACEPOINT_DEFINE",
        f'#include "{HEADER_NAME}"',
        "#include <dlfcn.h>",
        "#include <errno.h>",
        "#include <pthread.h>",
        "#include <stddef.h>",
        "#include <stdlib.h>",
        THREADS,
    ]
    for tracepoint in instrumentation.tracepoints:
        parameters = instrumentation.functions[tracepoint.name]
        declared = ", ".join(f"{p.type} {p.name}" for p in parameters) or "void"
        event = f"{instrumentation.provider}, {tracepoint.name}"
        passed = "".join(f", {name}" for name in passed_arguments(tracepoint, parameters))
        note = noted(tracepoint.name, parameters)
        lines += [
            f"void ros_trace_{tracepoint.name}({declared})",
            f"{{{note}tracepoint({event}{passed});}}",
            f"bool ros_trace_enabled_{tracepoint.name}(void)",
            f"{{return tracepoint_enabled({event});}}",
            f"void ros_trace_do_{tracepoint.name}({declared})",
            f"{{{note}do_tracepoint({event}{passed});}}",
        ]
    return "\n".join(lines) + "\n" + FUNCTIONS


def _event(tracepoint: Tracepoint) -> str:
    arguments = ", ".join(f"{p.type}, {p.name}" for p in tracepoint.parameters)
    fields = "\n".join(f"    {f.kind}({', '.join(f.arguments)})" for f in tracepoint.fields)
    return (
        f"TRACEPOINT_EVENT(\n  TRACEPOINT_PROVIDER, {tracepoint.name},\n"
        f"  TP_ARGS({arguments}),\n  TP_FIELDS(\n{fields}\n  )\n)"
    )


def passed_arguments(tracepoint: Tracepoint, parameters: tuple[Parameter, ...]) -> list[str]:
    """Return the function's parameter that each argument of the event takes.

    Both have the same order; if the function has more parameters, those that the event does not
    name are left out (``rclcpp_publish`` keeps ``publisher_handle`` only for its callers).
    """
    if len(parameters) == len(tracepoint.parameters):
        return [p.name for p in parameters]
    wanted = [p.name.removesuffix("_arg") for p in tracepoint.parameters]
    names = {p.name for p in parameters}
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"{tracepoint.name}: no parameter for {', '.join(unknown)}")
    return wanted
