"""Provide the workbench's fixtures: one lab per file of tests, whose event loop ends with it."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "benchmarks")]
from hostile_lab import hostile, lab, server  # noqa: E402

__all__ = ["hostile", "lab", "server"]
