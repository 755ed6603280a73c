"""Print the endpoints of the ROS graph as JSON, once they no longer change."""

import json
import time
from collections.abc import Iterator
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.node import Node

LONGEST_S, SHORTEST_S, QUIET_S, PERIOD_S = 8.0, 2.0, 1.5, 0.1


def _endpoints(node: Node) -> Iterator[dict[str, Any]]:
    for topic, _ in node.get_topic_names_and_types(no_demangle=True):
        for kind, find in (
            ("publisher", node.get_publishers_info_by_topic),
            ("subscription", node.get_subscriptions_info_by_topic),
        ):
            for endpoint in find(topic, no_mangle=True):
                qos = endpoint.qos_profile
                history = qos.history.name.lower()
                yield {
                    "name": topic,
                    "kind": kind,
                    "node": endpoint.node_name,
                    "namespace": endpoint.node_namespace,
                    "type": endpoint.topic_type,
                    "gid": bytes(endpoint.endpoint_gid).hex(),
                    "depth": qos.depth if history == "keep_last" and qos.depth > 0 else None,
                    "reliability": qos.reliability.name.lower(),
                    "durability": qos.durability.name.lower(),
                    "history": history,
                }


def _main() -> None:
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node(
        f"roslens_look_{time.monotonic_ns()}",
        context=context,
        enable_rosout=False,
        start_parameter_services=False,
    )
    begun = changed = time.monotonic()
    before = None
    while True:
        endpoints = [
            endpoint for endpoint in _endpoints(node) if endpoint["node"] != node.get_name()
        ]
        now = time.monotonic()
        if endpoints != before:
            before, changed = endpoints, now
        quiet = now - begun > SHORTEST_S and now - changed > QUIET_S
        # The name of a node becomes known after its endpoints.
        nodes = {endpoint["node"] for endpoint in endpoints if endpoint["name"].startswith("rt/")}
        if now - begun > LONGEST_S or (quiet and nodes and "_NODE_NAME_UNKNOWN_" not in nodes):
            break
        time.sleep(PERIOD_S)
    print(json.dumps(before))


_main()
