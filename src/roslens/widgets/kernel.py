"""Prepare the start page's kernel while the server starts, so that its imports are done by then."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

_FLAGS = ("-P", "-Xfrozen_modules=off")
_LAUNCHER = [sys.executable, *_FLAGS, "-m", "roslens.kernel"]
"""The start of the lab kernel's command, as in ``kernels/python3/kernel.json``."""

_FIRST = "from roslens.widgets.kernel import become_kernel; become_kernel()"


class PreparedKernel:
    """Process that imports what the start page needs, and then becomes the requested kernel."""

    def __init__(self) -> None:
        # Like jupyter_client's kernels: it ends with that process, and signals go to its group.
        environment = os.environ | {"JPY_PARENT_PID": str(os.getpid())}
        command = [sys.executable, *_FLAGS, "-c", _FIRST]
        self._begun = Popen(command, stdin=PIPE, env=environment, start_new_session=True)
        self.process: Popen[bytes] | None = self._begun

    def end(self) -> None:
        """Kill the process in any state: nothing else does if the server ends while it starts."""
        self._begun.kill()
        self._begun.wait()

    def take(self, command: Sequence[str], options: Mapping[str, Any]) -> Popen[bytes] | None:
        """Turn the process into the requested kernel; None if it cannot be, or already is, one.

        Parameters
        ----------
        command, options
            Arguments with which `jupyter_client` launches a kernel; ``env`` and ``cwd`` are used.
        """
        process, is_ours = self.process, list(command[: len(_LAUNCHER)]) == _LAUNCHER
        if process is None or not is_ours or process.poll() is not None:
            return None
        self.process = None
        environment = dict(options.get("env") or os.environ)
        folder = str(options.get("cwd") or Path.cwd())
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps([command[len(_LAUNCHER) :], environment, folder]).encode())
        return process


def become_kernel() -> None:
    """Import, wait for a request, and become that kernel; return if there is no request."""
    from roslens.kernel import be_kernel  # noqa: PLC0415  (only here)
    from roslens.widgets import start  # noqa: F401, PLC0415  (seconds)

    request = sys.stdin.read()
    if request:
        arguments, environment, folder = json.loads(request)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        be_kernel(arguments)
