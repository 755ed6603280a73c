"""Ways by which frames travel: datagrams, or a stream of bytes."""

from __future__ import annotations

import os
import select
import socket
from typing import Protocol

from roslens.tracing.workloads.micro_ros.frames import Frame

_AT_ONCE = 1 << 16


class Channel(Protocol):
    """Sends and receives whole messages."""

    def send(self, message: bytes) -> None: ...  # noqa: D102
    def receive(self, seconds: float) -> Frame | None: ...  # noqa: D102


class Datagrams:
    """A connected UDP socket (or one that answers whoever spoke last)."""

    def __init__(self, connection: socket.socket, *, answers: bool = False) -> None:
        self._socket, self._answers = connection, answers
        self._peer: tuple[str, int] | None = None

    def send(self, message: bytes) -> None:
        """Send one message."""
        try:
            if self._answers and self._peer is not None:
                self._socket.sendto(message, self._peer)
            else:
                self._socket.send(message)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # a datagram may be lost

    def receive(self, seconds: float) -> Frame | None:
        """The next message's frame; None when there was none in time."""
        self._socket.settimeout(seconds)
        try:
            data, self._peer = self._socket.recvfrom(_AT_ONCE)
        except (TimeoutError, ConnectionRefusedError):
            return None
        return Frame.unpack(data)


class Stream:
    """Two file descriptors of a stream of bytes: a TCP connection, or a serial line."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = bytearray()
        self.ended = False

    def send(self, message: bytes) -> None:
        """Send one message."""
        view = memoryview(message)
        while view:
            view = view[os.write(self._write, view) :]

    def receive(self, seconds: float) -> Frame | None:
        """The next message's frame; None when there was none in time or the other end is gone."""
        size = Frame.LAYOUT.size
        while True:
            if len(self._buffer) >= size:
                frame = Frame.unpack(bytes(self._buffer[:size]))
                if len(self._buffer) >= size + frame.payload_bytes:
                    del self._buffer[: size + frame.payload_bytes]
                    return frame
            ready, _, _ = select.select([self._read], [], [], seconds)
            if not ready:
                return None
            data = os.read(self._read, _AT_ONCE)
            if not data:
                self.ended = True
                return None
            self._buffer += data
