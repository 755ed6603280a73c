"""Which ROS 2 a workload gets, and with which interpreter its Python runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from roslens.tracing.recording import RunFailedError, UsageError
from roslens.tracing.ros import RosEnvironment, embedded_ros, find_ros, sourced_ros
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.suite import RosChoice

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def choose_ros(
    choice: RosChoice, note: Callable[[str], None] = lambda _: None
) -> RosEnvironment | None:
    """The ROS 2 for a workload, made ready; None for none.

    Parameters
    ----------
    choice
        ``auto``: the sourced one where there is one, else the embedded one. ``rclcpp``: the same,
        for programs in C++: the sourced one need not have rclpy, the embedded one gets an rclcpp.
    note
        Called with one line when something takes long.

    Raises
    ------
    UsageError
        None is sourced though one was asked for; or the embedded one cannot run here.
    RunFailedError
        The embedded one cannot be made, or no rclcpp for it.
    """
    if choice == "none":
        return None
    if choice == "rclcpp":
        if is_sourced():
            return sourced_ros(os.environ, rclpy=False)
        embedded = embedded_ros(note)
        try:
            return rclcpp_for(embedded, note).environment(embedded)
        except (UsageError, RunFailedError) as error:
            raise type(error)(
                f"{error}; or take a suite without -rclcpp in its name: it does the like with "
                "rclpy, which is there"
            ) from error
    if choice == "auto":
        return find_ros(note)
    if choice == "embedded":
        return embedded_ros(note)
    if is_sourced():
        return sourced_ros(os.environ)
    raise UsageError(
        "no ROS 2 is sourced; run '. /opt/ros/<distribution>/setup.sh' first, or take the "
        "embedded one"
    )


def is_sourced() -> bool:
    """Whether a ROS 2 is sourced."""
    return bool(os.environ.get("ROS_DISTRO") and os.environ.get("AMENT_PREFIX_PATH"))


def is_python(program: str) -> bool:
    """Whether a command's first word is a Python interpreter."""
    return _PYTHON.fullmatch(Path(program).name) is not None


def with_python(command: Sequence[str], ros: RosEnvironment) -> list[str]:
    """The command of a Python program with the interpreter that has rclpy; others unchanged."""
    python = str(ros.python)
    if command[0].endswith(".py"):
        return [python, *command]
    if is_python(command[0]):
        return [python, *command[1:]]
    return list(command)


def with_rclpy_traced(command: Sequence[str], ros: RosEnvironment) -> list[str]:
    """The command of a Python program, so that its nodes emit callback and publish events.

    Raises
    ------
    UsageError
        It is not ``python SCRIPT``, ``python -m MODULE`` or ``SCRIPT.py``.
    """
    rest = list(command[1:]) if is_python(command[0]) else list(command)
    if rest[:1] == ["-m"] and len(rest) > 1:
        return ros.command(rest[1], *rest[2:], trace_rclpy=True)
    if not rest or not rest[0].endswith(".py"):
        raise UsageError("to trace rclpy, give 'python SCRIPT.py' or 'python -m MODULE'")
    return ros.command(rest[0], *rest[1:], trace_rclpy=True)
