"""Test perf files: written here by hand after their documentation, and by perf itself."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tests.kernel.ring_buffer import HEADER_PAGE, IRQ, SWITCH, irq, switch

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.tracing.unpacking import unpack

IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW = (1 << bit for bit in (16, 0, 1, 2, 7, 8, 10))
PARTS = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | RAW


def sample(time: int, cpu: int, content: bytes) -> bytes:
    """Return a PERF_RECORD_SAMPLE of a tracepoint."""
    raw = struct.pack("<I", len(content)) + content
    raw += b"\0" * (-len(raw) % 8)
    body = struct.pack("<QQIIQIIQ", 7, 0, 5, 5, time, cpu, 0, 1) + raw
    return struct.pack("<IHH", 9, 0, 8 + len(body)) + body


def lost(time: int, cpu: int, count: int) -> bytes:
    """Return a PERF_RECORD_LOST with the parts for time and CPU."""
    body = struct.pack("<QQ", 7, count) + struct.pack("<IIQIIQ", 5, 5, time, cpu, 0, 7)
    return struct.pack("<IHH", 2, 0, 8 + len(body)) + body


def perf_data(*records: bytes, parts: int = PARTS, clock: int = 1) -> bytes:
    """Return a file with one kind of samples."""
    attribute = bytearray(144)
    struct.pack_into("<II", attribute, 0, 2, 128)
    struct.pack_into("<Q", attribute, 24, parts)
    struct.pack_into("<Q", attribute, 40, 1 << 18 | 1 << 25)
    struct.pack_into("<i", attribute, 92, clock)
    described = b"\x17\x08\x44tracing0.6\0" + struct.pack("<BBI", 0, 8, 4096)
    for name, text in (("header_page", HEADER_PAGE), ("header_event", "\n")):
        described += name.encode() + struct.pack("<xQ", len(text)) + text.encode()
    described += struct.pack("<II", 0, 1) + b"sched\0" + struct.pack("<I", 2)
    for text in (SWITCH, IRQ):
        described += struct.pack("<Q", len(text)) + text.encode()
    content = b"".join(records)
    behind = 104 + 144 + len(content)
    host = struct.pack("<I", 64) + b"box".ljust(64, b"\0")
    head = struct.pack(
        "<8s12Q", b"PERFILE2", 104, 144, 104, 144, 248, len(content), 0, 0, 1 << 1 | 1 << 3, 0, 0, 0
    )
    places = struct.pack(
        "<4Q", behind + 32, len(described), behind + 32 + len(described), len(host)
    )
    return head + bytes(attribute) + content + places + described + host


GOOD = perf_data(
    sample(1000, 1, switch(5, 6)),
    sample(900, 0, switch(0, 9)),
    sample(1500, 1, irq(33, b"nic")),
    lost(1600, 1, 12),
    # One CPU's round follows another's, and may itself be out of order.
    sample(2000, 1, switch(7, 5, state=1)),
    sample(1700, 1, switch(6, 7)),
    struct.pack("<IHH", 68, 0, 8),
)


def test_events_and_losses_by_hand(tmp_path):
    (tmp_path / "own.data").write_bytes(GOOD)
    assert unpack(tmp_path / "own.data", tmp_path / "run") == [tmp_path / "run" / "own.data"]
    trace = open_trace(tmp_path / "run")
    read = trace.read()
    switches = read["sched_switch"].sort("time_ns")
    assert switches.select("time_ns", "cpu_id", "prev_tid", "next_tid", "prev_state").rows() == [
        (900, 0, 0, 9, 0), (1000, 1, 5, 6, 0), (1700, 1, 6, 7, 0), (2000, 1, 7, 5, 1),
    ]  # fmt: skip
    assert read["irq_handler_entry"].select("irq", "name", "ctx_tid").rows() == [(33, "nic", 1)]
    assert trace.losses.select("count", "begin_ns", "end_ns").rows() == [(12, 1500, 1700)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (perf_data(parts=PARTS & ~RAW), "not all tracepoints"),
        (perf_data(parts=PARTS | 1 << 4), "not all tracepoints"),
        (perf_data(struct.pack("<IHH", 81, 0, 8)), "compressed"),
        (perf_data(struct.pack("<IHH", 1, 0, 7)), "cannot be, at byte 248"),
        (perf_data(sample(1, 1 << 20, b"")), "cannot be"),
        (perf_data(sample(1, 0, switch(1, 2))[:-8] + b"\xff" * 8), None),
        (b"PERFILE2" + struct.pack("<Q", 16), "cut off"),
        (GOOD[:300], "cut off"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path, content, message):
    (tmp_path / "own.data").write_bytes(content)
    if message is None:
        unpack(tmp_path / "own.data", tmp_path / "run")
        return
    with pytest.raises(UsageError, match=message):
        unpack(tmp_path / "own.data", tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.live
def test_the_same_as_perf_script(tmp_path):
    """Each switch has the CPU and time that perf's own reader prints."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    record = ["perf", "sched", "record", "-k", "CLOCK_MONOTONIC", "-o", "own.data"]
    done = subprocess.run(
        [*record, "sh", "-c", "for n in 1 2 3 4 5 6 7 8 9; do sleep 0.01; done"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode or not (tmp_path / "own.data").is_file():
        pytest.skip(f"perf cannot record here: {done.stderr.strip()[-200:]}")
    output = subprocess.check_output(
        ["perf", "script", "-i", "own.data", "--ns", "-F", "cpu,time,event,trace"],
        cwd=tmp_path,
        text=True,
    )
    line = re.compile(
        r"\[(\d+)\]\s+(\d+)\.(\d{9}):\s+sched:sched_switch:.* prev_pid=(\d+) .* next_pid=(\d+) "
    )
    theirs = sorted(
        (int(seconds) * 10**9 + int(ns), int(cpu), int(out), int(into))
        for cpu, seconds, ns, out, into in line.findall(output)
    )
    unpack(tmp_path / "own.data", tmp_path / "run")
    read = open_trace(tmp_path / "run").read()["sched_switch"]
    ours = read.select("time_ns", "cpu_id", "prev_tid", "next_tid")
    assert len(theirs) >= 18
    assert sorted(ours.rows()) == theirs
    assert Path(tmp_path / "run" / "own.data" / "kernel" / "metadata").is_file()
    assert read.filter(pl.col("next_tid") == 0)["next_comm"].str.starts_with("swapper").all()
