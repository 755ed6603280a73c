"""Test reading the kernel's ring-buffer pages, by handwritten pages and a slow second reader."""

from __future__ import annotations

import random
import resource
import signal
import struct
import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.kernel.ring_buffer import (
    HEADER_PAGE,
    IRQ,
    PAGE,
    RUNTIME,
    SWITCH,
    absolute,
    event,
    irq,
    padding,
    page,
    read_slowly,
    runtime,
    switch,
    trace_dat,
    write_raw,
)  # fmt: skip

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.tracing.ftrace.ctf import Converted, write_ctf
from roslens.tracing.ftrace.formats import Field, Format, parse_format, parse_header_page
from roslens.tracing.ftrace.pages import LATEST, find_events
from roslens.tracing.ftrace.raw import Clock, RawTrace
from roslens.tracing.ftrace.recorder import convert
from roslens.tracing.ftrace.tsdl import clock_of_other_trace
from roslens.tracing.unpacking import unpack

CTF_2 = Path(__file__).parents[1] / "ctf" / "lttng_2.15.1.tar.xz"
HEADER = parse_header_page(HEADER_PAGE, "header_page")


def found_in(content: bytes) -> tuple[list[tuple[int, ...]], set[int]]:
    events = find_events(np.frombuffer(content, dtype=np.uint8), HEADER)
    rows = zip(events.page, events.begin, events.size, events.time, strict=True)
    return [tuple(map(int, row)) for row in rows], set(np.flatnonzero(events.damaged).tolist())


def converted(tmp_path: Path, *cpus: bytes, **about) -> tuple[Converted, dict, pl.DataFrame]:
    raw = write_raw(tmp_path / "ftrace", cpus, **about)
    done = convert(raw, tmp_path / "trace" / "kernel", beside=tmp_path / "trace")
    trace = open_trace(tmp_path / "trace")
    return done, trace.read(), trace.losses


def test_unpacking_what_a_killed_recorder_left(tmp_path):
    """Unpacking gives what the recorder itself would have made at its end."""
    content = page(1000, event(5, switch(1, 2)), event(7, switch(2, 1)))
    _, read, _ = converted(tmp_path, content)
    run = tmp_path / "run"
    raw = write_raw(run / "ftrace", [content])
    assert unpack(raw, run / "trace") == [run / "trace" / "kernel"]
    again = open_trace(run / "trace").read()
    assert again["sched_switch"].height == 2
    assert again["sched_switch"].equals(read["sched_switch"])
    assert raw.is_dir()
    (raw / "about.json").write_text("{}")
    with pytest.raises(UsageError, match="does not describe pages of ftrace"):
        unpack(raw, run / "other")


def test_a_trace_that_cannot_be_written_whole_is_not_there(tmp_path):
    """A resource limit stands for a full disk; what the recorder left stays."""
    raw = write_raw(
        tmp_path / "ftrace",
        (page(1000, *(event(1, switch(7 + n % 2, 8 - n % 2)) for n in range(20))),),
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(OSError, match="too large"):
            convert(raw, tmp_path / "trace" / "kernel", beside=tmp_path / "trace")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "trace" / "kernel").exists()
    assert list(raw.glob("cpu*"))
    convert(raw, tmp_path / "trace" / "kernel", beside=tmp_path / "trace")
    assert open_trace(tmp_path / "trace").read()["sched_switch"].height == 20


def test_a_pause_is_a_gap_with_nothing_in_it(tmp_path):
    """Some probes are on for a while during a pause; the recorder was killed in the last pause."""
    content = struct.pack("<HBBiQ", 7, 1, 0, 40, 1)
    pages = page(1000, *(event(10, content) for _ in range(4)))
    raw = RawTrace(
        formats={7: Format(7, "ros2:callback_end", (Field("callback", 8, 8, "int"),))},
        header=HEADER,
        cpus={0: lambda: iter([pages])},
        threads={40: (40, 40, "node")},
        domain="ust",
        pauses=np.array([[1015, 1035], [1038, LATEST]]),
    )
    done = write_ctf(raw, tmp_path / "attached", Clock())
    trace = open_trace(tmp_path)
    assert trace.read()["ros2:callback_end"]["time_ns"].to_list() == [1010]
    (lost,) = trace.losses.iter_rows(named=True)
    fields = ("kind", "count", "begin_ns", "end_ns")
    assert tuple(lost[field] for field in fields) == ("not_sampled", None, 1015, 1035)
    assert (done.missing, trace.info().discarded_events) == (0, 0)


def test_times_of_pauses_that_are_none_are_refused(tmp_path):
    raw = write_raw(tmp_path / "ftrace", [page(1000, event(5, switch(1, 2)))], threads={})
    for text in ("20 10", "-5", "1e3", str(1 << 63)):
        (raw / "pauses").write_text(text)
        with pytest.raises(UsageError, match="has no times of pauses"):
            convert(raw, tmp_path / "trace" / "kernel", beside=tmp_path / "trace")


def test_times_and_places_by_hand():
    content = page(
        1000,
        event(5, b"\1" * 8),
        event(1 << 27, b"\2" * 4),
        padding(7, 12),
        event(1, b"\3" * 116),
        absolute(1 << 40),
        event(2, b"\4" * 4),
        padding(0, 4),
        event(9, b"\5" * 4),
    )
    first, second, third, fourth = found_in(content)[0]
    assert first == (0, 20, 8, 1005)
    assert second == (0, 40, 4, 1005 + (1 << 27))
    # The event that was taken back took its time; a long event has its length in a word.
    assert third == (0, 68, 116, 1005 + (1 << 27) + 7 + 1)
    assert fourth == (0, 196, 4, (1 << 40) + 2)
    assert read_slowly(content)[0] == [first, second, third, fourth]


def test_as_a_second_reader_also_of_garbage():
    draw = random.Random(28)
    good = [
        page(10**9 * n, *(event(draw.randrange(1 << 28), irq(n, b"timer")) for _ in range(90)))
        for n in range(40)
    ]
    pages = []
    for number, original in enumerate(good * 5):
        bent = bytearray(original)
        for _ in range(number % 7):
            bent[draw.randrange(PAGE)] = draw.randrange(256)
        pages.append(bytes(bent))
    pages += [draw.randbytes(8) + b"\xf0\x0f" + bytes(6) + draw.randbytes(PAGE - 16)
              for _ in range(60)]  # fmt: skip
    pages += [bytes(8) + b"\xf0\x0f" + bytes(6) + draw.randbytes(PAGE - 16) for _ in range(60)]
    content = b"".join(pages)
    rows, damaged = found_in(content)
    expected, torn = read_slowly(content)
    assert rows == expected
    assert damaged == torn
    assert len(torn) > 20
    assert len(rows) > 10_000


def test_events_as_of_lttng(tmp_path):
    done, frames, losses = converted(
        tmp_path,
        page(1000, event(1, switch(7, 8, 1)), event(10, irq(36, b"virtio\0rest"))),
        page(2000, event(3, switch(0, 9))),
    )
    assert done == Converted(by_name={"sched_switch": 2, "irq_handler_entry": 1})
    rows = frames["sched_switch"]
    names = ["prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid"]
    assert rows.select("time_ns", "cpu_id", "ctx_tid", *names).rows() == [
        (1_001_001, 0, 7, "t7", 7, 120, 1, "t8", 8),
        (1_002_003, 1, 0, "t0", 0, 120, 0, "t9", 9),
    ]
    entry = frames["irq_handler_entry"]
    assert entry.select("time_ns", "ctx_flags", "irq", "name").rows() == [
        (1_001_011, 8, 36, "virtio")
    ]
    assert losses.is_empty()


def test_lost_events_are_where_and_as_many_as_the_kernel_says(tmp_path):
    """The second loss has no number in its page: it is what is missing from the sum of 12."""
    done, _, losses = converted(
        tmp_path,
        page(1000, event(0, switch(1, 2)))
        + page(5000, event(0, switch(2, 1)), missed=5)
        + page(9000, event(0, switch(1, 2)), missed=0),
        overruns=[12],
    )
    assert done.lost == done.missing == 12
    assert losses.select("kind", "count", "begin_ns", "end_ns").rows() == [
        ("discarded_events", 5, 1_001_000, 1_005_000),
        ("discarded_events", 7, 1_005_000, 1_009_000),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_a_switch_that_is_missing_shows(tmp_path, whole):
    """Thread 2 gets the CPU at 1000, thread 3 leaves it at 1300; filtered, that proves nothing."""
    done, frames, losses = converted(
        tmp_path,
        page(1000, event(0, switch(1, 2)), event(100, irq(1, b"a")), event(200, switch(3, 4)),
             event(50, switch(4, 5))),
        whole=whole,
    )  # fmt: skip
    assert done.switches_missing == done.missing == int(whole)
    assert frames["sched_switch"]["time_ns"].to_list() == [1_001_000, 1_001_300, 1_001_350]
    expected = [(1, 1_001_000, 1_001_300)] if whole else []
    assert losses.select("count", "begin_ns", "end_ns").rows() == expected


@pytest.mark.parametrize(
    ("between", "came"),
    [
        # The thread had run 100 ns when its time was first accounted: 1300 - 100.
        ([event(300, runtime(7, 100)), event(50, runtime(7, 50))], 1200),
        # The thread cannot have come before the CPU became idle, nor after its own first event.
        ([event(300, runtime(7, 900))], 1000),
        ([event(250, irq(1, b"a", by=7)), event(50, runtime(7, 10))], 1250),
        # Another thread accounted its first 100 ns at 1200, then the thread did itself: 1200 - 100.
        ([event(200, runtime(7, 100, by=9)), event(50, runtime(7, 50))], 1100),
        # Neither accounting only by others, nor accounting of others, proves that the thread came.
        ([event(300, runtime(7, 100, by=9)), event(50, runtime(8, 50, by=8))], None),
    ],
)
def test_a_switch_from_idle_that_is_missing_is_put_back(tmp_path, between, came):
    """Thread 7 leaves the CPU at 1400 without having come; all times are worked out by hand."""
    pages = page(1000, event(0, switch(5, 0, 1)), *between, absolute(1400) + event(0, switch(7, 0)))
    texts = {"sched:sched_switch": SWITCH, "sched:sched_stat_runtime": RUNTIME}
    texts["irq:irq_handler_entry"] = IRQ
    done, frames, _ = converted(tmp_path, pages, formats=texts)
    rows = frames["sched_switch"].select(
        "time_ns", "prev_tid", "prev_comm", "next_tid", "next_comm"
    )
    expected = [(1_001_000, 5, "t5", 0, "t0"), (1_001_400, 7, "t7", 0, "t0")]
    if came is not None:
        expected.insert(1, (1_000_000 + came, 0, "swapper/0", 7, "t7"))
    assert rows.rows() == expected
    assert done.switches_missing == (came is None)


def test_what_a_thread_accounts_between_two_switches_is_one_event(tmp_path):
    """The thread's sum stays, at the last event; what another thread accounted stays as it is."""
    pages = page(
        1000, event(0, switch(0, 7)), event(100, runtime(7, 90)), event(50, runtime(7, 50)),
        event(10, runtime(8, 33, by=7)), event(10, runtime(8, 44, by=7)), event(30, runtime(7, 40)),
        event(1, switch(7, 9, 1)), event(20, runtime(9, 21)), event(1, switch(9, 7, 1)),
        event(60, runtime(7, 61)),
    )  # fmt: skip
    texts = {"sched:sched_switch": SWITCH, "sched:sched_stat_runtime": RUNTIME}
    done, frames, _ = converted(tmp_path, pages, formats=texts)
    assert frames["sched_stat_runtime"].select("time_ns", "tid", "runtime").rows() == [
        (1_001_160, 8, 33),
        (1_001_170, 8, 44),
        (1_001_200, 7, 180),
        (1_001_221, 9, 21),
        (1_001_282, 7, 61),
    ]
    assert done.missing == 0
    assert frames["sched_switch"].height == 3


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sched:sched_stat_runtime", "u64 runtime", "u64 lasted"),
        ("sched:sched_stat_runtime", "offset:12;\tsize:4", "offset:12;\tsize:2"),
        ("sched:sched_switch", "prev_prio", "prev_rank"),
    ],
)
def test_events_of_another_form_put_nothing_back(tmp_path, name, old, new):
    """With texts of another form, as in a later kernel, missing switches are only counted."""
    texts = {"sched:sched_switch": SWITCH, "sched:sched_stat_runtime": RUNTIME}
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new)
    pages = page(
        1000, event(0, switch(5, 0, 1)), event(300, runtime(7, 100)), event(100, switch(7, 0))
    )
    done, _, _ = converted(tmp_path, pages, formats=texts)
    assert done.switches_missing == 1


def test_damage_is_counted_and_the_rest_is_read(tmp_path):
    torn = bytearray(page(2000, event(0, switch(2, 1)), event(5, switch(1, 2))))
    torn[16 + 68] = 0xFF
    done, frames, losses = converted(
        tmp_path,
        page(1000, event(0, switch(1, 2))) + bytes(torn) + page(3000, event(0, switch(2, 3))),
    )
    assert done.damaged_pages >= 1
    assert frames["sched_switch"]["time_ns"].to_list() == [1_001_000, 1_002_000, 1_003_000]
    assert losses["count"].sum() >= 1


def test_strings_that_point_elsewhere_are_cut(tmp_path):
    bad = [irq(1, b"name", offset=offset) for offset in (0, 15, 24, 4000, 0xFFFF)]
    done, frames, _ = converted(tmp_path, page(0, *(event(1, record) for record in bad)))
    assert done.events == frames["irq_handler_entry"].height == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no description of an event"),
        ("name: a\nID: 99999\n", "no description of an event"),
        (SWITCH.replace("offset:60;\tsize:4", "offset:999999;\tsize:4"), "lies beyond any event"),
    ],
)
def test_descriptions_that_describe_nothing(text, message):
    with pytest.raises(UsageError, match=message):
        parse_format(text, "format")


def test_a_file_of_trace_cmd_gets_the_clock_beside_it(tmp_path):
    """The offset is that of the trace in the folder; another clock cannot be joined."""
    content = page(1000, event(1, switch(7, 8)))
    (tmp_path / "k.dat").write_bytes(trace_dat([content]))
    (folder,) = unpack(tmp_path / "k.dat", tmp_path / "alone")
    assert open_trace(folder).read()["sched_switch"]["time_ns"].to_list() == [1001]
    converted(tmp_path, content)
    (folder,) = unpack(tmp_path / "k.dat", tmp_path / "trace")
    times = open_trace(folder).read()["sched_switch"]["time_ns"]
    assert times.to_list() == [1_001_001]
    (tmp_path / "l.dat").write_bytes(trace_dat([content], clock="local"))
    with pytest.raises(UsageError, match="its clock is 'local'"):
        unpack(tmp_path / "l.dat", tmp_path / "trace")


def test_a_file_of_trace_cmd_gets_the_clock_of_ctf_2_beside_it(tmp_path):
    """In the recording's metadata the epoch lies 1,795,459,400 s and 208,292,826 ns before."""
    with tarfile.open(CTF_2) as archive:
        archive.extractall(tmp_path / "trace", filter="data")
    (tmp_path / "k.dat").write_bytes(trace_dat([page(1000, event(1, switch(7, 8)))]))
    (folder,) = unpack(tmp_path / "k.dat", tmp_path / "trace")
    times = open_trace(folder).read()["sched_switch"]["time_ns"]
    assert times.to_list() == [1_795_459_400_208_292_826 + 1001]
    # The clock is absolute, like LTTng's own, as babeltrace2 joins only such clocks.
    (metadata,) = folder.rglob("metadata")
    assert "absolute = TRUE" in metadata.read_text()
    (metadata,) = (tmp_path / "trace").rglob("64-bit/metadata")
    for text in ("{", "[]", '{"type": "clock-class"}', '{"type": ' + "[" * 60_000):
        metadata.write_text(f"\x1e{text}")
        assert clock_of_other_trace(tmp_path / "trace" / "ctf2_lttng_2.15.1", Clock()) is None


def test_events_of_threads_that_are_not_meant_are_left_out(tmp_path):
    """Of our probes, thread 7 is the program's, 9 another's; events have LTTng's contexts."""
    probe = SWITCH.replace("name: sched_switch", "name: rmw_take__0").replace("ID: 372", "ID: 900")
    switches = [switch(n, 1).replace(b"\x74\x01", b"\x84\x03", 1) for n in (7, 9)]
    content = page(1000, event(1, switches[0]), event(1, switches[1]), event(1, switch(1, 2)))
    formats = {"sched:sched_switch": SWITCH, "roslens_1_2_3_0a0b0c0d:rmw_take__0": probe}
    done, frames, _ = converted(
        tmp_path, content, formats=formats, threads={7: (4, 5, "talker")}, whole=False
    )
    assert (done.foreign, done.by_name) == (1, {"sched_switch": 1})
    rows = frames["ros2:rmw_take"].select("time_ns", "vpid", "vtid", "procname", "prev_pid")
    assert rows.rows() == [(1_001_001, 4, 5, "talker", 7)]
