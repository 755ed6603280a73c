"""The launcher of the rclcpp workloads; the programs themselves need a ROS 2 with rclcpp."""

import csv
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "tracing" / "workloads" / "rclcpp_workloads"
RUN = PACKAGE / "run.py"
HEAD = "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription\n"


def run(folder: Path, *options: str) -> subprocess.CompletedProcess:
    own = {k: v for k, v in os.environ.items() if k != "AMENT_PREFIX_PATH"}
    return subprocess.run(
        [sys.executable, str(RUN), *options, "--output", str(folder / "out")],
        env={**own, "RCLCPP_WORKLOADS": str(folder / "bin")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def fake(folder: Path, name: str, script: str) -> None:
    """A program in the place of a built one; it shows what the launcher asks of it."""
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_what_is_not_built_is_said(tmp_path):
    done = run(tmp_path, "--workload", "chain")
    assert done.returncode == 2
    assert "chain is not built: 'colcon build" in done.stderr
    assert run(tmp_path, "--workload", "nothing").returncode == 2
    assert run(tmp_path, "--processes", "3").returncode == 2
    assert run(tmp_path, "--workload", "timers", "--processes", "2").returncode == 2


def test_options_are_passed_on_and_failures_are_its_own(tmp_path):
    fake(tmp_path, "timers", 'echo "$@"; exit 3')
    done = run(tmp_path, "--workload", "timers", "--executor", "Events")
    assert done.returncode == 3
    assert done.stdout == f"--executor Events --output {tmp_path / 'out'}\n"
    fake(tmp_path, "timers", "kill -SEGV $$")
    assert run(tmp_path, "--workload", "timers").returncode == 128 + 11


def test_two_processes_log_into_one_file(tmp_path):
    # Publisher: 0, 1, 2 at 10, 20, 30. Subscriber: 0 and 2 at 15, 35.
    fake(
        tmp_path,
        "messages",
        'while [ $# -gt 1 ]; do eval "${1#--}=\\$2"; shift 2; done\n'
        f'printf "{HEAD[:-1]}\\n" > $output/messages_$role.csv\n'
        "if [ $role = publisher ]; then\n"
        '  printf "/data,0,10,,0,\\n/data,1,20,,0,\\n/data,2,30,,0,\\n"'
        " >> $output/messages_$role.csv\n"
        "else\n"
        '  printf "/data,0,,15,0,0\\n/data,2,,35,0,0\\n" >> $output/messages_$role.csv\n'
        "fi",
    )
    done = run(tmp_path, "--workload", "messages", "--processes", "2")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "messages.csv").open() as stream:
        rows = {
            (r["sequence"], r["publish_realtime_ns"], r["callback_realtime_ns"])
            for r in csv.DictReader(stream)
        }
    assert rows == {("0", "10", "15"), ("1", "20", ""), ("2", "30", "35")}


def test_the_package_is_whole():
    package = ET.parse(PACKAGE / "package.xml").getroot()
    cmake = (PACKAGE / "CMakeLists.txt").read_text()
    sources = {path.stem for path in (PACKAGE / "src").glob("*.cpp")}
    assert {x for x in sources if f"workload({x})" in cmake} == sources
    for dependency in package.iter("depend"):
        assert f"find_package({dependency.text} REQUIRED)" in cmake
    for launch in (PACKAGE / "launch").glob("*.py"):
        compile(launch.read_text(), str(launch), "exec")
        assert "tracetools_launch.action import Trace" in launch.read_text()
