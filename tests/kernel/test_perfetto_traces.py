"""Test traces of Perfetto, written with Perfetto's own protobuf classes.

Expected values are what was written. No recorder of Perfetto (traced_probes) is available here.
"""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import polars as pl
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from tests.kernel.perfetto_file import MONO_RAW, SLEPT, bundle, compact, snapshot, wake
from tests.kernel.ring_buffer import page, write_raw

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.tracing.ftrace.recorder import convert
from roslens.tracing.opening import opened
from roslens.tracing.unpacking import unpack

COUNTED = 100


def every_event() -> pb.Trace:
    """Make one of each event that is read, on CPU 1, and two that are not read."""
    trace = pb.Trace()
    snapshot(trace, BOOT=5000, MONOTONIC=5000 - SLEPT, REALTIME=10**9)
    events = bundle(trace, 1)

    def add(time: int, event: str, /, tid: int = 7, flags: int = 0, **values: object) -> None:
        entry = events.event.add(timestamp=time, pid=tid, common_flags=flags)
        getattr(entry, event).SetInParent()
        for key, value in values.items():
            setattr(getattr(entry, event), key, value)

    add(6000, "sched_switch", prev_comm="a", prev_pid=7, prev_prio=-2, prev_state=1 << 32,
        next_comm="b", next_pid=8, next_prio=120)  # fmt: skip
    waking = {"comm": "c", "pid": 9, "prio": 100, "success": 1, "target_cpu": 3}
    add(6001, "sched_waking", tid=8, flags=9, **waking)
    add(6002, "sched_wakeup", **waking)
    add(6003, "sched_wakeup_new", **waking)
    add(6004, "irq_handler_entry", flags=8, irq=33, name="nic")
    add(6005, "irq_handler_exit", irq=33, ret=1)
    add(6006, "softirq_raise", vec=3)
    add(6007, "softirq_entry", vec=3)
    add(6008, "softirq_exit", vec=3)
    add(6009, "cpu_frequency", state=3_000_000_000, cpu_id=2)
    add(6010, "cpu_idle", state=0xFFFFFFFF, cpu_id=1)
    add(6011, "sched_process_fork", parent_comm="a", parent_pid=7, child_comm="a", child_pid=70)
    add(6012, "sched_process_exec", filename="/bin/" + "x" * 300, pid=70, old_pid=71)
    add(6013, "sched_process_exit", comm="a", pid=70, tgid=70, prio=120)
    add(6014, "sched_migrate_task", comm="c", pid=9, prio=120, orig_cpu=1, dest_cpu=0)
    add(6015, "ext4_sync_file_exit", dev=1)
    add(6016, "ext4_sync_file_exit", dev=1)
    return trace


GOOD = every_event()
_COMPACT = bundle(GOOD, 0)
compact(_COMPACT, (7000, 1, 5, 120, "x"), (7010, 0, 0, -1, "swapper/0"), (7020, 0, 5, 120, "x"))
wake(_COMPACT, (7005, 9, "c", 1, 9))


def unpacked(tmp_path: Path, trace: pb.Trace, where: str = "run") -> tuple[dict, pl.DataFrame]:
    (tmp_path / "own.pftrace").write_bytes(trace.SerializeToString())
    (folder,) = unpack(tmp_path / "own.pftrace", tmp_path / where)
    source = open_trace(folder)
    return source.read(), source.losses


def test_every_event_with_all_its_fields(tmp_path):
    notes: list[str] = []
    (tmp_path / "a").write_bytes(GOOD.SerializeToString())
    unpack(tmp_path / "a", tmp_path / "run", note=notes.append)
    number = pb.FtraceEvent.DESCRIPTOR.fields_by_name["ext4_sync_file_exit"].number
    assert notes == [
        "clock boottime joined with monotonic by 1 snapshots, without a known error",
        f"2 events are left out, of numbers (FtraceEvent) {number}",
    ]
    base = 10**9 - 5000
    expected = {
        "sched_switch": {"prev_comm": "a", "prev_tid": 7, "prev_prio": -2, "prev_state": 1 << 32,
                         "next_comm": "b", "next_tid": 8, "next_prio": 120},
        "sched_waking": {"comm": "c", "tid": 9, "prio": 100, "target_cpu": 3, "ctx_tid": 8,
                         "ctx_flags": 9},
        "sched_wakeup": {"comm": "c", "tid": 9, "prio": 100, "target_cpu": 3},
        "sched_wakeup_new": {"comm": "c", "tid": 9, "prio": 100, "target_cpu": 3},
        "irq_handler_entry": {"irq": 33, "name": "nic", "ctx_flags": 8},
        "irq_handler_exit": {"irq": 33, "ret": 1},
        "irq_softirq_raise": {"vec": 3},
        "irq_softirq_entry": {"vec": 3},
        "irq_softirq_exit": {"vec": 3},
        "power_cpu_frequency": {"state": 3_000_000_000, "field_cpu_id": 2},
        "power_cpu_idle": {"state": 0xFFFFFFFF, "field_cpu_id": 1},
        "sched_process_fork": {"parent_comm": "a", "parent_tid": 7, "child_comm": "a",
                               "child_tid": 70},
        "sched_process_exec": {"filename": "/bin/" + "x" * 300, "tid": 70, "old_tid": 71},
        "sched_process_exit": {"comm": "a", "tid": 70, "prio": 120},
        "sched_migrate_task": {"comm": "c", "tid": 9, "prio": 120, "orig_cpu": 1, "dest_cpu": 0},
    }  # fmt: skip
    read = open_trace(tmp_path / "run").read()
    of_cpu = {name: frame.filter(pl.col("cpu_id") == 1) for name, frame in read.items()}
    assert {name for name, frame in of_cpu.items() if frame.height} == set(expected)
    for at, (name, values) in enumerate(expected.items()):
        (row,) = of_cpu[name].rows(named=True)
        assert row["time_ns"] == base + 6000 + at
        assert {key: row[key] for key in values} == values
        assert row["ctx_tid"] == values.get("ctx_tid", 7)


def test_compact_switches_and_wakes(tmp_path):
    """The thread that leaves is the one that came last; before the first switch it is unknown.

    The thread that wakes another is the one on the CPU.
    """
    read, losses = unpacked(tmp_path, GOOD)
    switches = read["sched_switch"].filter(pl.col("cpu_id") == 0)
    base = 10**9 - 5000
    names = ("ctx_tid", "prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid",
             "next_prio")  # fmt: skip
    assert switches.select(pl.col("time_ns") - base, *names).rows() == [
        (7000, -1, "", -1, 0, 1, "x", 5, 120),
        (7010, 5, "x", 5, 120, 0, "swapper/0", 0, -1),
        (7020, 0, "swapper/0", 0, -1, 0, "x", 5, 120),
    ]
    woken = read["sched_waking"].filter(pl.col("cpu_id") == 0)
    names = ("ctx_tid", "ctx_flags", "comm", "tid", "prio", "target_cpu")
    assert woken.select(pl.col("time_ns") - base, *names).rows() == [(7005, 5, 9, "c", 9, 120, 1)]
    assert losses.is_empty()


@pytest.mark.parametrize("packed", [False, True])
def test_many_bundles_also_compressed(tmp_path, packed):
    draw = random.Random(28)
    trace, expected, last = pb.Trace(), [], {0: -1, 1: -1}
    snapshot(trace, BOOT=0, MONOTONIC=0, REALTIME=0)
    for number in range(COUNTED):
        cpu, rows = draw.randrange(2), []
        for at in range(draw.randrange(50)):
            tid = draw.randrange(1 << 22)
            rows.append((10**9 * number + at * draw.randrange(300, 307), 0, tid, 120, f"t{tid}"))
        rows.sort()
        compact(bundle(trace, cpu), *rows)
        for time, _, tid, _, name in rows:
            expected.append((time, cpu, last[cpu], tid, name))
            last[cpu] = tid
    if packed:
        whole, trace = trace, pb.Trace()
        for at in range(0, COUNTED + 1, 7):
            part = pb.Trace(packet=whole.packet[at : at + 7])
            trace.packet.add(compressed_packets=zlib.compress(part.SerializeToString()))
    read, _ = unpacked(tmp_path, trace)
    switches = read["sched_switch"].select("time_ns", "cpu_id", "prev_tid", "next_tid", "next_comm")
    assert sorted(switches.rows()) == sorted(expected)


def test_what_was_lost_is_counted(tmp_path):
    """CPU 0 lost 12, before two bundles; the packet that was dropped may be of either CPU."""
    trace = pb.Trace()
    snapshot(trace, BOOT=0, MONOTONIC=0, REALTIME=0)
    for phase, lost in ((1, 5), (2, 17)):
        trace.packet.add().ftrace_stats.phase = phase
        trace.packet[-1].ftrace_stats.cpu_stats.add(cpu=0, overrun=lost)
    for time, lost in ((1000, False), (2000, True), (3000, True), (4000, False)):
        compact(bundle(trace, 0, lost_events=lost), (time, 0, 5, 120, "x"))
    for time, dropped in ((1000, 1), (5000, 1)):
        compact(bundle(trace, 1), (time, 0, 5, 120, "x"))
        trace.packet[-1].previous_packet_dropped = dropped
    read, losses = unpacked(tmp_path, trace)
    assert losses.select("count", "begin_ns", "end_ns").sort("begin_ns", "end_ns").rows() == [
        (11, 1000, 2000), (1, 1000, 5000), (1, 2000, 3000), (1, 4000, 4000),
    ]  # fmt: skip
    switches = read["sched_switch"].sort("cpu_id", "time_ns")
    assert switches["prev_tid"].to_list() == [-1, -1, -1, 5, -1, -1]


def test_the_clock_of_the_trace_beside_it(tmp_path):
    """Between two snapshots whose offsets differ by 200 ns, half of it applies; the rest stays."""
    raw = write_raw(tmp_path / "raw", [page(1000)])
    convert(raw, tmp_path / "run" / "kernel", beside=tmp_path)
    trace = pb.Trace()
    snapshot(trace, RAW=10_000, MONOTONIC=11_000)
    compact(bundle(trace, 0, ftrace_clock=MONO_RAW), (9000, 0, 5, 120, "x"),
            (15_000, 0, 6, 120, "y"), (99_000, 0, 7, 120, "z"))  # fmt: skip
    snapshot(trace, RAW=20_000, MONOTONIC=21_200)
    notes: list[str] = []
    (tmp_path / "own").write_bytes(trace.SerializeToString())
    unpack(tmp_path / "own", tmp_path / "run", note=notes.append)
    assert notes == ["clock monotonic_raw joined with monotonic by 2 snapshots, within 200 ns"]
    times = open_trace(tmp_path / "run").read()["sched_switch"]["time_ns"] - 1_000_000
    assert times.to_list() == [10_000, 16_100, 100_200]
    metadata = (tmp_path / "run" / "own" / "kernel" / "metadata").read_text()
    assert 'hostname = "machine"' in metadata


def test_opening_the_file_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "own.pftrace").write_bytes(GOOD.SerializeToString())
    trace = opened(tmp_path / "own.pftrace")
    assert open_trace(trace).read()["sched_switch"].height == 4
    (tmp_path / "text").write_text("\nno packet")
    assert opened(tmp_path / "text") == tmp_path / "text"


def no_snapshot(trace: pb.Trace) -> None:
    del trace.packet[0]


def no_events(trace: pb.Trace) -> None:
    del trace.packet[1:]


def name_that_is_not_there(trace: pb.Trace) -> None:
    trace.packet[-1].ftrace_events.compact_sched.switch_next_comm_index[0] = 3


def lengths(trace: pb.Trace) -> None:
    trace.packet[-1].ftrace_events.compact_sched.switch_next_pid.append(1)


def time_goes_back(trace: pb.Trace) -> None:
    compact(bundle(trace, 0), (6000, 0, 5, 120, "x"))


def no_time(trace: pb.Trace) -> None:
    trace.packet[-1].ftrace_events.compact_sched.switch_timestamp[1] = (1 << 64) - 5


def many_cpus(trace: pb.Trace) -> None:
    trace.packet[-1].ftrace_events.cpu = 1 << 30


def bomb(trace: pb.Trace) -> None:
    trace.packet.add(compressed_packets=zlib.compress(bytes(100 << 20)))


def twice(trace: pb.Trace) -> None:
    inner = pb.Trace()
    inner.packet.add(compressed_packets=b"")
    trace.packet.add(compressed_packets=zlib.compress(inner.SerializeToString()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_snapshot, "its clock cannot be joined"),
        (no_events, "holds no events of the kernel"),
        (name_that_is_not_there, "the name of a thread that is not there"),
        (lengths, "different lengths"),
        (time_goes_back, "times of CPU 0 go back"),
        (no_time, "a time that cannot be"),
        (many_cpus, "CPU 1,073,741,824"),
        (bomb, "too long, or not whole"),
        (twice, "compressed twice"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path, change, message):
    raw = write_raw(tmp_path / "raw", [page(1000)])
    convert(raw, tmp_path / "run" / "kernel", beside=tmp_path)
    trace = pb.Trace()
    trace.CopyFrom(GOOD)
    change(trace)
    (tmp_path / "own").write_bytes(trace.SerializeToString())
    with pytest.raises(UsageError, match=message):
        unpack(tmp_path / "own", tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["kernel"]
