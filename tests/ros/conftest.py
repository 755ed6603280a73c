"""Provide real ROS 2 for the tests, recorded, and read with babeltrace2."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roslens.tracing.lttng import SessionDaemon, TracingOptions, recording_session, session_daemon
from roslens.tracing.ros import RosEnvironment, embedded_ros

_EVENT = re.compile(
    r"^\[(\d+\.\d+)\] .*?(\w+):(\w+): .*?vpid = (\d+), vtid = (\d+), procname = \"([^\"]*)\" \}"
    r"(?:, \{ ?(.*?) ?\})?$"
)
_FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,\s]+)')


@dataclass(frozen=True)
class Event:
    """An event as babeltrace2 prints it, with pointers as hexadecimal text."""

    time: float
    name: str
    vpid: int
    vtid: int
    procname: str
    fields: dict[str, str]


@pytest.fixture(scope="session")
def ros() -> RosEnvironment:
    """Return the embedded ROS 2, made by roslens itself if it is not in the cache yet."""
    return embedded_ros()


@pytest.fixture(scope="session")
def daemon() -> Iterator[SessionDaemon]:
    """Start a session daemon for these tests."""
    with session_daemon() as started:
        yield started


class Recorder:
    """A recorder of what commands do."""

    def __init__(self, daemon: SessionDaemon, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which programs reach the daemon."""
        return {**os.environ, **self.daemon.workload_variables}

    def record(
        self, command: list[str], environment: dict[str, str], timeout: float = 60
    ) -> tuple[subprocess.CompletedProcess[str], list[Event], Path]:
        """Run a command in a session; return how it ended, its events by time, and the trace."""
        trace = self.folder / "trace"
        options = TracingOptions(events=("ros2:*",), kernel="off")
        with recording_session(self.daemon, options, trace) as session:
            run = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        assert session.loss.discarded_events == 0
        return run, read_events(trace), trace


@pytest.fixture
def recorder(daemon: SessionDaemon, tmp_path: Path) -> Recorder:
    return Recorder(daemon, tmp_path)


def read_events(trace: Path) -> list[Event]:
    """Return all events, as babeltrace2 reads them."""
    if not any(trace.rglob("metadata")):
        return []
    text = subprocess.run(
        ["babeltrace2", "--clock-seconds", str(trace)], check=True, capture_output=True, text=True
    )
    assert "discarded" not in text.stderr
    events = []
    for line in text.stdout.splitlines():
        match = _EVENT.match(line)
        assert match, line
        fields = {k: v.strip('"') for k, v in _FIELD.findall(match.group(7) or "")}
        events.append(
            Event(
                float(match.group(1)),
                match.group(3),
                int(match.group(4)),
                int(match.group(5)),
                match.group(6),
                fields,
            )
        )
    return events
