"""Test which processes a name means, by their command lines."""

from __future__ import annotations

import subprocess
import sys

import pytest

from roslens.recording import UsageError
from roslens.tracing.ftrace.uprobes import find_targets


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [("mouth_50", True), ("/head/mouth_50", True), ("/mouth_50", False), ("/foot/mouth_50", False)],
)
def test_a_node_is_found_with_its_namespace(name: str, is_meant: bool) -> None:
    remapped = ("--ros-args", "-r", "__node:=mouth_50", "-r", "__ns:=/head")
    code = "print(flush=True); input()"
    command = [sys.executable, "-c", code, *remapped]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # The process is no node, which shows only if the name was found to mean it.
        reason = "has no libtracetools mapped" if is_meant else "does not run"
        with pytest.raises(UsageError, match=reason):
            find_targets([name])
        process.communicate(b"\n")
