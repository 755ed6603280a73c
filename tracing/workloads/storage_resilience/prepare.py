"""Compiles the benchmark's program and the library that logs its writes, once."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.tracing.ros.cache import cache_folder, cached_file, locked
from roslens.tracing.ros.tracetools import find_compiler
from roslens.tracing.workloads.storage.prepare import optional
from roslens.tracing.workloads.storage.prepare import prepare as prepare_storage

__all__ = ["LIBRARY_VARIABLE", "optional", "prepare", "write_logger"]

LIBRARY_VARIABLE = "ROSLENS_WRITE_LOGGER"
_SOURCE = Path(__file__).resolve().parents[1] / "storage" / "write_log.c"
_FLAGS = ("-O2", "-fPIC", "-shared")


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variables that ``run.py`` needs: where the program and the library are.

    Raises
    ------
    RoslensError
        There is no compiler or no cargo, or one of both does not compile.
    """
    return {**prepare_storage(note), LIBRARY_VARIABLE: str(write_logger())}


def write_logger() -> Path:
    """The library that logs writes, from the user's cache folder or compiled into it."""
    key = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    library = cache_folder() / "storage" / f"write_log-{key}.so"
    with locked(library.with_suffix(".lock")):
        if not cached_file(library):
            made = library.with_suffix(".new")
            command = [*find_compiler(), *_FLAGS, "-o", str(made), str(_SOURCE), "-ldl"]
            run = subprocess.run(command, text=True, capture_output=True, check=False)
            if run.returncode != 0:
                first = (run.stderr.splitlines() or ["it says nothing"])[0]
                raise RunFailedError(f"{_SOURCE.name} does not compile: {first}")
            made.replace(library)
    return library
