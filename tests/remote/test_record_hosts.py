"""Test ``roslens record --host`` through a real sshd, and all that may go wrong on the way.

The other host is this one, so what is left there can be examined.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.programs import gone, roslens, roslens_command, wait_for
from tests.remote.own_sshd import CLOSED, GOOD, STRANGE, WRONG_KEY, OwnSshd
from tests.small_disk import small_disk

pytestmark = pytest.mark.live

QUIET = ("--tracer", "native", "--ros", "none", "--kernel", "off")
WAITS = f"{GOOD}:sh -c 'echo there; sleep 1000'"


class Started:
    """A ``roslens record`` process, whose output folder is ``out``."""

    def __init__(self, sshd: OwnSshd, *arguments: str, setup: str | None = None) -> None:
        self.out = sshd.folder / "out"
        self.process = subprocess.Popen(
            [
                *roslens_command("record", *QUIET, "-o", self.out),
                *("--host-setup", setup or sshd.setup, *arguments),
            ],
            env=sshd.environment(),
            cwd=sshd.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        """Wait for the end, and return the exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=600)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def hosts(self) -> list[dict[str, object]]:
        """Return what was started on which host."""
        return json.loads((self.out / "hosts.json").read_text())["hosts"]

    def wait_until_begun(self) -> int:
        """Wait until the other host records, and return its recorder's process id."""
        path = self.out / "hosts.json"
        begun = wait_for(lambda: path.is_file() and self.hosts()[0]["pid"], 300, self.process)
        return int(str(begun))

    def manifest(self, name: str) -> dict[str, object]:
        return json.loads((self.out / name / "manifest.json").read_text())


@pytest.fixture
def start(sshd: OwnSshd) -> Iterator[Callable[..., Started]]:
    begun: list[Started] = []

    def begin(*arguments: str, **options: str) -> Started:
        begun.append(Started(sshd, *arguments, **options))
        return begun[-1]

    yield begin
    for recording in begun:
        if recording.process.poll() is None:
            recording.process.kill()
            recording.process.communicate()


def test_another_host_records_as_long_as_the_command_here(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    # Recording has begun there before the command here begins, which ends at once.
    proof = sshd.folder / "proof"
    hosts = ("--host", WAITS, "--host", f"{GOOD}:sh -c 'echo 2nd; sleep 1000'")
    begun = start(*hosts, "--", "sh", "-c", f"cp -r {sshd.there} {proof}")
    status, out, err = begun.end()
    assert status == 0, err
    assert out.splitlines()[-1] == str(begun.out / "merged")
    members = begun.manifest("merged")["members"]
    assert [member["name"] for member in members] == ["0_here", "1_robot", "2_robot-2"]  # type: ignore[attr-defined]
    assert len(list(proof.glob("roslens-*/robot*/native/stdout.log"))) == 2
    for name, text in (("robot", "there\n"), ("robot-2", "2nd\n")):
        manifest = begun.manifest(name)
        assert (manifest["status"], manifest["exit_status"], manifest["run"]) == (
            *("complete", -signal.SIGINT, name),
        )
        assert (begun.out / name / "native" / "stdout.log").read_text() == text
    assert begun.manifest("here")["status"] == "complete"
    # Nothing is left on the other host.
    assert list(sshd.there.iterdir()) == []
    assert [host["status"] for host in begun.hosts()] == ["fetched", "fetched"]


def test_what_cannot_be_reached_is_said_and_the_rest_kept(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    hosts = [
        word for name in (CLOSED, WRONG_KEY, STRANGE) for word in ("--host", f"{name}:sleep 9")
    ]
    begun = start(*hosts, "--host", WAITS, "--", "true")
    status, _, err = begun.end()
    assert status == 4
    notes = dict(line[6:].split(": ", 1) for line in err.splitlines() if line.startswith("note: "))
    assert re.search("cannot be reached: .*Connection refused", notes[CLOSED])
    assert "Permission denied" in notes[WRONG_KEY]
    assert notes[WRONG_KEY].endswith("'ssh-copy-id wrongkey' lets your key in")
    assert "Host key verification failed" in notes[STRANGE]
    errors = [line for line in err.splitlines() if line.startswith("roslens: error: ")]
    assert len(errors) == 1
    assert all(name in errors[0] for name in (CLOSED, WRONG_KEY, STRANGE))
    assert {path.name for path in begun.out.iterdir()} == {"here", "robot", "merged", "hosts.json"}
    assert begun.manifest("robot")["status"] == "complete"
    # No key was accepted.
    assert (sshd.folder / "none").read_text() == ""


def test_no_roslens_there_another_version_and_an_older_one(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    status, _, err = start("--host", WAITS, setup=f"cd {sshd.there}").end()
    assert status == 4
    assert err.count("robot: has no roslens on its PATH: 'pip install roslens==") == 2
    assert not (sshd.folder / "out").exists()
    # This roslens cannot be started from here: it is called with another option.
    sshd.program('shift 2; set -- record --unheard-of-as-host "$@"')
    status, _, err = start("--host", WAITS).end()
    assert status == 4
    assert "robot: has a roslens that cannot be begun from here: install" in err
    # This one is another version that can.
    facts = sshd.folder / "path" / "roslens-0.0.7.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: roslens\nVersion: 0.0.7\n")
    sshd.program(path=str(facts.parent))
    begun = start("--host", WAITS, "--time-limit", "0.1")
    status, _, err = begun.end()
    assert status == 0, err
    assert "note: robot: has roslens 0.0.7, here is " in err
    assert begun.manifest("robot")["environment"]["roslens"] == "0.0.7"  # type: ignore[index]


def test_a_command_that_is_not_there_and_a_tracer_that_cannot(
    start: Callable[..., Started],
) -> None:
    hosts = ("--host", f"{GOOD}:no-such-program", "--host", GOOD)
    status, _, err = start(*hosts, "--time-limit", "1").end()
    assert status == 4
    assert "robot: no-such-program: not found on PATH" in err
    assert "robot-2: the native tracer does not do 'daemon: machine'" in err
    # This error is here, before anything begins there.
    status, _, err = start("--host", WAITS, "--", "no-such-program").end()
    assert (status, err.count("\n")) == (2, 1)


def test_ctrl_c_stops_all_and_fetches(start: Callable[..., Started]) -> None:
    begun = start("--host", WAITS, "--", "sleep", "1000")
    recorder = begun.wait_until_begun()
    wait_for((begun.out / "here" / "native").is_dir, 300, begun.process)
    begun.process.send_signal(signal.SIGINT)
    status, _, err = begun.end()
    assert status == 130, err
    assert gone(recorder)
    assert begun.manifest("here")["status"] == "interrupted"
    assert begun.manifest("robot")["status"] == "complete"


def test_without_a_command_here_ctrl_c_is_the_end(start: Callable[..., Started]) -> None:
    begun = start("--host", WAITS)
    begun.wait_until_begun()
    begun.process.send_signal(signal.SIGINT)
    status, _, err = begun.end()
    assert status == 0, err
    assert begun.manifest("robot")["status"] == "complete"


def test_a_recorder_that_is_killed_leaves_what_it_had(start: Callable[..., Started]) -> None:
    begun = start("--host", WAITS)
    os.kill(begun.wait_until_begun(), signal.SIGKILL)
    status, _, err = begun.end()
    assert status == 4
    assert "robot: its recorder was killed; what it had written is kept" in err
    assert (begun.out / "robot" / "native" / "stdout.log").read_text() == "there\n"


def test_a_connection_that_breaks_off_loses_nothing(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    begun = start("--host", WAITS, "--", "sh", "-c", "until [ -e cut ]; do sleep 0.1; done")
    recorder = begun.wait_until_begun()
    for pid in sshd.connections():
        os.kill(pid, signal.SIGKILL)
    (sshd.folder / "cut").touch()
    status, _, err = begun.end()
    assert status == 4
    assert "robot: the connection broke off" in err
    assert gone(recorder)
    assert begun.manifest("robot")["status"] == "complete"
    assert begun.manifest("here")["status"] == "complete"


def test_what_a_killed_recorder_here_began_is_fetched_later(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    begun = start("--host", WAITS)
    recorder = begun.wait_until_begun()
    begun.process.kill()
    begun.process.communicate()

    def resume(name: str, *options: str) -> subprocess.CompletedProcess[str]:
        place = {"env": sshd.environment(), "cwd": sshd.folder}
        return roslens("record", "--resume", name, *options, **place)

    done = resume("out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "out"
    assert gone(recorder)
    assert begun.manifest("robot")["status"] == "complete"
    assert list(sshd.there.iterdir()) == []
    # Nothing is left to do.
    assert resume("out").returncode == 0


def test_a_full_disk_there_is_said_and_what_fitted_is_kept(
    sshd: OwnSshd, start: Callable[..., Started]
) -> None:
    with small_disk(sshd.there, "size=12m"):
        fills = "cat /dev/zero >filler; sleep 1000"
        begun = start("--host", f'{GOOD}:sh -c "{fills}"')
        status, _, err = begun.end()
    assert status == 4
    assert "robot: no space left on the device: the trace is not whole" in err
    assert begun.manifest("robot")["status"] == "failed"


def test_a_full_disk_here_leaves_it_there(sshd: OwnSshd, start: Callable[..., Started]) -> None:
    disk = sshd.folder / "out"
    disk.mkdir()
    with small_disk(disk, "size=1m"):
        write = "head -c 2000000 /dev/zero"
        begun = start("--host", f"{GOOD}:{write}", "--time-limit", "100")
        status, _, err = begun.end()
        assert status == 4
        assert "robot: not fetched: " in err
        assert "no space left on device" in err
        assert f"'roslens record --resume {begun.out}' fetches the rest" in err
        assert {path.name for path in disk.iterdir()} == {"hosts.json"}
    [kept] = sshd.there.glob("*/robot/native/stdout.log")
    assert kept.stat().st_size == 2_000_000
