"""Compiles the publishers and the recorder once, on rosbag2's writer and plugins."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, locked, private_folder
from roslens.tracing.ros.compiling import Step, run_steps
from roslens.tracing.ros.packages import LOG
from roslens.tracing.ros.rosbag2 import rosbag2_for, sourced_rosbag2
from roslens.tracing.ros_choice import is_sourced

PROGRAMS_VARIABLE = "ROSLENS_STORAGE_RECORDER"
PREFIXES_VARIABLE = "ROSLENS_STORAGE_PREFIXES"
PYTHON_VARIABLE = "ROSLENS_STORAGE_PYTHON"
VERSION_VARIABLE = "ROSLENS_STORAGE_VERSION"
_HERE = Path(__file__).resolve().parent
_SOURCES = _HERE / "src"
_SHARED = _HERE.with_name("rclcpp_workloads") / "src"


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variables that ``run.py`` needs: programs, where plugins are found, the Python.

    Parameters
    ----------
    note
        Called with one line when they are compiled, which takes some minutes.

    Raises
    ------
    RoslensError
        rosbag2 cannot be had here, or something does not compile.
    """
    rosbag2 = sourced_rosbag2(os.environ) if is_sourced() else rosbag2_for(embedded_ros(note), note)
    files = [*sorted(_SOURCES.iterdir()), _SHARED / "workload.hpp"]
    digest = hashlib.sha256(repr(rosbag2).encode())
    for path in files:
        digest.update(path.read_bytes())
    folder = cache_folder() / "storage" / f"recorder-{digest.hexdigest()[:16]}"
    steps = [
        Step(
            folder / path.stem,
            (
                *(*rosbag2.compiler, *rosbag2.compile_flags, f"-I{_SHARED}"),
                *(str(path), *rosbag2.link_flags),
            ),
        )
        for path in files
        if path.suffix == ".cpp"
    ]
    with locked(folder.with_name(folder.name + ".lock")):
        private_folder(folder)
        run_steps(steps, what="the recorder", log=folder / LOG, note=note)
    return {
        PROGRAMS_VARIABLE: str(folder),
        PREFIXES_VARIABLE: os.pathsep.join(map(str, rosbag2.prefixes)),
        PYTHON_VARIABLE: sys.executable,
        VERSION_VARIABLE: rosbag2.packages["rosbag2_storage"],
    }
