"""Compile the publishing program and the recorder, with rosbag2's writer and plugins, once."""

from __future__ import annotations

import sys
from collections.abc import Callable

from roslens.studies.storage.workloads.storage.cells import PROGRAMS_VARIABLE
from roslens.studies.storage.workloads.storage.prepare import programs

PYTHON_VARIABLE = "ROSLENS_STORAGE_PYTHON"


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the variables for ``run.py``: path of the programs, and the Python that records.

    Raises
    ------
    RoslensError
        rosbag2 is not available here, or a program does not compile.
    """
    folder = programs(("messages", "recorder"), note)
    return {PROGRAMS_VARIABLE: str(folder), PYTHON_VARIABLE: sys.executable}
