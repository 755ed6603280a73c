"""Test the recorder as a ROS 2 package: built by CMake, its own test, and with a Python node."""

from __future__ import annotations

import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest

import roslens as rl
from roslens.collectors.reader import open_trace
from roslens.tracing.native_tracer.package import write_package
from roslens.tracing.native_tracer.table import distributions
from roslens.tracing.ros import embedded_ros

TOOLS = Path(sys.executable).parent
NODE = """
import sys, rclpy
from rclpy.node import Node
from std_msgs.msg import String
rclpy.init()
node, count = Node("counter"), 0
def heard(message):
    global count
    count += 1
node.create_subscription(String, "/numbers", heard, 10)
sent = node.create_publisher(String, "/numbers", 10)
while count < 20:
    sent.publish(String(data=str(count)))
    rclpy.spin_once(node, timeout_sec=1)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the package, and return the build folder and the installation prefix."""
    place = tmp_path_factory.mktemp("ros_package")
    write_package(place / "source")
    build, prefix = place / "build", place / "prefix"
    where = f"-DCMAKE_INSTALL_PREFIX={prefix}"
    for words in (
        ["-S", place / "source", "-B", build, "-DDISTRO=kilted", where],
        ["--build", build],
        ["--install", build],
    ):
        subprocess.run([TOOLS / "cmake", *words], check=True)
    return build, prefix


def test_its_own_test_passes_and_every_event_is_read(built: tuple[Path, Path]) -> None:
    """According to its source, the test emits 10,000 events."""
    build, _ = built
    subprocess.run([TOOLS / "ctest", "--test-dir", build, "--output-on-failure"], check=True)
    assert open_trace(build / "recording").info().events_by_name == {"ros2:callback_start": 10_000}


def test_a_distribution_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    write_package(tmp_path / "source")
    words = ["-S", tmp_path / "source", "-B", tmp_path / "build", "-DDISTRO=galactic"]
    done = subprocess.run([TOOLS / "cmake", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ROS 2 'galactic' is not known" in done.stderr
    assert all(name in done.stderr for name in distributions())


def test_description_is_whole(tmp_path: Path) -> None:
    write_package(tmp_path / "source")
    description = ET.fromstring((tmp_path / "source" / "package.xml").read_text())
    assert description.get("format") == "3"
    order = [part.tag for part in description]
    assert order[:5] == ["name", "version", "description", "maintainer", "license"]
    assert "@" not in str(description.findtext("version"))


@pytest.mark.live
def test_a_python_node_records_its_messages_and_callbacks(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """The node ends when it has received 20 of its own messages."""
    _, prefix = built
    ros = embedded_ros()
    script = tmp_path / "node.py"
    script.write_text(NODE)
    env = [str(prefix / "lib/roslens_tracer/env"), str(tmp_path / "it's here")]
    with ros.isolated(tmp_path / "log") as own_ros:
        environ = own_ros.process_environment()
        output = subprocess.check_output(env, env=environ, text=True)
        exports = shlex.split(output.replace("export ", ""))
        environ |= dict(export.split("=", 1) for export in exports)
        subprocess.run([ros.python, script], env=environ, check=True, timeout=120)
    published = pl.col("topic") == "/numbers"
    messages = rl.open(tmp_path / "it's here").messages.filter(published).collect()
    assert messages.filter(pl.col("callback_end_ns").is_not_null()).height == 20
