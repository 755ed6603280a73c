"""Compile C++ packages on demand without their CMake files: once, completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
"""Packages that the interface generators need."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Library:
    """A C++ library and the places of its files.

    Attributes
    ----------
    name
        The name of the library and of its package.
    source
        The name in the table of pinned sources.
    folder
        The package's folder inside the source.
    before
        A header of our own that it is compiled with.
    """

    name: str
    source: str
    folder: str = "."
    before: Path | None = None


def prefix_of(
    name: str, ros: RosEnvironment, compilers: Sequence[Sequence[str]], parts: Sequence[str]
) -> Path:
    """Return the folder of a build for an embedded ROS 2; its name depends on all inputs."""
    versions = [
        subprocess.run(
            [*compiler, "--version"], text=True, capture_output=True, check=False
        ).stdout.partition("\n")[0]
        for compiler in compilers
    ]
    made_of = (ros.python.parents[1].name, *versions, *parts)
    key = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:12]
    return cache_folder() / "ros" / f"{name}-{ros.distro}-{key}"


def build_once(prefix: Path, what: str, space: int, build: Callable[[], dict[str, str]]) -> None:
    """Fill a prefix unless it is complete; only one process at a time does this.

    Parameters
    ----------
    prefix
        The folder of the prefix.
    what
        A description of the build for messages.
    space
        Bytes that the build needs temporarily.
    build
        Compiles and returns the packages with their versions. Its folder ``build`` is removed when
        the prefix is complete.

    Raises
    ------
    RunFailedError
        There is not enough space, or `build` raises this error.
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
        # Written last: a prefix without the marker is continued.
        write_atomically(prefix / MARKER, json.dumps(asdict(facts)))


@dataclass(frozen=True)
class Facts:
    """The facts that are written when a prefix is complete.

    Attributes
    ----------
    packages
        Versions by package name.
    seconds
        Seconds that the build took.
    """

    packages: dict[str, str]
    seconds: float


def facts_of(prefix: Path) -> Facts:
    """Return the facts of a complete prefix."""
    return Facts(**json.loads((prefix / MARKER).read_text(encoding="utf-8")))


def with_prefix(ros: RosEnvironment, prefix: Path) -> RosEnvironment:
    """Return the embedded ROS 2 with the packages of a complete prefix."""
    paths = f"{prefix}:{ros.variables['AMENT_PREFIX_PATH']}"
    return replace(
        ros,
        variables={**ros.variables, "AMENT_PREFIX_PATH": paths},
        packages={**ros.packages, **facts_of(prefix).packages},
    )


def existing() -> Iterator[Path]:
    """Yield the folders of all builds, complete or not."""
    for name in ("rclcpp", "cyclonedds", "zenoh", "rosbag2", "micro-ros"):
        yield from sorted(
            folder for folder in cache_folder().glob(f"ros/{name}-*") if folder.is_dir()
        )


def generating(ros: RosEnvironment, tools: Path, log: Path) -> dict[str, str]:
    """Install what interface generators need; return the variables by which Python finds it.

    Parameters
    ----------
    tools
        The folder for the packages, which is created anew.
    log
        The log of the installation.

    Raises
    ------
    RunFailedError
        The packages cannot be installed.
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
    """Return the folders of the libraries that the wheels of an embedded ROS 2 bundle."""
    return sorted(root.glob("lib/python*/site-packages/ros_*.libs"))


def header_folders(root: Path) -> list[Path]:
    """Return the header folders of an embedded ROS 2."""
    include = root / "include"
    # The headers of Fast CDR are in the root itself.
    return [*(folder for folder in sorted(include.iterdir()) if folder.is_dir()), include]


def listed(package: Path) -> list[Path]:
    """Return the files that a package's own CMakeLists.txt compiles, which may not be all files."""
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    names = re.findall(r"^\s*(src/\S+?\.cpp)\)?\s*$", text, re.MULTILINE)
    return [package / name for name in dict.fromkeys(names)]


def joined(files: Sequence[Path], folder: Path) -> list[Path]:
    """Write files that include several others each, so that common headers are read once."""
    folder.mkdir(exist_ok=True)
    paths = []
    for begin in range(0, len(files), FILES_AT_ONCE):
        together = files[begin : begin + FILES_AT_ONCE]
        paths.append(folder / f"{folder.name}-{begin}.cpp")
        write_atomically(paths[-1], "".join(f'#include "{file}"\n' for file in together))
    return paths


def soname(name: str) -> str:
    """Return the file name of a library."""
    return f"lib{name.removeprefix('lib')}.so"


def described(prefix: Path, packages: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield name and version of packages, and put their descriptions where ament finds them."""
    for package in packages:
        name, version = version_of(package / MANIFEST)
        put(prefix / "share" / name / MANIFEST, (package / MANIFEST).read_text(encoding="utf-8"))
        put(prefix / AMENT_INDEX / "packages" / name, "")
        yield name, version


def put(file: Path, text: str) -> None:
    """Write a file of a prefix, creating its folder if missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)


def version_of(manifest: Path) -> tuple[str, str]:
    """Return name and version from a package's ``package.xml``.

    Raises
    ------
    RunFailedError
        The file states no name or no version.
    """
    text = manifest.read_text(encoding="utf-8")
    match = re.search(r"<name>\s*(\S+?)\s*</name>\s*<version[^>]*>\s*([^<\s]+)", text)
    if match is None:
        raise RunFailedError(f"{manifest}: has no name and version")
    return match[1], match[2]
