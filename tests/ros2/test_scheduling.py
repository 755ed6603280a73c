"""Test where the time of callbacks went, from kernel events.

The events have the fields of LTTng's kernel modules. The expected rows are worked out by hand;
times are in microseconds. Nothing here was recorded from a kernel.
"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ros2_trace import KERNEL_FIELDS, TYPES, Trace, at, findings
from tests.ctf import ctf_writer as w

from roslens.collectors.collection import collect, tables
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.events import FIELDS
from roslens.recording import Recording

RUNNABLE, ASLEEP, OLD_PREEMPT = 0, 1, 0x400
OTHER = 99
COLUMNS = (
    "cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns", "preemptions", "waits",
    "migrations", "frequency_hz",
)  # fmt: skip
CLASSES = {
    pl.Int32(): w.integer(32, True),
    pl.UInt32(): w.integer(32),
    pl.Int64(): w.integer(64, True),
    pl.UInt64(): w.integer(64),
    pl.String(): w.text(),
}
CONTEXT = ("vpid", "vtid", "procname")


def callbacks(*spans: tuple[int, int], tid: int = 70) -> Trace:
    """Let a thread execute callbacks from one time to the other."""
    trace = Trace()
    for begin, end in spans:
        trace.run(begin, 0x30, lasts=end - begin, pid=7, tid=tid)
    return trace


def switches(trace: Trace, *rows: tuple[int, ...]) -> Trace:
    """Emit switches: time, CPU, who leaves, who comes, and the state of who leaves, or asleep."""
    for us, cpu, out, into, *state in rows:
        trace.emit(
            us, "sched_switch", cpu=cpu, prev_tid=out, prev_state=(state or [ASLEEP])[0],
            next_tid=into,
        )  # fmt: skip
    return trace


def collected(trace: Trace, folder: Path) -> dict[str, pl.DataFrame]:
    """Return every table of the events, written as one trace of programs and one of the kernel."""
    for domain, known in (("ust", FIELDS), ("kernel", KERNEL_FIELDS)):
        rows = sorted(
            (row for row in trace.rows if row[0] in known), key=lambda row: row[1]["time_ns"]
        )
        prefix, context = ("ros2:", CONTEXT) if domain == "ust" else ("", ())
        events = {
            name: w.Event(prefix + name, number, w.structure(
                {field.removeprefix("field_"): CLASSES[kind] for field, kind in known[name].items()}
            ))
            for number, name in enumerate({name: None for name, _ in rows})
        }  # fmt: skip
        common = w.structure({name: CLASSES[TYPES[name]] for name in context}) if context else None
        writer = w.TraceWriter(list(events.values()), common, domain=domain)
        streams: dict[str, w.Stream] = {}
        for name, row in rows:
            cpu = row["cpu_id"]
            stream = streams.setdefault(f"s{cpu}", w.Stream(writer, instance=cpu, cpu=cpu))
            payload = {field.removeprefix("field_"): row[field] for field in known[name]}
            stream.event(events[name], row["time_ns"], payload, {c: row[c] for c in context})
        for stream in streams.values():
            stream.packet()
        writer.save(folder / "trace" / domain, **streams)
    recording = Recording.at(folder)
    collect(recording)
    return {name: frame.collect() for name, frame in tables(recording).items()}


def scheduling(frames: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    """Return the rows of callback_scheduling, times in microseconds."""
    return [
        tuple(
            value / 1000 if name.endswith("_ns") and value is not None else value
            for name, value in zip(COLUMNS, row, strict=True)
        )
        for row in frames["callback_scheduling"].select(COLUMNS).iter_rows()
    ]


def test_where_the_time_of_a_callback_went(tmp_path: Path) -> None:
    """Thread 70 begins its callback at 100 on CPU 0, is preempted from 110 to 125, sleeps at 140,
    is woken at 160, goes on at 167 on CPU 1, and ends at 200. The next callback is never
    interrupted. CPU 0 runs at 2 GHz; CPU 1 at 1 GHz, and from 180 on at 3 GHz.
    """
    trace = switches(
        callbacks((100, 200), (210, 230)),
        (20, 0, OTHER, 70), (110, 0, 70, OTHER, RUNNABLE), (125, 0, OTHER, 70, RUNNABLE),
        (140, 0, 70, OTHER), (167, 1, OTHER, 70), (300, 1, 70, OTHER),
    )  # fmt: skip
    for us, cpu, khz in ((10, 0, 2_000_000), (11, 1, 1_000_000), (180, 1, 3_000_000)):
        trace.emit(us, "power_cpu_frequency", cpu=cpu, state=khz, field_cpu_id=cpu)
    # The first is of a thread that does not sleep, and means nothing.
    for us in (112, 160, 163):
        trace.emit(us, "sched_waking", tid=70)
    frames = collected(trace, tmp_path)
    # On CPU: 100-110, 125-140, 167-200; 25 us at 2 GHz, 13 at 1, 20 at 3: 123,000 cycles in 58 us.
    assert scheduling(frames) == [
        (58, 15, 20, 7, 1, 1, 1, pytest.approx(123_000 / 58e-6)),
        (20, 0, 0, 0, 0, 0, 0, pytest.approx(3e9)),
    ]
    parts = frames["callback_scheduling"].select(
        pl.sum_horizontal("cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns"),
        "duration_ns",
    )
    assert parts.rows() == [(100_000, 100_000), (20_000, 20_000)]


def test_cpu_time_of_what_an_executor_does() -> None:
    """The wait (122 to 156) is on the CPU at 122-125 and 155-156, the busy interval (156 to 191) is
    preempted from 170 to 180, and the last wait has no end.
    """
    trace = callbacks((100, 120), (158, 190))
    for us, name in ((122, "start"), (156, "end"), (191, "start")):
        trace.emit(us, f"executor_wait_{name}", pid=7, tid=70)
    switches(
        trace, (20, 0, OTHER, 70), (125, 0, 70, OTHER), (155, 0, OTHER, 70, RUNNABLE),
        (170, 0, 70, OTHER, RUNNABLE), (180, 0, OTHER, 70), (195, 0, 70, OTHER),
        (300, 0, OTHER, 70),
    )  # fmt: skip
    trace.emit(150, "sched_waking", tid=70)
    intervals = trace.tables()["executor_intervals"]
    assert intervals.select("state", "duration_ns", "cpu_ns").rows() == [
        ("wait", 34_000, 4_000),
        ("busy", 35_000, 25_000),
        ("wait", None, None),
    ]


def test_threads_side_by_side_and_nested() -> None:
    """Thread 71 preempts 70 in the middle of its callback, runs its own, and goes to sleep. In 70 a
    second callback runs within the first. An older kernel marks preemption with a separate bit.
    """
    trace = callbacks((100, 160))
    trace.run(105, 0x38, lasts=45, pid=7, tid=70)
    trace.run(120, 0x30, lasts=10, pid=7, tid=71)
    switches(
        trace, (20, 0, OTHER, 70, RUNNABLE), (110, 0, 70, 71, OLD_PREEMPT), (140, 0, 71, 70),
        (200, 0, 70, OTHER),
    )  # fmt: skip
    # The outer and inner callback of 70 (10 us less at the end, 5 at the begin), then 71's; no
    # sched_waking was recorded.
    assert scheduling(trace.tables()) == [
        (30, 30, 0, None, 1, 0, 0, None),
        (15, 30, 0, None, 1, 0, 0, None),
        (10, 0, 0, None, 0, 0, 0, None),
    ]


def test_what_the_kernel_trace_does_not_cover() -> None:
    """The kernel trace begins within the first callback and ends within the third; thread 72 is
    never named. The second callback's thread had run since before the kernel was traced.
    """
    trace = callbacks((100, 140), (150, 190), (200, 250))
    trace.run(155, 0x30, lasts=10, pid=7, tid=72)
    switches(
        trace, (120, 1, OTHER, 98), (170, 0, 70, OTHER, RUNNABLE), (180, 0, OTHER, 70),
        (230, 1, 98, OTHER),
    )  # fmt: skip
    frames = trace.tables()
    assert frames["callback_scheduling"]["callback_instance_id"].to_list() == [1]
    assert scheduling(frames) == [(30, 10, 0, None, 1, 0, 0, None)]
    found = findings(frames)
    assert (found["threads_not_in_kernel_trace"], found["outside_kernel_trace"]) == (1, 2)


def preempted(tid: int, other: int = OTHER) -> Trace:
    """Let thread 70, which is `tid` to the kernel, be preempted from 110 to 130."""
    return switches(
        callbacks((100, 150)), (20, 0, OTHER, tid), (110, 0, tid, other, RUNNABLE),
        (130, 0, other, tid), (200, 0, tid, OTHER),
    )  # fmt: skip


def test_threads_of_a_container_by_the_contexts_of_the_switches() -> None:
    """As roslens records it, sched_switch has the vpid and vtid of the thread that leaves."""
    trace = preempted(5070, 70)  # to the kernel, 70 is quite another thread
    for name, row in trace.rows:
        if name == "sched_switch":
            row["vpid"], row["vtid"] = (7, 70) if row["prev_tid"] == 5070 else (1, 1)
    frames = trace.tables()
    assert scheduling(frames) == [(30, 20, 0, None, 1, 0, 0, None)]
    assert "thread_ids_assumed" not in findings(frames)


def statedump(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """Return the kernel's threads: number to the kernel, in their process, of it, and namespace."""
    return pl.DataFrame(
        [
            {"time_ns": at(10), "host": "h0", "tid": tid, "field_vpid": vpid, "field_vtid": vtid,
             "vpid": None, "vtid": None, "procname": None, "ns_inum": inode}
            for tid, vtid, vpid, inode in rows
        ],
        schema_overrides={"vpid": pl.Int32, "vtid": pl.Int32, "procname": pl.String},
    )  # fmt: skip


def test_threads_of_a_container_by_the_statedump() -> None:
    frames = preempted(5070, 70).frames()
    frames["lttng_statedump_process_pid_ns"] = statedump(
        (5070, 5070, 5007, 4026532201), (5070, 70, 7, 4026532201)
    )
    assert scheduling(build_tables(frames)) == [(30, 20, 0, None, 1, 0, 0, None)]


def test_threads_whose_numbers_nothing_tells() -> None:
    """Without any evidence, the numbers are taken to be equal, and health says so."""
    frames = preempted(70).tables()
    assert scheduling(frames) == [(30, 20, 0, None, 1, 0, 0, None)]
    assert findings(frames)["thread_ids_assumed"] == 1


def test_executions_of_which_a_switch_may_have_been_dropped() -> None:
    """Thread 70 runs callbacks at 100, 200, 300 and 400, each 50 long; the tracer dropped kernel
    events from 210 to 220. The callback of 200 had just begun; before that of 300 nothing says that
    the thread still runs, but an event within it does, so the one of 400 is known again.
    """
    trace = switches(
        callbacks((100, 150), (200, 250), (300, 350), (400, 450)),
        (50, 0, 98, 70), (110, 0, 70, 98, RUNNABLE), (120, 0, 98, 70),
        (320, 0, 70, 98, RUNNABLE), (330, 0, 98, 70), (500, 0, 70, 98),
    )  # fmt: skip
    trace.lose(210, 220, 3, trace="kernel")
    tables = trace.tables()
    scheduled = tables["callback_scheduling"].select(
        "callback_instance_id", "cpu_ns", "preempted_ns", "blocked_ns"
    )
    assert scheduled.rows() == [(0, 40_000, 10_000, 0), (3, 50_000, 0, 0)]
    assert findings(tables)["outside_kernel_trace"] == 2
    trace.losses.clear()
    assert trace.tables()["callback_scheduling"]["cpu_ns"].to_list() == [
        40_000, 50_000, 40_000, 50_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gap", "count", "known"),
    [
        # Only one switch is missing: the one by which the thread came to CPU 1, before 210.
        ((150, 270), 1, [(0, 50_000), (1, 50_000), (2, 50_000)]),
        # Two switches are missing: the thread may have left and come back.
        ((150, 270), 2, [(0, 50_000), (2, 50_000)]),
        # The dropped event is of another CPU, to which a running thread does not come.
        ((205, 225), 1, [(0, 50_000), (1, 50_000), (2, 50_000)]),
    ],
)
def test_a_thread_that_runs_leaves_its_cpu_by_an_event_of_it(
    gap: tuple[int, int], count: int, known: list[tuple[int, int]]
) -> None:
    """By hand: thread 70 runs three callbacks on CPU 1, which is idle in between."""
    trace = callbacks((100, 150), (210, 260), (300, 350))
    for us, prev, following in (
        (90, 0, 70), (150, 70, 0), (205, 0, 70), (270, 70, 0), (290, 0, 70), (360, 70, 0),
    ):  # fmt: skip
        if not gap[0] < us < gap[1]:
            switches(trace, (us, 1, prev, following))
    trace.lose(*gap, count, trace="kernel", cpu_id=1 if gap[0] == 150 else 0)
    scheduled = trace.tables()["callback_scheduling"].select("callback_instance_id", "cpu_ns")
    assert scheduled.rows() == known


def test_a_thread_that_is_next_seen_to_come_was_on_a_cpu_that_is_not_known() -> None:
    """By hand: thread 70 came to CPU 1 at 165 and left it at 180, both of which CPU 1 has lost, and
    comes to CPU 0 at 240, so the CPU time of its callback from 170 to 250 is not known.
    """
    trace = switches(
        callbacks((100, 140), (170, 250), (300, 350)),
        (90, 1, 0, 70), (150, 1, 70, 0), (240, 0, 0, 70), (360, 0, 70, 0),
    )  # fmt: skip
    trace.lose(160, 200, 2, trace="kernel", cpu_id=1)
    scheduled = trace.tables()["callback_scheduling"].select("callback_instance_id", "cpu_ns")
    assert scheduled.rows() == [(0, 40_000), (2, 50_000)]


@pytest.mark.parametrize("namespaces", [True, False])
def test_containers_whose_threads_have_one_number(*, namespaces: bool) -> None:
    """Thread 70 of process 7 in two containers is 5070 and 6070 to the kernel: the first is
    preempted for 20 us, the second runs all the time. Without namespaces nobody can say which.
    """
    trace = Trace()
    containers = ((100, "one", 4026532201, 5070), (200, "two", 4026532202, 6070))
    for us, name, _, _ in containers:
        trace.run(us, 0x30, lasts=50, pid=7, tid=70, procname=name)
    switches(
        trace, (50, 0, 98, 5070), (110, 0, 5070, 98, RUNNABLE), (130, 0, 98, 5070),
        (190, 0, 5070, 6070), (300, 0, 6070, 98),
    )  # fmt: skip
    frames = trace.frames()
    number = {name: inode for _, name, inode, _ in containers}
    if namespaces:
        for name in ("ros2:callback_start", "ros2:callback_end"):
            namespace = pl.col("procname").replace_strict(number, return_dtype=pl.UInt64)
            frames[name] = frames[name].with_columns(namespace.alias("ctx_pid_ns"))
    frames["lttng_statedump_process_pid_ns"] = statedump(
        *((tid, 70, 7, inode) for _, _, inode, tid in containers)
    )
    tables = build_tables(frames)
    scheduled = tables["callback_scheduling"].select("start_ns", "cpu_ns", "preempted_ns")
    whole = [(at(100), 30_000, 20_000), (at(200), 50_000, 0)]
    assert scheduled.rows() == (whole if namespaces else [])
    assert findings(tables).get("threads_not_in_kernel_trace") == (None if namespaces else 1)
