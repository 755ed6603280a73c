"""Test where users see log levels and namespaces of event classes. Oracle: babeltrace2's text."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.ctf import ctf_writer as w
from tests.ctf.ctf2_writer import as_sequence
from tests.programs import roslens

from roslens.collectors.reader import log_level_name, open_trace

LEVELS = {"p:alarm": 1, "p:detail": 13, "p:odd": 99, "p:none": None}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    events = [w.Event(name, n, w.structure({"x": w.integer(8)})) for n, name in enumerate(LEVELS)]
    trace = w.TraceWriter(events)
    stream = w.Stream(trace)
    for n, event in enumerate(events):
        stream.event(event, 10 + n, {"x": n}, {})
    stream.packet()
    trace.save(tmp_path, s=stream)
    text = (tmp_path / "metadata").read_text()
    for name, level in LEVELS.items():
        if level is not None:
            text = text.replace(f'name = "{name}";', f'name = "{name}"; loglevel = {level};')
    (tmp_path / "metadata").write_text(text)
    return tmp_path


def test_names_of_levels() -> None:
    """The numbers are those of ``lttng/tracepoint-types.h`` of LTTng-UST."""
    named = [log_level_name(level) for level in (0, 6, 7, 13, 14, 15, -1)]
    names = ["EMERG", "INFO", "DEBUG_SYSTEM", "DEBUG_LINE", "DEBUG"]
    assert named == [*(f"TRACE_{name}" for name in names), "15", "-1"]


def test_levels_reach_info_and_events(root: Path) -> None:
    expected = {"p:alarm": "TRACE_ALERT", "p:detail": "TRACE_DEBUG_LINE", "p:odd": "99"}
    assert open_trace(root).log_levels == expected
    assert json.loads(roslens("info", root, "--json").stdout)["log_levels"] == expected
    assert re.search(r"p:alarm +1 +TRACE_ALERT", roslens("info", root).stdout)
    lines = roslens("events", root, "--fields", "x,log_level", "--format", "json").stdout
    levels = [json.loads(line)["log_level"] for line in lines.splitlines()]
    assert levels == [*expected.values(), None]
    text = roslens("events", root, "--fields", "log_level").stdout.splitlines()
    # babeltrace2 knows no names for other numbers, and prints none for them.
    theirs = subprocess.check_output(
        ["babeltrace2", "--fields=loglevel", str(root)], text=True
    ).splitlines()
    for name in ("p:alarm", "p:detail"):
        [ours] = [line for line in text if name in line]
        [their_line] = [line for line in theirs if name in line]
        level = re.search(r"TRACE_\w+", their_line)
        assert level is not None
        assert level[0] in ours


def test_a_field_of_that_name_comes_first(tmp_path: Path) -> None:
    event = w.Event("p:e", 0, w.structure({"log_level": w.integer(8)}))
    trace = w.TraceWriter([event])
    stream = w.Stream(trace)
    stream.event(event, 1, {"log_level": 5}, {})
    stream.packet()
    trace.save(tmp_path, s=stream)
    line = roslens("events", tmp_path, "--fields", "log_level", "--format", "json")
    assert json.loads(line.stdout)["log_level"] == 5


def test_namespaces_tell_events_of_one_name_apart(tmp_path: Path) -> None:
    u8 = {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}

    def member(name: str, *roles: str) -> dict[str, object]:
        return {"name": name, "field-class": u8 | ({"roles": list(roles)} if roles else {})}

    def structure(*members: dict[str, object]) -> dict[str, object]:
        return {"type": "structure", "member-classes": list(members)}

    def event(number: int, name: str, **more: object) -> dict[str, object]:
        payload = {"payload-field-class": structure(member("x"))}
        return {"type": "event-record-class", "id": number, "name": name, **payload, **more}

    header = structure(member("id", "event-record-class-id"))
    fragments = [
        {"type": "preamble", "version": 2},
        {"type": "data-stream-class", "event-record-header-field-class": header},
        event(0, "start"),
        event(1, "start", namespace="robots.org,2026"),
        event(2, "stop", namespace="robots.org,2026"),
    ]
    (tmp_path / "metadata").write_text(as_sequence(fragments))
    (tmp_path / "s").write_bytes(bytes([0, 7, 1, 8, 2, 9]))
    frames = open_trace(tmp_path).read()
    by_name = {name: frame["x"].to_list() for name, frame in frames.items()}
    assert by_name == {"start": [7], "robots.org,2026:start": [8], "stop": [9]}
