"""What the tests with an emulated board need."""

from __future__ import annotations

import shutil

import pytest

from roslens.tracing.workloads.micro_ros_client.prepare import TOOLS

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

on_board = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{', '.join(MISSING)} not installed: nothing is compiled for or run on a board",
)
