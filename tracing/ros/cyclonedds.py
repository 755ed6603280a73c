"""A second middleware for the embedded ROS 2: rmw_cyclonedds_cpp on the system's Cyclone DDS.

The wheels have no rmw_implementation that loads the one that is asked for: their rcl is linked with
that of Fast DDS. So programs preload the other one, and empty libraries in place of Fast DDS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import shipped
from roslens.tracing.ros.compiling import Step, find_cpp_compiler, preprocessed, run_steps
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.packages import (
    CPP,
    LOG,
    bundled,
    described,
    facts_of,
    header_folders,
    listed,
    made_once,
    prefix_of,
    put,
    soname,
)
from roslens.tracing.sources import obtain, pinned

NAME = "rmw_cyclonedds_cpp"
SPACE = 200_000_000
"""Bytes that the build needs while it lasts."""
_SOURCE = "rmw_cyclonedds"
_SECURITY = shipped("tracing", "ros", "rmw_security.hpp")
# By its own CMakeLists.txt.
_LINKED = (
    *("rmw", "rcutils", "rcpputils", "rmw_dds_common", "rosidl_runtime_c", "tracetools"),
    *("rosidl_typesupport_introspection_c", "rosidl_typesupport_introspection_cpp"),
    *("rmw_dds_common__rosidl_typesupport_cpp", "rosidl_typesupport_cpp"),
)
# What rcl names of Fast DDS.
_REPLACED = ("librmw_fastrtps_cpp.so", "librmw_fastrtps_shared_cpp.so", "libfastdds.so.[0-9].[0-9]")
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
        Of C++.
    version
        Such as ``0.10.2``.
    include
        Folders of headers that the compiler does not know by itself.
    """

    compiler: tuple[str, ...]
    version: str
    include: tuple[str, ...] = ()


def cyclonedds_for(
    ros: RosEnvironment, note: Callable[[str], None] = lambda _: None, sources: Path | None = None
) -> RosEnvironment:
    """The embedded ROS 2 with Cyclone DDS beside Fast DDS, compiled if it is not there yet.

    Fast DDS stays the one that programs get: `RosEnvironment.with_middleware` chooses.

    Parameters
    ----------
    ros
        The embedded ROS 2.
    note
        Called with one line when a step begins, and with how far it is.
    sources
        Folder of archives; default: ``$ROSLENS_SOURCES``, else they are cloned.

    Raises
    ------
    UsageError
        What lies in the folder of sources is not what is wanted.
    RunFailedError
        There is no Cyclone DDS, no compiler, no space, no source, or it does not compile.
    """
    if NAME in ros.middlewares:
        return ros
    cyclone = found_cyclone()
    prefix = _prefix(ros, cyclone)

    def build() -> dict[str, str]:
        tree = obtain(_SOURCE, sources, note) / NAME
        note("compiling Cyclone DDS' middleware for the embedded ROS 2, once: half a minute")
        return _build(prefix, ros, cyclone, tree, note)

    made_once(prefix, NAME, SPACE, build)
    replacing = sorted((prefix / "lib").glob("no_*.so*"))
    paths = f"{prefix}:{ros.variables['AMENT_PREFIX_PATH']}"
    return replace(
        ros,
        variables={**ros.variables, "AMENT_PREFIX_PATH": paths},
        packages={**ros.packages, **facts_of(prefix).packages},
        middlewares={**ros.middlewares, NAME: (prefix / "lib" / soname(NAME), *replacing)},
    )


def found_cyclone() -> Cyclone:
    """The Cyclone DDS that the C++ compiler finds.

    Raises
    ------
    RunFailedError
        There is no compiler, no Cyclone DDS, or one with another interface.
    """
    compiler = tuple(find_cpp_compiler())
    said = preprocessed(compiler, "c++", _PROBE) or ""
    line = next((x for x in said.splitlines() if x.startswith("roslens_version")), None)
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
        repr((CPP, cyclone, _LINKED, _REPLACED)),
        pinned()[_SOURCE].sha256,
        _SECURITY.read_text(encoding="utf-8"),
    )
    return prefix_of("cyclonedds", ros, [cyclone.compiler], parts)


def _build(
    prefix: Path,
    ros: RosEnvironment,
    cyclone: Cyclone,
    tree: Path,
    note: Callable[[str], None],
) -> dict[str, str]:
    build, log, root = prefix / "build", prefix / LOG, ros.python.parents[1]
    put(build / "include/rmw_dds_common/security.hpp", _SECURITY.read_text(encoding="utf-8"))
    rmw = ros.packages["rmw"].split(".")
    flags = (
        *(*CPP, f"-I{build / 'include'}", *(f"-I{x}" for x in header_folders(root))),
        *(f"-isystem{x}" for x in cyclone.include),
        *(f"-DRMW_VERSION_{x}={y}" for x, y in zip(("MAJOR", "MINOR", "PATCH"), rmw, strict=True)),
    )
    objects = [
        Step(build / f"{file.name}.o", (*cyclone.compiler, *flags, "-c", str(file)))
        for file in listed(tree)
    ]
    run_steps(objects, what=NAME, log=log, note=note)
    shared = (*cyclone.compiler, "-shared")
    search = [root / "lib", *bundled(root)]
    library = Step(
        prefix / "lib" / soname(NAME),
        (
            *(*shared, f"-Wl,-soname,{soname(NAME)}", "-pthread", *(str(x.makes) for x in objects)),
            *(f"-L{root / 'lib'}", "-Wl,--disable-new-dtags"),
            *(f"-Wl,-rpath,{folder}" for folder in search),
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            *(f"-l:{soname(name)}" for name in _LINKED),
            "-lddsc",
        ),
    )
    # Not named like those that they replace, so that nothing takes them for these.
    replacing = [
        Step(
            prefix / "lib" / f"no_{name.removeprefix('lib')}",
            (*shared, "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "/dev/null"),
        )
        for pattern in _REPLACED
        for name in sorted(x.name for x in (root / "lib").glob(pattern))
    ]
    run_steps([library, *replacing], what=f"the library {NAME}", log=log, note=lambda _: None)
    return dict(described(prefix, [tree])) | {"cyclonedds": cyclone.version}
