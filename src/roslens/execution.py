"""Run a notebook with papermill, in a kernel of this very interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import papermill  # type: ignore[import-untyped]
import psutil
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError
from papermill.engines import (  # type: ignore[import-untyped]
    NBClientEngine,
    papermill_engines,
)
from papermill.exceptions import PapermillExecutionError  # type: ignore[import-untyped]

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import text_path
from roslens.recording.scratch import environment, scratch_folder
from roslens.widgets import STATIC

CellDone = Callable[[int, int], None]
"""Callback after each cell: the number of cells done, and the total."""

CELL_TIMEOUT_S = 3600.0
"""The default time limit of a cell of a notebook, in seconds."""

# The limit for starting a kernel: seconds are usual, but not on a busy machine.
_START_TIMEOUT_S = 300
# The limit from the end of a cell to the last of its outputs.
_OUTPUT_TIMEOUT_S = 120
_ENGINE = "roslens"


class _OwnKernel(AsyncKernelManager):
    """Kernel manager that starts this interpreter, whatever kernel is registered as ``python3``.

    Its sockets are files in IPYTHONDIR, a folder of this user alone: a port on 127.0.0.1 would
    show the cells and their output to everybody on the machine.
    """

    def __init__(self, **more: Any) -> None:
        private = Path(os.environ["IPYTHONDIR"])
        super().__init__(
            transport="ipc",
            ip=str(private / "kernel"),
            connection_file=str(private / "kernel.json"),
            **more,
        )

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[
                sys.executable,
                # Never import modules from the working directory, whatever their names.
                "-P",
                "-Xfrozen_modules=off",
                "-m",
                "roslens.kernel",
                "-f",
                "{connection_file}",
                # Errors of cells are in the notebook; the kernel would also report how it ends.
                "--IPKernelApp.log_level=CRITICAL",
                "--IPKernelApp.ignore_cwd=True",
            ],
            display_name="Python 3",
            language="python",
        )


class _Engine(NBClientEngine):  # type: ignore[misc]
    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, cell_done: CellDone | None = None, **kwargs: Any
    ) -> Any:
        if cell_done is not None:
            total, done = len(nb_man.nb.cells), 0
            complete = nb_man.cell_complete

            def report(*args: Any, **named: Any) -> None:
                nonlocal done
                complete(*args, **named)
                done += 1
                cell_done(done, total)

            nb_man.cell_complete = report
        return super().execute_managed_notebook(
            nb_man, kernel_name, kernel_manager_class=_OwnKernel, **kwargs
        )


papermill_engines.register(_ENGINE, _Engine)


def known_parameters(notebook: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of a notebook by name: ``default`` (source text), ``help`` and more.

    Raises
    ------
    UsageError
        The file cannot be read as a notebook.
    """
    try:
        parameters: Mapping[str, Mapping[str, Any]] = papermill.inspect_notebook(str(notebook))
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise UsageError(f"{notebook}: not a readable notebook: {error}") from error
    return parameters


def execute(
    notebook: Path,
    output: Path,
    parameters: Mapping[str, Any],
    cell_done: CellDone | None = None,
    cell_timeout_s: float | None = CELL_TIMEOUT_S,
) -> nbformat.NotebookNode:
    """Execute `notebook` with `parameters` and keep the result, failed or not, as `output`.

    Parameters
    ----------
    cell_timeout_s
        The time limit of a cell in seconds; None or 0: no limit.

    Raises
    ------
    UsageError
        The notebook itself raised it (a parameter's value, an unreadable recording).
    RunFailedError
        The notebook failed otherwise, a cell took too long, or its kernel died or did not
        start.
    """
    # Not in TMPDIR: the path of a socket is limited to 107 bytes.
    with (
        scratch_folder(Path("/tmp"), "roslens-report-") as private,  # noqa: S108
        # Neither the user's start-up files nor an unwritable home may interfere.
        environment(**{"IPYTHONDIR": str(private), STATIC: "1"}),
    ):
        try:
            executed = papermill.execute_notebook(
                text_path(notebook),
                text_path(output),
                parameters=dict(parameters),
                engine_name=_ENGINE,
                kernel_name="python3",
                progress_bar=False,
                cell_done=cell_done,
                start_timeout=_START_TIMEOUT_S,
                execution_timeout=cell_timeout_s or None,
                iopub_timeout=_OUTPUT_TIMEOUT_S,
            )
        except PapermillExecutionError as error:
            if error.ename == "UsageError":
                raise UsageError(error.evalue) from error
            failure = " ".join(f"{error.ename}: {error.evalue}".split())
            raise RunFailedError(
                f"notebook {notebook.name} failed in cell {error.cell_index}: {failure} "
                f"(kept with its traceback: {output})"
            ) from error
        except CellTimeoutError as error:
            raise RunFailedError(
                f"notebook {notebook.name}: a cell took longer than {cell_timeout_s:g} s and was "
                f"ended (as far as it came: {output}); allow more with --timeout SECONDS, or 0"
            ) from error
        except RuntimeError as error:
            raise RunFailedError(
                f"notebook {notebook.name}: {error} (as far as it came: {output})"
            ) from error
        finally:
            _end_kernels(private)
    assert isinstance(executed, nbformat.NotebookNode)
    return executed


def _end_kernels(private: Path) -> None:
    """End a kernel whose connection file is in `private`.

    If Ctrl-C interrupts its start, papermill leaves the kernel running, and the kernel would
    recreate the removed folder.
    """
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if str(private / "kernel.json") in child.cmdline():
                child.kill()
                child.wait()
