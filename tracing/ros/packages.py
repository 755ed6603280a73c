"""Packages of C++ compiled on demand without their CMake files: once, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import shipped, write_atomically
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.ros.compiling import need_space, run_logged
from roslens.tracing.ros.environment import RosEnvironment, install_command

MARKER = "roslens-complete"
LOG = "build.log"
MANIFEST = "package.xml"
AMENT_INDEX = Path("share/ament_index/resource_index")
_COMMON = ("-O2", "-fPIC", "-DNDEBUG", "-w")
CPP, C = ("-std=c++17", *_COMMON), ("-std=gnu11", *_COMMON)
FILES_AT_ONCE = 12
GENERATORS = shipped("requirements", "ros-generators.txt")
"""Packages that generators of interfaces need."""

Note = Callable[[str], None]


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


def prefix_of(
    name: str, ros: RosEnvironment, compilers: Sequence[Sequence[str]], parts: Sequence[str]
) -> Path:
    """The folder of what is compiled for an embedded ROS 2; named after all that goes into it."""
    versions = [
        subprocess.run(
            [*compiler, "--version"], text=True, capture_output=True, check=False
        ).stdout.partition("\n")[0]
        for compiler in compilers
    ]
    made_of = (ros.python.parents[1].name, *versions, *parts)
    key = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:12]
    return cache_folder() / "ros" / f"{name}-{ros.distro}-{key}"


def made_once(prefix: Path, what: str, space: int, build: Callable[[], dict[str, str]]) -> None:
    """Fill a prefix unless it is complete; one at a time does it.

    Parameters
    ----------
    prefix
        Its folder.
    what
        What is compiled, for people.
    space
        Bytes that it needs while it lasts.
    build
        Compiles it and returns packages with their versions. What it leaves in ``build`` is
        removed when it is complete.

    Raises
    ------
    RunFailedError
        There is no space, or what `build` raises.
    """
    if cached_file(prefix / MARKER):
        return
    with locked(prefix.with_name(prefix.name + ".lock")):
        if (prefix / MARKER).is_file():
            return
        private_folder(prefix)
        need_space(prefix, space, f"compiling {what}")
        begun = time.monotonic()
        packages = build()
        facts = Facts(packages, round(time.monotonic() - begun, 1))
        shutil.rmtree(prefix / "build")
        # Written last: what lies there without it is gone on with.
        write_atomically(prefix / MARKER, json.dumps(asdict(facts)))


@dataclass(frozen=True)
class Facts:
    """What was written when a prefix was complete.

    Attributes
    ----------
    packages
        Versions by name.
    seconds
        That it took.
    """

    packages: dict[str, str]
    seconds: float


def facts_of(prefix: Path) -> Facts:
    """The facts of a complete prefix."""
    return Facts(**json.loads((prefix / MARKER).read_text(encoding="utf-8")))


def existing() -> Iterator[Path]:
    """The folders of all that was compiled so far, complete or not."""
    for name in ("rclcpp", "cyclonedds", "zenoh", "rosbag2", "micro-ros"):
        yield from sorted(
            folder for folder in cache_folder().glob(f"ros/{name}-*") if folder.is_dir()
        )


def generating(ros: RosEnvironment, tools: Path, log: Path) -> dict[str, str]:
    """The variables with which the embedded Python has what generators of interfaces need.

    Parameters
    ----------
    tools
        The folder that it is put into, anew.
    log
        What is said meanwhile.

    Raises
    ------
    RunFailedError
        It cannot be had.
    """
    shutil.rmtree(tools, ignore_errors=True)
    unwanted = {"LD_PRELOAD", "VIRTUAL_ENV", "PYTHONPATH"}
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    run_logged(
        [
            *install_command(ros.python),
            *("--no-deps", "--require-hashes", "--target", str(tools), "-r", str(GENERATORS)),
        ],
        log,
        "what the generators need (is a Python package index reachable?)",
        environment,
    )
    return environment | {"PYTHONPATH": str(tools)}


def bundled(root: Path) -> list[Path]:
    """The folders of libraries that the wheels of an embedded ROS 2 bring for themselves."""
    return sorted(root.glob("lib/python*/site-packages/ros_*.libs"))


def header_folders(root: Path) -> list[Path]:
    """The folders of headers of an embedded ROS 2."""
    include = root / "include"
    # Fast CDR lies in the root itself.
    return [*(folder for folder in sorted(include.iterdir()) if folder.is_dir()), include]


def listed(package: Path) -> list[Path]:
    """The files that a package's own CMakeLists.txt compiles: not all that lie there."""
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    names = re.findall(r"^\s*(src/\S+?\.cpp)\)?\s*$", text, re.MULTILINE)
    return [package / name for name in dict.fromkeys(names)]


def joined(files: Sequence[Path], folder: Path) -> list[Path]:
    """Files that include several each: their common headers are then read once for all."""
    folder.mkdir(exist_ok=True)
    paths = []
    for begin in range(0, len(files), FILES_AT_ONCE):
        together = files[begin : begin + FILES_AT_ONCE]
        paths.append(folder / f"{folder.name}-{begin}.cpp")
        write_atomically(paths[-1], "".join(f'#include "{file}"\n' for file in together))
    return paths


def soname(name: str) -> str:
    """The file name of a library."""
    return f"lib{name.removeprefix('lib')}.so"


def described(prefix: Path, packages: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Name and version of packages, whose descriptions are put where ament looks for them."""
    for package in packages:
        name, version = version_of(package / MANIFEST)
        put(prefix / "share" / name / MANIFEST, (package / MANIFEST).read_text(encoding="utf-8"))
        put(prefix / AMENT_INDEX / "packages" / name, "")
        yield name, version


def put(file: Path, text: str) -> None:
    """Write a file of a prefix, whose folder may not be there yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)


def version_of(manifest: Path) -> tuple[str, str]:
    """Name and version by a package's ``package.xml``.

    Raises
    ------
    RunFailedError
        It has none.
    """
    text = manifest.read_text(encoding="utf-8")
    match = re.search(r"<name>\s*(\S+?)\s*</name>\s*<version[^>]*>\s*([^<\s]+)", text)
    if match is None:
        raise RunFailedError(f"{manifest}: has no name and version")
    return match[1], match[2]
