"""Test compiling on demand: resumed, once, whole or not at all, and refused in one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roslens.recording import RoslensError, RunFailedError
from roslens.tracing import ros_choice, sources
from roslens.tracing.ros import RosEnvironment, compiling, packages, rclcpp
from roslens.tracing.ros.compiling import Step, find_cpp_compiler, need_space, run_steps
from roslens.tracing.ros.rclcpp import rclcpp_for


def step(folder: Path, name: str, script: str = 'echo whole > "$2"') -> Step:
    """Return a step that is a shell script, which gets '-o NAME'."""
    return Step(folder / name, ("sh", "-c", f'echo {name} >> "{folder}/run"; {script}', "sh"))


def done(folder: Path) -> list[str]:
    return sorted((folder / "run").read_text().split())


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    notes: list[str] = []
    log = tmp_path / "log"
    run_steps([step(tmp_path, "a")], what="x", log=log, note=notes.append)
    run_steps([step(tmp_path, "a"), step(tmp_path, "b")], what="x", log=log, note=notes.append)
    assert done(tmp_path) == ["a", "b"]
    assert notes == ["compiling x: 1 files", "compiling x: 1 files"]
    run_steps([step(tmp_path, "a")], what="x", log=log, note=notes.append)
    assert len(notes) == 2


def test_a_compiler_s_first_error_is_said_and_all_of_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "wrong.cpp").write_text("int main() {return undeclared;}\n")
    wrong = Step(tmp_path / "wrong.o", (*find_cpp_compiler(), "-c", str(tmp_path / "wrong.cpp")))
    with pytest.raises(RunFailedError, match=r"wrong.o cannot be made: .*undeclared.*log\)$"):
        run_steps([wrong], what="x", log=tmp_path / "log", note=lambda _: None)
    assert "undeclared" in (tmp_path / "log").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"wrong.cpp", "log"}


KILLED = """
import sys
from pathlib import Path
from roslens.tracing.ros.compiling import Step, run_steps
folder = Path(sys.argv[1])
steps = [
    Step(folder / "a", ("sh", "-c", 'echo whole > "$2"', "sh")),
    Step(folder / "b", ("sh", "-c", 'printf half > "$2"; echo > "$0"; exec sleep 60',
                        str(folder / "begun"))),
]
run_steps(steps[:1], what="x", log=folder / "log", note=lambda _: None)
run_steps(steps, what="x", log=folder / "log", note=lambda _: None)
"""


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED, str(tmp_path)], start_new_session=True
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "b").exists()
    (tmp_path / "a").write_text("not made again")
    run_steps(
        [step(tmp_path, "a"), step(tmp_path, "b")],
        what="x",
        log=tmp_path / "log",
        note=lambda _: None,
    )
    assert done(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "whole\n"
    # No partly written file stays.
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "begun", "log", "run"}


def test_without_a_compiler_or_space_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunFailedError, match=r"x needs 1,000,000,000,000 MB there, .* make room"):
        need_space(tmp_path, 10**18, "x")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(RunFailedError, match=r"no C\+\+ compiler.*apt-get install g\+\+"):
        find_cpp_compiler()


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RosEnvironment:
    """Make a place of an embedded ROS 2, and a cache of our own."""
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    return RosEnvironment(
        kind="embedded",
        distro="kilted",
        rmw="rmw_fastrtps_cpp",
        python=tmp_path / "kilted" / "bin" / "python",
        python_version="3.11",
        variables={"AMENT_PREFIX_PATH": str(tmp_path / "kilted")},
    )


def test_a_full_disk_and_no_sources_leave_nothing_that_is_taken_for_complete(
    embedded: RosEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rclcpp, "SPACE", 10**18)
    with pytest.raises(RunFailedError, match="compiling rclcpp needs"):
        rclcpp_for(embedded)
    monkeypatch.undo()
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    monkeypatch.setattr(sources, "HOST", (tmp_path / "no hub").as_uri())
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    monkeypatch.setattr(ros_choice, "embedded_ros", lambda _: embedded)
    # Offline, the message offers, in one line, the form of the suite that needs no rclcpp.
    with pytest.raises(RunFailedError, match=r"cannot be cloned.*or take a suite without -rclcpp"):
        ros_choice.choose_ros("rclcpp")
    assert not list((tmp_path / "cache").rglob(packages.MARKER))


AT_ONCE = """
import sys, time
from pathlib import Path
from roslens.tracing.ros import rclcpp
from roslens.tracing.ros.environment import RosEnvironment
folder = Path(sys.argv[1])
def build(made, *_):
    with (folder / "built").open("a") as stream:
        stream.write("once\\n")
    (made.prefix / "build").mkdir()
    time.sleep(0.5)
    return {"rclcpp": "0"}
rclcpp._build, rclcpp.obtain = build, lambda *_: folder
ros = RosEnvironment("embedded", "kilted", None, folder / "kilted" / "bin" / "python", "3.11")
print(rclcpp.rclcpp_for(ros).prefix)
"""


def test_two_at_once_build_it_once(tmp_path: Path) -> None:
    environment = {**os.environ, "ROSLENS_CACHE": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", AT_ONCE, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert first == second != ""
    assert (tmp_path / "built").read_text() == "once\n"


def test_another_source_or_compiler_is_another_build(
    embedded: RosEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tuple(find_cpp_compiler())
    prefix = rclcpp._prefix(embedded, compiler)
    assert rclcpp._prefix(embedded, compiler) == prefix
    changed = {k: sources.Source(k, "", "", "", "other") for k in rclcpp.SOURCES}
    monkeypatch.setattr(rclcpp, "pinned", lambda: changed)
    assert rclcpp._prefix(embedded, compiler) != prefix
    monkeypatch.undo()
    assert rclcpp._prefix(embedded, ("cat",)) != prefix


def test_time_is_told_for_people() -> None:
    assert compiling._about(20) == "about 20 s"
    assert re.fullmatch("about 3 min", compiling._about(170))
    assert issubclass(RunFailedError, RoslensError)
