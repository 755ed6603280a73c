"""Build a wheel's libraries: ``python -m roslens.tracing.native_tracer.prebuilt MACHINE FOLDER``.

The compiler is zig (from PyPI), which cross-compiles and links for an old C library.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from roslens.tracing.native_tracer.library import build_command
from roslens.tracing.native_tracer.source import library_source
from roslens.tracing.native_tracer.table import distributions, instrumentation_of
from roslens.tracing.ros.tracetools import LIBRARY_NAME, compile_library

OLDEST_GLIBC = "2.17"


def build_all(machine: str, folder: Path) -> list[Path]:
    """Build ``<folder>/<machine>/<distribution>/libtracetools.so`` for each known distribution.

    Parameters
    ----------
    machine
        ``x86_64`` or ``aarch64``.
    folder
        The output folder, created if missing.

    Raises
    ------
    CompileError
        zig fails, or is not installed.
    """
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{OLDEST_GLIBC}"]
    libraries = []
    for distribution in distributions():
        source = library_source(instrumentation_of(distribution), distribution)
        library = folder / machine / distribution / LIBRARY_NAME
        with tempfile.TemporaryDirectory() as scratch:
            compile_library([*build_command(zig, source, Path(scratch)), "-s"], library)
        libraries.append(library)
    return libraries


if __name__ == "__main__":
    for path in build_all(sys.argv[1], Path(sys.argv[2])):
        print(path)
