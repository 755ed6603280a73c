"""The tracer's library, and a folder that it writes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from roslens.tracing.native_tracer.library import native_library


@pytest.fixture(scope="session")
def library() -> Path:
    return native_library("kilted")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "trace"
    made.mkdir(mode=0o700)
    return made
