"""Call the functions of libtracetools from Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable  # noqa: UP035 (one spelling for all versions of Python)

_POINTER, _STRING = ctypes.c_void_p, ctypes.c_char_p
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "rclcpp_subscription_init": (_POINTER, _POINTER),
    "rclcpp_subscription_callback_added": (_POINTER, _POINTER),
    "rclcpp_service_callback_added": (_POINTER, _POINTER),
    "rclcpp_timer_callback_added": (_POINTER, _POINTER),
    "rclcpp_timer_link_node": (_POINTER, _POINTER),
    "rclcpp_callback_register": (_POINTER, _STRING),
    "callback_start": (_POINTER, ctypes.c_bool),
    "callback_end": (_POINTER,),
    "rclcpp_publish": (_POINTER, _POINTER),
    "rclcpp_executor_get_next_ready": (),
    "rclcpp_executor_wait_for_work": (ctypes.c_int64,),
    "rclcpp_executor_execute": (_POINTER,),
}

_OWN: dict[str, tuple[Any, ...]] = {
    "client_call": (_POINTER,),
    "client_callback_start": (_POINTER, ctypes.c_int64),
}
"""Functions that only roslens's libtracetools has."""


class TracetoolsError(RuntimeError):
    """There is no libtracetools that can trace."""


@dataclass(frozen=True)
class Tracepoints:
    """Functions that emit events; pointers are integers, ``c_void_p`` or None."""

    rclcpp_subscription_init: Callable[[Any, Any], None]
    rclcpp_subscription_callback_added: Callable[[Any, Any], None]
    rclcpp_service_callback_added: Callable[[Any, Any], None]
    rclcpp_timer_callback_added: Callable[[Any, Any], None]
    rclcpp_timer_link_node: Callable[[Any, Any], None]
    rclcpp_callback_register: Callable[[Any, bytes], None]
    callback_start: Callable[[Any, Any], None]
    callback_end: Callable[[Any], None]
    rclcpp_publish: Callable[[Any, Any], None]
    rclcpp_executor_get_next_ready: Callable[[], None]
    rclcpp_executor_wait_for_work: Callable[[int], None]
    rclcpp_executor_execute: Callable[[Any], None]
    client_call: Callable[[Any], None] | None
    client_callback_start: Callable[[Any, int], None] | None


def load_tracepoints() -> Tracepoints:
    """Bind the libtracetools that rclpy itself uses (preloaded, or ROS's own).

    Raises
    ------
    TracetoolsError
        There is no libtracetools, or it was built without tracing.
    """
    # PyDLL keeps the GIL: releasing and reacquiring it costs more than the event itself, and would
    # let another thread run between the event and the action that it marks.
    try:
        library = ctypes.PyDLL("libtracetools.so")
        status = library.ros_trace_compile_status
        functions = {name: getattr(library, f"ros_trace_{name}") for name in _ARGUMENTS}
    except (OSError, AttributeError) as error:
        raise TracetoolsError(f"no usable libtracetools ({error}); is ROS 2 sourced?") from error
    status.restype = ctypes.c_bool
    status.argtypes = ()
    if not status():
        raise TracetoolsError(
            "libtracetools was built without LTTng, so ROS 2 emits no events at all; "
            "use ROS 2 Iron or newer, or build tracetools with LTTng installed"
        )
    # A libtracetools other than roslens's has none of these.
    functions |= {name: getattr(library, f"roslens_{name}", None) for name in _OWN}
    for name, arguments in (_ARGUMENTS | _OWN).items():
        if functions[name] is not None:
            functions[name].argtypes = arguments
            functions[name].restype = None
    return Tracepoints(**functions)
