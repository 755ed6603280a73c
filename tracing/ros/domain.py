"""A ROS domain of a run's own, and the shared memory that its processes leave behind.

Runs at the same time do not hear one another where each has a domain of its own.

Fast DDS moves messages between processes through files in ``/dev/shm``. A process that ends well
removes its own; one that is killed does not. Each segment and each port has a lock file
(``..._el``) that its owner holds as long as it lives, so one without an owner can be told.
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


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_OWNED = re.compile(r"(fast(?:dds|rtps)_(?:[0-9a-f]{16}|port[0-9]+))_el")
_SETTLED_SECONDS = 0.2  # between a lock file's creation and its locking pass microseconds


@contextmanager
def without_leftovers() -> Iterator[list[str]]:
    """Remove, at the end, the shared memory of Fast DDS that killed processes left meanwhile.

    Only what appeared meanwhile, belongs to this user, and has an owner that no longer lives:
    nothing that a living process uses, and nothing that was there before.

    Yields
    ------
    list of str
        Filled, at the end, with the names of what was removed.
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
    """Whether a lock file is this user's, no longer new, and nobody holds its lock."""
    try:
        with lock.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SETTLED_SECONDS:
                return False
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
