"""Run commands on other hosts with the user's ssh and its configuration, with keys only."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from roslens.recording import UsageError

SSH_VARIABLE = "ROSLENS_SSH"
"""The ssh command to use, such as ``ssh -F FILE``; the counterpart of git's ``GIT_SSH_COMMAND``."""

_OPTIONS = {
    "BatchMode": "yes",
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "10",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "5",
}
"""Never prompt, forward nothing, transfer only the command, and notice when a host is gone."""

UNREACHABLE = 255
"""Exit status of ssh when ssh itself failed, not the command."""


@dataclass(frozen=True)
class Host:
    """A host to record on, and what to record there.

    Attributes
    ----------
    destination
        The destination in ssh's notation: ``user@host``, or a name in its configuration.
    command
        The command to run and record there; empty: programs that already run there.
    """

    destination: str
    command: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Parse ``user@host`` or ``user@host:COMMAND``; no shell interprets the command.

        Raises
        ------
        UsageError
            The text names no host, or the command has an open quote.
        """
        destination, colon, command = text.partition(":")
        if command.startswith("//"):
            raise UsageError(
                f"--host {text}: give user@host; a port belongs into ssh's configuration"
            )
        if not re.fullmatch(r"[^\s:\x00-\x1f\x7f-]([^\s:\x00-\x1f\x7f]*[^\s:@])?", destination):
            raise UsageError(f"--host {text!r}: is no name of a host; give user@host")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--host {text}: the command: {error}".lower()) from error
        if colon and not words:
            raise UsageError(f"--host {text}: no command after the colon")
        return cls(destination, tuple(words))

    @property
    def name(self) -> str:
        """Return a name for the host's folder."""
        bare = self.destination.rpartition("@")[2]
        return re.sub(r"[^A-Za-z0-9_.-]", "_", bare).lstrip(".-") or "host"


def find_ssh() -> list[str]:
    """Return the ssh command to use, with options.

    Raises
    ------
    UsageError
        ssh is not found.
    """
    ssh = shlex.split(os.environ.get(SSH_VARIABLE, "")) or ["ssh"]
    if shutil.which(ssh[0]) is None:
        raise UsageError(f"{ssh[0]}: not found on PATH; --host needs OpenSSH's client")
    return ssh


def ssh_command(destination: str, words: Sequence[str], setup: str | None = None) -> list[str]:
    """Return the ssh command that runs a command on another host.

    Parameters
    ----------
    destination
        See `Host`.
    words
        The command; each word arrives there unchanged.
    setup
        A shell command that the login shell there runs first, unchanged.

    Raises
    ------
    UsageError
        As for `find_ssh`.
    """
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    line = f"exec {shlex.join(words)}"
    return [*find_ssh(), *options, "--", destination, f"{setup} && {line}" if setup else line]


def ends_well(destination: str, words: Sequence[str]) -> bool:
    """Run a command on another host; return whether its exit status is 0."""
    command = ssh_command(destination, words)
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return run.returncode == 0


def why_unreachable(said: str, destination: str) -> str:
    """Combine ssh's last message with advice on what to do about it."""
    advice = {
        "Permission denied": f"'ssh-copy-id {destination}' lets your key in",
        "Host key verification failed": f"log in once with 'ssh {destination}' and check its key",
        "Could not resolve": "is the name right?",
    }
    hint = next((text for words, text in advice.items() if words in said), None)
    reason = said or "ssh said no reason"
    return f"cannot be reached: {reason}{f'; {hint}' if hint else ''}"
