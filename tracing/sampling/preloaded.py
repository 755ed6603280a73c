"""Compile small libraries of our own that the workload's programs preload, when first needed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from roslens.recording import UsageError
from roslens.tracing.ros.tracetools import CompileError, cached_library, find_compiler

_FLAGS = ("-shared", "-fPIC", "-O2", "-Wall", "-pthread")


def preloadable(source: Path, wanted_by: str) -> Path:
    """Return a source file as a library, compiled once for each version of the file.

    Parameters
    ----------
    wanted_by
        The user's name of the feature that needs the library, with which errors begin.

    Raises
    ------
    UsageError
        There is no compiler, or it fails.
    """
    key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    name, file_name = f"{source.stem}-{key}", f"libroslens_{source.stem}.so"
    try:
        return cached_library(
            name, lambda _: [*find_compiler(), *_FLAGS, str(source), "-ldl"], file_name
        )
    except CompileError as error:
        raise UsageError(f"{wanted_by}: {error}") from error
