"""Test the demo, recorded: its own log against the trace, and its end when things go wrong.

Ground truth: what the nodes themselves log (messages.csv, calls.csv, goals.csv), the operating
system's list of processes, and the header that defines the events.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.programs import gone, wait_for
from tests.ros.conftest import Recorder

from roslens.recording.manifest import Endpoint
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.environment import python_path
from roslens.tracing.ros.header import read_instrumentation

DEMO = Path(__file__).resolve().parents[2] / "tracing" / "workloads" / "demo" / "run.py"
pytestmark = pytest.mark.live


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("executor", "payload"),
    [("SingleThreaded", 100), ("Events", 100_000), ("MultiThreaded", 100)],
)
def test_the_trace_says_what_the_nodes_say(
    ros: RosEnvironment, recorder: Recorder, tmp_path: Path, executor: str, payload: int
) -> None:
    native = tmp_path / "native"
    with ros.isolated(tmp_path / "log") as isolated:
        environment = isolated.process_environment(recorder.environment, preload=ros.preload())
        environment["PYTHONPATH"] = python_path(environment)
        environment["ROSLENS_READY_FILE"] = str(tmp_path / "ready")
        command = [
            str(isolated.python),
            str(DEMO),
            *("--payload", str(payload), "--executor", executor),
            # Give a number of messages, as on a busy machine few fit into a fixed time.
            *("--rate", "200", "--messages", "250", "--output", str(native)),
        ]
        run, events, trace = recorder.record(command, environment)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert (tmp_path / "ready").exists()

    messages = rows(native / "messages.csv")
    assert len(messages) == 250
    assert [int(m["sequence"]) for m in messages] == list(range(len(messages)))
    delivered = [m for m in messages if m["callback_realtime_ns"]]
    assert all(int(m["callback_realtime_ns"]) > int(m["publish_realtime_ns"]) for m in delivered)
    calls = rows(native / "calls.csv")
    # A server drops the answer to a client it has not discovered yet, so the first may be missing;
    # of requests that wait while it is kept from running, the newest ten stay. So the last is
    # there.
    answered = [c for c in calls if c["response_realtime_ns"]]
    assert len(answered) >= 10
    assert answered[-1] == calls[-1]
    assert all(
        int(c["request_realtime_ns"])
        < int(c["callback_realtime_ns"])
        < int(c["response_realtime_ns"])
        for c in answered
    )
    goals = rows(native / "goals.csv")
    ended = [g for g in goals if g["result_realtime_ns"]]
    assert ended
    assert all(all(g.values()) for g in ended)

    # The subscription's callback gets its name by the chain of init events.
    fields = {
        name: [e.fields for e in events if e.name == name] for name in {e.name for e in events}
    }
    handle = next(f for f in fields["rcl_subscription_init"] if f["topic_name"] == "/samples")[
        "subscription_handle"
    ]
    subscription = next(
        f["subscription"]
        for f in fields["rclcpp_subscription_init"]
        if f["subscription_handle"] == handle
    )
    callback = next(
        f["callback"]
        for f in fields["rclcpp_subscription_callback_added"]
        if f["subscription"] == subscription
    )
    receiver = {e.vpid for e in events if e.procname == "demo_subscriber"}
    assert len(receiver) == 1
    starts = sorted(
        e.time
        for e in events
        if e.name == "callback_start" and e.fields["callback"] == callback and e.vpid in receiver
    )
    assert len(starts) == len(delivered)
    # The logged time of a callback is next to its event (microseconds on a quiet machine), and
    # differs by less than half of the 5 ms between messages.
    logged = sorted(int(m["callback_realtime_ns"]) / 1e9 for m in delivered)
    late = [after - before for before, after in zip(starts, logged, strict=True)]
    assert abs(statistics.median(late)) < 2.5e-3

    publisher = next(f for f in fields["rcl_publisher_init"] if f["topic_name"] == "/samples")[
        "publisher_handle"
    ]
    sent = [f for f in fields["rcl_publish"] if f["publisher_handle"] == publisher]
    assert len(sent) == len(messages)

    graph = [
        Endpoint.model_validate(endpoint)
        for endpoint in json.loads((native / "graph.json").read_text())
    ]
    kinds = Counter((e.topic, e.kind) for e in graph)
    assert kinds[("/samples", "publisher")] == kinds[("/samples", "subscription")] == 1
    samples = [e for e in graph if e.topic == "/samples"]
    assert {(e.reliability, e.history, e.depth) for e in samples} == {("reliable", "keep_last", 10)}
    assert_metadata_matches_header(ros, trace)


def assert_metadata_matches_header(ros: RosEnvironment, trace: Path) -> None:
    """Check that each event in the trace's metadata has the fields that the wheel's header names.

    Ten events are our own.
    """
    assert ros.include is not None
    expected = {
        f"ros2:{t.name}": [f.name for f in t.fields]
        for t in read_instrumentation(ros.include).tracepoints
    } | {
        "ros2:rcl_send_request": ["rmw_client_handle"],
        "ros2:rcl_send_response": ["rmw_service_handle"],
        "ros2:client_callback_start": ["rmw_client_handle", "sequence_number"],
        "ros2:action_request": ["goal_id"],
        "ros2:goal_status": ["goal_id", "status"],
        "ros2:message_type_init": ["handle", "type"],
        "ros2:message_content": ["message", "size", "header_stamp"],
        "ros2:message_received": ["message", "received_timestamp"],
        "ros2:executor_wait_start": [],
        "ros2:executor_wait_end": [],
    }
    text = subprocess.check_output(
        ["babeltrace2", "-o", "ctf-metadata", str(next(trace.rglob("metadata")).parent)], text=True
    )
    by_event = {}
    for block in text.split("event {")[1:]:
        name = re.search(r'name = "([^"]+)"', block)
        body = re.search(r"fields := struct \{(.*?)\n\t\}", block, re.DOTALL)
        assert name
        lines = body.group(1).splitlines() if body else []
        by_event[name.group(1)] = [
            m.group(1) for line in lines if (m := re.search(r"\b_(\w+)(?:\[\d+\])?;$", line))
        ]
    assert by_event == expected


@contextmanager
def running(
    ros: RosEnvironment, folder: Path, seconds: float = 30
) -> Iterator[subprocess.Popen[str]]:
    """Run the demo, and yield it when both of its processes are ready."""
    ready = folder / "ready"
    with ros.isolated(folder / "log") as isolated:
        environment = isolated.process_environment() | {"ROSLENS_READY_FILE": str(ready)}
        process = subprocess.Popen(
            [
                *(str(isolated.python), str(DEMO), "--seconds", str(seconds)),
                *("--output", str(folder / "native")),
            ],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(ready.exists, process=process)
            yield process
        finally:
            process.kill()
            process.wait()


def children(pid: int) -> dict[str, int]:
    """Return, by name, the processes that `pid` started."""
    return {child.name(): child.pid for child in psutil.Process(pid).children()}


def wait_gone(pids: list[int]) -> None:
    wait_for(lambda: all(gone(pid) for pid in pids))


def test_a_number_of_messages(ros: RosEnvironment, tmp_path: Path) -> None:
    # 100 messages take half a second longer than the time that is also given.
    with ros.isolated(tmp_path / "log") as isolated:
        command = [
            str(isolated.python),
            str(DEMO),
            *("--messages", "100", "--rate", "100", "--seconds", "0.5"),
            *("--output", str(tmp_path / "native")),
        ]
        subprocess.run(command, env=isolated.process_environment(), check=True, timeout=120)
    messages = rows(tmp_path / "native" / "messages.csv")
    assert [int(m["sequence"]) for m in messages] == list(range(100))
    # The queue keeps the newest ten messages if a busy machine lets the subscriber wait.
    assert all(m["callback_realtime_ns"] for m in messages[-10:])


@pytest.mark.parametrize(
    ("number", "seconds", "said"),
    [
        (signal.SIGKILL, 30, "the subscriber process was killed by signal 9"),
        (signal.SIGSTOP, 1, "ending the subscriber took more than 6 s"),
    ],
)
def test_a_node_that_is_killed_or_does_not_answer_ends_the_other_and_the_run(
    number: signal.Signals, seconds: float, said: str, ros: RosEnvironment, tmp_path: Path
) -> None:
    with running(ros, tmp_path, seconds) as process:
        nodes = children(process.pid)
        assert set(nodes) == {"demo_publisher", "demo_subscriber"}
        os.kill(nodes["demo_subscriber"], number)
        assert process.stderr is not None
        error = process.stderr.read()
        assert process.wait(60) == 1
        assert error == f"demo: {said}\n"
        wait_gone(list(nodes.values()))
    assert not (tmp_path / "native" / "messages.csv").exists()


CRASH_AT_EXIT = """
import atexit, os, signal, sys
if "publisher" in sys.orig_argv:
    atexit.register(os.kill, os.getpid(), signal.SIGKILL)
"""


def test_a_node_that_crashes_at_its_end_fails_the_run(ros: RosEnvironment, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASH_AT_EXIT)
    with ros.isolated(tmp_path / "log") as isolated:
        environment = isolated.process_environment()
        path = os.pathsep.join(filter(None, (str(tmp_path), environment.get("PYTHONPATH"))))
        done = subprocess.run(
            [
                *(str(isolated.python), str(DEMO), "--messages", "10", "--rate", "100"),
                *("--output", str(tmp_path / "native")),
            ],
            env={**environment, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "demo: the publisher process was killed by signal 9\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(ros: RosEnvironment, tmp_path: Path, number: signal.Signals) -> None:
    with running(ros, tmp_path) as process:
        nodes = children(process.pid)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        wait_gone(list(nodes.values()))


def test_the_nodes_end_when_their_launcher_is_killed(ros: RosEnvironment, tmp_path: Path) -> None:
    with running(ros, tmp_path) as process:
        nodes = children(process.pid)
        process.kill()
        wait_gone(list(nodes.values()))


def test_wrong_options(ros: RosEnvironment, tmp_path: Path) -> None:
    for arguments in (("--executor", "None"), ("--payload", "3"), ("--rate", "0")):
        run = subprocess.run(
            [str(ros.python), str(DEMO), *arguments, "--output", str(tmp_path)],
            env=ros.process_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 2
        assert arguments[0] in run.stderr


EARLY = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import rclpy
begin = rclpy.init
def init(*arguments, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    return begin(*arguments, **named)
rclpy.init = init
sys.argv = ["run.py", "--role", "subscriber", "--output", "."]
import run
sys.exit(run.main())
"""


def test_a_signal_before_the_process_is_ready_ends_it(ros: RosEnvironment, tmp_path: Path) -> None:
    with ros.isolated(tmp_path / "log") as isolated:
        done = subprocess.run(
            [str(isolated.python), "-c", EARLY.format(folder=str(DEMO.parent))],
            stdin=subprocess.DEVNULL,
            env=isolated.process_environment(),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stdout == ""
