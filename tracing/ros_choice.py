"""Choose the ROS 2 of a workload, and the interpreter of its Python programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.tracing.ros import RosEnvironment, embedded_ros, sourced_ros
from roslens.tracing.ros.cyclonedds import NAME as CYCLONE
from roslens.tracing.ros.cyclonedds import cyclonedds_for
from roslens.tracing.ros.environment import RMW_VARIABLE
from roslens.tracing.ros.packages import with_prefix
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.ros.zenoh import NAME as ZENOH
from roslens.tracing.ros.zenoh import zenoh_for
from roslens.tracing.suite import RosChoice

MIDDLEWARES = {CYCLONE: cyclonedds_for, ZENOH: zenoh_for}
"""Middlewares that are compiled on demand for an embedded ROS 2, and their builders."""
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def choose_ros(
    choice: RosChoice, note: Callable[[str], None] = lambda _: None
) -> RosEnvironment | None:
    """Return the ROS 2 for a workload, ready to use, or None.

    Parameters
    ----------
    choice
        ``auto``: the sourced one if there is one, else the embedded one. ``rclcpp``: likewise, for
        C++ programs: a sourced one need not have rclpy, the embedded one gets an rclcpp. The
        embedded one gets the middleware that ``RMW_IMPLEMENTATION`` requests, if it is in
        `MIDDLEWARES`.
    note
        Called with a line when something takes long.

    Raises
    ------
    UsageError
        No ROS 2 is sourced although this was requested; or the embedded one cannot run here.
    RunFailedError
        The embedded one, or an rclcpp for it, cannot be built.
    """
    if choice == "none":
        return None
    if choice == "rclcpp":
        if is_sourced():
            return sourced_ros(os.environ, rclpy=False)
        embedded = _with_requested_middleware(embedded_ros(note), note)
        try:
            return with_prefix(embedded, rclcpp_for(embedded, note).prefix)
        except (UsageError, RunFailedError) as error:
            raise type(error)(
                f"{error}; or take a suite without -rclcpp in its name: it does the like with "
                "rclpy, which is there"
            ) from error
    if choice != "embedded" and is_sourced():
        return sourced_ros(os.environ)
    if choice != "sourced":
        return _with_requested_middleware(embedded_ros(note), note)
    raise UsageError(
        "no ROS 2 is sourced; run '. /opt/ros/<distribution>/setup.sh' first, or take the "
        "embedded one"
    )


def with_middlewares(
    ros: RosEnvironment | None,
    wanted: Collection[str],
    note: Callable[[str], None] = lambda _: None,
) -> tuple[RosEnvironment | None, dict[str, str]]:
    """Return the ROS 2 with the wanted middlewares that are compiled on demand.

    Parameters
    ----------
    ros
        The ROS 2 of the runs; a sourced one, or None, is returned unchanged.
    wanted
        Names of packages.
    note
        Called with a line when something takes long.

    Returns
    -------
    tuple
        The ROS 2; and the reason for each unavailable middleware, by name.
    """
    missing: dict[str, str] = {}
    if ros is None or ros.kind != "embedded":
        return ros, missing
    for name in (middleware for middleware in MIDDLEWARES if middleware in wanted):
        try:
            ros = MIDDLEWARES[name](ros, note)
        except (UsageError, RunFailedError) as error:
            missing[name] = str(error)
    return ros, missing


def _with_requested_middleware(ros: RosEnvironment, note: Callable[[str], None]) -> RosEnvironment:
    """Return the embedded ROS 2 with the middleware that the user's environment requests."""
    asked = os.environ.get(RMW_VARIABLE)
    if asked not in MIDDLEWARES:
        return ros
    try:
        return MIDDLEWARES[asked](ros, note).with_middleware(asked)
    except (UsageError, RunFailedError) as error:
        raise type(error)(f"{error}; or unset {RMW_VARIABLE}, for {ros.rmw}") from error


def is_sourced() -> bool:
    """Return whether a ROS 2 is sourced."""
    return bool(os.environ.get("ROS_DISTRO") and os.environ.get("AMENT_PREFIX_PATH"))


def is_python(program: str) -> bool:
    """Return whether a command's first word is a Python interpreter."""
    return _PYTHON.fullmatch(Path(program).name) is not None


def with_python(command: Sequence[str], ros: RosEnvironment) -> list[str]:
    """Return a Python program's command with the interpreter that has rclpy, others unchanged."""
    python = str(ros.python)
    if command[0].endswith(".py"):
        return [python, *command]
    if is_python(command[0]):
        return [python, *command[1:]]
    return list(command)
