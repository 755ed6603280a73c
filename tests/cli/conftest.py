"""Run the command line as a user would."""

import subprocess
from pathlib import Path

import pytest
from command_line import Roslens, roslens_here
from tests import programs

RECORDS = ("record", "race")
"""Verbs that end programs they started and handle signals: each runs as a separate process.

So does help, whose width is that of the first console.
"""


@pytest.fixture
def roslens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Roslens:
    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        if not options and arguments[0] not in RECORDS and "--help" not in arguments:
            monkeypatch.chdir(tmp_path)
            return roslens_here(capfd, *arguments)
        return programs.roslens(*arguments, **{"cwd": tmp_path, **options})

    return run
