"""``roslens lab``: JupyterLab on the workbench's start page."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import platformdirs

from roslens.report import find_notebook
from roslens.widgets import VARIABLE
from tracing.recording import UsageError

START = "start"
_LOCAL = ("127.0.0.1", "localhost", "::1")


def run_lab(
    path: Path | None,
    *,
    ip: str = "127.0.0.1",
    port: int = 8888,
    browser: bool = True,
    beyond_this_machine: bool = False,
) -> NoReturn:
    """Become JupyterLab.

    Parameters
    ----------
    path
        Recordings that the start page opens; the samples by default.
    ip, port
        Where it listens. Who reaches it can run anything as you, so addresses of other machines are
        refused unless `beyond_this_machine`.

    Raises
    ------
    UsageError
        JupyterLab is not installed, `path` does not exist, or `ip` is reached from elsewhere.
    """
    if ip not in _LOCAL and not beyond_this_machine:
        raise UsageError(
            f"--ip {ip}: other machines would reach a server that runs anything for them; over ssh "
            f"use 'ssh -L {port}:localhost:{port}', or insist with --beyond-this-machine"
        )
    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed; pip install 'roslens[lab]'")
    environment = dict(os.environ)
    if path is not None:
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
        environment[VARIABLE] = str(path.resolve())
    root, notebook = _workplace()
    token, page = secrets.token_hex(24), notebook.relative_to(root).as_posix()
    print(f"http://{ip}:{port}/lab/tree/{page}?token={token}", flush=True)
    command = [
        *(sys.executable, "-m", "jupyterlab", f"--ServerApp.ip={ip}", f"--ServerApp.port={port}"),
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--IdentityProvider.token={token}",
        f"--LabApp.default_url=/lab/tree/{page}",
        "--LabApp.collaborative=False",
        *(() if browser else ("--no-browser",)),
        *(("--allow-root",) if os.geteuid() == 0 else ()),
    ]
    # In the place of this process, so that whoever ends it ends the server.
    os.execve(sys.executable, command, environment)  # noqa: S606


def _workplace() -> tuple[Path, Path]:
    """The folder that the lab shows, and the start page in it.

    The repository where there is one; else a copy of the notebooks in the user's data folder, for
    what is installed must not be written to.
    """
    start = find_notebook(START).resolve()
    root = start.parents[1]
    if (root / "pyproject.toml").is_file() and os.access(start, os.W_OK):
        return root, start
    own = platformdirs.user_data_path("roslens") / "lab"
    own.mkdir(parents=True, exist_ok=True)
    for notebook in start.parent.glob("*.ipynb"):
        target = own / notebook.name
        if not target.exists():
            shutil.copyfile(notebook, target)
    return own, own / start.name
