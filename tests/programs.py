"""Run the command line as a separate process, and wait for what other processes do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")

EXTRAS = (
    *("IPython", "PIL", "anywidget", "distributed", "duckdb", "fsspec", "hdrh", "ipykernel"),
    *("ipywidgets", "jinja2", "jupyter_client", "jupyterlab", "lz4", "matplotlib", "mcap"),
    *("nbclient", "nbconvert", "nbformat", "pandas", "papermill", "pyarrow", "scipy", "seaborn"),
    *("anyio", "mcp", "opentelemetry", "prometheus_client", "traitlets", "zstandard"),
)
PLAIN = (*EXTRAS, "numpy")
"""Packages that a plain installation does not have."""
BLOCKED = """
import importlib.abc, sys
class Blocks(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocks())
from roslens.__main__ import run
run()
"""


def roslens_command(*arguments: object) -> list[str]:
    """Return the command line that runs a verb as a separate process."""
    return [sys.executable, "-P", "-m", "roslens", *map(str, arguments)]


def without_command(names: tuple[str, ...], *arguments: object) -> list[str]:
    """Return the command line that runs a verb as if these packages were not installed."""
    return [sys.executable, "-P", "-c", BLOCKED.format(names=names), *map(str, arguments)]


def roslens(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a verb and return the completed process; options are those of `subprocess.run`."""
    usual = {"capture_output": True, "text": True, "check": False}
    return subprocess.run(roslens_command(*arguments), **{**usual, **options})  # noqa: PLW1510


def git(folder: Path, *arguments: str) -> str:
    """Run git on a folder, as somebody, and return what it prints."""
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    command = ["git", "-C", folder, *who, *arguments]
    return subprocess.check_output(command, env=variables, text=True).strip()


def wait_for(
    condition: Callable[[], T], seconds: float = 300, process: subprocess.Popen[Any] | None = None
) -> T:
    """Wait until the condition is true, while `process` runs, and return the condition's value."""
    end, ended = time.monotonic() + seconds, False
    while not (found := condition()):
        # A process that has ended may have met the condition just before.
        assert not ended, process and process.communicate()
        assert time.monotonic() < end, "it did not happen"
        ended = process is not None and process.poll() is not None
        time.sleep(0.02)
    return found


@contextmanager
def programs_of_ros(*, alone: bool = False) -> Iterator[None]:
    """Run ROS programs; with `alone`, while no other worker runs any.

    A probe of a library is hit by every process that has the library loaded.
    """
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def gone(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not yet waited for it."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True
