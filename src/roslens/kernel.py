"""Run IPython's kernel, without the extra port, as ``python -m roslens.kernel``.

For the output of processes that a cell forks, the kernel would listen on a port of 127.0.0.1,
even if its own sockets are files. Nothing here forks such processes, so the port is left out. The
kernel also keeps no IPython history, a file in the user's home that others may be able to read.
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
    """Run the kernel that the arguments, by default those of the command line, ask for."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # If the starter has ended and its file is gone, the kernel would create one and open ports.
    if "-f" in arguments and not Path(arguments[arguments.index("-f") + 1]).is_file():
        sys.exit(EXIT_FAILED)
    vars(kernelapp)["IOPubThread"] = _WithoutPort
    kernelapp.IPKernelApp.launch_instance([*arguments, "--HistoryManager.enabled=False"])


if __name__ == "__main__":
    be_kernel()
