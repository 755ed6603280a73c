"""Emit events in any order, of a small choice of known and unknown objects."""

from typing import Any

from ros2_trace import Trace, at
from test_messages import BUFFER, CALLBACK, NODE, PUB, SUB

from roslens.collectors.ros2.events import FIELDS

EVENTS = {
    "intra": "rclcpp_intra_publish",
    "rcl": "rcl_publish",
    "rmw": "rmw_publish",
    "content": "message_content",
    "take": "rmw_take",
    "poll": "rmw_take",
    "rcl_take": "rcl_take",
    "rclcpp_take": "rclcpp_take",
    "received": "message_received",
    "end": "callback_end",
    "enqueue": "rclcpp_ring_buffer_enqueue",
    "dequeue": "rclcpp_ring_buffer_dequeue",
    "clear": "rclcpp_ring_buffer_clear",
    "wait": "rclcpp_executor_wait_for_work",
    "ready": "rclcpp_executor_get_next_ready",
    "execute": "rclcpp_executor_execute",
    "wait_start": "executor_wait_start",
    "wait_end": "executor_wait_end",
    "call": "rcl_send_request",
    "respond": "rcl_send_response",
    "told": "client_callback_start",
    "request": "rmw_send_request",
    "serve": "rmw_take_request",
    "answer": "rmw_send_response",
    "answered": "rmw_take_response",
}
"""Events that may happen."""
SAME = {
    "publisher_handle": PUB, "rmw_publisher_handle": PUB + 1, "rmw_subscription_handle": SUB + 1,
    "buffer": BUFFER, "handle": SUB, "rmw_client_handle": 0x91, "rmw_service_handle": 0x81,
    "overwritten": 0, "timeout": 5, "request": 1, "response": 1,
}  # fmt: skip
"""Fields that have the same value in each event; the others are drawn."""
HEAP = ("malloc", "malloc", "free", "free", "realloc", "start", "end")
STEPS = ("publish", "start", "timer", *EVENTS)


def objects() -> Trace:
    """Make two processes with one object of each kind, and a third without known objects."""
    trace = Trace()
    for pid in (1, 2):
        trace.node(1, NODE, f"n{pid}", pid=pid)
        trace.publisher(3, PUB, "/data", node=NODE, pid=pid)
        trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK, pid=pid)
        trace.emit(6, "message_type_init", handle=PUB, type="std_msgs/msg/String", pid=pid)
        trace.ring_buffer(10, BUFFER, subscription=SUB, callback=CALLBACK + 1, pid=pid)
        trace.emit(12, "rcl_timer_init", timer_handle=0x70, period=7_000, pid=pid)
        trace.emit(13, "rclcpp_timer_callback_added", timer_handle=0x70, callback=0x71, pid=pid)
        trace.service(14, 0x80, "/ask", node=NODE, callback=0x82, pid=pid)
        trace.client(16, 0x90, "/ask", node=NODE, gid=[pid] * 16, pid=pid)
    return trace


def emit(trace: Trace, us: float, step: str, number: int, where: dict[str, Any]) -> None:
    """Emit one event, or the few of a publication, with a small choice of objects and messages."""
    callback = (CALLBACK, CALLBACK + 1, 0x71, 0x82, 0xDEAD)[number % 5]
    drawn = {
        "message": 0x9000 + number % 2,
        "timestamp": 1_000 + number,
        "taken": int(step != "poll"),
        "size": number % 3,
        "header_stamp": number % 2 * at(number),
        "source_timestamp": 1_000 + number,
        "received_timestamp": at(number),
        "callback": callback,
        "index": number % 2,
        "sequence_number": number,
        "client_gid": [1 + number % 2] * 16,
    }
    if step == "publish":
        trace.publish(us, PUB, message=drawn["message"], stamp=1_000 + number, **where)
    elif step == "timer":
        trace.run(us, 0x71, lasts=0.5, **where)
    elif step == "start":
        intra = int(callback == CALLBACK + 1)
        trace.emit(us, "callback_start", callback=callback, is_intra_process=intra, **where)
    else:
        values = {field: (SAME | drawn)[field] for field in FIELDS[EVENTS[step]]}
        trace.emit(us, EVENTS[step], **values, **where)
