"""Provide what the tests with an emulated board need."""

from __future__ import annotations

import shutil

import pytest

from roslens.studies.micro_ros.workloads.micro_ros_client.prepare import TOOLS
from roslens.tracing.needs import without_sources

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]


def with_source(name: str) -> str:
    """Skip the test if a pinned source is not available, and return its name."""
    for why in without_sources([name], lambda _: None).values():
        pytest.skip(why)
    return name


on_board = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{', '.join(MISSING)} not installed: nothing is compiled for or run on a board",
)
