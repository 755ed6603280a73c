"""Random traces of CTF 1.8 and CTF 2: our reader, the reference decoder and the writer agree."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from ctf2_model import MAGIC_AND_UUID, Model, decoded, is_nothing, shaped
from ctf2_writer import PacketWriter, as_sequence
from hypothesis import HealthCheck, given, settings
from reference import Decoder
from tsdl import as_tsdl

from roslens.collectors.reader import open_trace


@dataclass
class Made:
    """A stream, and the times and values that were written."""

    data: bytes = b""
    events: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)


def write(model: Model, fragments: list[dict[str, Any]]) -> Made:
    random = model.random
    stream = next(f for f in fragments if f["type"] == "data-stream-class")
    made = Made()
    cycles = random.randrange(1 << 40)
    for sequence in range(random.randint(1, 3)):
        packet = PacketWriter(fragments)
        trace = next(f for f in fragments if f["type"] == "trace-class")
        packet.value(trace["packet-header-field-class"], MAGIC_AND_UUID)
        head = {"timestamp_begin": cycles, "content_size": 0, "packet_size": 0}
        head |= {"packet_seq_num": sequence, "cpu_id": 3}
        packet.value(stream["packet-context-field-class"], head)
        for _ in range(random.randint(0, 6)):
            event = random.choice(model.events)
            cycles += random.choice([0, 1, 1000, (1 << 27) - 1])
            header = stream["event-record-header-field-class"]
            stamp = header["member-classes"][1]["field-class"]
            # A stamp of varying length is written whole, so that no wrap can be missed.
            packet.value(header, {"id": event["id"], "timestamp": low(cycles, stamp)})
            size = random.randint(0, 20)
            common = {"vpid": 77, "size": size}
            packet.value(stream["event-record-common-context-field-class"], common)
            own = event.get("specific-context-field-class")
            if own is not None:
                packet.value(own, model.value(own, size))
            payload = event["payload-field-class"]
            value = model.value(payload, size)
            packet.value(payload, value)
            made.events.append((event["name"], cycles, value))
        made.data += packet.finish(random.choice([0, 0, 5]))
    return made


def low(cycles: int, stamp: dict[str, Any]) -> int:
    return cycles & ((1 << stamp["length"]) - 1) if "length" in stamp else cycles


def nanoseconds(model: Model, cycles: int) -> int:
    """Offset and cycles, with integers."""
    whole = model.offset["cycles"] + cycles
    return model.offset["seconds"] * 10**9 + whole * 10**9 // model.frequency


def check(model: Model, metadata: str) -> None:
    fragments = model.fragments()
    made = write(model, fragments)
    events = Decoder(fragments).stream(made.data)
    # The reference decoder gives back what was written...
    payloads = {e["name"]: e["payload-field-class"] for e in model.events}
    assert [(e.name, e.cycles, e.payload) for e in events] == [
        (name, cycles, decoded(payloads[name], value)) for name, cycles, value in made.events
    ]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        text = as_tsdl(fragments) if metadata == "tsdl" else as_sequence(fragments)
        (root / "metadata").write_text(text)
        (root / "stream").write_bytes(made.data)
        trace = open_trace(root)
        assert trace.info(threads=1).warnings == []
        frames = trace.read(threads=1)
    # ... and our reader the same as the reference.
    for event_class in model.events:
        payload = event_class["payload-field-class"]
        own = event_class.get("specific-context-field-class")
        found = list(frames[event_class["name"]].iter_rows(named=True))
        wanted = [e for e in events if e.name == event_class["name"]]
        assert len(found) == len(wanted)
        for row, event in zip(found, wanted, strict=True):
            assert row["time_ns"] == nanoseconds(model, event.cycles)
            assert (row["vpid"], row["cpu_id"]) == (77, 3)
            assert row["ctx_size"] == event.common["size"]
            for key, value in shaped(payload, event.payload).items():
                assert row[key] == value, key
            if own is not None:
                for key, value in shaped(own, event.specific).items():
                    assert row[f"ctx_{key}"] == value, key


@pytest.mark.parametrize("metadata", ["tsdl", "ctf2"])
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_reader_and_reference_decode_the_same(metadata: str, seed: int) -> None:
    check(Model(Random(seed), old=metadata == "tsdl"), metadata)


def test_nothing_is_what_has_no_column() -> None:
    assert is_nothing({"type": "structure", "member-classes": []})
    assert not is_nothing({"type": "null-terminated-string"})
