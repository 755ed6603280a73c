"""Test recording modes: bounded disk, snapshots, late start, earlier programs, containers.

babeltrace2, the independent reader, reads the traces.
"""

import os
import re
import shlex
import subprocess
import threading
from pathlib import Path

import pytest
from compiling import compiled
from live_recorder import events_of
from tests.programs import roslens_command

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.recording.manifest import Timing
from roslens.tracing.command import record_command
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions, session_daemon
from roslens.tracing.lttng.session import check_disk
from roslens.tracing.run import RunSpec, record_run

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def rings(tmp_path_factory) -> str:
    """Compile a program that emits ``ros2:ring_init``, then ``ros2:ring``: COUNT PAUSE_US BYTES."""
    return str(compiled(tmp_path_factory.mktemp("rings"), "rings", "-llttng-ust", "-ldl"))


def numbers(lines: list[str], event: str = "ros2:ring:") -> list[int]:
    matching = [line for line in lines if f" {event} " in line]
    return [int(re.search(r"number = (\d+)", line).group(1)) for line in matching]


def init_events(lines: list[str]) -> list[int]:
    """Return the numbers of the init events, of which there are at most two.

    One is in its own channel; the channel of the other events still holds its copy if the program
    left a CPU before it overwrote that copy.
    """
    inits = numbers(lines, "ros2:ring_init:")
    assert len(inits) <= 2
    return sorted(set(inits))


def size_of(folder: Path) -> int:
    """Return the disk space of the files below a folder, in bytes."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def test_a_bounded_trace_never_takes_more_than_it_may(rings, tmp_path):
    # 6,000 events of 4 kB are 24 MB; one program mostly writes on one CPU at a time.
    allowed = (3 << 19) * (os.cpu_count() or 1)
    # Blocking mode is needed, as a consumer that a busy machine stops for 20 ms would let the
    # buffers overflow.
    options = TracingOptions(max_disk=allowed, subbuf_size=65536, subbuf_count=4, mode="blocking")
    largest, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            largest[0] = max(largest[0], size_of(tmp_path / "run" / "trace"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        folder, manifest = record_command(
            [rings, "6000", "250", "4000"], tmp_path / "run", options=options, ros="none"
        )
    finally:
        done.set()
        watcher.join()
    assert manifest.status == "complete", manifest.failure
    assert manifest.tracing.max_disk_bytes == allowed
    assert allowed / 8 < max(largest[0], size_of(folder / "trace")) <= allowed
    lines = events_of(folder / "trace")
    kept = numbers(lines)
    # The newest events are there without a gap, the oldest gave way, but not the init event.
    assert kept == sorted(kept)
    assert kept[-1] == 5999
    assert 0 < len(kept) < 6000
    assert init_events(lines) == [6000]
    assert manifest.warnings == []
    # Our reader sees the ring of files as babeltrace2 does.
    assert open_trace(folder).info().events == len(lines)


def test_a_disk_too_small_for_the_buffers_is_refused():
    options = TracingOptions(max_disk="1M")
    with pytest.raises(UsageError, match="holds no two sub-buffers"):
        options.ring_files(1 << 20)
    with pytest.raises(UsageError, match="holds no two sub-buffers"):
        check_disk(options, kernel=False)
    enough = (3 << 19) * (os.cpu_count() or 1)
    check_disk(TracingOptions(max_disk=enough, subbuf_size="64k"), kernel=False)
    assert options.ring_files(4 << 20) == (1 << 20, 4)
    assert options.ring_files(3 << 20) == (1 << 20, 3)
    assert options.ring_files(17 << 20) == (4 << 20, 4)


def test_a_snapshot_holds_what_the_buffers_held_at_the_end(rings, tmp_path):
    options = TracingOptions(mode="snapshot", subbuf_size=65536, subbuf_count=4)
    folder, manifest = record_command(
        [rings, "3000", "50", "1000"], tmp_path / "run", options=options, ros="none"
    )
    assert manifest.status == "complete", manifest.failure
    assert manifest.tracing.snapshots == 1
    lines = events_of(folder / "trace")
    kept = numbers(lines)
    assert kept[-1] == 2999
    # This is at most what four sub-buffers of each CPU hold of 1 kB events.
    assert 50 < len(kept) <= 256 * os.cpu_count()
    assert init_events(lines) == [3000]
    assert open_trace(folder).info().events == len(lines)


def test_a_snapshot_of_a_node_is_a_complete_run(tmp_path):
    """The node prints only how many messages it published; the newest are in the snapshot."""
    script = (
        "import rclpy, sys; from std_msgs.msg import String; rclpy.init(); "
        "publisher = rclpy.create_node('talker').create_publisher(String, '/chatter', 10); "
        "[publisher.publish(String()) for _ in range(5000)]"
    )
    options = TracingOptions(mode="snapshot", subbuf_size=65536, subbuf_count=4)
    folder, manifest = record_command(
        ["python", "-c", script], tmp_path / "run", options=options, ros="embedded"
    )
    assert (manifest.status, manifest.failure, manifest.warnings) == ("complete", None, [])
    assert manifest.tracing.snapshots == 1
    lines = events_of(folder / "trace")
    assert 100 < sum(" ros2:rcl_publish:" in line for line in lines) < 5000
    assert {line.split('"')[3] for line in lines if " ros2:rcl_node_init:" in line} == {"talker"}


def test_a_trigger_takes_a_snapshot_and_success_none(rings, tmp_path):
    options = TracingOptions(mode="snapshot", snapshot_at_end="failure", subbuf_size=65536)
    quiet, manifest = record_command(
        [rings, "10", "0", "10"], tmp_path / "quiet", options=options, ros="none"
    )
    assert manifest.status == "complete"
    assert manifest.tracing.snapshots == 0
    assert "no snapshot was taken" in " ".join(manifest.warnings)
    assert not list(quiet.rglob("metadata"))
    script = f'{rings} 10 0 10; : > "$ROSLENS_SNAPSHOT_FILE"; '
    script += 'while test -e "$ROSLENS_SNAPSHOT_FILE"; do sleep 0.05; done; exit 5'
    folder, manifest = record_command(
        ["sh", "-c", script], tmp_path / "run", options=options, ros="none"
    )
    assert manifest.status == "failed"
    # One snapshot was requested, and one was taken for the failure.
    assert manifest.tracing.snapshots == 2
    assert len([path for path in (folder / "trace").iterdir() if path.is_dir()]) == 2


def test_a_late_start_keeps_the_names(rings, tmp_path):
    spec = RunSpec(
        folder=tmp_path / "run",
        suite="s",
        campaign="c",
        command=[rings, "200", "0", "10", "100"],
        options=TracingOptions(start="ready"),
        time_limit=60,
        timing=Timing(duration_s=1.0),
        says_ready=True,
        expect_events="no",
    )
    with Interruption() as interruption, session_daemon() as daemon:
        manifest = record_run(spec, daemon, interruption)
    assert manifest.status == "complete", manifest.failure
    assert manifest.start_ns < manifest.timing.ready_ns < manifest.end_ns
    lines = events_of(tmp_path / "run" / "trace")
    assert numbers(lines) == list(range(100, 200))
    assert numbers(lines, "ros2:ring_init:") == [200]


def test_programs_that_ran_before_are_recorded_and_their_names_missed(rings, tmp_path):
    # A session daemon of the machine runs, here in the test's own home and mount namespace.
    home = tmp_path / "h"
    (home / ".lttng").mkdir(parents=True)
    shared = ("--daemon", "machine", "--ros", "none")
    script = (
        f"export HOME={home} LTTNG_HOME={home}; lttng-sessiond --no-kernel & daemon=$!; "
        "until lttng --no-sessiond list >/dev/null 2>&1; do sleep 0.1; done; "
        # The program emits until it is killed.
        f"{rings} 1000000 2000 10 & sleep 1; "
        f"{shlex.join(roslens_command('record', '-o', tmp_path / 'run', *shared))} -- sleep 1; "
        "status=$?; "
        "kill %2 $daemon; wait; exit $status"
    )
    command = ["bash", "-c", script]
    if os.geteuid() == 0:
        mount = f"mkdir -p /var/run/lttng && mount --bind {home}/.lttng /var/run/lttng && "
        command = ["unshare", "--mount", "sh", "-c", mount + 'exec "$@"', "sh", *command]
        if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
            pytest.skip("no right to make a mount namespace")
    source = Path(__file__).resolve().parents[2] / "src"
    env = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(tmp_path)}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    kept = numbers(events_of(tmp_path / "run" / "trace"))
    assert len(kept) > 20
    assert kept[0] > 0
    written = (tmp_path / "run" / "manifest.json").read_text()
    assert "no init event was recorded" in written


def test_containers_are_told_apart_by_their_namespace(pings, tmp_path):
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        unshare[1:1] = ["--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a PID namespace")

    def container(name: str, peer: str) -> str:
        # The kernel gives the number of an ended namespace to the next one.
        wait = f": > {tmp_path}/{name}; until test -e {tmp_path}/{peer}; do sleep 0.02; done"
        return shlex.join([*unshare, "sh", "-c", f"{wait}; exec {pings} 5"])

    folder, manifest = record_command(
        ["sh", "-c", f"{container('a', 'b')} & {container('b', 'a')} & wait"],
        tmp_path / "run",
        options=TracingOptions(contexts=("pid_ns",)),
        ros="none",
    )
    assert manifest.status == "complete", manifest.failure
    assert "pid_ns" in manifest.tracing.contexts
    lines = [line for line in events_of(folder / "trace") if "ros2:ping:" in line]
    assert len(lines) == 10
    spaces = [re.search(r"pid_ns = (\d+)", line).group(1) for line in lines]
    # Each is process 1 of its own namespace.
    assert {re.search(r"vpid = (\d+)", line).group(1) for line in lines} == {"1"}
    assert sorted(spaces.count(space) for space in set(spaces)) == [5, 5]
    assert str(Path("/proc/self/ns/pid").stat().st_ino) not in spaces


def test_several_processes_go_into_one_trace(pings, tmp_path):
    folder, manifest = record_command(
        ["sh", "-c", f"{pings} 5 & {pings} 7 & {pings} 9 & wait"], tmp_path / "run", ros="none"
    )
    assert manifest.status == "complete"
    pids = [re.search(r"vpid = (\d+)", line).group(1) for line in events_of(folder / "trace")]
    assert sorted(pids.count(pid) for pid in set(pids)) == [5, 7, 9]
