"""JupyterLab itself, in a process of its own that imports nothing else."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

ARGUMENTS = "ROSLENS_LAB_ARGUMENTS"
"""Holds the address, the notebook and the arguments: everyone sees those of a command line."""

_WARM = "from roslens.widgets import start"

_SLOW = "rfc3987_syntax"
"""A check of jsonschema's that nothing here asks for; its grammar is compiled when imported, which
takes longer than all else. jsonschema does without it."""


def serve() -> NoReturn:
    """Be the server; prints its address when it answers."""
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # cannot be imported
    from jupyterlab.labapp import LabApp  # noqa: PLC0415  (optional)

    address, notebook, arguments = json.loads(os.environ.pop(ARGUMENTS))
    server = LabApp.initialize_server(argv=arguments)
    # Whether JupyterLab's own script should be built anew, which nothing here can make it need.
    server.web_app.settings["page_config_data"]["buildCheck"] = False
    # It listens by now, and answers as soon as its loop does anything at all.
    server.io_loop.add_callback(print, address, flush=True)
    server.io_loop.add_callback(_start_kernel, server, notebook)
    server.start()
    # All is shut down. The interpreter would still wait, for ever, for the thread of a request that
    # was under way.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _start_kernel(server: Any, notebook: str) -> None:
    """The notebook's kernel, which imports what it needs while the browser loads the page."""
    session = await server.session_manager.create_session(
        path=notebook, name=notebook, type="notebook", kernel_name="python3"
    )
    client = server.kernel_manager.get_kernel(session["kernel"]["id"]).client()
    client.start_channels()
    await client.wait_for_ready()
    await client.execute(_WARM, silent=True, reply=True)
    client.stop_channels()
