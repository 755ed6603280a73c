"""The ``ros`` verb: what is compiled for the embedded ROS 2: rclcpp, a middleware, plugins, ..."""

from __future__ import annotations

import shutil
from pathlib import Path

from roslens.recording.terminal import Console, say
from roslens.tracing.needs import prepared_variables
from roslens.tracing.ros import cyclonedds, embedded_ros
from roslens.tracing.ros.cache import cache_folder, locked, trusted
from roslens.tracing.ros.packages import LOG, MARKER, existing, facts_of
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.ros.rosbag2 import rosbag2_for
from roslens.tracing.ros_choice import is_sourced, with_middlewares
from roslens.tracing.sources import VARIABLE, given_folder
from roslens.tracing.suite import WorkloadSpec

PROGRAMS = WorkloadSpec(builtin="rclcpp_workloads")


def build(sources: Path | None, console: Console) -> None:
    """Compile rclcpp and its suites' programs, Cyclone DDS' middleware, rosbag2's plugins.

    What the middleware lacks is only said. Prints the folders of rclcpp and of the plugins last.

    Raises
    ------
    UsageError, RunFailedError
        What is missing for it.
    """

    def note(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    ros, folder = embedded_ros(note), given_folder(sources)
    made = rclcpp_for(ros, note, folder)
    if is_sourced():
        note("a ROS 2 is sourced: suites take that one, whose programs colcon builds")
    else:
        prepared_variables(PROGRAMS, note)
    _, missing = with_middlewares(ros, [cyclonedds.NAME], note, folder)
    for name, why in missing.items():
        note(f"{name} is left out: {why}")
    say(made.prefix)
    say(rosbag2_for(ros, note, folder).prefixes[0])


def status(console: Console) -> None:
    """Print what was compiled."""
    folders = [*existing()]
    if not folders:
        note = (
            f"nothing was compiled yet; 'roslens dev ros build' does it ({VARIABLE} or a network)"
        )
        console.print(note, highlight=False, soft_wrap=True)
    for folder in folders:
        if (folder / MARKER).is_file():
            facts = facts_of(folder)
            packages = ", ".join(f"{k} {v}" for k, v in facts.packages.items())
            text = f"complete, made in {facts.seconds:.0f} s: {packages}"
        else:
            objects = sum(1 for _ in folder.rglob("*.o"))
            text = f"not complete ({objects} files compiled); what needs it goes on with it"
        console.print(
            f"{folder}: {text}; log: {folder / LOG}", highlight=False, markup=False, soft_wrap=True
        )


def clean(console: Console) -> None:
    """Remove what was compiled, its programs and its sources; the embedded ROS 2 stays."""
    removed = 0
    cache = cache_folder()
    programs = ("rclcpp_workloads/rclcpp-*", "storage/rosbag2-*", "storage/recorder-*")
    used = [folder for pattern in programs for folder in cache.glob(pattern)]
    for folder in [*existing(), *used, cache / "sources"]:
        if not folder.is_dir():
            continue
        with locked(folder.with_name(folder.name + ".lock")):
            removed += sum(x.stat().st_size for x in trusted(folder).rglob("*") if x.is_file())
            shutil.rmtree(folder)
    console.print(f"removed {removed / 1e6:,.0f} MB", highlight=False)
