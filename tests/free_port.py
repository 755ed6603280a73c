"""Find free TCP ports for servers that run as separate processes."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a TCP port of this machine on which nobody listens.

    The port is below the range from which the kernel picks ports for outgoing connections: a port
    of that range may be taken in the seconds that a server needs to start.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("no free port")
