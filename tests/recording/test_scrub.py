"""Test that a manifest does not tell where, on which host or by whom it was recorded."""

import getpass
import socket
from pathlib import Path

from roslens.tracing.scrub import shared_command, shared_text, shared_variables


def test_paths_become_relative_or_short(tmp_path, monkeypatch):
    run, work = tmp_path / "run", tmp_path / "work"
    run.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    command = [
        str(tmp_path / "venv" / "bin" / "python3"),
        str(work / "node.py"),
        f"--output={run}/native",
        f"{tmp_path}/home/x.yaml",
        f"{tmp_path}/elsewhere/deep/config.xml",
    ]
    assert shared_command(command, run) == [
        "python3",
        "node.py",
        "--output=native",
        "~/x.yaml",
        ".../config.xml",
    ]


def test_topics_and_remappings_stay(tmp_path):
    for text in (
        "/scan",
        "/robot_7/cmd_vel",
        "/scan:=/robot_7/scan",
        "__ns:=/robot_7",
        "a/b",
        "1/2",
    ):
        assert shared_text(text, tmp_path) == text


def test_the_hosts_name_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "ernie.example.org")
    monkeypatch.setattr(getpass, "getuser", lambda: "someone")
    assert shared_text("http://ernie:1 bernie someone", tmp_path) == "http://<host>:1 bernie <user>"


def test_only_variables_that_change_ros_are_kept(tmp_path):
    given = {
        "ROS_DOMAIN_ID": "7",
        "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
        "CYCLONEDDS_URI": f"file://{tmp_path}/dds.xml",
        "ROS_LOG_DIR": "/x",
        "API_TOKEN": "secret",
        "HOME": str(Path.home()),
    }
    kept = shared_variables(given, tmp_path / "run")
    assert kept["ROS_DOMAIN_ID"] == "7"
    assert set(kept) == {"ROS_DOMAIN_ID", "RMW_IMPLEMENTATION", "CYCLONEDDS_URI"}
    assert str(tmp_path) not in kept["CYCLONEDDS_URI"]
