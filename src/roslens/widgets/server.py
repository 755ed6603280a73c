"""JupyterLab itself, in a process of its own that imports nothing else."""

from __future__ import annotations

import json
import os

ARGUMENTS = "ROSLENS_LAB_ARGUMENTS"
"""Holds the address and the arguments: everyone sees those of a command line."""


def serve() -> None:
    """Be the server; prints its address when it answers."""
    from jupyterlab.labapp import LabApp  # noqa: PLC0415  (optional)

    address, arguments = json.loads(os.environ.pop(ARGUMENTS))
    server = LabApp.initialize_server(argv=arguments)
    # It listens by now, and answers as soon as its loop does anything at all.
    server.io_loop.add_callback(print, address, flush=True)
    server.start()
