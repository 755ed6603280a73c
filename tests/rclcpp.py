"""Compile programs from the pinned sources of ROS 2, where these are available."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.sources import VARIABLE


def need_sources(what: str = "rclcpp") -> None:
    """Skip the test if there are no sources to compile from."""
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no folder of sources that {what} could be compiled from")


def compiled(source: Path, program: Path) -> Path:
    """Compile a program of one file with rclcpp for the embedded ROS 2, and return its path."""
    need_sources()
    made = rclcpp_for(embedded_ros())
    flags = [*made.compile_flags(), str(source), "-o", str(program), *made.link_flags()]
    subprocess.run([*made.compiler, *flags], check=True)
    return program
