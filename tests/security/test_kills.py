"""Verbs that run for a while, ended a few times at random moments; kills.py does it at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.kills import VERBS

from roslens.tracing.ftrace.tracefs import why_no_ftrace


@pytest.mark.live
@pytest.mark.timeout(400)
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_stays_behind(verb: str) -> None:
    if verb == "attach" and (reason := why_no_ftrace()):
        pytest.skip(reason)
    driver = Path(__file__).with_name("kills.py")
    command = [sys.executable, str(driver), "--kills", "2", "--seed", "3", verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{verb}: " in done.stdout
    assert done.stdout.rstrip().endswith(" 0 wrong")
