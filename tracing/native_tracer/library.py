"""Find the tracer's library for a ROS 2: the one shipped with roslens, or one compiled here."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import shipped
from roslens.tracing.native_tracer.source import library_source
from roslens.tracing.native_tracer.table import distributions, instrumentation_of
from roslens.tracing.ros.environment import EMBEDDED_DISTRO, RosEnvironment
from roslens.tracing.ros.header import Instrumentation, read_instrumentation
from roslens.tracing.ros.tracetools import (
    LIBRARY_NAME,
    CompileError,
    build_stub,
    cached_library,
    describe_compiler,
    find_compiler,
)

FOLDER_VARIABLE = "ROSLENS_TRACE_FOLDER"
"""The library writes below this folder; without the variable it does nothing."""
EVENTS_VARIABLE = "ROSLENS_TRACE_EVENTS"
"""Events to write, such as ``ros2:rcl_*,ros2:callback_start``; default: all."""

FLIGHT_VARIABLE = "ROSLENS_TRACE_FLIGHT"
"""Seconds that a flight recorder's files reach back; without it, all events are kept."""

FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
    # Otherwise only some compilers refuse a function that is assumed to return an int.
    "-Werror=implicit-function-declaration",
    f"-Wl,-soname,{LIBRARY_NAME}",
    # The library stays even if it is unloaded: threads may be executing it.
    "-Wl,-z,nodelete",
)
LIBRARIES = ("-lpthread", "-ldl")
SOURCES = Path(__file__).parent


def native_library(distribution: str, include: Path | None = None) -> Path:
    """Return the library for a ROS 2 distribution.

    Parameters
    ----------
    distribution
        The distribution's name, such as ``kilted``.
    include
        The folder of its ``tp_call.h``, for a distribution that the table does not contain.

    Raises
    ------
    UsageError
        The distribution is unknown, and its headers are missing.
    CompileError
        No library was shipped with roslens, and none can be compiled.
    """
    prebuilt = shipped("tracing", "native_tracer", "lib") / platform.machine() / distribution
    if (prebuilt / LIBRARY_NAME).is_file():
        return (prebuilt / LIBRARY_NAME).resolve()
    if distribution in distributions():
        return _compiled(distribution, instrumentation_of(distribution))
    if include is not None and (include / "tp_call.h").is_file():
        return _compiled(distribution, read_instrumentation(include))
    names = ", ".join(distributions())
    raise UsageError(
        f"the native tracer does not know ROS 2 {distribution} (known: {names}) and finds no "
        "tracetools/tp_call.h of it; record with '--tracer lttng'"
    )


def native_preload(ros: RosEnvironment | None) -> list[Path]:
    """Return the libraries to preload for the native tracer; the tracer's library is first.

    Parameters
    ----------
    ros
        The programs' ROS 2; None: the sourced one or, without one, the embedded distribution.

    Raises
    ------
    UsageError, HeaderError, CompileError
        There is no library for this ROS 2; the message states why.
    """
    distribution = ros.distro if ros else os.environ.get("ROS_DISTRO") or EMBEDDED_DISTRO
    include = (ros.include if ros else None) or _installed_headers()
    preload = [native_library(distribution, include)]
    with suppress(CompileError):
        # Without a compiler an idle LTTng-UST is loaded, which does no harm.
        preload += [build_stub(name) for name in (ros.superseded if ros else ())]
    return preload


def prepare(library: Path, folder: Path, flight: float = 0.0) -> None:
    """Create the files that a trace needs below `folder`, before any program runs.

    They then exist even if the disk fills up later, and all programs have the same clock.

    Parameters
    ----------
    library
        The library that the programs load.
    folder
        The programs' ``ROSLENS_TRACE_FOLDER``.
    flight
        The programs' ``ROSLENS_TRACE_FLIGHT``; 0 for none.

    Raises
    ------
    RunFailedError
        The files cannot be created; the message states what the folder must be.
    """
    call = ctypes.CDLL(str(library)).roslens_tracer_prepare
    call.restype, call.argtypes = ctypes.c_bool, (ctypes.c_char_p, ctypes.c_double)
    if not call(str(folder.resolve()).encode(), flight):
        raise RunFailedError(
            f"{folder}: no trace can be written there: it must be a folder of your own, that "
            "only you can write to, on a disk that is not full"
        )


def _installed_headers() -> Path | None:
    """Return the folder of tracetools' headers in the sourced ROS 2, or None."""
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(":")):
        for folder in ("tracetools/tracetools", "tracetools"):
            headers = Path(prefix) / "include" / folder
            if (headers / "tp_call.h").is_file():
                return headers
    return None


def _compiled(name: str, instrumentation: Instrumentation) -> Path:
    source = library_source(instrumentation, name)
    compiler = find_compiler()
    texts = [(SOURCES / file).read_text(encoding="utf-8") for file in ("tracer.h", "tracer.c")]
    key = hashlib.sha256(
        "\0".join((source, *texts, *FLAGS, describe_compiler(compiler))).encode()
    ).hexdigest()[:16]
    return cached_library(
        f"native-{name}-{key}", lambda folder: build_command(compiler, source, folder)
    )


def build_command(compiler: list[str], source: str, scratch: Path) -> list[str]:
    """Return a library's compiler command without its output; write `source` to `scratch`."""
    events = scratch / "events.c"
    events.write_text(source, encoding="utf-8")
    inputs = [str(events), str(SOURCES / "tracer.c")]
    return [*compiler, *FLAGS, f"-I{SOURCES}", *inputs, *LIBRARIES]
