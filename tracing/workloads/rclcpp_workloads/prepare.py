"""Build the rclcpp programs once: with colcon for a sourced ROS 2, else with our own rclcpp."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import write_atomically
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.ros.compiling import Step, need_space, run_steps
from roslens.tracing.ros.environment import ament_packages
from roslens.tracing.ros.packages import LOG
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.workloads.rclcpp_workloads.run import PACKAGE, PROGRAMS, find_program

VARIABLE = "RCLCPP_WORKLOADS"
_HERE = Path(__file__).resolve().parent
_SOURCES = ("CMakeLists.txt", "package.xml")
_SPACE = 50_000_000


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the variable by which ``run.py`` finds the programs; empty if it is not needed.

    Parameters
    ----------
    note
        Called with a line when the programs are built, which takes some minutes.

    Raises
    ------
    UsageError
        A ROS 2 is sourced, but colcon is not installed.
    RunFailedError
        Building fails.
    """
    if find_program("messages") is not None:
        return {}
    if not os.environ.get("AMENT_PREFIX_PATH"):
        return {VARIABLE: str(_compiled(note))}
    colcon = shutil.which("colcon")
    if colcon is None:
        raise UsageError(
            f"{PACKAGE} is not built, and there is no colcon: install it (apt-get install colcon, "
            "or pip install colcon-common-extensions), or build the package and source its setup.sh"
        )
    folder = cache_folder() / PACKAGE / _key()
    programs = folder / "install" / "lib" / PACKAGE
    with locked(folder.with_name(folder.name + ".lock")):
        # Written last: without it, a build ended before all programs existed.
        whole = folder / "whole"
        if not cached_file(whole):
            note(f"building {PACKAGE} with colcon, once: some minutes; see {folder / LOG}")
            _build(colcon, folder)
            write_atomically(whole, "")
    return {VARIABLE: str(programs)}


def _compiled(note: Callable[[str], None]) -> Path:
    """Return the folder of the programs, compiled with the rclcpp of the embedded ROS 2."""
    rclcpp = rclcpp_for(embedded_ros(note), note)
    folder = cache_folder() / PACKAGE / f"{rclcpp.prefix.name}-{_key()}"
    with locked(folder.with_name(folder.name + ".lock")):
        private_folder(folder)
        flags, libraries = rclcpp.compile_flags(), rclcpp.link_flags()
        steps = [
            Step(
                folder / name,
                (*rclcpp.compiler, *flags, str(_HERE / "src" / f"{name}.cpp"), *libraries),
            )
            for name in PROGRAMS
        ]
        if not all(step.product.is_file() for step in steps):
            need_space(folder, _SPACE, f"compiling {PACKAGE}")
            run_steps(steps, what=PACKAGE, log=folder / LOG, note=note)
    return folder


def _build(colcon: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(colcon, "--log-base", str(folder / "log"), "build", "--merge-install"),
        *("--base-paths", str(_HERE), "--packages-select", PACKAGE),
        *("--build-base", str(folder / "build"), "--install-base", str(folder / "install")),
        *("--event-handlers", "console_direct+"),
        *("--cmake-args", "-DCMAKE_BUILD_TYPE=Release"),
    ]
    log = folder / LOG
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            command, cwd=folder, stdout=stream, stderr=subprocess.STDOUT, check=False
        )
    built = (folder / "install" / "lib" / PACKAGE / "messages").is_file()
    if done.returncode or not built:
        shutil.rmtree(folder / "install", ignore_errors=True)
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        errors = [line for line in lines if "error" in line.lower()]
        first = (errors or lines[-1:] or ["it said nothing"])[0]
        raise RunFailedError(f"colcon did not build {PACKAGE}: {first} (all of it: {log})")


def _key() -> str:
    """Return a key of the sources, and of the ROS 2 they are built for with package versions.

    An upgraded rclcpp, or an executor installed later, is another ROS 2; anything else that is
    sourced, such as the user's own packages, does not count.
    """
    digest = hashlib.sha256()
    for path in (*(_HERE / name for name in _SOURCES), *sorted((_HERE / "src").iterdir())):
        digest.update(path.read_bytes())
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "")
    with_rclcpp = (
        prefix
        for prefix in prefixes.split(os.pathsep)
        if (Path(prefix) / "share" / "rclcpp").is_dir()
    )
    rclcpp, versions = next(with_rclcpp, ""), repr(ament_packages(prefixes))
    for text in (os.environ.get("ROS_DISTRO", ""), rclcpp, versions):
        digest.update(text.encode())
    return digest.hexdigest()[:16]
