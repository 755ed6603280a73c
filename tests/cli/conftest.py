"""Runs the command line as a user would: another process."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Roslens


@pytest.fixture
def roslens(tmp_path: Path) -> Roslens:
    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "roslens", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            **{"cwd": tmp_path, "timeout": 300, **options},  # type: ignore[call-overload]
        )

    return run
