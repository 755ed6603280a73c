"""rclcpp for the embedded ROS 2, which has everything below it: compiled once, from public sources.

The result is a prefix beside the embedded ROS, made of the sources of `roslens.tracing.sources`
without their CMake files, so that a compiler is all that a machine needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from roslens.tracing.recording import RunFailedError
from roslens.tracing.recording.files import shipped, write_atomically
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.ros.compiling import (
    Step,
    find_cpp_compiler,
    need_space,
    run_logged,
    run_steps,
)
from roslens.tracing.ros.environment import RosEnvironment, install_command
from roslens.tracing.sources import obtain, pinned

MARKER = "roslens-complete"
LOG = "build.log"
SPACE = 600_000_000
"""Bytes that the build needs while it lasts."""
_GENERATORS = shipped("requirements", "ros-generators.txt")
_GENERATE = shipped("tracing", "ros", "generate_interfaces.py")
_CLOCK_WAITER = shipped("tracing", "ros", "clock_waiter.hpp")
_COMMON = ("-O2", "-fPIC", "-DNDEBUG", "-w")
_CPP, _C = ("-std=c++17", *_COMMON), ("-std=gnu11", *_COMMON)
_MESSAGES = "statistics_msgs"
_FILES_AT_ONCE = 12


@dataclass(frozen=True)
class Library:
    """A library of C++ and where its files lie.

    Attributes
    ----------
    name
        Its name and its package's.
    source
        In the table of pinned sources.
    folder
        Of the package, below the source.
    before
        A header of ours that it is compiled with.
    """

    name: str
    source: str
    folder: str = "."
    before: Path | None = None


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

    @property
    def facts(self) -> dict[str, object]:
        """What was written when it was complete: ``packages`` with versions, ``seconds``."""
        found: dict[str, object] = json.loads((self.prefix / MARKER).read_text(encoding="utf-8"))
        return found

    def compile_flags(self) -> list[str]:
        """What a program in C++ that uses it is compiled with."""
        folders = [*sorted((self.prefix / "include").iterdir()), *_folders(self.ros)]
        return [*_CPP, *(f"-I{folder}" for folder in folders)]

    def link_flags(self) -> list[str]:
        """What such a program is linked with; it then runs without further variables."""
        # A path of the program that holds for the libraries of its libraries, too: the wheels'
        # own do not find each other.
        search = [self.prefix / "lib", self.ros / "lib", *_bundled(self.ros)]
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
        packages = self.facts["packages"]
        assert isinstance(packages, dict)
        paths = f"{self.prefix}:{ros.variables['AMENT_PREFIX_PATH']}"
        return replace(
            ros,
            variables={**ros.variables, "AMENT_PREFIX_PATH": paths},
            packages={**ros.packages, **packages},
        )


def rclcpp_for(
    ros: RosEnvironment, note: Callable[[str], None] = lambda _: None, sources: Path | None = None
) -> Rclcpp:
    """Find the rclcpp of the embedded ROS 2, compiled if it is not there yet.

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
        There is no compiler, no space, no source, or it does not compile.
    """
    compiler = tuple(find_cpp_compiler())
    found = Rclcpp(_prefix(ros, compiler), ros.python.parents[1], compiler)
    if cached_file(found.prefix / MARKER):
        return found
    with locked(found.prefix.with_name(found.prefix.name + ".lock")):
        if not (found.prefix / MARKER).is_file():
            private_folder(found.prefix)
            need_space(found.prefix, SPACE, "compiling rclcpp")
            begun = time.monotonic()
            trees = {name: obtain(name, sources, note) for name in SOURCES}
            note("compiling rclcpp for the embedded ROS 2, once: some minutes")
            packages = _build(found, ros, trees, note)
            facts = {"packages": packages, "seconds": round(time.monotonic() - begun, 1)}
            shutil.rmtree(found.prefix / "build")
            # Written last: what lies there without it is gone on with.
            write_atomically(found.prefix / MARKER, json.dumps(facts))
    return found


def existing() -> Iterator[Path]:
    """The folders of all that was compiled so far, complete or not."""
    yield from sorted(x for x in cache_folder().glob("ros/rclcpp-*") if x.is_dir())


def _prefix(ros: RosEnvironment, compiler: tuple[str, ...]) -> Path:
    """Where it lies: the name tells of all that went into it."""
    version = subprocess.run(
        [*compiler, "--version"], text=True, capture_output=True, check=False
    ).stdout.partition("\n")[0]
    parts = (
        ros.python.parents[1].name,
        version,
        repr(([x.name for x in LIBRARIES], _CPP, _C, _FILES_AT_ONCE)),
        *(pinned()[name].sha256 for name in SOURCES),
        *(x.before.read_text(encoding="utf-8") for x in LIBRARIES if x.before),
        _GENERATE.read_text(encoding="utf-8"),
        _GENERATORS.read_text(encoding="utf-8"),
    )
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_folder() / "ros" / f"rclcpp-{ros.distro}-{key}"


def _build(
    made: Rclcpp, ros: RosEnvironment, trees: Mapping[str, Path], note: Callable[[str], None]
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
    groups = {
        library.name: _listed(trees[library.source] / library.folder) for library in LIBRARIES
    }
    groups = {name: _joined(files, build / name) for name, files in groups.items()}
    groups |= _message_groups(code / _MESSAGES)
    flags = made.compile_flags()
    before = {x.name: ("-include", str(x.before)) for x in LIBRARIES if x.before}
    steps: list[Step] = []
    objects: dict[str, list[Path]] = {}
    for name, files in groups.items():
        objects[name] = []
        for file in files:
            kind = [*_C, *flags[len(_CPP) :]] if file.suffix == ".c" else flags
            target = build / name / f"{file.parent.name}-{file.name}.o"
            options = [*_language(file), *kind, *before.get(name, ())]
            steps.append(Step(target, (*made.compiler, *options, "-c", str(file))))
            objects[name].append(target)
    run_steps(steps, what="rclcpp", log=log, note=note)
    note("linking rclcpp")
    libraries = [
        Step(
            prefix / "lib" / _soname(name),
            (
                *(*made.compiler, "-shared", f"-Wl,-soname,{_soname(name)}", "-pthread"),
                *map(str, files),
            ),
        )
        for name, files in objects.items()
    ]
    run_steps([*libraries, *_empty(made)], what="libraries of rclcpp", log=log, note=lambda _: None)
    packages = [trees[library.source] / library.folder for library in LIBRARIES]
    return dict(_described(prefix, [*packages, messages]))


def _listed(package: Path) -> list[Path]:
    """The files that a package's own CMakeLists.txt compiles: not all that lie there."""
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    return [package / name for name in re.findall(r"^\s*(src/\S+\.cpp)\s*$", text, re.MULTILINE)]


def _joined(files: list[Path], folder: Path) -> list[Path]:
    """Files that include several each: their common headers are then read once for all."""
    folder.mkdir(exist_ok=True)
    joined = []
    for begin in range(0, len(files), _FILES_AT_ONCE):
        together = files[begin : begin + _FILES_AT_ONCE]
        joined.append(folder / f"{folder.name}-{begin}.cpp")
        write_atomically(joined[-1], "".join(f'#include "{file}"\n' for file in together))
    return joined


def _language(file: Path) -> tuple[str, ...]:
    return ("-x", "c") if file.suffix == ".c" else ()


def _soname(name: str) -> str:
    return f"lib{name.removeprefix('lib')}.so"


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
    tools = build / "tools"
    shutil.rmtree(tools, ignore_errors=True)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in {"LD_PRELOAD", "VIRTUAL_ENV"}},
        **ros.variables,
    }
    environment.pop("PYTHONPATH", None)
    run_logged(
        [
            *install_command(ros.python),
            *("--no-deps", "--require-hashes", "--target", str(tools), "-r", str(_GENERATORS)),
        ],
        log,
        "what the generators need (is a Python package index reachable?)",
        environment,
    )
    environment["PYTHONPATH"] = str(tools)

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


def _described(prefix: Path, packages: list[Path]) -> Iterator[tuple[str, str]]:
    """Name and version of packages, whose descriptions are put where ament looks for them."""
    for package in packages:
        text = (package / "package.xml").read_text(encoding="utf-8")
        found = re.search(r"<name>\s*(\S+?)\s*</name>\s*<version>\s*([^<\s]+)", text)
        if found is None:
            raise RunFailedError(f"{package}/package.xml: has no name and version")
        place = prefix / "share" / found[1]
        place.mkdir(parents=True, exist_ok=True)
        write_atomically(place / "package.xml", text)
        yield found[1], found[2]


def _folders(ros: Path) -> list[Path]:
    # Fast CDR lies in the root itself.
    root = ros / "include"
    return [*(x for x in sorted(root.iterdir()) if x.is_dir()), root]


def _bundled(ros: Path) -> list[Path]:
    return sorted(ros.glob("lib/python*/site-packages/ros_*.libs"))


def _wheel_libraries(ros: Path) -> list[str]:
    """All of the wheels' that C++ may need; the linker takes those that it does."""
    libraries = sorted(x.name for x in (ros / "lib").glob("lib*.so"))
    return [f"-l:{x}" for x in libraries if "generator_py" not in x and "introspection" not in x]
