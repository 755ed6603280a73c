"""Test reading what LTTng writes here and now, against babeltrace2 (the oracle)."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2.sessions import recorded_once

pytestmark = pytest.mark.live

COUNT = 400


def check_equal(root: Path) -> dict[str, pl.DataFrame]:
    """Check that every field of every event equals babeltrace2's, and return the frames."""
    ours = open_trace(root).read()
    theirs = babeltrace.read(root)
    assert list(ours) == list(theirs)
    for name, frame in theirs.items():
        assert_frame_equal(ours[name], frame, check_exact=True)
    counts = babeltrace.count_events(root)
    assert open_trace(root).info().events_by_name == counts
    return ours


def test_every_kind_of_field(record):
    root = record(COUNT)
    frames = check_equal(root)
    info = open_trace(root).info()
    assert info.events == 5 * 2 * COUNT
    assert info.discarded_events == 0
    assert info.losses.height == 0
    assert info.warnings == []
    assert [(p.host, p.procname) for p in info.processes] == [("h0", "kinds")]
    # An event that was declared and requested, but never happened, is typed and empty.
    assert frames["kinds:never"].height == 0
    assert frames["kinds:never"].schema["n"] == pl.Int32()


def test_values_are_those_the_program_emitted(record):
    """Ground truth: the program's own arithmetic, repeated here."""
    frames = open_trace(record(COUNT)).read()
    main = pl.col("vpid") == pl.col("vtid")
    for i, row in enumerate(frames["kinds:numbers"].filter(main).iter_rows(named=True)):
        n = -i if i % 2 else i
        assert row["i8"] == (n + 128) % 256 - 128
        assert row["u8"] == n % 256
        assert row["u32"] == n * 0x1010101 % 2**32
        assert row["i64"] == (n * 0x123456789ABCDEF + 2**63) % 2**64 - 2**63
        assert row["u64"] == n * 0xFEDCBA987654321 % 2**64
        # The program hands over its own byte order and calls it the network's.
        assert row["net"] == int.from_bytes((n % 2**32).to_bytes(4, sys.byteorder), "big")
        assert row["port"] == int.from_bytes((n % 2**16).to_bytes(2, sys.byteorder), "big")
        assert row["field_time_ns"] == n % 2**64
        assert row["f64"] == n / 7
    for i, row in enumerate(frames["kinds:lists"].filter(main).iter_rows(named=True)):
        assert row["gid"] == [(i * 7 + k) % 256 for k in range(24)]
        values = [(i + k) * (-1 if k % 2 else 1) for k in range(8)]
        assert row["numbers"][:8] == values[: i % 9]
        assert row["_numbers_length"] == i % 9
        assert row["three"] == values[:3]
    labels = {0: "calm", 1: "busy", 2: "busy", 3: "busy", 9: "angry"}
    for i, row in enumerate(frames["kinds:moods"].filter(main).iter_rows(named=True)):
        assert row["mood"] == {"value": i % 11, "label": labels.get(i % 11)}
        assert row["after"] == i % 11
    for i, row in enumerate(frames["kinds:texts"].filter(main).iter_rows(named=True)):
        assert row["fixed"] == f"t{i}"
        assert row["counted"] == f"t{i}"[: i % 15 + 1]
        assert row["last"] == f"t{i}"


def test_other_contexts(record):
    frames = check_equal(record(50, contexts=("procname", "pthread_id", "ip")))
    columns = frames["kinds:nothing"].columns
    assert columns[:7] == ["time_ns", "host", "trace", "cpu_id", "vpid", "vtid", "procname"]
    assert columns[7:] == ["ctx_pthread_id", "ctx_ip"]
    assert frames["kinds:nothing"]["vpid"].null_count() == 100


def said_to_be_dropped(root: Path, noun: str) -> tuple[int, int]:
    """Return how many events or packets babeltrace2 says were dropped, and how much it took back.

    LTTng's cumulative count can decrease a little from one packet to the next. babeltrace2 then
    says that 2**64 minus that many were discarded; ours says that none were.
    """
    output = subprocess.run(
        ["babeltrace2", str(root)], capture_output=True, text=True, errors="replace", check=True
    )
    counts = [
        int(count) for count in re.findall(rf"[Tt]racer discarded (\d+) {noun}s? ", output.stderr)
    ]
    return sum(counts) % 2**64, sum(2**64 - count for count in counts if count >= 2**63)


def counters(root: Path) -> dict[int, list[tuple[int, int]]]:
    """Return each packet's number and count of discarded events, by stream, from the bytes.

    LTTng-UST writes this before each packet's events: magic, UUID, stream class, stream; begin,
    end, content and packet size in bits, number, discarded so far, CPU.
    """
    by_stream: dict[int, list[tuple[int, int]]] = {}
    for path in root.rglob("ch_*"):
        data = path.read_bytes() if path.suffix != ".idx" and path.is_file() else b""
        at = 0
        while at < len(data):
            magic, instance = struct.unpack_from("<I20xQ", data, at)
            size, number, discarded = struct.unpack_from("<QQQ", data, at + 56)
            assert magic == 0xC1FC1FC1
            by_stream.setdefault(instance, []).append((number, discarded))
            at += size // 8
    return {instance: sorted(packets) for instance, packets in by_stream.items()}


def check_discarded(root: Path) -> None:
    """Check the count against the packet headers, and against babeltrace2 where it gives numbers.

    For events dropped before the first remaining packet, babeltrace2 only says that there may have
    been some. Even with a blocking channel there is loss: a thread that is preempted while it
    writes an event makes other threads on its CPU lose theirs once they have gone round the buffer.
    """
    info = open_trace(root).info()
    streams = counters(root).values()
    assert info.discarded_events == sum(max(d for _, d in packets) for packets in streams)
    total, taken_back = said_to_be_dropped(root, "event")
    later = info.discarded_events - sum(packets[0][1] for packets in streams)
    assert total <= later <= total + taken_back
    # Packet headers hold the count, so events dropped after the last packet are not counted.
    for row in info.losses.filter(pl.col("kind") == "discarded_events").iter_rows(named=True):
        assert row["count"] > 0
        assert info.begin_ns <= row["end_ns"]
        assert row["begin_ns"] is None or row["begin_ns"] <= row["end_ns"]


def test_real_loss_is_counted_and_placed(record):
    """The sub-buffers are far too small."""
    root = record(20_000, "--discard", "--subbuf-size=4096", "--num-subbuf=2")
    check_equal(root)
    check_discarded(root)
    info = open_trace(root).info()
    assert info.discarded_events > 0
    assert info.events + info.discarded_events <= 5 * 2 * 20_000
    assert set(info.losses["kind"]) == {"discarded_events"}


def test_overwritten_packets_are_lost_packets(record):
    root = record(20_000, "--overwrite", "--subbuf-size=4096", "--num-subbuf=2")
    check_equal(root)
    info = open_trace(root).info()
    assert info.events < 5 * 2 * 20_000
    lost = info.losses.filter(pl.col("kind") == "lost_packets")["count"].sum()
    assert lost == said_to_be_dropped(root, "packet")[0]
    assert lost or any("begins with packet number" in w for w in info.warnings)


def test_rotated_trace_files(record):
    root = record(
        4_000,
        *("--subbuf-size=16384", "--num-subbuf=8", "--tracefile-size=65536"),
        *("--tracefile-count=3", "--blocking-timeout=inf"),
        blocking=True,
    )
    # If a stream has a third file, its first one was overwritten.
    assert [p for p in root.rglob("ch_*_2") if p.is_file()]
    check_equal(root)
    check_discarded(root)
    info = open_trace(root).info()
    # The oldest files were overwritten, as requested: it is reported, but not as tracer loss.
    assert info.events < 5 * 2 * 4_000
    assert info.losses.filter(pl.col("kind") == "lost_packets").height == 0
    assert any("begins with packet number" in w for w in info.warnings)


def test_what_several_snapshots_hold_is_read_once(record):
    root = record(100, "--subbuf-size=65536", "--num-subbuf=8", runs=2, snapshots=True)
    trace = open_trace(root)
    # Ground truth: what the two runs emitted, none of it overwritten. babeltrace2 agrees.
    assert trace.info().events == 2 * 5 * 2 * 100
    lines = subprocess.check_output(["babeltrace2", str(root)])
    assert len(lines.splitlines()) == 2 * 5 * 2 * 100
    assert any("counted once" in warning for warning in trace.info().warnings)
    frames = trace.read()
    assert sum(frame.height for frame in frames.values()) == 2 * 5 * 2 * 100
    assert frames["kinds:nothing"]["trace"].n_unique() == 2


def test_what_two_sessions_record_at_once_is_found_once(record):
    """Ground truth: the program emitted each event into both sessions."""
    frames = open_trace(record(COUNT, "--subbuf-size=1M", sessions=2)).read()
    for frame in frames.values():
        if frame.is_empty():
            continue
        assert frame.height == 2 * 2 * COUNT
        columns = [c for c in frame.columns if c not in ("time_ns", "host", "trace", "cpu_id")]
        once = recorded_once(frame, columns)
        # A thread may be preempted for long between the two records.
        assert 2 * COUNT <= once.height <= 2 * COUNT * 1.02


def test_buffers_per_process(record):
    root = record(100, "--buffers-pid", runs=3)
    frames = check_equal(root)
    assert frames["kinds:nothing"]["trace"].n_unique() == 3
    assert len(open_trace(root).info().processes) == 3
    assert frames["kinds:nothing"]["time_ns"].is_sorted()


def test_parquet_files_hold_the_same(record, tmp_path):
    root = record(COUNT)
    trace = open_trace(root)
    seen = []
    info = trace.write_events(tmp_path / "events", progress=lambda *now: seen.append(now))
    assert info == open_trace(root).info()
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 0
    for name, frame in open_trace(root).read().items():
        path = tmp_path / "events" / (name.replace(":", "/") + ".parquet")
        if frame.height == 0:
            assert not path.exists()
        else:
            assert_frame_equal(pl.read_parquet(path), frame, check_exact=True)
    assert not list((tmp_path / "events").rglob("*.partial"))
