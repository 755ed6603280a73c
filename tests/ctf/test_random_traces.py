"""Test random CTF 1.8 and CTF 2 traces: the reader gives what was written, as babeltrace2 does."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from ctf2_model import Model, is_nothing, shaped
from hypothesis import HealthCheck, given, settings
from polars.testing import assert_frame_equal
from tests.ctf.ctf2_writer import MAGIC_AND_UUID, Class, PacketWriter, as_sequence, in_header
from tests.ctf.tsdl import as_tsdl
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace

PARTS = ("specific-context-field-class", "payload-field-class")
NAMES = ["", "a", "of_twelve_ch", "sixteen_letters_"]


@dataclass
class Record:
    """An event that was written: its class, time, CPU, and the values in each of its structures."""

    event: Class
    cycles: int
    cpu: int
    common: dict[str, Any]
    specific: dict[str, Any]
    payload: dict[str, Any]


@dataclass
class Made:
    """A stream, and what was written."""

    data: bytes = b""
    events: list[Record] = field(default_factory=list)


def write(model: Model, fragments: list[dict[str, Any]], instance: int) -> Made:
    random = model.random
    stream = next(f for f in fragments if f["type"] == "data-stream-class")
    written = Made()
    cycles = random.randrange(1 << 40)
    for sequence in range(random.randint(1, 3)):
        packet = PacketWriter()
        trace = next(f for f in fragments if f["type"] == "trace-class")
        numbers = MAGIC_AND_UUID | {"stream_instance_id": instance}
        packet.value(trace["packet-header-field-class"], numbers)
        head = {"timestamp_begin": cycles, "content_size": 0, "packet_size": 0}
        head |= {"packet_seq_num": sequence, "cpu_id": 3 + instance}
        packet.value(stream["packet-context-field-class"], head)
        for _ in range(random.randint(0, 6)):
            event = random.choice(model.events)
            since = random.choice([0, 1, 1000, (1 << 27) - 1])
            if model.extended:
                since += random.choice([0, 1, 1 << 32])
            cycles += since
            packet.value(model.header, in_header(model.header, event["id"], cycles, since))
            size = random.randint(0, 20)
            common = {"vpid": 77, "size": size, "procname": random.choice(NAMES)}
            packet.value(stream["event-record-common-context-field-class"], common)
            values = []
            for part in PARTS:
                values.append(model.value(event[part], size) if part in event else {})
                if part in event:
                    packet.value(event[part], values[-1])
            written.events.append(Record(event, cycles, 3 + instance, common, *values))
        written.data += packet.finish(random.choice([0, 0, 5]))
    return written


def nanoseconds(model: Model, cycles: int) -> int:
    """Return the time of `cycles` with the clock's offset, computed with integers."""
    whole = model.offset["cycles"] + cycles
    return model.offset["seconds"] * 10**9 + whole * 10**9 // model.frequency


def save(root: Path, fragments: list[dict[str, Any]], streams: list[Made], *, old: bool) -> None:
    (root / "metadata").write_text(as_tsdl(fragments) if old else as_sequence(fragments))
    for number, stream in enumerate(streams):
        (root / f"stream{number}").write_bytes(stream.data)


def streams_of(model: Model, fragments: list[dict[str, Any]]) -> list[Made]:
    return [write(model, fragments, number) for number in range(model.random.randint(1, 2))]


@pytest.mark.parametrize("metadata", ["tsdl", "ctf2"])
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_the_reader_gives_what_was_written(metadata: str, seed: int) -> None:
    model = Model(Random(seed), old=metadata == "tsdl")
    fragments = model.fragments()
    streams = streams_of(model, fragments)
    events = sorted((e for stream in streams for e in stream.events), key=lambda e: e.cycles)
    with tempfile.TemporaryDirectory() as name:
        save(Path(name), fragments, streams, old=model.old)
        trace = open_trace(Path(name))
        info = trace.info(threads=1)
        frames = trace.read(threads=1)
    assert info.warnings == []
    assert info.losses.height == 0
    assert info.events == len(events)
    for event_class in model.events:
        rows = list(frames[event_class["name"]].iter_rows(named=True))
        wanted = [e for e in events if e.event is event_class]
        assert len(rows) == len(wanted)
        for row, event in zip(rows, wanted, strict=True):
            assert row["time_ns"] == nanoseconds(model, event.cycles)
            assert (row["vpid"], row["cpu_id"]) == (77, event.cpu)
            common = (event.common["size"], event.common["procname"])
            assert (row["ctx_size"], row["procname"]) == common
            for part, prefix, values in zip(
                PARTS, ("ctx_", ""), (event.specific, event.payload), strict=True
            ):
                expected = shaped(event_class[part], values) if part in event_class else {}
                assert {key: row[f"{prefix}{key}"] for key in expected} == expected


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_babeltrace_reads_the_same(seed: int) -> None:
    model = Model(Random(seed), old=True, for_babeltrace=True)
    fragments = model.fragments()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        save(root, fragments, streams_of(model, fragments), old=True)
        theirs = babeltrace.read(root)
        ours = open_trace(root).read()
    assert list(theirs) == list(ours)
    for event, frame in theirs.items():
        assert_frame_equal(ours[event], frame, check_exact=True)


def test_nothing_is_what_has_no_column() -> None:
    assert is_nothing({"type": "structure", "member-classes": []})
    assert not is_nothing({"type": "null-terminated-string"})
