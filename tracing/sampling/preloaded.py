"""Small libraries of our own that the workload's programs preload, compiled when first needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from roslens.recording import UsageError
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder

_FLAGS = ("-shared", "-fPIC", "-O2", "-Wall", "-pthread")


def preloadable(source: Path, wanted_by: str) -> Path:
    """A source file as a library, made once for each version of it.

    Parameters
    ----------
    wanted_by
        The user's name for what needs it, which errors begin with.

    Raises
    ------
    UsageError
        There is no compiler, or it fails.
    """
    key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    library = cache_folder() / source.stem / key / f"libroslens_{source.stem}.so"
    if cached_file(library):
        return library
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise UsageError(f"{wanted_by}: no C compiler for its library (apt-get install gcc)")
    with locked(library.parent.with_suffix(".lock")):
        private_folder(library.parent)
        made = library.with_suffix(".part")
        run = subprocess.run(
            [compiler, *_FLAGS, str(source), "-o", str(made)],
            text=True,
            capture_output=True,
            check=False,
        )
        if run.returncode:
            first = next((x for x in run.stderr.splitlines() if "error" in x), "it says nothing")
            raise UsageError(f"{wanted_by}: its library cannot be compiled: {first}")
        made.replace(library)
    return library


def preloaded(environment: dict[str, str], *libraries: Path) -> str:
    """``LD_PRELOAD`` with these after what is there."""
    return " ".join(filter(None, (environment.get("LD_PRELOAD"), *map(str, libraries))))
