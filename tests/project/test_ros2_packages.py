"""Test what ROS 2 finds of roslens: entry points, and the files of docs/howto/ros2, parsed.

ros2cli and launch are no Python packages that the tests can install: if a ROS 2 with them is
sourced, `ros2 roslens` and the launch action are run, too.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "docs" / "howto" / "ros2"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_entry_points_lead_to_what_is_there(group: str) -> None:
    for target in PROJECT["entry-points"][group].values():
        module, _, name = target.partition(":")
        source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
        defined = {
            node.name
            for node in ast.parse(source.read_text()).body
            if isinstance(node, ast.ClassDef)
        }
        assert not name or name in defined


def test_the_command_leaves_all_arguments_to_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """ros2cli's parser is argparse's, and it requires this class of extensions."""
    command = types.ModuleType("ros2cli.command")
    command.CommandExtension = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ros2cli", types.ModuleType("ros2cli"))
    monkeypatch.setitem(sys.modules, "ros2cli.command", command)
    monkeypatch.delitem(sys.modules, "roslens.ros2_command", raising=False)
    from roslens import ros2_command

    given: list[list[str]] = []
    monkeypatch.setattr(ros2_command, "main", given.append)
    extension = ros2_command.RoslensCommand()
    for line in (
        ["info", "x"],
        ["report", "latency", "-p", "a=1", "--help"],
        ["record", "-o", "x", "--", "ls", "-l", "--", "y"],
    ):
        top = argparse.ArgumentParser()
        parser = top.add_subparsers().add_parser("roslens")
        extension.add_arguments(parser, "ros2 roslens")
        args: Any = top.parse_args(["roslens", *line])
        extension.main(parser=parser, args=args)
        assert given.pop() == line
    monkeypatch.delitem(sys.modules, "roslens.ros2_command")


def test_the_image_takes_the_distribution_as_argument() -> None:
    """Each line that begins an instruction is one of the Dockerfile language."""
    text = re.sub(r"\\\n", " ", (FILES / "Dockerfile").read_text())
    lines = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    instructions = {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "CMD"}
    assert {words[0] for words in lines} <= instructions
    assert [words[0] for words in lines[:2]] == ["ARG", "FROM"]
    assert lines[0][1].startswith("DISTRO=")
    assert lines[1][1] == "ros:${DISTRO}-ros-base"
    shell = next(line for line in text.splitlines() if line.startswith("RUN if"))
    assert shell.count("then") == shell.count(" fi") == 1


def test_what_is_launched_after_the_action_is_recorded(tmp_path: Path) -> None:
    launch = pytest.importorskip("launch")
    from launch.actions import ExecuteProcess

    from roslens.launch import RoslensRecord

    program = "import os; print(os.environ['LD_PRELOAD'])"
    service = launch.LaunchService()
    service.include_launch_description(
        launch.LaunchDescription(
            [
                RoslensRecord(output=str(tmp_path / "recording")),
                ExecuteProcess(cmd=[sys.executable, "-c", program], output="screen"),
            ]
        )
    )
    assert service.run() == 0
    assert (tmp_path / "recording").is_dir()
