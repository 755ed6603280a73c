"""Compile the benchmark's program once for all tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_cells import RUN, Cell, Done
from tests.rclcpp import need_sources

from roslens.recording import UsageError
from roslens.studies.storage.workloads.storage.cells import PROGRAMS_VARIABLE
from roslens.studies.storage.workloads.storage.prepare import prepare


@pytest.fixture(scope="session")
def programs() -> Iterator[str]:
    """Return the folder of the program that calls rosbag2's plugins; compiling takes minutes."""
    need_sources("rosbag2")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AMENT_PREFIX_PATH", "ROS_DISTRO"):
            patch.delenv(name, raising=False)
        try:
            folder = prepare()[PROGRAMS_VARIABLE]
        except UsageError as error:
            pytest.skip(str(error))
        patch.setenv(PROGRAMS_VARIABLE, folder)
        yield folder


@pytest.fixture
def cell(programs: str, tmp_path: Path) -> Cell:
    """Return a function that runs one cell, with options of run.py without their dashes."""

    def run(prefix: tuple[str, ...] = (), **options: object) -> Done:
        folder = tmp_path / "native"
        folder.mkdir(exist_ok=True)
        given = {
            "plugin_config": "mcap_default",
            "message_size": "10KiB",
            "batch_size": "1KiB",
            "bytes": "2MiB",
            "output": folder,
            **options,
        }
        arguments = [text for name, value in given.items() for text in (f"--{name}", str(value))]
        done = subprocess.run(
            [*prefix, sys.executable, str(RUN), *arguments],
            text=True,
            capture_output=True,
            check=False,
        )
        return Done(done.returncode, done.stderr, folder)

    return run
