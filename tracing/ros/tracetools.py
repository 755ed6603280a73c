"""Compile libtracetools against this machine's LTTng-UST.

The wheels' own libtracetools is linked with LTTng-UST 2.8, whose programs cannot register with a
session daemon of another generation: it silently records nothing. So the same library is built
from the wheel's headers and preloaded; it has the same soname, so that the wheel's own library is
never loaded in addition.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import write_atomically
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.ros.calls import with_calls
from roslens.tracing.ros.compiling import named_compiler, preprocessed
from roslens.tracing.ros.header import read_instrumentation
from roslens.tracing.ros.provider import HEADER_NAME, SOURCE_NAME, header_source, library_source

LIBRARY_NAME = "libtracetools.so"
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-w", f"-Wl,-soname,{LIBRARY_NAME}")
_LIBRARIES = ("-llttng-ust", "-ldl")
_VERSION_PROBE = """
#include <lttng/ust-version.h>
#include <lttng/tracepoint.h>
roslens_version LTTNG_UST_MAJOR_VERSION LTTNG_UST_MINOR_VERSION LTTNG_UST_PATCHLEVEL_VERSION
"""


class CompileError(RunFailedError):
    """A library that programs load could not be compiled."""


def build_tracetools(include: Path) -> Path:
    """Build libtracetools from the headers in `include`, or find it in the cache.

    The cache key consists of the generated source, the compiler and the version of LTTng-UST.

    Parameters
    ----------
    include
        The folder that holds ``tp_call.h``.

    Returns
    -------
    Path
        The library, for ``LD_PRELOAD``.

    Raises
    ------
    HeaderError
        The headers are not supported.
    CompileError
        There is no compiler or no LTTng-UST to compile against, or the compiler fails.
    """
    instrumentation = with_calls(read_instrumentation(include))
    header = header_source(instrumentation)
    source = library_source(instrumentation)
    compiler = find_compiler()
    machine = (describe_compiler(compiler), ust_version(compiler))
    key = hashlib.sha256(
        "\0".join((header, source, *_FLAGS, *_LIBRARIES, *machine)).encode()
    ).hexdigest()[:16]

    def command(folder: Path) -> list[str]:
        write_atomically(folder / HEADER_NAME, header)
        write_atomically(folder / SOURCE_NAME, source)
        return [*compiler, *_FLAGS, f"-I{folder}", str(folder / SOURCE_NAME), *_LIBRARIES]

    return cached_library(f"{instrumentation.version}-{key}", command)


def cached_library(
    name: str, command: Callable[[Path], list[str]], file_name: str = LIBRARY_NAME
) -> Path:
    """Return the library in a folder of the cache, compiling it if needed.

    Parameters
    ----------
    command
        Writes the sources to the given folder, and returns the compiler's command without its
        output option.
    file_name
        The file name of the library.

    Raises
    ------
    CompileError
        There is no compiler, or it fails.
    """
    folder = cache_folder() / "tracetools" / name
    library = folder / file_name
    if cached_file(library):
        return library
    with locked(folder.with_name(f"{name}.{file_name}.lock")):
        if not library.is_file():
            private_folder(folder)
            compile_library(command(folder), library)
    return library


def build_stub(soname: str) -> Path:
    """Return an empty library with the name `soname`, compiled or from the cache.

    The wheels' libraries name their LTTng-UST as a dependency without using it. The preloaded empty
    library replaces it, so that no second LTTng-UST starts its threads in every process.

    Raises
    ------
    CompileError
        There is no compiler, or it fails.
    """
    empty = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", "-x", "c", os.devnull)
    return cached_library("empty", lambda _: [*find_compiler(), *empty], soname)


def find_compiler() -> list[str]:
    """Return the C compiler's command: ``$CC``, else ``cc``, ``gcc`` or ``clang``.

    Raises
    ------
    CompileError
        There is no C compiler.
    """
    command = named_compiler("CC", "cc", "gcc", "clang")
    if command:
        return command
    raise CompileError(
        "no C compiler: what programs load for their recording is compiled for this machine; "
        "install one (apt-get install gcc libc6-dev)"
    )


def ust_version(compiler: list[str]) -> str:
    """Return the version of LTTng-UST that `compiler` finds, such as ``2.13.5``.

    Raises
    ------
    CompileError
        The headers of LTTng-UST are missing.
    """
    output = preprocessed(compiler, "c", _VERSION_PROBE) or ""
    line = next((line for line in output.splitlines() if line.startswith("roslens_version")), None)
    if line is None:
        raise CompileError(
            "no lttng/tracepoint.h: libtracetools must be compiled against LTTng-UST; "
            "install its headers (apt-get install liblttng-ust-dev)"
        )
    return ".".join(line.split()[1:])


def describe_compiler(compiler: list[str]) -> str:
    """Return the compiler's version and target machine, as a part of cache keys."""
    run = subprocess.run([*compiler, "--version"], text=True, capture_output=True, check=False)
    return f"{run.stdout.partition(chr(10))[0]} {platform.machine()}"


def compile_library(command: list[str], library: Path) -> None:
    """Run a compiler so that `library` exists completely or not at all.

    Raises
    ------
    CompileError
        The compiler fails; the message states its first error.
    """
    private_folder(library.parent)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        temporary = Path(scratch) / library.name
        run = subprocess.run(
            [*command, "-o", str(temporary)], text=True, capture_output=True, check=False
        )
        if run.returncode != 0:
            errors = [
                line for line in run.stderr.splitlines() if "error" in line or "cannot find" in line
            ]
            first = (errors or run.stderr.splitlines() or ["it says nothing"])[0]
            raise CompileError(f"{command[0]} cannot compile {library.name}: {first}")
        temporary.replace(library)
