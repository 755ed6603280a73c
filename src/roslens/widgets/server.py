"""Run JupyterLab in a process of its own that imports nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from roslens.recording import EXIT_INTERRUPTED
from roslens.recording.scratch import scratch_folder
from roslens.widgets.kernel import PreparedKernel

ARGUMENTS = "ROSLENS_LAB_ARGUMENTS"
"""Environment variable with address, notebook and arguments: a command line is visible to all."""

_SLOW = "rfc3987_syntax"
"""A check of jsonschema that nothing here uses; its grammar is compiled on import, which takes
longer than everything else. jsonschema works without it."""

_SOCKETS = ("--KernelManager.transport=ipc",)
"""Kernels use files in a private folder as sockets: anyone on the machine could read their
messages at a port of 127.0.0.1."""

_LATER_S = 5
"""Delay in seconds of work that nobody waits for."""


def serve() -> NoReturn:
    """Run the server; print its address when it answers."""
    address, notebook, arguments = json.loads(os.environ.pop(ARGUMENTS))
    # This is the code for Ctrl-C until Jupyter handles it.
    code = EXIT_INTERRUPTED
    with suppress(KeyboardInterrupt):
        # Not in TMPDIR: the path of a socket is limited to 107 bytes.
        with scratch_folder(Path("/tmp"), "roslens-lab-") as private:  # noqa: S108
            os.environ["JUPYTER_RUNTIME_DIR"] = str(private)
            kernel = PreparedKernel()
            try:
                _serve(kernel, address, notebook, [*arguments, *_SOCKETS])
            finally:
                kernel.end()
        code = 0
    # Everything is shut down. The interpreter would still wait, forever, for the thread of a
    # request in progress.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(kernel: PreparedKernel, address: str, notebook: str, arguments: list[str]) -> None:
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # cannot be imported
    from jupyterlab import commands  # noqa: PLC0415  (optional)

    # Nothing is built here; otherwise Node.js, if installed, is run for the package registry.
    commands._yarn_config = lambda _: {"yarn config": {}, "npm config": {}}
    from jupyterlab.labapp import LabApp  # noqa: PLC0415

    server = LabApp.initialize_server(argv=arguments)
    page = server.web_app.settings["page_config_data"]
    # Skip checking whether JupyterLab's script needs a rebuild, which nothing here can cause.
    page["buildCheck"] = False
    page["roslensStart"] = notebook
    # With another version that has other names, everything works as usual, only slower.
    with suppress(ImportError, AttributeError):
        _hand_over(kernel)
    with suppress(ImportError, AttributeError):
        _list_exports_later()
    # The server already listens, and answers as soon as its loop runs.
    server.io_loop.add_callback(print, address, flush=True)
    server.io_loop.add_callback(
        server.session_manager.create_session,
        path=notebook, name=notebook, type="notebook", kernel_name="python3",
    )  # fmt: skip
    server.start()


def _hand_over(kernel: PreparedKernel) -> None:
    """Make the prepared process serve the first kernel request."""
    provisioner: Any = import_module("jupyter_client.provisioning.local_provisioner")
    launch = provisioner.launch_kernel

    def prepared(cmd: list[str], **options: Any) -> Any:
        taken = kernel.take(cmd, options)
        return launch(cmd, **options) if taken is None else taken

    provisioner.launch_kernel = prepared


def _list_exports_later() -> None:
    """Delay JupyterLab's request for nbconvert's formats, whose import blocks everything else."""
    handlers: Any = import_module("jupyter_server.services.nbconvert.handlers")
    get = handlers.NbconvertRootHandler.get

    async def get_later(handler: Any) -> None:
        await asyncio.sleep(_LATER_S)
        await get(handler)

    handlers.NbconvertRootHandler.get = get_later
