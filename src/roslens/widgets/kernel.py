"""The start page's kernel, begun while the server still starts, so that it has imported by then."""

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
"""How the command of the lab's kernel begins, as ``kernels/python3/kernel.json`` has it."""

_FIRST = "from roslens.widgets.kernel import become; become()"


class PreparedKernel:
    """A process that imports what the start page needs, until it is told which kernel to be."""

    def __init__(self) -> None:
        # As kernels are started: they end with that process, and signals go to a group.
        environment = os.environ | {"JPY_PARENT_PID": str(os.getpid())}
        command = [sys.executable, *_FLAGS, "-c", _FIRST]
        self._begun = Popen(command, stdin=PIPE, env=environment, start_new_session=True)
        self.process: Popen[bytes] | None = self._begun

    def end(self) -> None:
        """End it, whatever it is by now: nobody else does where a server ends while it starts."""
        self._begun.kill()
        self._begun.wait()

    def take(self, command: Sequence[str], options: Mapping[str, Any]) -> Popen[bytes] | None:
        """The process, which now is what the command asks for; None where it cannot be, or is.

        Parameters
        ----------
        command, options
            As `jupyter_client` launches a kernel: of the options ``env`` and ``cwd``.
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


def become() -> None:
    """In the prepared process: import, wait, and be what is told; nothing when nobody tells."""
    from roslens.kernel import be_kernel  # noqa: PLC0415  (only here)
    from roslens.widgets import start  # noqa: F401, PLC0415  (seconds)

    request = sys.stdin.read()
    if request:
        arguments, environment, folder = json.loads(request)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        be_kernel(arguments)
