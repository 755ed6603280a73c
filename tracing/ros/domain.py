"""A ROS domain of one's own, so that runs at the same time do not hear one another."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from roslens.recording import RunFailedError

DOMAINS = range(1, 102)
"""Domains whose ports lie below the range that Linux gives to outgoing connections."""

_PORT_BASE, _PORTS_PER_DOMAIN = 7400, 250  # of the DDS interoperability protocol (RTPS 9.6.1)


def ports(domain: int) -> range:
    """The UDP ports of a domain."""
    start = _PORT_BASE + _PORTS_PER_DOMAIN * domain
    return range(start, start + _PORTS_PER_DOMAIN)


@contextmanager
def own_domain() -> Iterator[int]:
    """Hold a ROS domain that no other roslens holds and that nobody is heard in.

    The lock is a name in the abstract socket space of this network namespace, which is as far as
    the domain itself reaches; it ends with the process, however that ends.

    Raises
    ------
    RunFailedError
        All domains are taken.
    """
    # Different starting points, so that two that start together seldom try the same one.
    shift = os.getpid()
    for number in range(len(DOMAINS)):
        domain = DOMAINS[(number + shift) % len(DOMAINS)]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            try:
                lock.bind(f"\0roslens-ros-domain-{domain}")
            except OSError:
                continue
            if _in_use(domain):
                continue
            yield domain
            return
    raise RunFailedError(
        f"all ROS domains from {DOMAINS[0]} to {DOMAINS[-1]} are in use; end other ROS programs"
    )


def _in_use(domain: int) -> bool:
    """Whether a participant of this machine listens for others in the domain."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", ports(domain)[0]))
        except OSError:
            return True
    return False
