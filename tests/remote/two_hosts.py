"""Make two hosts of namespaces, each with its network and name, and one with its own clocks."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.programs import wait_for

ADDRESSES = ("10.77.0.1", "10.77.0.2")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
AHEAD_OF_BOOT_S = 5_000
"""By how many seconds the second host's CLOCK_MONOTONIC is ahead, as if it had booted earlier."""


@dataclass(frozen=True)
class NamespaceHost:
    """A host that a process holds."""

    name: str
    address: str
    pid: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return the words that run a command on the host."""
        return ("nsenter", "-t", str(self.pid), "-m", "-n", "-u", "-T", "--")


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[NamespaceHost, NamespaceHost]]:
    """Yield two hosts connected by a cable; they vanish with the processes that hold them.

    Parameters
    ----------
    folder
        For the second host's boot id, by which traces tell clocks apart.
    """
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (util-linux, iproute2)")
    boot = folder / "boot_id"
    boot.write_text(f"{uuid.uuid4()}\n")
    holders: list[subprocess.Popen[bytes]] = []
    clock = ("--monotonic", str(AHEAD_OF_BOOT_S), "--boottime", str(AHEAD_OF_BOOT_S))
    try:
        for more in ((), clock):
            # With exec the killed process is the holder itself, in its own time namespace.
            begin = [
                "unshare",
                "--mount",
                "--net",
                "--uts",
                "--time",
                *more,
                "--fork",
                "--kill-child",
            ]
            holders.append(
                subprocess.Popen([*begin, "sleep", "infinity"], stderr=subprocess.DEVNULL)
            )
        pids = [_child(holder) for holder in holders]
        names = ("desk", "robot")
        hosts = [NamespaceHost(*fields) for fields in zip(names, ADDRESSES, pids, strict=True)]
        _run("ip", "link", "add", "cable", "netns", str(pids[0]), "type", "veth", "peer", "name",
             "cable", "netns", str(pids[1]))  # fmt: skip
        for host in hosts:
            _run(*host.prefix, "hostname", host.name)
            _run(*host.prefix, "ip", "address", "add", f"{host.address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _run(*host.prefix, "ip", "link", "set", device, "up")
            _run(*host.prefix, "ip", "route", "add", "224.0.0.0/4", "dev", "cable")
        _run(*hosts[1].prefix, "mount", "--bind", str(boot), BOOT_ID)
        yield hosts[0], hosts[1]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def _child(holder: subprocess.Popen[bytes]) -> int:
    """Return the process within the namespaces, once it is there."""
    path = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")

    def children() -> str:
        if holder.poll() is not None:
            pytest.skip("the kernel, or a lack of rights, allows no namespaces")
        return path.read_text() if path.is_file() else ""

    return int(wait_for(children).split()[0])


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no two hosts: {' '.join(command[:3])}: {done.stderr.strip()}")
