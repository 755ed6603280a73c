"""JupyterLab itself, in a process of its own that imports nothing else."""

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
"""Holds the address, the notebook and the arguments: everyone sees those of a command line."""

_SLOW = "rfc3987_syntax"
"""A check of jsonschema's that nothing here asks for; its grammar is compiled when imported, which
takes longer than all else. jsonschema does without it."""

_SOCKETS = ("--KernelManager.transport=ipc",)
"""Kernels have files of a private folder for sockets: whoever is on the machine could read what
they tell at a port of 127.0.0.1."""

_LATER_S = 5
"""What nobody waits for is done so much later than it is asked for."""


def serve() -> NoReturn:
    """Be the server; prints its address when it answers."""
    address, notebook, arguments = json.loads(os.environ.pop(ARGUMENTS))
    # Ctrl-C, until Jupyter takes care of it.
    code = EXIT_INTERRUPTED
    with suppress(KeyboardInterrupt):
        # Not in TMPDIR: the name of a socket has 107 bytes at most.
        with scratch_folder(Path("/tmp"), "roslens-lab-") as private:  # noqa: S108
            os.environ["JUPYTER_RUNTIME_DIR"] = str(private)
            _serve(address, notebook, [*arguments, *_SOCKETS])
        code = 0
    # All is shut down. The interpreter would still wait, for ever, for the thread of a request that
    # was under way.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(address: str, notebook: str, arguments: list[str]) -> None:
    kernel = PreparedKernel()
    try:
        _serve_with(kernel, address, notebook, arguments)
    finally:
        kernel.end()


def _serve_with(kernel: PreparedKernel, address: str, notebook: str, arguments: list[str]) -> None:
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # cannot be imported
    from jupyterlab import commands  # noqa: PLC0415  (optional)

    # Nothing is built here; else Node.js is run, where there is one, for the registry of packages.
    commands._yarn_config = lambda _: {"yarn config": {}, "npm config": {}}
    from jupyterlab.labapp import LabApp  # noqa: PLC0415

    server = LabApp.initialize_server(argv=arguments)
    page = server.web_app.settings["page_config_data"]
    # Whether JupyterLab's own script should be built anew, which nothing here can make it need.
    page["buildCheck"] = False
    page["roslensStart"] = notebook
    # Of another version, which has other names, all is as it is without; only slower.
    with suppress(ImportError, AttributeError):
        _hand_over(kernel)
    with suppress(ImportError, AttributeError):
        _list_exports_later()
    # It listens by now, and answers as soon as its loop does anything at all.
    server.io_loop.add_callback(print, address, flush=True)
    server.io_loop.add_callback(
        server.session_manager.create_session,
        path=notebook, name=notebook, type="notebook", kernel_name="python3",
    )  # fmt: skip
    server.start()


def _hand_over(kernel: PreparedKernel) -> None:
    """Let the first kernel that is asked for be the one that is prepared."""
    provisioner: Any = import_module("jupyter_client.provisioning.local_provisioner")
    launch = provisioner.launch_kernel

    def prepared(cmd: list[str], **options: Any) -> Any:
        taken = kernel.take(cmd, options)
        return launch(cmd, **options) if taken is None else taken

    provisioner.launch_kernel = prepared


def _list_exports_later() -> None:
    """For a menu JupyterLab asks at once for what nbconvert can do, whose import holds all else."""
    handlers: Any = import_module("jupyter_server.services.nbconvert.handlers")
    get = handlers.NbconvertRootHandler.get

    async def get_later(handler: Any) -> None:
        await asyncio.sleep(_LATER_S)
        await get(handler)

    handlers.NbconvertRootHandler.get = get_later
