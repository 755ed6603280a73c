"""Call the ``lttng`` command with ``--mi xml``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roslens.recording import RunFailedError, UsageError

SECONDS = 30.0
"""Timeout of a command; commands take 20 to 500 ms."""

_NAMESPACE = re.compile(r"\{[^}]*\}")
_MISSING = (
    "{name} is not installed, which records the traces; install it: "
    "sudo apt-get install -y lttng-tools (Fedora: sudo dnf install -y lttng-tools; "
    "conda-forge does not have it)"
)
_NO_SPACE = re.compile("no space left", re.IGNORECASE)


class LttngError(RunFailedError):
    """LTTng refused a command, or does not answer."""


class NoSpaceError(LttngError):
    """The disk is full."""


def find_program(name: str) -> str:
    """Return the path of one of LTTng's programs.

    Raises
    ------
    UsageError
        The program is not on PATH; the message states what to install.
    """
    path = shutil.which(name)
    if path is None:
        raise UsageError(_MISSING.format(name=name))
    return path


def lttng_version() -> str | None:
    """Return the version of LTTng-tools, such as ``2.13.9``, or None if it is not installed."""
    program = shutil.which("lttng")
    if program is None:
        return None
    run = subprocess.run([program, "--version"], text=True, capture_output=True, check=False)
    match = re.search(r"\d+\.\d+\.\d+", run.stdout)
    return match.group() if match else None


@dataclass(frozen=True)
class LttngTool:
    """A caller of ``lttng`` that reaches a particular session daemon.

    Attributes
    ----------
    prefix
        Words to put before the command (to enter the daemon's mount namespace).
    variables
        Environment variables that the command needs.
    arguments
        Options for each call.
    """

    prefix: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def call(self, *arguments: str) -> ET.Element:
        """Run a command and return its output as XML, without namespaces.

        Raises
        ------
        LttngError
            The command failed or took longer than `SECONDS`.
        """
        command = [
            *(*self.prefix, find_program("lttng"), "--no-sessiond", *self.arguments),
            *("--mi", "xml", *arguments),
        ]
        try:
            # The command runs in its own session: a Ctrl-C must not reach a command that cleans up.
            run = subprocess.run(
                command,
                env={**os.environ, "LC_ALL": "C", **self.variables},
                text=True,
                errors="replace",
                capture_output=True,
                check=False,
                timeout=SECONDS,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise LttngError(
                f"lttng {arguments[0]}: no answer within {SECONDS:.0f} s; the session daemon hangs"
            ) from error
        root = _parse(run.stdout)
        if run.returncode or root is None or root.findtext("success") == "false":
            raise _failure(arguments, run.stdout if root is None else "", run.stderr, root)
        return root


def _parse(text: str) -> ET.Element | None:
    start = text.find("<?xml")
    if start < 0:
        return None
    try:
        root = ET.fromstring(text[start:].strip())  # noqa: S314 (our own lttng wrote it)
    except ET.ParseError:
        return None
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
    return root


def _failure(
    arguments: Sequence[str], text: str, complaints: str, root: ET.Element | None
) -> LttngError:
    lines = [line.strip() for line in (complaints + "\n" + text).splitlines() if line.strip()]
    errors = [line.partition("rror:")[2].strip() for line in lines if "rror:" in line]
    reason = "; ".join(dict.fromkeys(errors)) or (lines[-1] if lines else "")
    if not reason and root is not None:
        reason = root.findtext(".//error_description") or root.findtext(".//error") or ""
    kind = NoSpaceError if _NO_SPACE.search(reason) else LttngError
    return kind(f"lttng {arguments[0]}: {reason or 'failed without a reason'}")
