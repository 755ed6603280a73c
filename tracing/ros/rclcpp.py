"""Compile rclcpp for the embedded ROS 2, which has everything below it, once from public sources.

The result is a prefix next to the embedded ROS, built from `roslens.tracing.sources` without their
CMake files, so that a machine needs only a compiler.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roslens.recording.files import shipped
from roslens.tracing.ros.compiling import Step, find_cpp_compiler, run_logged, run_steps
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.packages import (
    CPP,
    FILES_AT_ONCE,
    GENERATORS,
    LOG,
    C,
    Library,
    Note,
    build_once,
    bundled,
    described,
    generating,
    header_folders,
    joined,
    listed,
    prefix_of,
    soname,
)
from roslens.tracing.sources import obtain, pinned

SPACE = 600_000_000
"""Bytes that the build needs temporarily."""
_GENERATE = shipped("tracing", "ros", "generate_interfaces.py")
_CLOCK_WAITER = shipped("tracing", "ros", "clock_waiter.hpp")
_MESSAGES = "statistics_msgs"


LIBRARIES = (
    Library("libstatistics_collector", "libstatistics_collector"),
    Library("rclcpp", "rclcpp", "rclcpp"),
    Library("rclcpp_action", "rclcpp", "rclcpp_action"),
    Library("rclcpp_lifecycle", "rclcpp", "rclcpp_lifecycle"),
    Library("cm_executors", "cm_executors", before=_CLOCK_WAITER),
)
SOURCES = ("libstatistics_collector", "rclcpp", "cm_executors", "rcl_interfaces")


@dataclass(frozen=True)
class Rclcpp:
    """An rclcpp and its related packages, compiled for one embedded ROS 2.

    Attributes
    ----------
    prefix
        The folder with ``include``, ``lib`` and ``share``.
    ros
        The folder of the embedded ROS 2.
    compiler
        The command of the compiler that built it.
    """

    prefix: Path
    ros: Path
    compiler: tuple[str, ...]

    def compile_flags(self) -> list[str]:
        """Return the compiler flags for a C++ program that uses this rclcpp."""
        folders = [*sorted((self.prefix / "include").iterdir()), *header_folders(self.ros)]
        return [*CPP, *(f"-I{folder}" for folder in folders)]

    def link_flags(self) -> list[str]:
        """Return linker flags for such a program, which then runs without further variables."""
        # A search path that also applies to the libraries' own dependencies, because the wheels'
        # libraries do not find each other.
        search = [self.prefix / "lib", self.ros / "lib", *bundled(self.ros)]
        names = sorted(path.name for path in (self.prefix / "lib").glob("*.so"))
        return [
            *(f"-L{self.prefix / 'lib'}", f"-L{self.ros / 'lib'}", "-pthread"),
            "-Wl,--disable-new-dtags",
            *(f"-Wl,-rpath,{folder}" for folder in search),
            # The wheels' libraries name more dependencies than they need.
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            # An interface's code is spread over several libraries, of which only the first is
            # named.
            *(
                "-Wl,--no-as-needed",
                *(f"-l:{name}" for name in names if name.startswith(f"lib{_MESSAGES}")),
            ),
            *("-Wl,--as-needed", *(f"-l:{name}" for name in names if "generator_py" not in name)),
            *_wheel_libraries(self.ros),
        ]


def rclcpp_for(ros: RosEnvironment, note: Note = lambda _: None) -> Rclcpp:
    """Return the rclcpp of the embedded ROS 2, compiling it if needed.

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
        A compiler, disk space or a source is missing, or compiling fails.
    """
    compiler = tuple(find_cpp_compiler())
    compiled = Rclcpp(_prefix(ros, compiler), ros.python.parents[1], compiler)

    def build() -> dict[str, str]:
        trees = {name: obtain(name, note) for name in SOURCES}
        note("compiling rclcpp for the embedded ROS 2, once: some minutes")
        return _build(compiled, ros, trees, note)

    build_once(compiled.prefix, "rclcpp", SPACE, build)
    return compiled


def _prefix(ros: RosEnvironment, compiler: tuple[str, ...]) -> Path:
    """Return the folder of the compiled rclcpp."""
    parts = (
        repr(([library.name for library in LIBRARIES], CPP, C, FILES_AT_ONCE)),
        *(pinned()[name].sha256 for name in SOURCES),
        *(library.before.read_text(encoding="utf-8") for library in LIBRARIES if library.before),
        _GENERATE.read_text(encoding="utf-8"),
        GENERATORS.read_text(encoding="utf-8"),
    )
    return prefix_of("rclcpp", ros, [compiler], parts)


def _build(
    compiled: Rclcpp, ros: RosEnvironment, trees: Mapping[str, Path], note: Note
) -> dict[str, str]:
    prefix, build, log = compiled.prefix, compiled.prefix / "build", compiled.prefix / LOG
    build.mkdir(exist_ok=True)
    messages = trees["rcl_interfaces"] / _MESSAGES
    note("making the code of interfaces")
    code = _generated(compiled, ros, trees, log)
    include = prefix / "include"
    for library in LIBRARIES:
        folder = trees[library.source] / library.folder / "include"
        shutil.copytree(folder, include / library.name, dirs_exist_ok=True)
    shutil.copytree(code / "rclcpp", include / "rclcpp" / "rclcpp", dirs_exist_ok=True)
    for header in (code / _MESSAGES).rglob("*.h*"):
        place = include / _MESSAGES / header.relative_to(code)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, place)
    groups = {library.name: listed(trees[library.source] / library.folder) for library in LIBRARIES}
    groups = {name: joined(files, build / name) for name, files in groups.items()}
    groups |= _message_groups(code / _MESSAGES)
    flags = compiled.compile_flags()
    before = {
        library.name: ("-include", str(library.before)) for library in LIBRARIES if library.before
    }
    steps: list[Step] = []
    objects: dict[str, list[Path]] = {}
    for name, files in groups.items():
        objects[name] = []
        for file in files:
            kind = ["-x", "c", *C, *flags[len(CPP) :]] if file.suffix == ".c" else flags
            target = build / name / f"{file.parent.name}-{file.name}.o"
            options = (*kind, *before.get(name, ()))
            steps.append(Step(target, (*compiled.compiler, *options, "-c", str(file))))
            objects[name].append(target)
    run_steps(steps, what="rclcpp", log=log, note=note)
    note("linking rclcpp")
    libraries = [
        Step(
            prefix / "lib" / soname(name),
            (
                *(*compiled.compiler, "-shared", f"-Wl,-soname,{soname(name)}", "-pthread"),
                *map(str, files),
            ),
        )
        for name, files in objects.items()
    ]
    run_steps(
        [*libraries, *_empty(compiled)], what="libraries of rclcpp", log=log, note=lambda _: None
    )
    packages = [trees[library.source] / library.folder for library in LIBRARIES]
    return dict(described(prefix, [*packages, messages]))


def _generated(
    compiled: Rclcpp,
    ros: RosEnvironment,
    trees: Mapping[str, Path],
    log: Path,
) -> Path:
    """Generate code of messages that the wheels lack, and rclcpp's headers from templates."""
    build = compiled.prefix / "build"
    code, done = build / "generated", build / "generated-complete"
    if done.is_file():
        return code
    shutil.rmtree(code, ignore_errors=True)
    variables = generating(ros, build / "tools", log)
    environment = {**variables, **ros.variables, "PYTHONPATH": variables["PYTHONPATH"]}

    def generate(*arguments: str) -> None:
        command = [str(ros.python), str(_GENERATE), *arguments]
        run_logged(command, log, "the code of interfaces", environment)

    generate(
        "interfaces",
        str(compiled.ros / "share"),
        str(trees["rcl_interfaces"] / _MESSAGES),
        str(code),
    )
    package = trees["rclcpp"] / "rclcpp"
    resource, target = package / "resource", code / "rclcpp"
    generate("expand", str(resource / "logging.hpp.em"), str(target / "logging.hpp"))
    interfaces = package / "include" / "rclcpp" / "node_interfaces"
    for header in sorted(interfaces.glob("node_*_interface.hpp")):
        name = header.stem
        folder = target / "node_interfaces"
        for template, output in (
            ("interface_traits.hpp.em", f"{name}_traits.hpp"),
            ("get_interface.hpp.em", f"get_{name}.hpp"),
        ):
            source = str(resource / template)
            generate("expand", source, str(folder / output), f"interface_name = {name!r}")
    done.touch()
    return code


def _message_groups(code: Path) -> dict[str, list[Path]]:
    """Return the files of generated code by the library that they belong to."""
    files = sorted(code.rglob("*.c*"))

    def in_folder(kind: str) -> list[Path]:
        return [file for file in files if file.parent.name == kind]

    c = [file for file in files if file.suffix == ".c"]
    return {
        f"{_MESSAGES}__rosidl_generator_c": c,
        f"{_MESSAGES}__rosidl_typesupport_cpp": in_folder("msg"),
        f"{_MESSAGES}__rosidl_typesupport_fastrtps_cpp": in_folder("dds_fastrtps"),
    }


def _empty(compiled: Rclcpp) -> list[Step]:
    """Return steps for empty copies of wheel libraries that only Python needs but others name."""
    command = (*compiled.compiler, "-shared", "-fPIC", "-x", "c", os.devnull)
    return [
        Step(compiled.prefix / "lib" / library.name, command)
        for library in sorted((compiled.ros / "lib").glob("*__rosidl_generator_py.so"))
    ]


def _wheel_libraries(ros: Path) -> list[str]:
    """Return options for all wheel libraries that C++ may need; the linker uses the needed ones."""
    libraries = sorted(path.name for path in (ros / "lib").glob("lib*.so"))
    return [
        f"-l:{name}"
        for name in libraries
        if "generator_py" not in name and "introspection" not in name
    ]
