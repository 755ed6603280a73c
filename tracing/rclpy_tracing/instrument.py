"""Add the tracepoints to rclpy's classes."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any, Callable  # noqa: UP035

from .callbacks import symbol_of, traced
from .tracepoints import Tracepoints, load_tracepoints

_FOREVER_NS = -1
_state: dict[str, Tracepoints] = {}


def is_enabled() -> bool:
    """Return whether rclpy is instrumented in this process."""
    return bool(_state)


def enable() -> None:
    """Instrument rclpy in this process; a second call does nothing.

    Call this before creating nodes: existing objects keep running untraced.

    Raises
    ------
    TracetoolsError
        There is no libtracetools that can trace.
    ImportError
        rclpy cannot be imported.
    """
    if _state:
        return
    client, executors, node, publisher, service, subscription, timer = (
        importlib.import_module(f"rclpy.{name}")
        for name in ("client", "executors", "node", "publisher", "service", "subscription", "timer")
    )
    if _state:  # start/sitecustomize.py did it while rclpy was imported
        return
    tracepoints = load_tracepoints()
    _state["tracepoints"] = tracepoints

    def subscription_added(entity: Any, callback: Any) -> None:
        tracepoints.rclcpp_subscription_init(entity.handle.pointer, id(entity))
        tracepoints.rclcpp_subscription_callback_added(id(entity), callback)

    def service_added(entity: Any, callback: Any) -> None:
        tracepoints.rclcpp_service_callback_added(entity.handle.pointer, callback)

    def timer_added(entity: Any, callback: Any) -> None:
        tracepoints.rclcpp_timer_callback_added(entity.handle.pointer, callback)

    _trace_callbacks(subscription.Subscription, subscription_added, tracepoints)
    _trace_callbacks(service.Service, service_added, tracepoints)
    _trace_callbacks(timer.Timer, timer_added, tracepoints)
    _trace_timer_owner(node.Node, tracepoints)
    _trace_publish(publisher.Publisher, tracepoints)
    _trace_calls(client.Client, tracepoints)
    _trace_executors(executors, tracepoints)


def _trace_callbacks(
    entity_type: Any, added: Callable[[Any, Any], None], tracepoints: Tracepoints
) -> None:
    """Wrap each callback when it is assigned to an entity, at creation or later.

    All entities are covered, including those that rclpy creates itself (parameter services, the
    clock's subscription, rates), and all executors read ``entity.callback``.
    """
    before = getattr(entity_type, "callback", None)

    def wrapped(entity: Any, callback: Any) -> Any:
        if callback is None:
            return None
        wrapper, address = traced(callback, tracepoints)
        added(entity, address)
        tracepoints.rclcpp_callback_register(address, symbol_of(callback).encode())
        return wrapper

    if isinstance(before, property):
        read, write = before.fget, before.fset

        def set_callback(entity: Any, callback: Any) -> None:
            write(entity, wrapped(entity, callback))  # type: ignore[misc]

        entity_type.callback = property(read, set_callback)
        return

    def set_own(entity: Any, callback: Any) -> None:
        entity.__dict__["callback"] = wrapped(entity, callback)

    # The attribute stays where it was, so that existing entities keep their callbacks.
    entity_type.callback = property(lambda entity: entity.__dict__["callback"], set_own)


def _trace_timer_owner(node_type: Any, tracepoints: Tracepoints) -> None:
    original = node_type.create_timer

    @functools.wraps(original)
    def create_timer(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = original(self, *args, **kwargs)
        tracepoints.rclcpp_timer_link_node(timer.handle.pointer, self.handle.pointer)
        return timer

    node_type.create_timer = create_timer


def _trace_publish(publisher_type: Any, tracepoints: Tracepoints) -> None:
    original = publisher_type.publish
    emit = tracepoints.rclcpp_publish

    @functools.wraps(original)
    def publish(self: Any, msg: Any) -> Any:
        # Messages that publish() refuses get no event, because no rcl_publish would follow.
        if isinstance(msg, (self.msg_type, bytes)):
            emit(None, id(msg))
        return original(self, msg)

    publisher_type.publish = publish


def _trace_calls(client_type: Any, tracepoints: Tracepoints) -> None:
    """Trace where a call begins, and where the waiter for its response begins to be notified."""
    call_async, remove = client_type.call_async, client_type.remove_pending_request
    begins, ends = tracepoints.client_call, tracepoints.client_callback_start
    if begins is None or ends is None:
        return

    @functools.wraps(call_async)
    def traced_call(self: Any, request: Any) -> Any:
        if isinstance(request, self.srv_type.Request):
            with self.handle:
                begins(self.handle.pointer)
        return call_async(self, request)

    @functools.wraps(remove)
    def remove_pending_request(self: Any, future: Any) -> None:
        # A copy, because other threads may call meanwhile.
        pending = list(self._pending_requests.items()) if future.done() else []
        remove(self, future)
        for number, waiting in pending:
            if waiting is future:
                with self.handle:
                    ends(self.handle.pointer, number)

    client_type.call_async = traced_call
    client_type.remove_pending_request = remove_pending_request


def _trace_executors(executors: Any, tracepoints: Tracepoints) -> None:
    """Trace when executors wait for work, and what they execute.

    The events executor is written in C++ and uses none of these functions: it emits no such events,
    as in rclcpp.
    """
    _trace_waits(executors._rclpy.WaitSet, tracepoints)
    for take in ("_take_timer", "_take_subscription"):
        _trace_execution(executors, take, tracepoints)
    _trace_pool(executors.MultiThreadedExecutor, tracepoints)


def _trace_waits(wait_set: Any, tracepoints: Tracepoints) -> None:
    original = wait_set.wait
    waits, ready = (
        tracepoints.rclcpp_executor_wait_for_work,
        tracepoints.rclcpp_executor_get_next_ready,
    )

    @functools.wraps(original)
    def wait(self: Any, timeout_ns: int) -> Any:
        waits(timeout_ns)
        try:
            return original(self, timeout_ns)
        finally:
            ready()

    wait_set.wait = wait


def _trace_execution(executors: Any, name: str, tracepoints: Tracepoints) -> None:
    """Trace executions of timers and subscriptions, as rclcpp does; `name` is the take method."""
    original = getattr(executors.Executor, name)
    execute = tracepoints.rclcpp_executor_execute

    @functools.wraps(original)
    def take(self: Any, entity: Any) -> Any:
        # The entity may have been destroyed meanwhile, and then there is nothing to take.
        with contextlib.suppress(executors.InvalidHandle), entity.handle:
            execute(entity.handle.pointer)
        return original(self, entity)

    setattr(executors.Executor, name, take)


def _trace_pool(executor: Any, tracepoints: Tracepoints) -> None:
    """Trace the threads of a pool, which wait for tasks from the spinning thread."""
    original = executor.__init__
    waits, ready = (
        tracepoints.rclcpp_executor_wait_for_work,
        tracepoints.rclcpp_executor_get_next_ready,
    )

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        submit: Callable[..., Any] = self._executor.submit

        def traced(task: Callable[[], Any]) -> Any:
            ready()
            try:
                return task()
            finally:
                waits(_FOREVER_NS)

        self._executor.submit = functools.partial(submit, traced)

    executor.__init__ = init
