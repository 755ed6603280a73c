"""Wrap a callback so that it emits events when it starts and when it ends."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
from typing import Any, Callable, Coroutine, Generator  # noqa: UP035

from .tracepoints import Tracepoints


def symbol_of(callback: Callable[..., Any]) -> str:
    """Return the name of the function that a callback calls: ``module.qualified_name``.

    This is the function inside a ``functools.partial`` or a decorator that sets ``__wrapped__``;
    for a callable object, it is its class and ``__call__``.
    """
    while True:
        if isinstance(callback, (functools.partial, functools.partialmethod)):
            callback = callback.func
        elif hasattr(callback, "__wrapped__"):
            callback = callback.__wrapped__
        else:
            break
    if not hasattr(callback, "__qualname__"):
        owner = type(callback)
        return f"{owner.__module__}.{owner.__qualname__}.__call__"
    module = getattr(callback, "__module__", None)
    bound_to = getattr(callback, "__self__", None)
    if module is None and bound_to is not None:  # a method written in C
        module = type(bound_to).__module__
    return f"{module}.{callback.__qualname__}" if module else callback.__qualname__


def traced(
    callback: Callable[..., Any], tracepoints: Tracepoints
) -> tuple[Callable[..., Any], ctypes.c_void_p]:
    """Wrap a callback; return the wrapper and the address that its events carry.

    The wrapper is a coroutine function if `callback` is one, and has its signature, because rclpy
    checks both. The wrapper's own address identifies it in the trace, as long as it lives.
    """
    start, end = tracepoints.callback_start, tracepoints.callback_end
    not_intra_process = ctypes.c_bool(False)
    if inspect.iscoroutinefunction(callback):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await _MarkedAwaitable(
                callback(*args, **kwargs),
                functools.partial(start, address, not_intra_process),
                functools.partial(end, address),
            )

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            start(address, not_intra_process)
            try:
                return callback(*args, **kwargs)
            finally:
                end(address)

    address = ctypes.c_void_p(id(wrapper))
    functools.update_wrapper(wrapper, callback)
    with contextlib.suppress(TypeError, ValueError):  # built-in functions may have none
        # The signature is then found quickly: rclpy requests a timer's at every call.
        wrapper.__signature__ = inspect.signature(callback)  # type: ignore[attr-defined]
    return wrapper, address


class _MarkedAwaitable:
    """An awaitable that runs a coroutine and marks each stretch in which it runs on a thread."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        start: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self.coroutine, self.start, self.end = coroutine, start, end

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[], Any] = functools.partial(self.coroutine.send, None)
        marked = True
        while True:
            if marked:
                self.start()
            try:
                awaited = resume()
            except StopIteration as done:
                return done.value
            finally:
                if marked:
                    self.end()
            marked = True
            try:
                sent = yield awaited
            except GeneratorExit:
                self.coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 (it is the coroutine's to handle)
                resume = functools.partial(self.coroutine.throw, error)
            else:
                resume = functools.partial(self.coroutine.send, sent)
                marked = not _still_waits(self.coroutine)


def _still_waits(coroutine: Any) -> bool:
    """Return whether a coroutine awaits an unfinished future of rclpy.

    rclpy polls the future by resuming the coroutine repeatedly: none of its own code runs then.
    """
    awaited = coroutine
    while True:
        inner = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        if inner is None:
            break
        awaited = inner
    frame = getattr(awaited, "gi_frame", None)
    future: Any = frame.f_locals.get("self") if frame is not None else None
    if not hasattr(future, "done") or not hasattr(future, "cancelled"):
        return False
    return not (future.done() or future.cancelled())
