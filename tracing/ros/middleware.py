"""Compile middlewares for the embedded ROS 2: the common part.

The wheels have no rmw_implementation that loads the requested middleware: their rcl is linked with
Fast DDS's. So programs preload another middleware, and empty libraries in place of Fast DDS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from roslens.tracing.ros.compiling import Step, run_steps
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.packages import CPP, LOG, bundled, header_folders, soname, with_prefix

# Libraries of Fast DDS that rcl names.
REPLACED = ("librmw_fastrtps_cpp.so", "librmw_fastrtps_shared_cpp.so", "libfastdds.so.[0-9].[0-9]")


def with_library(ros: RosEnvironment, prefix: Path, name: str) -> RosEnvironment:
    """Return the embedded ROS 2 with one more middleware; Fast DDS remains the one in use."""
    replacing = sorted((prefix / "lib").glob("no_*.so*"))
    library = (prefix / "lib" / soname(name), *replacing)
    return replace(with_prefix(ros, prefix), middlewares={**ros.middlewares, name: library})


def compile_library(
    prefix: Path,
    ros: RosEnvironment,
    compiler: Sequence[str],
    name: str,
    *,
    files: Sequence[Path],
    flags: Sequence[str],
    linked: Sequence[str],
    note: Callable[[str], None],
) -> None:
    """Compile a middleware into ``lib`` of a prefix, and the replacements of Fast DDS.

    Parameters
    ----------
    prefix
        The middleware's folder; the objects go into ``build``.
    ros
        The embedded ROS 2.
    compiler
        The command of the C++ compiler.
    name
        The middleware's name, which the library gets.
    files
        The C++ source files.
    flags
        Compiler flags, placed before the folders of ROS's own headers.
    linked
        Libraries that it is linked with.
    note
        Called with a line when a step begins, and with its progress.

    Raises
    ------
    RunFailedError
        Compiling fails.
    """
    build, log, root = prefix / "build", prefix / LOG, ros.python.parents[1]
    rmw = ros.packages["rmw"].split(".")
    every = (
        *(*CPP, *flags, *(f"-I{folder}" for folder in header_folders(root))),
        *(
            f"-DRMW_VERSION_{part}={number}"
            for part, number in zip(("MAJOR", "MINOR", "PATCH"), rmw, strict=True)
        ),
    )
    objects = [
        Step(build / f"{file.name}.o", (*compiler, *every, "-c", str(file))) for file in files
    ]
    run_steps(objects, what=name, log=log, note=note)
    shared = (*compiler, "-shared")
    search = [root / "lib", *bundled(root)]
    library = Step(
        prefix / "lib" / soname(name),
        (
            *(
                *shared,
                f"-Wl,-soname,{soname(name)}",
                "-pthread",
                *(str(step.product) for step in objects),
            ),
            *(f"-L{prefix / 'lib'}", f"-L{root / 'lib'}", "-Wl,--disable-new-dtags"),
            *(f"-Wl,-rpath,{folder}" for folder in (prefix / "lib", *search)),
            *("-Wl,--unresolved-symbols=ignore-in-shared-libs", *linked),
        ),
    )
    # Named differently from the replaced libraries, so that nothing mistakes them for these.
    replacing = [
        Step(
            prefix / "lib" / f"no_{name.removeprefix('lib')}",
            (*shared, "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "/dev/null"),
        )
        for pattern in REPLACED
        for name in sorted(path.name for path in (root / "lib").glob(pattern))
    ]
    run_steps([library, *replacing], what=f"the library {name}", log=log, note=lambda _: None)
