"""The command line as a process of its own, and waiting for what other processes do."""

from __future__ import annotations

import fcntl
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
"""What a plain installation has not."""
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
    """The words that run a verb as a process of its own."""
    return [sys.executable, "-P", "-m", "roslens", *map(str, arguments)]


def without_command(names: tuple[str, ...], *arguments: object) -> list[str]:
    """The same where these packages are not installed."""
    return [sys.executable, "-P", "-c", BLOCKED.format(names=names), *map(str, arguments)]


def roslens(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a verb: its exit code, and what it wrote; options as of `subprocess.run`."""
    usual = {"capture_output": True, "text": True, "check": False}
    return subprocess.run(roslens_command(*arguments), **{**usual, **options})  # noqa: PLW1510


def wait_for(
    condition: Callable[[], T], seconds: float = 60, process: subprocess.Popen[Any] | None = None
) -> T:
    """Wait until something is so, while `process` runs; what the condition then gives."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@contextmanager
def programs_of_ros(*, alone: bool = False) -> Iterator[None]:
    """No other worker's while one is alone: a probe of a library is met by all that have it."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have taken note of it yet."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True
