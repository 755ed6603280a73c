"""Test random CTF 1.8 and CTF 2 traces: our reader, the reference decoder and the writer agree."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from ctf2_model import Model, decoded, is_nothing, shaped
from hypothesis import HealthCheck, given, settings
from polars.testing import assert_frame_equal
from tests.ctf.ctf2_writer import MAGIC_AND_UUID, PacketWriter, as_sequence, in_header
from tests.ctf.reference import Decoder
from tests.ctf.tsdl import as_tsdl
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace

NAMES = ["", "a", "of_twelve_ch", "sixteen_letters_"]


@dataclass
class Made:
    """A stream, and the times and values that were written."""

    data: bytes = b""
    events: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)


def write(model: Model, fragments: list[dict[str, Any]], instance: int) -> Made:
    random = model.random
    stream = next(f for f in fragments if f["type"] == "data-stream-class")
    written = Made()
    cycles = random.randrange(1 << 40)
    for sequence in range(random.randint(1, 3)):
        packet = PacketWriter(fragments)
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
            specific = event.get("specific-context-field-class")
            if specific is not None:
                packet.value(specific, model.value(specific, size))
            payload = event["payload-field-class"]
            value = model.value(payload, size)
            packet.value(payload, value)
            written.events.append((event["name"], cycles, value))
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
def test_reader_and_reference_decode_the_same(metadata: str, seed: int) -> None:
    model = Model(Random(seed), old=metadata == "tsdl")
    fragments = model.fragments()
    streams = streams_of(model, fragments)
    events = []
    payloads = {e["name"]: e["payload-field-class"] for e in model.events}
    for stream in streams:
        decoded_events = Decoder(fragments).stream(stream.data)
        # The reference decoder gives back what was written...
        assert [(e.name, e.cycles, e.payload) for e in decoded_events] == [
            (name, cycles, decoded(payloads[name], value)) for name, cycles, value in stream.events
        ]
        events += decoded_events
    events.sort(key=lambda event: event.cycles)
    with tempfile.TemporaryDirectory() as name:
        save(Path(name), fragments, streams, old=model.old)
        trace = open_trace(Path(name))
        info = trace.info(threads=1)
        frames = trace.read(threads=1)
    assert info.warnings == []
    assert info.losses.height == 0
    assert info.events == len(events)
    # ... and our reader the same as the reference.
    for event_class in model.events:
        payload = event_class["payload-field-class"]
        specific = event_class.get("specific-context-field-class")
        rows = list(frames[event_class["name"]].iter_rows(named=True))
        wanted = [e for e in events if e.name == event_class["name"]]
        assert len(rows) == len(wanted)
        for row, event in zip(rows, wanted, strict=True):
            assert row["time_ns"] == nanoseconds(model, event.cycles)
            assert (row["vpid"], row["cpu_id"]) == (77, event.packet["cpu_id"])
            assert (row["ctx_size"], row["procname"]) == (
                event.common["size"],
                event.common["procname"],
            )
            for key, value in shaped(payload, event.payload).items():
                assert row[key] == value, key
            if specific is not None:
                for key, value in shaped(specific, event.specific).items():
                    assert row[f"ctx_{key}"] == value, key


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
