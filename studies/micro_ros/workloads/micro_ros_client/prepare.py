"""Compile micro-ROS and its agent once, see `roslens.tracing.ros.micro_ros`."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from roslens.recording import RunFailedError
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.micro_ros import DESCRIPTION, micro_ros_for

VARIABLE = "MICRO_ROS"
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")
"""Compiler and emulator for programs of the board."""


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the variable by which ``run.py`` finds the compiled micro-ROS.

    Parameters
    ----------
    note
        Called with one line when micro-ROS is compiled, which takes some minutes.

    Raises
    ------
    RoslensError
        A compiler, a source or a tool is missing, or micro-ROS does not compile.
    """
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise RunFailedError(
            f"{' and '.join(missing)} not found; Debian, Ubuntu: sudo apt-get install "
            "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
        )
    return {VARIABLE: str(micro_ros_for(embedded_ros(note), note).prefix / DESCRIPTION)}
