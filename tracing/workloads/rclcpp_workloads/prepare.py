"""Builds the rclcpp programs with colcon, once, where the sourced ROS 2 does not have them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from roslens.tracing.recording import RunFailedError, UsageError
from roslens.tracing.recording.files import write_atomically
from roslens.tracing.ros.cache import cache_folder, cached_file, locked
from roslens.tracing.workloads.rclcpp_workloads.run import PACKAGE, find_program

VARIABLE = "RCLCPP_WORKLOADS"
_HERE = Path(__file__).resolve().parent
_SOURCES = ("CMakeLists.txt", "package.xml")


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variable by which ``run.py`` finds the programs; empty where they are found without.

    Parameters
    ----------
    note
        Called with one line when they are built, which takes some minutes.

    Raises
    ------
    UsageError
        No ROS 2 with rclcpp is sourced, or there is no colcon.
    RunFailedError
        They do not build.
    """
    if find_program("messages") is not None:
        return {}
    if not os.environ.get("AMENT_PREFIX_PATH"):
        raise UsageError(
            "these workloads need rclcpp: source a ROS 2 installation first (the embedded ROS 2 "
            "has rclpy only; its suites are those without -rclcpp in their names)"
        )
    colcon = shutil.which("colcon")
    if colcon is None:
        raise UsageError(
            f"{PACKAGE} is not built, and there is no colcon: install "
            "python3-colcon-common-extensions, or build the package and source its setup.sh"
        )
    folder = cache_folder() / PACKAGE / _key()
    programs = folder / "install" / "lib" / PACKAGE
    with locked(folder.with_name(folder.name + ".lock")):
        # Written last: without it, whoever built was ended before all programs were there.
        whole = folder / "whole"
        if not cached_file(whole):
            note(f"building {PACKAGE} with colcon, once: some minutes")
            _build(colcon, folder)
            write_atomically(whole, "")
    return {VARIABLE: str(programs)}


def _build(colcon: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(colcon, "--log-base", str(folder / "log"), "build", "--merge-install"),
        *("--base-paths", str(_HERE), "--packages-select", PACKAGE),
        *("--build-base", str(folder / "build"), "--install-base", str(folder / "install")),
        *("--cmake-args", "-DCMAKE_BUILD_TYPE=Release"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    built = (folder / "install" / "lib" / PACKAGE / "messages").is_file()
    if done.returncode or not built:
        shutil.rmtree(folder / "install", ignore_errors=True)
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunFailedError(
            f"colcon did not build {PACKAGE}: {said[-1] if said else 'it said nothing'} "
            f"(all of it: {folder / 'log'})"
        )


def _key() -> str:
    """Of the sources and of the ROS 2 that they are built for."""
    digest = hashlib.sha256()
    for path in (*(_HERE / name for name in _SOURCES), *sorted((_HERE / "src").iterdir())):
        digest.update(path.read_bytes())
    for name in ("ROS_DISTRO", "AMENT_PREFIX_PATH"):
        digest.update(os.environ.get(name, "").encode())
    return digest.hexdigest()[:16]
