"""Traces of which an event is missing that a model may stumble over."""

from __future__ import annotations

from ros2_trace import Trace, at
from test_messages import CALLBACK, NODE, PUB, SUB, intra_publish, intra_receive, one_process


def dequeue_missing() -> Trace:
    """Three messages in two places; the dequeue of the first was not recorded."""
    trace = one_process()
    for us, index in ((100, 0), (200, 1), (300, 0)):
        intra_publish(trace, us, index)
    intra_receive(trace, 400, 1)
    intra_receive(trace, 500, 0)
    return trace


def request_take_missing() -> Trace:
    """A request that was answered; that the server took it was not recorded."""
    trace = Trace()
    trace.node(1, NODE, "n")
    trace.emit(
        2, "rcl_service_init", service_handle=0x80, node_handle=NODE, rmw_service_handle=0x81,
        service_name="/ask",
    )  # fmt: skip
    trace.emit(3, "rmw_client_init", rmw_client_handle=0x91, gid=[5] * 16)
    trace.emit(
        4, "rcl_client_init", client_handle=0x90, node_handle=NODE, rmw_client_handle=0x91,
        service_name="/ask",
    )  # fmt: skip
    trace.emit(10, "rmw_send_request", rmw_client_handle=0x91, request=1, sequence_number=1)
    trace.emit(
        30, "rmw_send_response", rmw_service_handle=0x81, response=1, client_gid=[5] * 16,
        sequence_number=1, timestamp=at(31),
    )  # fmt: skip
    return trace


def rcl_inits_missing() -> Trace:
    """A message between endpoints of which only rmw's init events were recorded."""
    trace = one_process()
    gone = {"rcl_publisher_init", "rcl_subscription_init"}
    trace.declared |= gone | {"rcl_take", "rcl_publish"}
    trace.rows = [row for row in trace.rows if row[0] not in gone]
    trace.publish(100, PUB)
    trace.take(150, SUB, stamp=at(102), tid=2)
    trace.run(153, CALLBACK, tid=2)
    return trace
