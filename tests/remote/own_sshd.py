"""Run the tests' own sshd, with keys, a port, and an ssh configuration that knows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.free_port import free_port
from tests.programs import wait_for

ROOT = Path(__file__).resolve().parents[2]
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
GOOD, CLOSED, WRONG_KEY, STRANGE = "robot", "closed", "wrongkey", "strange"
"""Hosts of the configuration: reachable, not listening, with a refused key, with an unknown key."""


def _key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


class OwnSshd:
    """An sshd that listens on this machine until it is closed.

    Parameters
    ----------
    folder
        For keys, configurations and what is recorded "there".
    address
        Where to listen.
    prefix
        What runs sshd, such as ``ip netns exec NAME``.
    """

    def __init__(
        self, folder: Path, address: str = "127.0.0.1", prefix: tuple[str, ...] = ()
    ) -> None:
        self.folder, self.there = folder, folder / "there"
        self.there.mkdir(parents=True)
        for name in ("host", "key", "other"):
            _key(folder / name)
        shutil.copy(folder / "key.pub", folder / "authorized")
        port, closed = free_port(), free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress {address}\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nUsePAM no\nStrictModes no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        )
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known").write_text(f"[{address}]:{port} {public}\n")
        (folder / "none").write_text("")
        names = {
            GOOD: (port, "key", "known"),
            CLOSED: (closed, "key", "known"),
            WRONG_KEY: (port, "other", "known"),
            STRANGE: (port, "key", "none"),
        }
        (folder / "config").write_text(
            "".join(
                f"Host {name}\n Hostname {address}\n Port {at}\n IdentityFile {folder}/{key}\n"
                f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/{known}\n"
                " GlobalKnownHostsFile /dev/null\n"
                for name, (at, key, known) in names.items()
            )
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # as its service does
        assert SSHD is not None
        self.log = folder / "sshd.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log
            )
        wait_for(lambda: "listening" in self.log.read_text(), process=self.process)
        self.program()

    def program(self, change: str = "", path: str = "") -> None:
        """Install this ``roslens`` there; `change` is shell code that runs before it."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        paths = ":".join(filter(None, (path, f"{ROOT}/src", str(ROOT))))
        (folder / "roslens").write_text(
            f'#!/bin/sh\n{change}\nPYTHONPATH={paths} exec {sys.executable} -m roslens "$@"\n'
        )
        (folder / "roslens").chmod(0o755)

    @property
    def setup(self) -> str:
        """Return what the shell there runs first."""
        return f"cd {self.there} && PATH={self.folder}/bin:$PATH"

    def environment(self) -> dict[str, str]:
        """Return the environment in which roslens finds the host."""
        return {**os.environ, "ROSLENS_SSH": f"ssh -F {self.folder}/config"}

    def connections(self) -> list[int]:
        """Return the processes that serve its connections."""
        run = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in run.stdout.split()]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
