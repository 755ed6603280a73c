"""Test recordings that go wrong: the message, what is kept, and that nothing is left behind."""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import pytest
from live_recorder import events_of
from tests.small_disk import small_disk

from roslens.tracing.lttng.session import loss_of

pytestmark = pytest.mark.live


def one_line(error: str) -> str:
    lines = [line for line in error.splitlines() if line.startswith("roslens: error:")]
    assert len(lines) == 1, error
    assert "Traceback" not in error
    return lines[0]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "no-such-program: not found on PATH"),
        (["./no-such-program"], "./no-such-program: no such file"),
        (["/"], "/: is a folder"),
        ([__file__], "is not executable"),
    ],
)
def test_a_command_that_cannot_be_run(recorder, command, said):
    status, error = recorder.run(*command)
    assert status == 2
    assert said in one_line(error)
    assert not recorder.output.exists()
    recorder.assert_nothing_left()


def test_a_program_that_no_longer_works_leaves_no_folder(recorder, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    status, error = recorder.run(str(broken))
    assert status == 2
    assert "cannot be run" in one_line(error)
    assert not recorder.output.exists()
    recorder.assert_nothing_left()


def test_an_output_that_is_there_already(recorder, pings):
    recorder.output.mkdir(parents=True)
    (recorder.output / "mine").write_text("kept")
    status, error = recorder.run(pings, "1")
    assert status == 2
    assert "is there already" in one_line(error)
    assert (recorder.output / "mine").read_text() == "kept"


@pytest.mark.parametrize(
    ("script", "exit_status", "failure"),
    [
        ("{pings} 100; exit 3", 3, "the workload ended with status 3"),
        ("{pings} 100; kill -SEGV $$", -11, "the workload was killed by SIGSEGV"),
    ],
)
def test_a_workload_that_dies_keeps_what_it_did(recorder, pings, script, exit_status, failure):
    status, _ = recorder.run("sh", "-c", script.format(pings=pings))
    assert status == 4
    assert recorder.manifest["status"] == "failed"
    assert recorder.manifest["exit_status"] == exit_status
    assert recorder.manifest["failure"] == failure
    assert len(events_of(recorder.output / "trace")) == 100
    recorder.assert_nothing_left()


def test_a_workload_that_hangs_is_ended_at_its_limit(recorder, pings):
    # The workload ignores SIGINT and SIGTERM, and has a child in another session.
    script = f"trap '' INT TERM; setsid sleep 300 & {pings} 50; while :; do sleep 1; done"
    # The limit is long enough for a busy machine to start the program and emit.
    status, _ = recorder.run("sh", "-c", script, options=("--time-limit", "6"))
    assert status == 4
    assert "time limit of 6 s" in recorder.manifest["failure"]
    assert recorder.manifest["exit_status"] == -signal.SIGKILL
    assert len(events_of(recorder.output / "trace")) == 50
    recorder.assert_nothing_left()


def test_a_tracer_that_is_slow_to_answer_misses_nothing(recorder, pings):
    # A program's constructor waits for the tracer: by default for 3 s, then it runs on, untraced.
    go, began = (recorder.scratch.with_suffix(end) for end in (".go", ".began"))
    script = f": > {began}; until [ -e {go} ]; do sleep 0.05; done; {pings} 100"
    recorder.start("sh", "-c", script)
    recorder.wait_for(began.exists)
    daemon = recorder.pid_of("lttng-sessiond")
    os.kill(daemon, signal.SIGSTOP)
    go.touch()
    time.sleep(5)
    os.kill(daemon, signal.SIGCONT)
    status, _ = recorder.wait()
    go.unlink()
    began.unlink()
    assert status == 0
    assert len(events_of(recorder.output / "trace")) == 100
    recorder.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_recorder_that_is_asked_to_end(recorder, pings, number):
    began = recorder.scratch.with_suffix(".began")
    recorder.start("sh", "-c", f"{pings} 100 && : > {began} && exec {pings} 1000000 1000")
    recorder.wait_for(began.exists)
    began.unlink()
    recorder.process.send_signal(number)
    status, _ = recorder.wait()
    assert status == 130
    assert recorder.manifest["status"] == "interrupted"
    assert number.name in recorder.manifest["failure"]
    assert recorder.manifest["end_ns"] is not None
    assert len(events_of(recorder.output / "trace")) >= 100
    recorder.assert_nothing_left()


def test_a_second_interrupt_does_not_wait_for_the_workload(recorder, tmp_path):
    # The recorder starts a shell of its own before, so only a file tells that the workload is deaf.
    deaf = tmp_path / "deaf"
    recorder.start("sh", "-c", f"trap '' INT TERM; : > {deaf}; while :; do sleep 0.1; done")
    recorder.wait_for(deaf.exists)
    recorder.process.send_signal(signal.SIGINT)
    recorder.wait_for(lambda: recorder.process.poll() is None)
    for _ in range(3):
        recorder.process.send_signal(signal.SIGINT)
    status, _ = recorder.wait()
    assert status == 130
    assert recorder.manifest["status"] == "interrupted"
    assert recorder.manifest["exit_status"] == -signal.SIGKILL
    recorder.assert_nothing_left()


def test_a_recorder_that_is_killed_leaves_nothing_running(recorder, pings):
    recorder.start("sh", "-c", f"setsid {pings} 1000000 1000 & sleep 300")
    recorder.wait_for_workload("pings")
    recorder.process.kill()
    recorder.process.wait()
    recorder.assert_nothing_left()
    # The manifest shows that the run was cut short.
    assert recorder.manifest["status"] == "running"


def test_a_session_daemon_that_is_killed_ends_the_run(recorder, pings):
    recorder.start(pings, "1000000", "1000")
    recorder.wait_for_workload("pings")
    os.kill(recorder.pid_of("lttng-sessiond"), signal.SIGKILL)
    status, _ = recorder.wait()
    assert status == 4
    assert recorder.manifest["status"] == "failed"
    assert recorder.manifest["failure"] == "the LTTng session daemon ended during the run"
    assert recorder.manifest["loss"]["discarded_events"] is None  # unknown, not zero
    recorder.assert_nothing_left()


# ------------------------------------------------------------------ the disk


@pytest.fixture
def disk(tmp_path):
    """Return a function that mounts a file system of a given size; mounting needs root."""
    with ExitStack() as mounted:

        def make(size: str) -> Path:
            folder = tmp_path / "disk"
            folder.mkdir()
            mounted.enter_context(small_disk(folder, f"size={size}"))
            return folder

        yield make


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_disk_that_fills_up_keeps_what_fitted(recorder, disk, pings, goes_on):
    """The disk is filled by programs that come and go, or by one that is ended when it is full."""
    recorder.output = disk("6m") / "run"
    packet = 256 << 10
    script = f"while :; do {pings} 20000 0; sleep 0.05; done"
    script = f"exec {pings} 10000000 1" if goes_on else script
    options = ("--subbuf-size", packet, "--kernel", "off")
    status, _ = recorder.run("sh", "-c", script, options=options)
    assert status == 4
    assert recorder.manifest["status"] == "failed"
    assert "no space left on the device" in recorder.manifest["failure"]
    # The metadata is whole, so whole packets can be read. babeltrace2 does not read torn packets,
    # and another packet may follow one: the first half of each file is from before the disk was
    # full.
    copy = recorder.scratch / "copy"
    shutil.copytree(recorder.output / "trace", copy)
    for stream in copy.rglob("64-bit/ros2_*"):
        os.truncate(stream, stream.stat().st_size // packet // 2 * packet)
    shutil.rmtree(next(copy.rglob("index")))
    assert len(events_of(copy)) > 10000
    shutil.rmtree(copy)
    recorder.assert_nothing_left()


def test_a_disk_that_is_full_at_the_start(recorder, disk, pings):
    recorder.output = disk("64k") / "run"
    status, error = recorder.run(pings, "10")
    assert status == 4
    assert "no space left" in one_line(error)
    recorder.assert_nothing_left()


# ------------------------------------------------------------------ what is missing


def test_no_lttng(recorder, tmp_path):
    (tmp_path / "bin").mkdir()
    status, error = recorder.run("/bin/true", environment={"PATH": str(tmp_path / "bin")})
    assert status == 2
    line = one_line(error)
    assert "lttng is not installed" in line
    assert "apt-get install -y lttng-tools" in line
    assert not recorder.output.exists()


def test_no_session_daemon_and_none_can_be_started(recorder, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    broken = programs / "lttng-sessiond"
    broken.write_text("#!/bin/sh\necho 'Error: it will not start' >&2\nexit 1\n")
    broken.chmod(0o755)
    # Run where no daemon of another user can be found.
    prefix = []
    if os.geteuid() == 0:
        hide = 'mkdir -p /run/lttng && mount -t tmpfs none /run/lttng && exec "$@"'
        prefix = ["unshare", "--mount", "sh", "-c", hide, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            prefix = []
    status, error = recorder.run(
        "true",
        prefix=prefix,
        environment={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )
    assert status == 4
    line = one_line(error)
    assert "no LTTng session daemon runs and none can be started" in line
    assert "it will not start" in line
    assert not recorder.output.exists()
    recorder.assert_nothing_left()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's private daemon needs a namespace")
def test_root_without_the_right_to_mount_shares_the_machines_daemon(recorder, pings):
    # As in a container, the user is root but not allowed to make a mount namespace.
    hide = 'mkdir -p /run/lttng && mount -t tmpfs none /run/lttng && exec "$@"'
    drop = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", "--"]
    status, error = recorder.run(
        *(pings, "25", "0", "shared"),
        prefix=["unshare", "--mount", "sh", "-c", hide, "sh", *drop],
    )
    assert status == 0, error
    assert len(events_of(recorder.output / "trace")) == 25
    assert any(
        "the machine's session daemon" in note for note in recorder.manifest["tracing"]["notes"]
    )
    recorder.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_for_another_recording_can_be_ended(recorder, number):
    """The test holds the lock that another recorder would hold."""
    with (recorder.scratch / f"roslens-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        recorder.start("true", options=("--daemon", "machine"))
        said = iter(recorder.process.stderr.readline, "")
        assert any("waiting for it" in line for line in said)
        recorder.process.send_signal(number)
        status, error = recorder.wait()
    assert status == 130
    assert f"interrupted by {number.name}" in one_line(error)
    assert not recorder.output.exists()
    recorder.assert_nothing_left()


def test_a_ros_that_is_not_sourced_cannot_be_asked_for(recorder):
    nothing = {"ROS_DISTRO": "", "AMENT_PREFIX_PATH": ""}
    status, error = recorder.run("true", ros="sourced", environment=nothing)
    assert status == 2
    assert "no ROS 2 is sourced" in one_line(error)
    assert not recorder.output.exists()


def test_a_count_of_lttng_that_wrapped_around_is_unknown() -> None:
    """LTTng 2.13 reported this for a session in whose trace 108,072 events were discarded."""
    answer = ElementTree.fromstring(
        "<session><discarded_events>9223372036854883880</discarded_events>"
        "<lost_packets>0</lost_packets></session>"
    )
    assert loss_of(answer).model_dump() == {"discarded_events": None, "lost_packets": 0}
