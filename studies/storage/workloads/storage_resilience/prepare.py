"""Compiles the benchmark's program and the library that logs its writes, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roslens.studies.storage.workloads.storage.prepare import prepare as prepare_storage
from roslens.tracing.sampling.preloaded import preloadable

LIBRARY_VARIABLE = "ROSLENS_WRITE_LOGGER"
WRITE_LOG = Path(__file__).resolve().parents[1] / "storage" / "write_log.c"


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variables that ``run.py`` needs: where the program and the libraries are.

    Raises
    ------
    RoslensError
        There is no compiler or no rosbag2, or something does not compile.
    """
    library = preloadable(WRITE_LOG, "the suite storage-resilience")
    return {**prepare_storage(note), LIBRARY_VARIABLE: str(library)}
