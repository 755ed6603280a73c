"""Test whether a graph has all endpoints of a program's memory, and callbacks' owners, by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from tests.kernel.ring_buffer import HEADER_PAGE, event, page

from roslens.tracing.ftrace.formats import Field, Format, parse_header_page
from roslens.tracing.ftrace.names import (
    FoundHandle,
    GraphEndpoint,
    Names,
    is_whole,
    with_new_threads,
)
from roslens.tracing.ftrace.raw import RawTrace

TALKER, LISTENER = "01" * 16, "02" * 16


def endpoint(kind: str, gid: str, node: str = "talker") -> GraphEndpoint:
    return GraphEndpoint(
        name="rt/pair",
        kind=kind,
        node=node,
        namespace="/",
        type="std_msgs::msg::dds_::String_",
        gid=gid,
        depth=10,
        reliability="reliable",
        durability="volatile",
        history="keep_last",
    )


def handle(kind: str, gid: str) -> FoundHandle:
    data = f"{'ff' * 24}{gid}{'ff' * 8}"
    return FoundHandle(vpid=1, kind=kind, handle=4096, middleware="rmw_fastrtps_cpp", data=data)


FOUND = [handle("publisher", TALKER), handle("subscription", LISTENER)]


@pytest.mark.parametrize(
    ("graph", "whole"),
    [
        ([endpoint("publisher", TALKER), endpoint("subscription", LISTENER)], True),
        ([endpoint("publisher", TALKER)], False),
        ([endpoint("publisher", TALKER), endpoint("publisher", LISTENER)], False),
        (
            [
                endpoint("publisher", TALKER),
                endpoint("subscription", LISTENER, "_NODE_NAME_UNKNOWN_"),
            ],
            False,
        ),
        ([], False),
    ],
)
def test_a_graph_is_whole_if_it_has_every_endpoint_with_its_node(
    graph: list[GraphEndpoint], whole: bool
) -> None:
    assert is_whole(graph, FOUND) == whole


def test_services_are_not_looked_for_as_a_graph_of_topics_has_none() -> None:
    assert is_whole([], [handle("service", TALKER)])


@pytest.mark.parametrize("pauses", [[], [[106, 108]]])
def test_what_a_take_starts_is_known_though_the_page_goes_on_behind_it(
    pauses: list[list[int]],
) -> None:
    """A bool is the last byte of its event, and a timer's callback follows.

    During a pause, another callback may have begun.
    """
    head = (Field("__probe_ip", 8, 8, "int"),)
    taken = (
        Field("rmw_subscription_handle", 16, 8, "int"), Field("roslens_name", 24, 4, "string"),
        Field("taken", 28, 1, "int"),
    )  # fmt: skip
    start = Field("callback", 16, 8, "int"), Field("is_intra_process", 24, 1, "int")
    formats = {
        7: Format(7, "rmw_take__0", head + taken),
        8: Format(8, "callback_start__0", head + start),
        9: Format(9, "callback_end__0", (*head, start[0])),
    }

    def packed(number: int, kinds: str, *values: int, text: bytes = b"") -> bytes:
        content = struct.pack(f"<HBBiQ{kinds}", number, 1, 0, 40, 1, *values)
        return event(5, content.ljust((len(content) + 3) // 4 * 4, b"\xff") + text)

    take = packed(7, "QIB", 4096, 5 << 16 | 32, 1, text=b"/top\0\0\0\0")
    data = page(
        100,
        take,
        packed(8, "QB", 77, 0),
        packed(9, "Q", 77),
        packed(8, "QB", 78, 0),
        packed(9, "Q", 78),
    )
    header = parse_header_page(HEADER_PAGE, "header_page")
    spans = np.array(pauses, dtype=np.int64).reshape(-1, 2)
    trace = RawTrace(formats, header=header, pauses=spans)
    names = Names(trace, {40: (40, 40, "node")}, [], [])
    names.read(np.frombuffer(data, dtype=np.uint8))
    new_formats, (records,) = names.records()
    added = new_formats[min(new_formats)]
    if pauses:
        assert {entry.name for entry in new_formats.values()} == {"ros2:rcl_subscription_init"}
        return
    assert added.name == "ros2:rclcpp_subscription_callback_added"
    (place,) = (field.offset for field in added.fields if field.name == "callback")
    assert struct.unpack_from("<Q", records.data, records.begin[-1] + place) == (77,)


def test_threads_that_ended_at_once_are_those_of_the_process_that_began_them() -> None:
    """40 began 41 and a process, and 41 began 42; 60 is in a namespace, and 9 is unknown."""
    fields = (Field("pid", 8, 4, "int"), Field("comm", 12, 16, "text"))
    began = Format(7, "task_newtask", (*fields, Field("clone_flags", 32, 8, "int")))

    def packed(parent: int, child: int, flags: int) -> bytes:
        return event(5, struct.pack("<HBBii16sIQ", 7, 1, 0, parent, child, b"node", 0, flags))

    thread, process = 0x3D0F00, 0x1200000
    rows = (
        (40, 41, thread),
        (41, 42, thread),
        (40, 43, process),
        (60, 61, thread),
        (9, 10, thread),
    )
    data = page(100, *(packed(*row) for row in rows))
    trace = RawTrace({7: began}, header=parse_header_page(HEADER_PAGE, "header_page"))
    threads = {40: (40, 40, "node"), 60: (1, 1, "boxed")}
    extended = with_new_threads(trace, [np.frombuffer(data, dtype=np.uint8)], threads)
    assert extended == threads | {41: (40, 41, "node"), 42: (40, 42, "node")}
