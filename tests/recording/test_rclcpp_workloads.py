"""Test how the rclcpp programs are found or built for a sourced ROS 2.

A script stands in for colcon and makes the file that colcon's install would, so these tests cover
what is done around it.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roslens.recording import RunFailedError, UsageError
from roslens.tracing.workloads.rclcpp_workloads.prepare import VARIABLE, prepare
from roslens.tracing.workloads.rclcpp_workloads.run import merge

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
    """Make a machine with a sourced ROS 2, its own cache, and no colcon yet, whatever ours has."""
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros"))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "bin").mkdir()
    for name in ("mkdir", "chmod"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or name)
    return tmp_path


def colcon(machine: Path, action: str) -> None:
    script = machine / "bin" / "colcon"
    script.write_text(STAND_IN.replace("{action}", action))
    script.chmod(0o755)


def test_they_are_built_once(machine: Path) -> None:
    colcon(machine, INSTALLS)
    notes: list[str] = []
    first = prepare(notes.append)
    assert (Path(first[VARIABLE]) / "messages").is_file()
    assert prepare(notes.append) == first
    assert len(notes) == 1
    assert (machine / "count").read_text() == "run\n"


def test_a_build_that_was_killed_is_made_again(machine: Path) -> None:
    """The script in place of colcon kills the build once the first program is installed."""
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


def test_without_colcon_it_says_what_to_do(machine: Path) -> None:
    with pytest.raises(UsageError, match="there is no colcon: install"):
        prepare()
    assert machine.is_dir()


def test_another_version_of_what_was_linked_is_built_for(machine: Path) -> None:
    colcon(machine, INSTALLS)

    def install(name: str, version: str) -> str:
        package = machine / "ros" / "share" / name / "package.xml"
        package.parent.mkdir(parents=True, exist_ok=True)
        package.write_text(f"<name>{name}</name><version>{version}</version>")
        return prepare()[VARIABLE]

    # As after an upgrade of rclcpp, and after cm_executors was installed as well.
    built = [install("rclcpp", "28.1.6"), install("rclcpp", "28.1.7"), install("cm_executors", "1")]
    assert len(set(built)) == 3
    assert install("cm_executors", "1") == built[-1]
    assert (machine / "count").read_text() == "run\n" * 3


def test_what_else_is_sourced_builds_nothing_again(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    colcon(machine, INSTALLS)
    package = machine / "ros" / "share" / "rclcpp" / "package.xml"
    package.parent.mkdir(parents=True)
    package.write_text("<name>rclcpp</name><version>28.1.6</version>")
    first = prepare()
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{machine / 'overlay'}:{machine / 'ros'}")
    assert prepare() == first
    assert (machine / "count").read_text() == "run\n"


@pytest.mark.parametrize(
    ("logs", "merged"),
    [
        (  # A message that one of two subscriptions got is logged for both; nobody got /data_1.
            {"publisher": ("/data,0,10,,0,", "/data,1,20,,0,", "/data_1,0,30,,1,"),
             "subscriber": ("/data,0,,11,0,0", "/data,0,,12,0,1", "/data,1,,21,0,1")},
            ["/data,0,10,11,0,0", "/data,0,10,12,0,1", "/data,1,20,21,0,1", "/data,1,20,,0,0",
             "/data_1,0,30,,1,"],
        ),
        (  # Subscriptions of two processes are numbered one after the other.
            {"both": ("/data,0,10,11,0,0", "/data,1,20,,0,0"), "subscriber": ("/data,1,,22,0,0",)},
            ["/data,0,10,11,0,0", "/data,1,20,,0,0", "/data,1,20,22,0,1", "/data,0,10,,0,1"],
        ),
    ],
)  # fmt: skip
def test_the_logs_of_the_processes_are_one(
    tmp_path: Path, logs: dict[str, tuple[str, ...]], merged: list[str]
) -> None:
    head = "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription"
    for name, lines in logs.items():
        (tmp_path / f"messages_{name}.csv").write_text("\n".join((head, *lines, "")))
    merge(tmp_path)
    assert (tmp_path / "messages.csv").read_text().splitlines()[1:] == merged


@pytest.mark.parametrize("action", ["echo no rclcpp here >&2; exit 1", "echo no rclcpp here >&2"])
def test_a_build_that_fails_says_colcon_s_last_line_and_where_the_rest_is(
    machine: Path, action: str
) -> None:
    colcon(machine, action)
    with pytest.raises(
        RunFailedError, match=r"did not build rclcpp_workloads: no rclcpp here .*build\.log"
    ):
        prepare()
