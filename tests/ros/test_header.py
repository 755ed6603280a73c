"""Test the reader of tracetools' headers and the source made from them.

Expected values are worked out by hand from the text below; the property test reads back what the
generator writes.
"""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.tracing.ros.header import (
    Field,
    HeaderError,
    Instrumentation,
    Parameter,
    Tracepoint,
    parse_instrumentation,
)
from roslens.tracing.ros.provider import header_source, library_source

CALLS = """
// TRACEPOINT_EVENT( in a comment is none
#define TRACEPOINT_PROVIDER ros2
#define TRACEPOINT_INCLUDE "tracetools/tp_call.h"
#include <lttng/tracepoint.h>
#define TRACETOOLS_GID_STORAGE_SIZE 16u

TRACEPOINT_EVENT(
  TRACEPOINT_PROVIDER,
  rcl_init,
  TP_ARGS(
    const void *, context_handle_arg
  ),
  TP_FIELDS(
    ctf_integer_hex(const void *, context_handle, context_handle_arg)
    ctf_string(version, TRACETOOLS_VERSION_STR)  /* a comment, with a comma */
  )
)
TRACEPOINT_EVENT(
  TRACEPOINT_PROVIDER, rmw_take,
  TP_ARGS(const void *, message_arg, const uint8_t *, gid_arg, const bool, taken_arg),
  TP_FIELDS(
    ctf_integer_hex(const void *, message, message_arg)
    ctf_array(uint8_t, gid, gid_arg, TRACETOOLS_GID_STORAGE_SIZE)
    ctf_integer(int, taken, (taken_arg ? 1 : 0))
  )
)
TRACEPOINT_EVENT(TRACEPOINT_PROVIDER, rclcpp_publish, TP_ARGS(const void *, message_arg),
  TP_FIELDS(ctf_integer_hex(const void *, message, message_arg)))
TRACEPOINT_EVENT(TRACEPOINT_PROVIDER, get_next_ready, TP_ARGS(), TP_FIELDS())
"""
FUNCTIONS = """
#define _DECLARE_TRACEPOINT(...) \\
  something(__VA_ARGS__)
_DECLARE_TRACEPOINT(
  rcl_init,
  const void * context_handle)
_DECLARE_TRACEPOINT(rmw_take, const void * message, const uint8_t * gid, const bool taken)
_DECLARE_TRACEPOINT(rclcpp_publish, const void * publisher_handle, const void * message)
_DECLARE_TRACEPOINT(
  get_next_ready)
"""
VERSIONS = '#define TRACETOOLS_VERSION_MAJOR (8)\n#define TRACETOOLS_VERSION_STR "8.6.0"\n'


def test_reads_events_fields_and_functions() -> None:
    instrumentation = parse_instrumentation(CALLS, FUNCTIONS, VERSIONS)
    assert (instrumentation.provider, instrumentation.version) == ("ros2", "8.6.0")
    assert [t.name for t in instrumentation.tracepoints] == [
        "rcl_init",
        "rmw_take",
        "rclcpp_publish",
        "get_next_ready",
    ]
    init, take, _, ready = instrumentation.tracepoints
    assert init.fields[1] == Field("ctf_string", "version", ("version", "TRACETOOLS_VERSION_STR"))
    assert take.parameters[2] == Parameter("const bool", "taken_arg")
    assert [(f.kind, f.name) for f in take.fields] == [
        ("ctf_integer_hex", "message"),
        ("ctf_array", "gid"),
        ("ctf_integer", "taken"),
    ]
    assert take.fields[2].arguments == ("int", "taken", "(taken_arg ? 1 : 0)")
    assert ready == Tracepoint("get_next_ready", (), ())
    assert instrumentation.functions["rcl_init"] == (Parameter("const void *", "context_handle"),)
    assert instrumentation.constants == {
        "TRACETOOLS_GID_STORAGE_SIZE": "16u",
        "TRACETOOLS_VERSION_STR": '"8.6.0"',
    }


def test_an_argument_that_the_event_does_not_record_is_left_out() -> None:
    source = library_source(parse_instrumentation(CALLS, FUNCTIONS, VERSIONS))
    assert (
        "void ros_trace_rclcpp_publish(const void * publisher_handle, const void * message)\n"
        "{tracepoint(ros2, rclcpp_publish, message);}" in source
    )
    assert "void ros_trace_get_next_ready(void)\n{tracepoint(ros2, get_next_ready);}" in source


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("#define TRACEPOINT_PROVIDER ros2", "", "no TRACEPOINT_PROVIDER"),
        ("TRACEPOINT_EVENT(", "OTHER(", "defines no TRACEPOINT_EVENT"),
        ("ctf_array(", "ctf_enum(", "tp_call.h:19: rmw_take: field macro 'ctf_enum'"),
        ("message, message_arg)", "message)", "ctf_integer_hex with 2 arguments"),
        ("TP_FIELDS())", "TP_FIELDS(", "never closed"),
        ("const bool, taken_arg", "taken_arg", "no list of type, name"),
        ("rcl_init,\n  TP_ARGS", "rcl_new,\n  TP_ARGS", "declares no function for rcl_new"),
    ],
)
def test_what_is_not_understood_is_said_with_its_place(old: str, new: str, says: str) -> None:
    assert old in CALLS
    with pytest.raises(HeaderError) as error:
        parse_instrumentation(CALLS.replace(old, new), FUNCTIONS, VERSIONS)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


_names = st.text(string.ascii_lowercase, min_size=1, max_size=8).map(lambda name: f"x_{name}")


@st.composite
def _tracepoint(draw: st.DrawFn, name: str) -> Tracepoint:
    names = draw(st.lists(_names, max_size=5, unique=True))
    fields = []
    for parameter in names:
        kind = draw(st.sampled_from(["ctf_integer", "ctf_integer_hex", "ctf_string", "ctf_array"]))
        value = draw(st.sampled_from([f"{parameter}_arg", f"(f({parameter}_arg, 1) ? 1 : 0)"]))
        arguments = {
            "ctf_string": (parameter, value),
            "ctf_array": ("uint8_t", parameter, value, "16u"),
        }.get(kind, ("const void *", parameter, value))
        fields.append(Field(kind, parameter, arguments))
    return Tracepoint(name, tuple(Parameter("int", f"{name}_arg") for name in names), tuple(fields))


@st.composite
def _instrumentation(draw: st.DrawFn) -> Instrumentation:
    names = draw(st.lists(_names, min_size=1, max_size=5, unique=True))
    tracepoints = tuple(draw(_tracepoint(name)) for name in names)
    functions = {
        t.name: tuple(Parameter("int", p.name.removesuffix("_arg")) for p in t.parameters)
        for t in tracepoints
    }
    return Instrumentation(
        "ros2", "1.2.3", tracepoints, functions, {"TRACETOOLS_VERSION_STR": '"1.2.3"'}
    )


@given(_instrumentation())
def test_the_generated_header_says_what_the_model_says(model: Instrumentation) -> None:
    declarations = "\n".join(
        f"_DECLARE_TRACEPOINT({', '.join([name, *(f'{p.type} {p.name}' for p in parameters)])})"
        for name, parameters in model.functions.items()
    )
    versions = '#define TRACETOOLS_VERSION_STR "1.2.3"\n'
    assert parse_instrumentation(header_source(model), declarations, versions) == model
