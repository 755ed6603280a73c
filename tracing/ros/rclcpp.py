"""rclcpp for the embedded ROS 2, which has everything below it: compiled once, from public sources.

The result is a prefix beside the embedded ROS, made of the sources of `roslens.tracing.sources`
without their CMake files, so that a compiler is all that a machine needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    bundled,
    described,
    facts_of,
    generating,
    header_folders,
    joined,
    listed,
    made_once,
    prefix_of,
    soname,
)
from roslens.tracing.sources import obtain, pinned

SPACE = 600_000_000
"""Bytes that the build needs while it lasts."""
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
    """An rclcpp and what belongs to it, compiled for one embedded ROS 2.

    Attributes
    ----------
    prefix
        Its folder, with ``include``, ``lib`` and ``share``.
    ros
        The embedded ROS 2's folder.
    compiler
        What made it.
    """

    prefix: Path
    ros: Path
    compiler: tuple[str, ...]

    def compile_flags(self) -> list[str]:
        """What a program in C++ that uses it is compiled with."""
        folders = [*sorted((self.prefix / "include").iterdir()), *header_folders(self.ros)]
        return [*CPP, *(f"-I{folder}" for folder in folders)]

    def link_flags(self) -> list[str]:
        """What such a program is linked with; it then runs without further variables."""
        # A path of the program that holds for the libraries of its libraries, too: the wheels'
        # own do not find each other.
        search = [self.prefix / "lib", self.ros / "lib", *bundled(self.ros)]
        own = sorted(x.name for x in (self.prefix / "lib").glob("*.so"))
        return [
            *(f"-L{self.prefix / 'lib'}", f"-L{self.ros / 'lib'}", "-pthread"),
            "-Wl,--disable-new-dtags",
            *(f"-Wl,-rpath,{folder}" for folder in search),
            # Those of the wheels name more than they need.
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            # The code of an interface is in several libraries, of which only the first is named.
            *("-Wl,--no-as-needed", *(f"-l:{x}" for x in own if x.startswith(f"lib{_MESSAGES}"))),
            *("-Wl,--as-needed", *(f"-l:{x}" for x in own if "generator_py" not in x)),
            *_wheel_libraries(self.ros),
        ]

    def environment(self, ros: RosEnvironment) -> RosEnvironment:
        """The embedded ROS 2 with it."""
        packages = facts_of(self.prefix).packages
        paths = f"{self.prefix}:{ros.variables['AMENT_PREFIX_PATH']}"
        return replace(
            ros,
            variables={**ros.variables, "AMENT_PREFIX_PATH": paths},
            packages={**ros.packages, **packages},
        )


def rclcpp_for(ros: RosEnvironment, note: Note = lambda _: None) -> Rclcpp:
    """Find the rclcpp of the embedded ROS 2, compiled if it is not there yet.

    Parameters
    ----------
    ros
        The embedded ROS 2.
    note
        Called with one line when a step begins, and with how far it is.

    Raises
    ------
    UsageError
        What lies in ``$ROSLENS_SOURCES`` is not what is wanted.
    RunFailedError
        There is no compiler, no space, no source, or it does not compile.
    """
    compiler = tuple(find_cpp_compiler())
    found = Rclcpp(_prefix(ros, compiler), ros.python.parents[1], compiler)

    def build() -> dict[str, str]:
        trees = {name: obtain(name, note) for name in SOURCES}
        note("compiling rclcpp for the embedded ROS 2, once: some minutes")
        return _build(found, ros, trees, note)

    made_once(found.prefix, "rclcpp", SPACE, build)
    return found


def _prefix(ros: RosEnvironment, compiler: tuple[str, ...]) -> Path:
    """Where it lies."""
    parts = (
        repr(([x.name for x in LIBRARIES], CPP, C, FILES_AT_ONCE)),
        *(pinned()[name].sha256 for name in SOURCES),
        *(x.before.read_text(encoding="utf-8") for x in LIBRARIES if x.before),
        _GENERATE.read_text(encoding="utf-8"),
        GENERATORS.read_text(encoding="utf-8"),
    )
    return prefix_of("rclcpp", ros, [compiler], parts)


def _build(
    made: Rclcpp, ros: RosEnvironment, trees: Mapping[str, Path], note: Note
) -> dict[str, str]:
    prefix, build, log = made.prefix, made.prefix / "build", made.prefix / LOG
    build.mkdir(exist_ok=True)
    messages = trees["rcl_interfaces"] / _MESSAGES
    note("making the code of interfaces")
    code = _generated(made, ros, trees, log)
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
    flags = made.compile_flags()
    before = {x.name: ("-include", str(x.before)) for x in LIBRARIES if x.before}
    steps: list[Step] = []
    objects: dict[str, list[Path]] = {}
    for name, files in groups.items():
        objects[name] = []
        for file in files:
            kind = [*C, *flags[len(CPP) :]] if file.suffix == ".c" else flags
            target = build / name / f"{file.parent.name}-{file.name}.o"
            options = [*_language(file), *kind, *before.get(name, ())]
            steps.append(Step(target, (*made.compiler, *options, "-c", str(file))))
            objects[name].append(target)
    run_steps(steps, what="rclcpp", log=log, note=note)
    note("linking rclcpp")
    libraries = [
        Step(
            prefix / "lib" / soname(name),
            (
                *(*made.compiler, "-shared", f"-Wl,-soname,{soname(name)}", "-pthread"),
                *map(str, files),
            ),
        )
        for name, files in objects.items()
    ]
    run_steps([*libraries, *_empty(made)], what="libraries of rclcpp", log=log, note=lambda _: None)
    packages = [trees[library.source] / library.folder for library in LIBRARIES]
    return dict(described(prefix, [*packages, messages]))


def _language(file: Path) -> tuple[str, ...]:
    return ("-x", "c") if file.suffix == ".c" else ()


def _generated(
    made: Rclcpp,
    ros: RosEnvironment,
    trees: Mapping[str, Path],
    log: Path,
) -> Path:
    """Code of messages that the wheels do not have, and rclcpp's headers made from templates."""
    build = made.prefix / "build"
    code, done = build / "generated", build / "generated-complete"
    if done.is_file():
        return code
    shutil.rmtree(code, ignore_errors=True)
    own = generating(ros, build / "tools", log)
    environment = {**own, **ros.variables, "PYTHONPATH": own["PYTHONPATH"]}

    def generate(*arguments: str) -> None:
        command = [str(ros.python), str(_GENERATE), *arguments]
        run_logged(command, log, "the code of interfaces", environment)

    generate(
        "interfaces", str(made.ros / "share"), str(trees["rcl_interfaces"] / _MESSAGES), str(code)
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
    """Files of generated code by the library that they belong to."""
    files = sorted(code.rglob("*.c*"))

    def of(kind: str) -> list[Path]:
        return [x for x in files if x.parent.name == kind]

    c = [x for x in files if x.suffix == ".c"]
    return {
        f"{_MESSAGES}__rosidl_generator_c": c,
        f"{_MESSAGES}__rosidl_typesupport_cpp": of("msg"),
        f"{_MESSAGES}__rosidl_typesupport_fastrtps_cpp": of("dds_fastrtps"),
    }


def _empty(made: Rclcpp) -> list[Step]:
    """Libraries of the wheels that only Python needs, but that others name: empty ones."""
    command = (*made.compiler, "-shared", "-fPIC", "-x", "c", os.devnull)
    return [
        Step(made.prefix / "lib" / library.name, command)
        for library in sorted((made.ros / "lib").glob("*__rosidl_generator_py.so"))
    ]


def _wheel_libraries(ros: Path) -> list[str]:
    """All of the wheels' that C++ may need; the linker takes those that it does."""
    libraries = sorted(x.name for x in (ros / "lib").glob("lib*.so"))
    return [f"-l:{x}" for x in libraries if "generator_py" not in x and "introspection" not in x]
