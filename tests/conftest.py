"""Configure pytest and Hypothesis for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.programs import roslens
from tests.samples import SAMPLES

# No test depends on how fast the machine is.
SLOW = [HealthCheck.too_slow]
# Every run draws the same examples, so that a failure is never one that somebody else's change
# happens to draw. --hypothesis-profile=search looks for new examples, as many as time allows.
settings.register_profile(
    "roslens", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=SLOW
)
settings.load_profile("roslens")

RECORDING = {"native_tracer", "ros"}
"""Folders whose tests share programs compiled for recordings."""
ELSEWHERE = {"security", "workbench"}
"""Folders whose live tests concern verbs and pages, and may therefore run beside recordings."""
LONG = {
    *("test_another_user.py", "test_checks.py", "test_ci_howto.py", "test_comparison.py"),
    *("test_every_notebook.py", "test_every_width.py", "test_executor_study.py", "test_kills.py"),
    *("test_lab.py", "test_latency_report.py", "test_many_cells.py", "test_mcp.py"),
    *("test_names.py", "test_no_space.py", "test_result_files.py", "test_screen.py"),
    "test_wheels.py",
}
"""Files that take a minute or more; they start first, so that no worker has one at the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Collect the samples before there are workers, which copy what another one would collect."""
    roslens("collect", SAMPLES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (pytest-xdist), let one record, and keep the tests of a file together.

    pytest 9.2 hides the groups from xdist 3.8.
    """
    for item in items:
        file = item.path.relative_to(Path(__file__).parent)
        live = item.get_closest_marker("live") and file.parts[0] not in ELSEWHERE
        records = live or file.parts[0] in RECORDING
        item.add_marker(pytest.mark.xdist_group("recording" if records else str(file)))
    items.sort(key=lambda item: (not is_recording(item), item.path.name not in LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Lower the priority of workers that do not record; recorded programs have deadlines."""
    if hasattr(item.config, "workerinput") and not is_recording(item):
        os.nice(max(0, 10 - os.nice(0)))


def is_recording(item: pytest.Item) -> bool:
    """Return whether the test is one of those that record and therefore run one after the other."""
    group = item.get_closest_marker("xdist_group")
    return group is not None and group.args == ("recording",)
