"""``python -m roslens.kernel``: IPython's kernel, without the port beside its sockets.

For the output of processes that a cell forks it listens on a port of 127.0.0.1, whatever its own
sockets are. Nobody here forks such, and nothing listens that nobody asked for. Nor does it keep
what was typed in IPython's history, a file in the user's home that others may be able to read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ipykernel import iostream, kernelapp

from roslens.recording import EXIT_FAILED


class _WithoutPort(iostream.IOPubThread):
    def __init__(self, socket: Any, pipe: bool = False, **more: Any) -> None:  # noqa: ARG002, FBT
        super().__init__(socket, pipe=False, **more)  # type: ignore[no-untyped-call,unused-ignore]


def be_kernel(arguments: list[str] | None = None) -> None:
    """Be the kernel that the arguments, of the command line by default, ask for."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # Where whoever started it has ended meanwhile it would make one, and listen on ports.
    if "-f" in arguments and not Path(arguments[arguments.index("-f") + 1]).is_file():
        sys.exit(EXIT_FAILED)
    vars(kernelapp)["IOPubThread"] = _WithoutPort
    kernelapp.IPKernelApp.launch_instance([*arguments, "--HistoryManager.enabled=False"])


if __name__ == "__main__":
    be_kernel()
