"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test depends on how fast the machine is.
SLOW = [HealthCheck.too_slow]
# The same examples each time: whoever changes something else meets no example that nobody has
# seen. New ones are looked for with --hypothesis-profile=search, as many as one has time for.
settings.register_profile(
    "roslens", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=SLOW
)
settings.load_profile("roslens")

RECORDING = {"micro_ros", "native_tracer", "recording", "ros", "storage"}
"""Folders whose tests share what is compiled for recordings."""
COMPILING = "test_wheels.py"
"""It compiles where they do."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (pytest-xdist), one records; a file's tests stay together.

    pytest 9.2 hides the groups from xdist 3.8.
    """
    for item in items:
        file = item.path.relative_to(Path(__file__).parent)
        records = (
            item.get_closest_marker("live") or file.parts[0] in RECORDING or file.name == COMPILING
        )
        item.add_marker(pytest.mark.xdist_group("recording" if records else str(file)))
