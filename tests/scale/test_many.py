"""Test a few recordings and processes; many.py does the same with thousands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_verbs_on_many_recordings_and_processes() -> None:
    driver = Path(__file__).with_name("many.py")
    command = [sys.executable, str(driver), "--recordings", "20", "--processes", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 11
