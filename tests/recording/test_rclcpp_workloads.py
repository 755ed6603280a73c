"""How the rclcpp programs are found or built. There is no colcon here: a script stands in for it,
which makes the file that colcon's install would, so these tests are of what is done around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roslens.tracing.recording import RunFailedError, UsageError
from roslens.tracing.workloads.rclcpp_workloads.prepare import VARIABLE, prepare

STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = --install-base ] && base=$2
  shift
done
echo run >> "$COUNT"
{action}
"""
INSTALLS = (
    'mkdir -p "$base/lib/rclcpp_workloads"; : > "$base/lib/rclcpp_workloads/messages"; '
    'chmod +x "$base/lib/rclcpp_workloads/messages"'
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a ROS 2 sourced, a cache of its own, and no colcon yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros"))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path


def colcon(machine: Path, action: str) -> None:
    script = machine / "bin" / "colcon"
    script.write_text(STAND_IN.replace("{action}", action))
    script.chmod(0o755)


def test_they_are_built_once(machine: Path) -> None:
    colcon(machine, INSTALLS)
    said: list[str] = []
    first = prepare(said.append)
    assert (Path(first[VARIABLE]) / "messages").is_file()
    assert prepare(said.append) == first
    assert len(said) == 1
    assert (machine / "count").read_text() == "run\n"


def test_a_build_that_was_killed_is_made_again(machine: Path) -> None:
    """It is killed once the first program is installed, by what stands in for colcon."""
    colcon(machine, INSTALLS + '; [ -e "$COUNT.again" ] || { : > "$COUNT.again"; kill -9 $PPID; }')
    command = [sys.executable, "-P", "-c", f"from {prepare.__module__} import *; prepare()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert list(machine.rglob("messages"))
    prepare()
    assert (machine / "count").read_text() == "run\nrun\n"


def test_what_the_sourced_ros_has_is_not_built(machine: Path) -> None:
    program = machine / "ros" / "lib" / "rclcpp_workloads" / "messages"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert prepare() == {}


def test_without_ros_or_colcon_it_says_what_to_do(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="there is no colcon: install"):
        prepare()
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    with pytest.raises(UsageError, match="need rclcpp: source a ROS 2"):
        prepare()


@pytest.mark.parametrize("action", ["echo no rclcpp here >&2; exit 1", "echo no rclcpp here >&2"])
def test_a_build_that_fails_says_colcon_s_last_line(machine: Path, action: str) -> None:
    colcon(machine, action)
    with pytest.raises(RunFailedError, match="did not build rclcpp_workloads: no rclcpp here"):
        prepare()
