"""Test that runs do not disturb one another: domains, shared memory, and diagnoses.

Ground truth: the operating system (ports, files in /dev/shm) and real nodes that are killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.ros.conftest import Recorder

from roslens.tracing.ros import RosEnvironment, diagnose_no_events, domain, sourced_ros
from roslens.tracing.ros.domain import DOMAINS, SHARED_MEMORY, own_domain, ports, without_leftovers
from roslens.tracing.ros.environment import UsageError

TALKER = """
import select, sys, rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("node")
heard = []
said = False
sender = node.create_publisher(String, "talk", 10)
node.create_subscription(String, "talk", lambda m: heard.append(m.data), 10)
while not select.select([sys.stdin], [], [], 0)[0]:
    sender.publish(String(data=sys.argv[1]))
    rclpy.spin_once(node, timeout_sec=0.02)
    if heard and not said:
        print("running", flush=True)
        said = True
print(sorted(set(heard)))
"""


def test_domains_held_at_once_differ_and_are_free_again() -> None:
    with own_domain() as first, own_domain() as second:
        assert first != second
        assert {first, second} <= set(DOMAINS)

    def held_again() -> bool:
        with own_domain() as again:
            return again == first

    # Another process may hold it just then.
    assert any(held_again() for _ in range(20))


def test_a_domain_in_which_someone_listens_is_left_alone() -> None:
    with own_domain() as first:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        participant.bind(("", ports(first)[0]))
        with own_domain() as second:
            assert second != first


def test_ports_of_a_domain() -> None:
    # RTPS 9.6.1: 7400 + 250 * domain; all below the ports of outgoing connections.
    assert ports(1)[0] == 7650
    assert ports(DOMAINS[-1])[-1] < 32768 + 250


@contextmanager
def node(ros: RosEnvironment, log: Path, word: str) -> Iterator[subprocess.Popen]:
    """Run a node that hears itself until a line is written to it."""
    with ros.isolated(log) as isolated:
        process = subprocess.Popen(
            [str(ros.python), "-c", TALKER, word],
            env=isolated.process_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.live
def test_two_runs_do_not_hear_each_other(ros: RosEnvironment, tmp_path: Path) -> None:
    with node(ros, tmp_path, "left") as left, node(ros, tmp_path, "right") as right:
        time.sleep(1)  # each hears itself, and would hear the other one
        assert left.communicate("\n")[0] == "['left']\n"
        assert right.communicate("\n")[0] == "['right']\n"


@pytest.mark.live
def test_what_a_killed_node_leaves_is_removed_and_nothing_else(
    ros: RosEnvironment, tmp_path: Path
) -> None:
    def segments() -> set[str]:
        return {path.name for path in SHARED_MEMORY.iterdir() if "fastdds" in path.name}

    def segments_of(process: subprocess.Popen) -> set[str]:
        """Return the segments a process has open or mapped; others may run on this machine."""
        proc = Path("/proc", str(process.pid))
        used = [str(link.resolve()) for link in (proc / "fd").iterdir()]
        used += [line.split()[-1] for line in (proc / "maps").read_text().splitlines()]
        return {
            Path(path).name for path in used if path.startswith(f"{SHARED_MEMORY}/")
        } & segments()

    with node(ros, tmp_path, "other") as neighbour:
        other_segments = segments_of(neighbour)
        assert other_segments
        before = segments()  # another test's killed node may have left the port of this domain
        with node(ros, tmp_path, "own") as process:
            own_segments = segments_of(process) - before
            assert own_segments
            assert not own_segments & other_segments
            time.sleep(0.3)  # files that appeared just now are left alone
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert own_segments <= segments()  # the killed node could not tidy up
        left = own_segments & segments()
        assert not left
        assert other_segments <= segments()


def test_leftovers_that_were_there_before_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain, "SHARED_MEMORY", tmp_path)
    lock = tmp_path / "fastdds_0123456789abcdef_el"
    lock.touch()
    os.utime(lock, (1, 1))
    with without_leftovers() as removed:
        pass
    assert lock.exists()
    assert lock.name not in removed


@pytest.mark.live
def test_a_sourced_ros_is_used_as_it_is(ros: RosEnvironment) -> None:
    """The embedded environment is entered as a setup file would do it."""
    folder = ros.python.parent.parent
    environment = ros.process_environment() | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    sourced = sourced_ros(environment)
    assert (sourced.kind, sourced.distro, sourced.rmw) == ("sourced", "kilted", "rmw_fastrtps_cpp")
    assert sourced.python == folder / "bin" / "python3"
    assert sourced.preload() == []


def test_a_sourced_ros_without_rclpy_is_said() -> None:
    environment = dict(os.environ) | {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": "/nowhere"}
    with pytest.raises(UsageError, match=r"ROS 2 jazzy is sourced, but rclpy cannot be imported"):
        sourced_ros(environment)


@pytest.mark.live
def test_why_there_are_no_events(ros: RosEnvironment, recorder: Recorder, tmp_path: Path) -> None:
    plain = ros.process_environment(recorder.environment)
    home = recorder.daemon.home

    def diagnosis(
        environment: dict[str, str], expected: bool = False, at: Path | None = home
    ) -> str:
        text = diagnose_no_events(environment, preload_expected=expected, home_of_daemon=at)
        assert "\n" not in text
        return text

    # This is the wheel's own library: LTTng-UST 2.8 registers at socket 6, a daemon of 2.13 listens
    # at 8.
    wheel = ros.python.parent.parent / "lib" / "libtracetools.so"
    text = diagnosis(plain, expected=True)
    assert "libtracetools was not preloaded" in text
    assert "ABI mismatch" in text
    assert "lttng-ust-sock-6" in text
    text = diagnosis(plain | {"LD_PRELOAD": str(wheel)})
    assert "ABI mismatch" in text
    assert "not preloaded" not in text

    good = ros.process_environment(recorder.environment, preload=ros.preload())
    assert "probably ran no ROS 2 node" in diagnosis(good, expected=True)
    assert "no libtracetools is on the library path" in diagnosis({"PATH": "/bin"})
    # The variable works as ros2_tracing 8.9 and newer documents it.
    disabled = good | {"TRACETOOLS_RUNTIME_DISABLE": "1"}
    assert "TRACETOOLS_RUNTIME_DISABLE is set" in diagnosis(disabled)
    # Kilted's own tracetools, which the embedded ROS preloads, does not know the variable.
    assert "TRACETOOLS_RUNTIME_DISABLE" not in diagnosis(disabled, expected=True)
    if home is not None:
        text = diagnosis(good | {"LTTNG_HOME": str(tmp_path)})
        assert "LTTNG_HOME is not the session daemon's" in text
    if os.geteuid() != 0:
        # No daemon was ever in this folder; root would ask the machine's daemon as well.
        text = diagnosis(good | {"LTTNG_HOME": str(tmp_path)}, at=tmp_path)
        assert "no session daemon listens" in text
