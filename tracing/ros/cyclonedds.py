"""Build a second middleware for the embedded ROS 2: rmw_cyclonedds_cpp on the system's DDS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import shipped
from roslens.tracing.ros.compiling import find_cpp_compiler, preprocessed
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.middleware import REPLACED, compile_library, with_library
from roslens.tracing.ros.packages import (
    CPP,
    Note,
    build_once,
    described,
    listed,
    prefix_of,
    put,
    soname,
)
from roslens.tracing.sources import obtain, pinned

NAME = "rmw_cyclonedds_cpp"
SPACE = 200_000_000
"""Bytes that the build needs temporarily."""
_SOURCE = "rmw_cyclonedds"
_SECURITY = shipped("tracing", "ros", "rmw_security.hpp")
# From its own CMakeLists.txt.
_LINKED = (
    *("rmw", "rcutils", "rcpputils", "rmw_dds_common", "rosidl_runtime_c", "tracetools"),
    *("rosidl_typesupport_introspection_c", "rosidl_typesupport_introspection_cpp"),
    *("rmw_dds_common__rosidl_typesupport_cpp", "rosidl_typesupport_cpp"),
)
_PROBE = """
#include <dds/features.h>
#include <dds/version.h>
#ifdef DDS_HAS_SHM
roslens_version DDS_VERSION with_shared_memory
#else
roslens_version DDS_VERSION without
#endif
"""


@dataclass(frozen=True)
class Cyclone:
    """The system's Cyclone DDS, as a compiler finds it.

    Attributes
    ----------
    compiler
        The command of the C++ compiler.
    version
        The version, such as ``0.10.2``.
    include
        Header folders that the compiler does not search by default.
    """

    compiler: tuple[str, ...]
    version: str
    include: tuple[str, ...] = ()


def cyclonedds_for(ros: RosEnvironment, note: Note = lambda _: None) -> RosEnvironment:
    """Return the embedded ROS 2 with Cyclone DDS as well as Fast DDS, compiling it if needed.

    Fast DDS remains the default of programs: `RosEnvironment.with_middleware` selects.

    Parameters
    ----------
    ros
        The embedded ROS 2.
    note
        Called with a line when a step begins, and with its progress.

    Raises
    ------
    UsageError
        The content of ``$ROSLENS_SOURCES`` is not as expected.
    RunFailedError
        Cyclone DDS, a compiler, disk space or the source is missing, or compiling fails.
    """
    if NAME in ros.middlewares:
        return ros
    cyclone = find_cyclone()
    prefix = _prefix(ros, cyclone)

    def build() -> dict[str, str]:
        tree = obtain(_SOURCE, note) / NAME
        note("compiling Cyclone DDS' middleware for the embedded ROS 2, once: half a minute")
        return _build(prefix, ros, cyclone, tree, note)

    build_once(prefix, NAME, SPACE, build)
    return with_library(ros, prefix, NAME)


def find_cyclone() -> Cyclone:
    """Find the Cyclone DDS of the C++ compiler.

    Raises
    ------
    RunFailedError
        There is no compiler or no Cyclone DDS, or its interface differs.
    """
    compiler = tuple(find_cpp_compiler())
    output = preprocessed(compiler, "c++", _PROBE) or ""
    line = next((line for line in output.splitlines() if line.startswith("roslens_version")), None)
    if line is None:
        raise RunFailedError(
            f"no dds/dds.h, which {NAME} is compiled with; apt-get install cyclonedds-dev"
        )
    _, version, memory = line.replace('"', "").split()
    if not version.startswith("0.10."):
        raise RunFailedError(f"{NAME} is made for Cyclone DDS 0.10; the system's is {version}")
    iceoryx = "#include <iceoryx_binding_c/chunk.h>"
    if memory == "without" or preprocessed(compiler, "c++", iceoryx) is not None:
        return Cyclone(compiler, version)
    return Cyclone(
        compiler, version, tuple(map(str, sorted(Path("/usr/include/iceoryx").glob("v*"))))
    )


def _prefix(ros: RosEnvironment, cyclone: Cyclone) -> Path:
    parts = (
        repr((CPP, cyclone, _LINKED, REPLACED)),
        pinned()[_SOURCE].sha256,
        _SECURITY.read_text(encoding="utf-8"),
    )
    return prefix_of("cyclonedds", ros, [cyclone.compiler], parts)


def _build(
    prefix: Path,
    ros: RosEnvironment,
    cyclone: Cyclone,
    tree: Path,
    note: Note,
) -> dict[str, str]:
    include = prefix / "build" / "include"
    put(include / "rmw_dds_common/security.hpp", _SECURITY.read_text(encoding="utf-8"))
    flags = (f"-I{include}", *(f"-isystem{folder}" for folder in cyclone.include))
    linked = (*(f"-l:{soname(name)}" for name in _LINKED), "-lddsc")
    compile_library(
        *(prefix, ros, cyclone.compiler, NAME),
        files=listed(tree),
        flags=flags,
        linked=linked,
        note=note,
    )
    return dict(described(prefix, [tree])) | {"cyclonedds": cyclone.version}
