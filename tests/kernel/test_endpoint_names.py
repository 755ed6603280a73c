"""Whether a graph has all endpoints that lie in a program's memory: by hand-made endpoints."""

from __future__ import annotations

import pytest

from roslens.tracing.ftrace.names import FoundHandle, GraphEndpoint, is_whole

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
