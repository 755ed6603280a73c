"""Build a third middleware for the embedded ROS 2: rmw_zenoh_cpp on Zenoh, compiled by cargo.

zenoh-c names the repository of Zenoh's crates at its release; the crates of that release are
fetched from the registry that cargo uses.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import write_atomically
from roslens.tracing.ros.compiling import find_cpp_compiler, named_compiler, run_logged
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.middleware import REPLACED, compile_library, with_library
from roslens.tracing.ros.packages import (
    CPP,
    LOG,
    Note,
    build_once,
    described,
    listed,
    prefix_of,
    soname,
)
from roslens.tracing.sources import obtain, pinned

NAME = "rmw_zenoh_cpp"
SOURCES = ("rmw_zenoh", "zenoh_c", "zenoh_cpp")
SPACE = 1_500_000_000
"""Bytes that the build needs temporarily."""
_FEATURES = ("unstable", "shared-memory", "transport_tcp", "transport_udp")
# zenoh-c's own profile optimizes all crates as one, which takes longer. The sizes of types are
# measured with the dev profile, in which static_init does not compile with assertions.
_PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
}
# From its own CMakeLists.txt.
_LINKED = (
    *("ament_index_cpp", "fastcdr", "rcpputils", "rcutils", "rmw", "tracetools", "zenohc"),
    *("rosidl_runtime_c", "rosidl_typesupport_fastrtps_c", "rosidl_typesupport_fastrtps_cpp"),
)
# Discovery without a router, by multicast on this machine, unless the user's variables say how.
_DISCOVERY = {
    "ZENOH_CONFIG_OVERRIDE": (
        "connect/endpoints=[];"
        'scouting/multicast/enabled=true;scouting/multicast/interface="127.0.0.1"'
    ),
    "ZENOH_ROUTER_CHECK_ATTEMPTS": "-1",
}
_OTHERS = ("rmw_test_fixture.cpp", "main.cpp")
"""Source files that do not belong to the library."""


def zenoh_for(ros: RosEnvironment, note: Note = lambda _: None) -> RosEnvironment:
    """Return the embedded ROS 2 with Zenoh as well as Fast DDS, compiling it if needed.

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
        The content of ``$ROSLENS_SOURCES`` is not as expected, or lacks a source.
    RunFailedError
        cargo, a compiler, disk space or a source is missing, or compiling fails.
    """
    if NAME in ros.middlewares:
        return ros
    cargo = named_compiler("CARGO", "cargo")
    if not cargo:
        raise RunFailedError(f"no cargo, with which Zenoh is compiled for {NAME}; install Rust")
    compiler = find_cpp_compiler()
    parts = (repr((CPP, _FEATURES, _PROFILE, _LINKED, REPLACED)),)
    digests = (pinned()[name].sha256 for name in SOURCES)
    prefix = prefix_of("zenoh", ros, [compiler, cargo], (*parts, *digests))

    def build() -> dict[str, str]:
        trees = {name: obtain(name, note) for name in SOURCES}
        note("compiling Zenoh for the embedded ROS 2, once: some minutes")
        headers = _compile_zenoh(prefix, trees["zenoh_c"], cargo)
        files = [file for file in listed(trees["rmw_zenoh"]) if file.name not in _OTHERS]
        include = (
            f"-I{folder}"
            for folder in (
                headers,
                *(trees[name] / "include" for name in ("zenoh_cpp", "rmw_zenoh")),
            )
        )
        compile_library(
            *(prefix, ros, compiler, NAME),
            files=files,
            flags=("-DZENOHCXX_ZENOHC", *include),
            linked=[f"-l:{soname(name)}" for name in _LINKED],
            note=note,
        )
        config = prefix / "share" / NAME / "config"
        shutil.copytree(trees["rmw_zenoh"] / "config", config, dirs_exist_ok=True)
        version = (trees["zenoh_c"] / "version.txt").read_text(encoding="utf-8").strip()
        return dict(described(prefix, [trees["rmw_zenoh"]])) | {"zenoh-c": version}

    build_once(prefix, NAME, SPACE, build)
    extended = with_library(ros, prefix, NAME)
    discovery = {} if any(name.startswith("ZENOH_") for name in os.environ) else _DISCOVERY
    return replace(extended, variables={**extended.variables, **discovery})


def _compile_zenoh(prefix: Path, tree: Path, cargo: list[str]) -> Path:
    """Build zenoh-c's library into ``lib``; return the folder of its headers."""
    folder = prefix / "build" / "zenoh-c"
    shutil.copytree(tree, folder, dirs_exist_ok=True)
    types = folder / "build-resources" / "opaque-types"
    for crate in (folder, types):
        _edit(crate / "Cargo.toml", r'"([\d.]+)", git = "[^"]*", branch = "[^"]*"', r'"=\1"')
        _edit(crate / "Cargo.lock", r'(?s)\[\[package\]\](?:(?!\n\n).)*?source = "git\+.*?\n\n', "")
    # Otherwise these would compile Zenoh a second and third time, with all its transports.
    enabled = "".join(f" zenoh/{feature}" for feature in _FEATURES)
    _edit(folder / "Cargo.toml", r"(?<=\[build-dependencies\]\n)zenoh = .*\n", "")
    _edit(folder / "buildrs" / "common_helpers.rs", r"zenoh::FEATURES", f'"{enabled}"')
    _edit(types / "Cargo.toml", r'"zenoh/default"', "")
    _edit(folder / "buildrs" / "opaque_types_generator.rs", r'"build"', '"check"')
    target = prefix / "build" / "target"
    command = (
        *(*cargo, "rustc", "--release", "--lib", "--crate-type", "cdylib"),
        *("--manifest-path", str(folder / "Cargo.toml"), "--target-dir", str(target)),
        *("--no-default-features", "--features", ",".join(_FEATURES)),
    )
    run_logged(command, prefix / LOG, "Zenoh", {**os.environ, **_PROFILE})
    (prefix / "lib").mkdir(exist_ok=True)
    shutil.copy(target / "release" / soname("zenohc"), prefix / "lib")
    return folder / "include"


def _edit(file: Path, pattern: str, text: str) -> None:
    write_atomically(file, re.sub(pattern, text, file.read_text(encoding="utf-8")))
