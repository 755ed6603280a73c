"""Give a run its own ROS domain, and remove shared memory that its processes leave behind.

Simultaneous runs do not receive each other's messages if each has its own domain.

Fast DDS passes messages between processes through files in ``/dev/shm``. A process that ends
normally removes its files; a killed one does not. Each segment and each port has a lock file
(``..._el``) that its owner holds as long as it lives, so files without an owner are recognisable.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roslens.recording import RunFailedError

DOMAINS = range(1, 102)
"""Domains with ports below the range that Linux uses for outgoing connections."""

_PORT_BASE, _PORTS_PER_DOMAIN = 7400, 250  # of the DDS interoperability protocol (RTPS 9.6.1)


def ports(domain: int) -> range:
    """Return the UDP ports of a domain."""
    start = _PORT_BASE + _PORTS_PER_DOMAIN * domain
    return range(start, start + _PORTS_PER_DOMAIN)


@contextmanager
def own_domain() -> Iterator[int]:
    """Hold a ROS domain that no other roslens holds and in which nobody listens.

    The lock is a name in the abstract socket space of this network namespace, which has the same
    scope as the domain itself; it is released when the process ends, for whatever reason.

    Raises
    ------
    RunFailedError
        All domains are in use.
    """
    # Start at different domains, so that simultaneous processes seldom try the same one.
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
    """Return whether a participant on this machine listens in the domain."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", ports(domain)[0]))
        except OSError:
            return True
    return False


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_OWNED = re.compile(r"(fast(?:dds|rtps)_(?:[0-9a-f]{16}|port[0-9]+))_el")
_SETTLED_SECONDS = 0.2  # between a lock file's creation and its locking pass microseconds


@contextmanager
def without_leftovers() -> Iterator[list[str]]:
    """Remove, at the end, shared memory of Fast DDS left by processes killed in the meantime.

    Files are removed only if they appeared meanwhile, belong to this user, and their owner has
    ended: never files that a running process uses, or that existed before.

    Yields
    ------
    list of str
        Names of the removed files, filled in at the end.
    """
    before = set(_names())
    removed: list[str] = []
    try:
        yield removed
    finally:
        names = set(_names()) - before
        for name in sorted(names):
            owned = _OWNED.fullmatch(name)
            if owned is None or not _is_abandoned(SHARED_MEMORY / name):
                continue
            base = owned.group(1)
            for part in (base, f"{base}_sl", f"sem.{base}_mutex", name):
                if part in names:
                    with suppress(OSError):
                        (SHARED_MEMORY / part).unlink()
                        removed.append(part)


def _names() -> list[str]:
    try:
        return os.listdir(SHARED_MEMORY)  # noqa: PTH208 (names are wanted, not paths)
    except OSError:
        return []


def _is_abandoned(lock: Path) -> bool:
    """Return whether a lock file is this user's, no longer new, and held by nobody."""
    try:
        with lock.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SETTLED_SECONDS:
                return False
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
