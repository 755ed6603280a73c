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
    trace.service(2, 0x80, "/ask", node=NODE)
    trace.client(4, 0x90, "/ask", node=NODE, gid=[5] * 16)
    trace.send_request(10, 0x90, 1)
    trace.send_response(30, 0x80, 1, gid=[5] * 16)
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
