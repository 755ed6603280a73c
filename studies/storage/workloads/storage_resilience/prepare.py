"""Compile the benchmark's program and the library that logs its writes, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roslens.studies.storage.workloads.storage.prepare import prepare as prepare_storage
from roslens.tracing.sampling.preloaded import preloadable

LIBRARY_VARIABLE = "ROSLENS_WRITE_LOGGER"
WRITE_LOG = Path(__file__).resolve().parents[1] / "storage" / "write_log.c"


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the variables for ``run.py``: paths of the program and the libraries.

    Raises
    ------
    RoslensError
        There is no compiler or no rosbag2, or a program does not compile.
    """
    library = preloadable(WRITE_LOG, "the suite storage-resilience")
    return {**prepare_storage(note), LIBRARY_VARIABLE: str(library)}
