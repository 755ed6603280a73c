"""Ports for servers that are started as processes of their own."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """A TCP port of this machine that nobody listens on.

    Below those that the kernel gives to outgoing connections: one of these may be taken in the
    seconds that a server needs to start.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("no free port")
