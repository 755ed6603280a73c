"""Test verbs ended a few times at random, and on full disks; kills.py does it at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.kills import VERBS

from roslens.tracing.ftrace.tracefs import why_no_ftrace

SOON = ("collect over", "csv", "events", "pack", "perfetto")
"""Some of the verbs that end within seconds."""


def ended(verb: str, *arguments: str) -> None:
    driver = Path(__file__).with_name("kills.py")
    command = [sys.executable, str(driver), *arguments, "--seed", "3", verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{verb}: " in done.stdout
    assert done.stdout.rstrip().endswith(" 0 wrong")


@pytest.mark.live
@pytest.mark.timeout(400)
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_stays_behind(verb: str) -> None:
    if verb == "attach" and (reason := why_no_ftrace()):
        pytest.skip(reason)
    ended(verb, "--kills", "2", "--sizes", "0")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("verb", SOON)
def test_what_is_written_is_whole(verb: str) -> None:
    ended(verb, "--kills", "1", "--sizes", "1")
