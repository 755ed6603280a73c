"""Run ``roslens lab``: open JupyterLab on the workbench's start page."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.report_folder import START, default_output, find_notebook, own_folder
from roslens.widgets import FOLDER, VARIABLE
from roslens.widgets.server import ARGUMENTS

# Ctrl-C during the import ends the process without a traceback.
_SERVER = """import _signal
before = _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
from roslens.widgets.server import serve
_signal.signal(_signal.SIGINT, before)
serve()
"""
# This folder holds the kernel that is offered as ``python3`` (this interpreter, which searches the
# notebook's folder after all installed modules, so that no file there hides a package), and the
# extension that opens the start page as one screen.
_OWN = Path(__file__).parent / "widgets"
# These are slow to start and not needed here: the old notebook's shim, language servers, and
# the installation of extensions from a package index.
_WITHOUT = (
    "--ServerApp.jpserver_extensions={'notebook_shim': False, 'jupyter_lsp': False}",
    "--LabApp.extension_manager=readonly",
)
_LOCAL = ("127.0.0.1", "localhost", "::1")


def run_lab(
    paths: Sequence[Path],
    *,
    ip: str = "127.0.0.1",
    port: int = 8888,
    browser: bool = True,
    beyond_this_machine: bool = False,
    verbose: bool = False,
) -> NoReturn:
    """Replace this process by JupyterLab, with the working directory as its root.

    The start page is a copy in ``data/reports/start/<UTC time>``, like a report; the workspace is
    beside it, so that the layout of the user's own JupyterLab is not changed.

    Parameters
    ----------
    paths
        Recordings that the start page opens; the samples by default.
    ip, port
        The address to listen on. Anybody who reaches it can run anything as you, so addresses of
        other machines are refused unless `beyond_this_machine`.
    verbose
        Whether to print the server's log too, not only the address and errors.

    Raises
    ------
    UsageError
        JupyterLab is not installed, a path does not exist, `ip` can be reached from other machines,
        or the port is invalid or taken.
    """
    if ip not in _LOCAL and not beyond_this_machine:
        raise UsageError(
            f"--ip {ip}: other machines would reach a server that runs anything for them; over ssh "
            f"use 'ssh -L {port}:localhost:{port}', or insist with --beyond-this-machine"
        )
    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed; pip install 'roslens[lab]'")
    if not 0 <= port < 1 << 16:
        raise UsageError(f"--port {port}: give one from 1 to 65535, or 0 for any that is free")
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        socket.create_server((ip, port), family=family).close()
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else error
        raise UsageError(
            f"cannot listen on {ip}, port {port}: {why}; give another port with --port"
        ) from error
    environment = dict(os.environ)
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    environment[VARIABLE] = json.dumps([str(path.resolve()) for path in paths])
    folder = default_output(START)
    with own_folder(folder):
        notebook = _clean_copy(folder)
    environment[FOLDER] = str(folder.resolve())
    existing = environment.get("JUPYTER_PATH")
    environment["JUPYTER_PATH"] = os.pathsep.join([str(_OWN), *([existing] if existing else [])])
    token, page = secrets.token_hex(24), notebook.as_posix()
    address = f"http://{_in_url(ip)}:{port}/lab?token={token}"
    arguments = [
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={Path.cwd()}",
        f"--IdentityProvider.token={token}",
        "--LabApp.default_url=/lab",
        f"--LabApp.workspaces_dir={folder.resolve() / '.workspaces'}",
        *_WITHOUT,
        *(() if browser else ("--no-browser",)),
        *(() if verbose else ("--Application.log_level=ERROR",)),
        *(("--allow-root",) if os.geteuid() == 0 else ()),
    ]
    # By the environment: everyone on the machine can see a process's arguments, and so the token.
    environment[ARGUMENTS] = json.dumps([address, page, arguments])
    # The server replaces this process, so that ending this process ends the server.
    server = [sys.executable, "-P", "-c", _SERVER]
    os.execve(sys.executable, server, environment)  # noqa: S606


def _clean_copy(folder: Path) -> Path:
    """Copy the start page without old outputs, because the installed file must not be changed."""
    notebook = json.loads(find_notebook(START).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        # Markdown cells, although there are no formulas, would make JupyterLab load MathJax.
        if cell["cell_type"] == "markdown":
            cell["cell_type"] = "raw"
            cell["source"] = [line.removeprefix("# ") for line in cell["source"]]
    path = folder / f"{START}.ipynb"
    write_atomically(path, json.dumps(notebook, indent=1))
    return path


def _in_url(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip
