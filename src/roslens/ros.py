"""The ``ros`` verb: the rclcpp that is compiled for the embedded ROS 2."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from roslens.tracing.prepared import prepared_variables
from roslens.tracing.recording.terminal import Console, say
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, locked, trusted
from roslens.tracing.ros.rclcpp import LOG, MARKER, existing, rclcpp_for
from roslens.tracing.ros_choice import is_sourced
from roslens.tracing.sources import VARIABLE, given_folder
from roslens.tracing.suite import WorkloadSpec

PROGRAMS = WorkloadSpec(builtin="rclcpp_workloads")


def build(sources: Path | None, console: Console) -> None:
    """Compile rclcpp and the programs of its suites; prints its folder last.

    Raises
    ------
    UsageError, RunFailedError
        What is missing for it.
    """

    def note(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    made = rclcpp_for(embedded_ros(note), note, given_folder(sources))
    if is_sourced():
        note("a ROS 2 is sourced: suites take that one, whose programs colcon builds")
    else:
        prepared_variables(PROGRAMS, note)
    say(made.prefix)


def status(console: Console) -> None:
    """Print what was compiled."""
    folders = list(existing())
    if not folders:
        note = f"no rclcpp was compiled yet; 'roslens ros build' does it ({VARIABLE} or a network)"
        console.print(note, highlight=False, soft_wrap=True)
    for folder in folders:
        if (folder / MARKER).is_file():
            facts = json.loads((folder / MARKER).read_text(encoding="utf-8"))
            packages = ", ".join(f"{k} {v}" for k, v in facts["packages"].items())
            text = f"complete, made in {facts['seconds']:.0f} s: {packages}"
        else:
            objects = sum(1 for _ in folder.rglob("*.o"))
            text = f"not complete ({objects} files compiled); 'roslens ros build' goes on with it"
        console.print(
            f"{folder}: {text}; log: {folder / LOG}", highlight=False, markup=False, soft_wrap=True
        )


def clean(console: Console) -> None:
    """Remove what was compiled, its programs and its sources; the embedded ROS 2 stays."""
    removed = 0
    cache = cache_folder()
    for folder in [*existing(), *cache.glob("rclcpp_workloads/rclcpp-*"), cache / "sources"]:
        if not folder.is_dir():
            continue
        with locked(folder.with_name(folder.name + ".lock")):
            removed += sum(x.stat().st_size for x in trusted(folder).rglob("*") if x.is_file())
            shutil.rmtree(folder)
    console.print(f"removed {removed / 1e6:,.0f} MB", highlight=False)
