"""Real ROS 2 for the tests, and sessions recorded with the plain ``lttng`` command."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tracing.ros import RosEnvironment, embedded_ros

_EVENT = re.compile(
    r"^\[(\d+\.\d+)\] .*?(\w+):(\w+): .*?vpid = (\d+), vtid = (\d+), procname = \"([^\"]*)\" \}"
    r"(?:, \{ ?(.*?) ?\})?$"
)
_FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,\s]+)')


@dataclass(frozen=True)
class Event:
    """One event as babeltrace2 prints it; pointers as hexadecimal text."""

    time: float
    name: str
    vpid: int
    vtid: int
    procname: str
    fields: dict[str, str]


@pytest.fixture(scope="session")
def ros() -> RosEnvironment:
    """The embedded ROS 2, made by roslens itself if it is not in the cache yet."""
    return embedded_ros()


@pytest.fixture(scope="session")
def lttng_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which ``lttng`` finds a session daemon; ended if it was started here."""
    environment = dict(os.environ)
    if os.geteuid() != 0:  # root has one daemon for all
        environment["LTTNG_HOME"] = str(tmp_path_factory.mktemp("lttng_home"))

    def answers() -> bool:
        asked = subprocess.run(["lttng", "list"], env=environment, capture_output=True, check=False)
        return asked.returncode == 0

    started = None
    if not answers():
        started = subprocess.Popen(
            ["lttng-sessiond", "--no-kernel"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not answers():
            assert started.poll() is None, "lttng-sessiond does not start"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield environment
    if started is not None:
        sessions = subprocess.run(
            ["lttng", "list"], env=environment, capture_output=True, text=True, check=False
        ).stdout
        if "Recording sessions" not in sessions and "tracing sessions" not in sessions:
            started.terminate()
            started.wait(10)


class Recorder:
    """Records what a command does."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment, self.folder = environment, folder

    def record(
        self, command: list[str], environment: dict[str, str], timeout: float = 60
    ) -> tuple[subprocess.CompletedProcess[str], list[Event], Path]:
        """Run a command in a session; how it ended, all events in time order, the trace."""
        name = f"roslens-test-{uuid.uuid4().hex[:8]}"
        trace = self.folder / name
        self._lttng("create", name, "-o", str(trace))
        try:
            channel = ("--subbuf-size=512K", "--num-subbuf=8")
            self._lttng("enable-channel", "-s", name, "-u", "all", *channel)
            self._lttng("enable-event", "-s", name, "-u", "-c", "all", "ros2:*")
            self._lttng(
                *("add-context", "-s", name, "-u", "-c", "all"),
                *("-t", "vpid", "-t", "vtid", "-t", "procname"),
            )
            self._lttng("start", name)
            run = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            self._lttng("stop", name)
        finally:
            self._lttng("destroy", name)
        return run, read_events(trace), trace

    def _lttng(self, *arguments: str) -> None:
        subprocess.run(["lttng", *arguments], env=self.environment, check=True, capture_output=True)


@pytest.fixture
def recorder(lttng_environment: dict[str, str], tmp_path: Path) -> Recorder:
    return Recorder(lttng_environment, tmp_path)


def read_events(trace: Path) -> list[Event]:
    """All events, as babeltrace2 reads them."""
    if not any(trace.rglob("metadata")):
        return []
    text = subprocess.run(
        ["babeltrace2", "--clock-seconds", str(trace)], check=True, capture_output=True, text=True
    )
    assert "discarded" not in text.stderr
    events = []
    for line in text.stdout.splitlines():
        found = _EVENT.match(line)
        assert found, line
        fields = {k: v.strip('"') for k, v in _FIELD.findall(found.group(7) or "")}
        events.append(
            Event(
                float(found.group(1)),
                found.group(3),
                int(found.group(4)),
                int(found.group(5)),
                found.group(6),
                fields,
            )
        )
    return events
