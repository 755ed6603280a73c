"""Executors of rclpy that say when they wait for work and what they execute.

The events executor is written in C++ and passes none of this: it says nothing, as in rclcpp.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable  # noqa: UP035

from .tracepoints import Tracepoints

FOREVER_NS = -1


def trace_executors(executors: Any, tracepoints: Tracepoints) -> None:
    """Instrument the executors of the module ``rclpy.executors``."""
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
    """Timers and subscriptions, as rclcpp does; `name` takes what is then executed."""
    original = getattr(executors.Executor, name)
    execute = tracepoints.rclcpp_executor_execute

    @functools.wraps(original)
    def take(self: Any, entity: Any) -> Any:
        # It may have been destroyed meanwhile, and then there is nothing to take.
        with contextlib.suppress(executors.InvalidHandle), entity.handle:
            execute(entity.handle.pointer)
        return original(self, entity)

    setattr(executors.Executor, name, take)


def _trace_pool(executor: Any, tracepoints: Tracepoints) -> None:
    """The threads of a pool, which wait for what the spinning thread hands them."""
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
                waits(FOREVER_NS)

        self._executor.submit = functools.partial(submit, traced)

    executor.__init__ = init
