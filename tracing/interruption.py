"""Turn Ctrl-C, SIGTERM and SIGHUP into a request that is honoured at a suitable moment."""

from __future__ import annotations

import math
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """A handler of the signals that ask a program to end, as long as the context lasts.

    An exception in the middle of cleaning up would leave things behind, so a signal only sets
    `wanted` and makes `fileno()` readable. Outside the main thread, where Python delivers no
    signals, only `request` does this.

    Attributes
    ----------
    count
        How often an end was requested.
    signal
        The first signal.
    """

    def __init__(self) -> None:
        self.count = 0
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}
        self._read, self._write = socket.socketpair()
        for end in (self._read, self._write):
            end.setblocking(False)

    @property
    def wanted(self) -> bool:
        """Return whether an end was requested."""
        return self.count > 0

    @property
    def reason(self) -> str:
        """Describe what requested the end."""
        by = "" if self.signal is None else f" by {signal.Signals(self.signal).name}"
        return f"interrupted{by}"

    def wait_for(
        self, done: Callable[[], bool], every_s: float, at_most_s: float | None = None
    ) -> None:
        """Wait until `done` holds, the time is over, or a signal requests the end."""
        until = time.monotonic() + (math.inf if at_most_s is None else at_most_s)
        while not self.wanted and (left := until - time.monotonic()) > 0 and not done():
            time.sleep(min(every_s, left))

    def fileno(self) -> int:
        """Return a descriptor that is readable after a signal, so that it can be waited for."""
        return self._read.fileno()

    def drain(self) -> None:
        """Make the descriptor unreadable again."""
        with suppress(OSError):
            while self._read.recv(64):
                pass

    def request(self, number: int | None = None) -> None:
        """Request an end."""
        self.count += 1
        self.signal = self.signal or number
        with suppress(OSError):
            self._write.send(b"x")

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, lambda sent, _: self.request(sent))
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        self._read.close()
        self._write.close()
