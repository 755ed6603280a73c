"""Events in any order, of a small choice of objects, known and unknown."""

from __future__ import annotations

from typing import Any

from ros2_trace import Trace, at
from test_messages import BUFFER, CALLBACK, NODE, PUB, SUB

EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "intra": ("rclcpp_intra_publish", {"publisher_handle": PUB, "message": None}),
    "rcl": ("rcl_publish", {"publisher_handle": PUB, "message": None}),
    "rmw": ("rmw_publish", {"rmw_publisher_handle": PUB + 1, "message": None, "timestamp": None}),
    "content": ("message_content", {"message": None, "size": None, "header_stamp": None}),
    "take": (
        "rmw_take",
        {
            "rmw_subscription_handle": SUB + 1,
            "message": None,
            "source_timestamp": None,
            "taken": 1,
        },
    ),
    "poll": (
        "rmw_take",
        {
            "rmw_subscription_handle": SUB + 1,
            "message": None,
            "source_timestamp": None,
            "taken": 0,
        },
    ),
    "rcl_take": ("rcl_take", {"message": None}),
    "rclcpp_take": ("rclcpp_take", {"message": None}),
    "received": ("message_received", {"message": None, "received_timestamp": None}),
    "end": ("callback_end", {"callback": None}),
    "enqueue": (
        "rclcpp_ring_buffer_enqueue",
        {"buffer": BUFFER, "index": None, "size": 1, "overwritten": 0},
    ),
    "dequeue": ("rclcpp_ring_buffer_dequeue", {"buffer": BUFFER, "index": None, "size": 1}),
    "clear": ("rclcpp_ring_buffer_clear", {"buffer": BUFFER}),
    "wait": ("rclcpp_executor_wait_for_work", {"timeout": 5}),
    "ready": ("rclcpp_executor_get_next_ready", {}),
    "execute": ("rclcpp_executor_execute", {"handle": SUB}),
    "wait_start": ("executor_wait_start", {}),
    "wait_end": ("executor_wait_end", {}),
    "call": ("rcl_send_request", {"rmw_client_handle": 0x91}),
    "respond": ("rcl_send_response", {"rmw_service_handle": 0x81}),
    "told": ("client_callback_start", {"rmw_client_handle": 0x91, "sequence_number": None}),
    "request": (
        "rmw_send_request",
        {"rmw_client_handle": 0x91, "request": 1, "sequence_number": None},
    ),
    "serve": (
        "rmw_take_request",
        {
            "rmw_service_handle": 0x81,
            "request": 1,
            "client_gid": None,
            "sequence_number": None,
            "taken": 1,
        },
    ),
    "answer": (
        "rmw_send_response",
        {
            "rmw_service_handle": 0x81,
            "response": 1,
            "client_gid": None,
            "sequence_number": None,
            "timestamp": None,
        },
    ),
    "answered": (
        "rmw_take_response",
        {
            "rmw_client_handle": 0x91,
            "response": 1,
            "sequence_number": None,
            "source_timestamp": None,
            "taken": 1,
        },
    ),
}
"""What may happen; what is None here is drawn."""
HEAP = ("malloc", "malloc", "free", "free", "realloc", "start", "end")
STEPS = ("publish", "start", "timer", *EVENTS)


def objects() -> Trace:
    """Two processes with one of everything, and a third that nothing is known of."""
    trace = Trace()
    for pid in (1, 2):
        trace.node(1, NODE, f"n{pid}", pid=pid)
        trace.publisher(3, PUB, "/data", node=NODE, pid=pid)
        trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK, pid=pid)
        trace.emit(6, "message_type_init", handle=PUB, type="std_msgs/msg/String", pid=pid)
        trace.ring_buffer(10, BUFFER, subscription=SUB, callback=CALLBACK + 1, pid=pid)
        trace.emit(12, "rcl_timer_init", timer_handle=0x70, period=7_000, pid=pid)
        trace.emit(13, "rclcpp_timer_callback_added", timer_handle=0x70, callback=0x71, pid=pid)
        trace.emit(
            14, "rcl_service_init", service_handle=0x80, node_handle=NODE, rmw_service_handle=0x81,
            service_name="/ask", pid=pid,
        )  # fmt: skip
        trace.emit(14, "rclcpp_service_callback_added", service_handle=0x80, callback=0x82, pid=pid)
        trace.emit(15, "rmw_client_init", rmw_client_handle=0x91, gid=[pid] * 16, pid=pid)
        trace.emit(
            15, "rcl_client_init", client_handle=0x90, node_handle=NODE, rmw_client_handle=0x91,
            service_name="/ask", pid=pid,
        )  # fmt: skip
    return trace


def emit(trace: Trace, us: float, step: str, number: int, where: dict[str, Any]) -> None:
    """One event, or the few of a publication, of a small choice of objects and messages."""
    callback = (CALLBACK, CALLBACK + 1, 0x71, 0x82, 0xDEAD)[number % 5]
    drawn = {
        "message": 0x9000 + number % 2,
        "timestamp": 1_000 + number,
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
        name, fields = EVENTS[step]
        payload = {field: drawn.get(field, value) for field, value in fields.items()}
        trace.emit(us, name, **payload, **where)
