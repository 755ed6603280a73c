"""Test the recorder end to end: what is read back, contradictions, and who lost how much."""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path

import pytest

from roslens.analysis.runs import Run
from roslens.recording import RunFailedError, UsageError
from roslens.studies.storage.recorder import (
    BY_CACHE,
    BY_MIDDLEWARE,
    RecorderRun,
    recorder_estimates,
    recorder_headline,
    recorder_sentences,
    recorder_table,
)
from roslens.studies.storage.results.runs import (
    RECORDER_NAME,
    RecorderFacts,
    read_recorder,
)
from roslens.studies.storage.workloads.storage.cells import need_room, plugin_of
from roslens.studies.storage.workloads.storage_recorder.run import (
    _published,
    _read_back,
)

FACTS = {
    "schema_version": 1,
    "plugin_config": "mcap_default",
    "message_bytes": 1 << 20,
    "rate_bytes_per_s": 100 << 20,
    "cache_bytes": 10 << 20,
    "publishers": 2,
    "depth": 10,
    "published": 100,
    "received": 90,
    "lost_in_cache": 20,
    "written": 70,
    "publishing_ns": 1_000_000_000,
    "late_ns": 5_000_000,
    "bytes_on_disk": 1000,
    "reader": "mcap",
    "rosbag2_version": "0.29.0",
}


def run_of(name: str, **changed: int) -> RecorderRun:
    facts = RecorderFacts(**{**FACTS, **changed})
    return RecorderRun(Run(name=name, cell={"plugin_config": "mcap_default"}), facts)


def test_losses_by_hand() -> None:
    runs = [run_of("1"), run_of("2", received=100, lost_in_cache=0, written=100), run_of("3")]
    by_name = {e.metric: e for e in recorder_estimates(runs, 0.95)}
    # 10, 0 and 10 of 100; 20, 0 and 20 of 100.
    assert by_name[BY_MIDDLEWARE.name].value == pytest.approx(20 / 300)
    assert by_name[BY_CACHE.name].value == pytest.approx(40 / 300)
    (sentence,) = recorder_sentences(runs)
    assert sentence.startswith(
        "mcap_default: at 100 MiB/s of 300 messages of 1MiB the middleware lost "
    )
    assert sentence.endswith(" 20 and the cache 40.")
    # 20 and 40 of 300; then of 400, with 100 that arrived at half the rate.
    shares = "the middleware lost {} % and rosbag2's cache {} %; "
    headline = recorder_headline(runs)
    lowest = "not even at the lowest rate, 100 MiB/s, did all arrive"
    assert headline == f"Of 300 messages {shares.format('6.7', '13')}{lowest}."
    whole = {"received": 100, "lost_in_cache": 0, "written": 100, "rate_bytes_per_s": 50 << 20}
    headline = recorder_headline([*runs, run_of("slow", **whole)])
    assert headline == f"Of 400 messages {shares.format('5.0', '10')}up to 50 MiB/s all arrived."
    # All arrive at twice the rate: that is no rate up to which they do.
    fast = {**whole, "rate_bytes_per_s": 200 << 20}
    headline = recorder_headline([*runs, run_of("fast", **fast)])
    assert headline == f"Of 400 messages {shares.format('5.0', '10')}{lowest}."
    table = recorder_table(runs, 0.95)
    # 300 messages of 1 MiB in 3 s.
    assert list(table.rows[0][:5]) == ["plugin_config=mcap_default", "3", "100", "300", "240"]
    assert table.marked == {0}


def test_none_lost_is_said() -> None:
    runs = [run_of(name, received=100, lost_in_cache=0, written=100) for name in "123"]
    assert recorder_headline(runs) == "Nothing was lost of 300 messages."
    assert recorder_sentences(runs) == [
        "mcap_default: at 100 MiB/s none of 300 messages of 1MiB was lost."
    ]
    assert recorder_table(runs, 0.95).marked == frozenset()


@pytest.mark.parametrize(
    "wrong", [{"received": 101}, {"lost_in_cache": 91}, {"written": 71}, {"published": 0}]
)
def test_counts_that_contradict_each_other_are_refused(wrong: dict, tmp_path: Path) -> None:
    path = tmp_path / RECORDER_NAME
    path.write_text(json.dumps(FACTS))
    assert read_recorder(path).written == 70
    path.write_text(json.dumps({**FACTS, **wrong}))
    with pytest.raises(UsageError, match="contradict"):
        read_recorder(path)


def serialized(publisher: int, number: int, size: int) -> bytes:
    """Serialize a UInt8MultiArray by CDR's rules, little-endian (a second implementation)."""
    data = bytearray(i % 256 for i in range(size))
    data[:8] = (publisher * 2**32 + number).to_bytes(8, "little")
    head = b"\x00\x01\x00\x00" + b"".join(struct.pack("<I", length) for length in (0, 0, size))
    return head + bytes(data)


def bag(folder: Path, messages: list[bytes]) -> Path:
    folder.mkdir()
    connection = sqlite3.connect(folder / "recording_0.db3")
    with connection:
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, timestamp, data)")
        connection.executemany(
            "INSERT INTO messages (data) VALUES (?)", [(message,) for message in messages]
        )
    connection.close()
    return folder


def test_the_bag_is_counted_message_by_message(tmp_path: Path) -> None:
    counts = {"published": 5, "received": 4, "lost_in_cache": 1}
    three = [serialized(0, 0, 600), serialized(1, 0, 600), serialized(0, 2, 600)]
    read_back = _read_back(bag(tmp_path / "whole", three), 600, counts)
    assert read_back["written"] == 3
    twice = bag(tmp_path / "twice", [*three[:2], three[0]])
    with pytest.raises(RunFailedError, match="twice"):
        _read_back(twice, 600, counts)
    altered = bag(tmp_path / "other", [*three[:2], three[2][:-1] + b"?"])
    with pytest.raises(RunFailedError, match="not as published"):
        _read_back(altered, 600, counts)
    with pytest.raises(
        RunFailedError, match="5 published, 4 received, 1 lost in the cache, but 2 in"
    ):
        _read_back(bag(tmp_path / "two", three[:2]), 600, counts)
    (tmp_path / "whole" / "recording_0.db3").write_bytes(b"no database at all" * 100)
    with pytest.raises(RunFailedError, match="cannot read"):
        _read_back(tmp_path / "whole", 600, counts)


def test_the_log_of_the_publishers_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "messages_publisher.csv"
    log.write_text("publish_realtime_ns,publisher\n1000,0\n1150,1\n2030,0\n2100,1\n")
    # Messages are due every 1,000 ns; publisher 0's second is 30 ns late, publisher 1's early.
    assert _published(log, 1000) == {"published": 4, "publishing_ns": 2030, "late_ns": 30}
    log.write_text("publish_realtime_ns,publisher\n")
    with pytest.raises(RunFailedError, match="logged no message"):
        _published(log, 1000)


def test_too_little_room_is_said_before_anything_runs(tmp_path: Path) -> None:
    need_room(tmp_path, 1, "wait")
    with pytest.raises(
        RunFailedError, match="MiB free, 1048576000000 MiB needed; make room or wait"
    ):
        need_room(tmp_path, 2**40 * 1e6, "wait")


def test_configurations_are_those_of_the_benchmark() -> None:
    assert plugin_of("mcap_default") == ("mcap", "", "")
    assert plugin_of("sqlite_resilient") == ("sqlite3", "resilient", "")
    storage, preset, file = plugin_of("mcap_nochunking")
    assert (storage, preset) == ("mcap", "")
    assert "noChunking: true" in Path(file).read_text()
    with pytest.raises(UsageError, match="bogus"):
        plugin_of("mcap_bogus")
