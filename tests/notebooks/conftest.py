"""Provide the fixtures of the notebook tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.workbench import running_lab

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the samples: tables are made once, and not in the repository."""
    copy = tmp_path_factory.mktemp("samples") / "samples"
    ignored = shutil.ignore_patterns("tables", "events")
    return Path(shutil.copytree(SAMPLES, copy, ignore=ignored))


# A session fixture's event loop would run on beside the tests of other files.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = running_lab.chromium(playwright)
        yield chromium
        chromium.close()
