"""Test where the time of callbacks went, from kernel events.

The traces have the fields of LTTng's kernel modules. The expected rows are worked out by hand;
times are in microseconds. Nothing here was recorded from a kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ros2_trace import Trace, at, findings
from tests.ctf import ctf_writer as w

from roslens.collectors.collection import collect, tables
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording

TEXT, I32, U32, I64, U64 = (
    w.text(),
    w.integer(32, True),
    w.integer(32),
    w.integer(64, True),
    w.integer(64),
)
SWITCH = {
    "prev_comm": TEXT,
    "prev_tid": I32,
    "prev_prio": I32,
    "prev_state": I64,
    "next_comm": TEXT,
    "next_tid": I32,
    "next_prio": I32,
}
WAKING = {"comm": TEXT, "tid": I32, "prio": I32, "target_cpu": I32}
FREQUENCY = {"state": U32, "cpu_id": U32}
PID_NS = {"tid": I32, "vtid": I32, "vpid": I32, "ns_level": I32, "ns_inum": U32}
CONTEXT = {"vpid": I32, "vtid": I32, "procname": TEXT}
RUNNABLE, ASLEEP, OLD_PREEMPT = 0, 1, 0x400
OTHER = 99
COLUMNS = (
    "cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns", "preemptions", "waits",
    "migrations", "frequency_hz",
)  # fmt: skip

Row = tuple[float, int, str, dict[str, Any], dict[str, Any]]


def program(
    tid: int, us: float, name: str, *, pid: int = 7, cpu: int = 0, callback: int = 0x300
) -> Row:
    """Return an event of a program."""
    payload = {"callback": callback} if name.startswith("callback") else {}
    if name == "callback_start":
        payload["is_intra_process"] = 0
    context = {"vpid": pid, "vtid": tid, "procname": "node"}
    return us, cpu, f"ros2:{name}", context, payload


def switch(us: float, cpu: int, out: int, into: int, state: int = RUNNABLE) -> Row:
    """Return a switch in which `out` leaves the CPU in `state` and `into` gets it."""
    return us, cpu, "sched_switch", {}, {
        "prev_comm": "a", "prev_tid": out, "prev_prio": 20, "prev_state": state, "next_comm": "b",
        "next_tid": into, "next_prio": 20,
    }  # fmt: skip


def waking(us: float, tid: int) -> Row:
    return us, 0, "sched_waking", {}, {"comm": "b", "tid": tid, "prio": 20, "target_cpu": 0}


def frequency(us: float, cpu: int, khz: int) -> Row:
    return us, cpu, "power_cpu_frequency", {}, {"state": khz, "cpu_id": cpu}


def write(folder: Path, domain: str, rows: list[Row], events: dict[str, dict[str, Any]]) -> None:
    with_context = domain == "ust" or any(row[3] for row in rows)
    classes = {
        name: w.Event(name, number, w.structure(fields))
        for number, (name, fields) in enumerate(events.items())
    }
    context = w.structure(CONTEXT) if with_context else None
    trace = w.TraceWriter(list(classes.values()), context, domain=domain)
    streams: dict[str, w.Stream] = {}
    for us, cpu, name, common, payload in sorted(rows, key=lambda row: row[0]):
        stream = streams.setdefault(f"s{cpu}", w.Stream(trace, instance=cpu, cpu=cpu))
        stream.event(classes[name], at(us), payload, common)
    for stream in streams.values():
        stream.packet()
    trace.save(folder, **streams)


def collected(tmp_path: Path, ros: list[Row], kernel: list[Row]) -> dict[str, pl.DataFrame]:
    """Return every table of a recording of programs and kernel."""
    trace = tmp_path / "trace"
    of_programs = {
        "ros2:callback_start": {"callback": U64, "is_intra_process": I32},
        "ros2:callback_end": {"callback": U64},
        "ros2:executor_wait_start": {},
        "ros2:executor_wait_end": {},
    }
    write(trace / "ust", "ust", ros, of_programs)
    kinds = {
        "sched_switch": SWITCH,
        "sched_waking": WAKING,
        "power_cpu_frequency": FREQUENCY,
        "lttng_statedump_process_pid_ns": PID_NS,
    }
    names = {row[2] for row in kernel}
    write(trace / "kernel", "kernel", kernel, {k: v for k, v in kinds.items() if k in names})
    recording = Recording.at(tmp_path)
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
    ros = [
        program(70, 100, "callback_start"),
        program(70, 200, "callback_end", cpu=1),
        program(70, 210, "callback_start", cpu=1),
        program(70, 230, "callback_end", cpu=1),
    ]
    kernel = [
        frequency(10, 0, 2_000_000),
        frequency(11, 1, 1_000_000),
        switch(20, 0, OTHER, 70),
        switch(110, 0, 70, OTHER, RUNNABLE),
        waking(112, 70),  # of a thread that does not sleep: means nothing
        switch(125, 0, OTHER, 70),
        switch(140, 0, 70, OTHER, ASLEEP),
        waking(160, 70),
        waking(163, 70),
        switch(167, 1, OTHER, 70, ASLEEP),
        frequency(180, 1, 3_000_000),
        switch(300, 1, 70, OTHER, ASLEEP),
    ]
    frames = collected(tmp_path, ros, kernel)
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


def test_cpu_time_of_what_an_executor_does(tmp_path: Path) -> None:
    """The wait (122 to 156) is on the CPU at 122-125 and 155-156, the busy interval (156 to 191) is
    preempted from 170 to 180, and the last wait has no end.
    """
    ros = [
        program(70, 100, "callback_start"),
        program(70, 120, "callback_end"),
        program(70, 122, "executor_wait_start"),
        program(70, 156, "executor_wait_end"),
        program(70, 158, "callback_start"),
        program(70, 190, "callback_end"),
        program(70, 191, "executor_wait_start"),
    ]
    kernel = [
        switch(20, 0, OTHER, 70),
        switch(125, 0, 70, OTHER, ASLEEP),
        waking(150, 70),
        switch(155, 0, OTHER, 70),
        switch(170, 0, 70, OTHER, RUNNABLE),
        switch(180, 0, OTHER, 70),
        switch(195, 0, 70, OTHER, ASLEEP),
        switch(300, 0, OTHER, 70),
    ]
    intervals = collected(tmp_path, ros, kernel)["executor_intervals"]
    assert intervals.select("state", "duration_ns", "cpu_ns").rows() == [
        ("wait", 34_000, 4_000),
        ("busy", 35_000, 25_000),
        ("wait", None, None),
    ]


def test_threads_side_by_side_and_nested(tmp_path: Path) -> None:
    """Thread 71 preempts 70 in the middle of its callback, runs its own, and goes to sleep. In 70 a
    second callback runs within the first. An older kernel marks preemption with a separate bit.
    """
    ros = [
        program(70, 100, "callback_start"),
        program(70, 105, "callback_start", callback=0x308),
        program(71, 120, "callback_start"),
        program(71, 130, "callback_end"),
        program(70, 150, "callback_end", callback=0x308),
        program(70, 160, "callback_end"),
    ]
    kernel = [
        switch(20, 0, OTHER, 70),
        switch(110, 0, 70, 71, OLD_PREEMPT),
        switch(140, 0, 71, 70, ASLEEP),
        switch(200, 0, 70, OTHER, ASLEEP),
    ]
    frames = collected(tmp_path, ros, kernel)
    # The outer and inner callback of 70 (10 us less at the end, 5 at the begin), then 71's; no
    # sched_waking was recorded.
    assert scheduling(frames) == [
        (30, 30, 0, None, 1, 0, 0, None),
        (15, 30, 0, None, 1, 0, 0, None),
        (10, 0, 0, None, 0, 0, 0, None),
    ]


def test_what_the_kernel_trace_does_not_cover(tmp_path: Path) -> None:
    """The kernel trace begins within the first callback and ends within the third; thread 72 is
    never named. The second callback's thread had run since before the kernel was traced.
    """
    ros = [
        program(70, 100, "callback_start"),
        program(70, 140, "callback_end"),
        program(70, 150, "callback_start"),
        program(70, 190, "callback_end"),
        program(72, 155, "callback_start", cpu=1),
        program(72, 165, "callback_end", cpu=1),
        program(70, 200, "callback_start"),
        program(70, 250, "callback_end"),
    ]
    kernel = [
        switch(120, 1, OTHER, 98),
        switch(170, 0, 70, OTHER, RUNNABLE),
        switch(180, 0, OTHER, 70),
        switch(230, 1, 98, OTHER, ASLEEP),
    ]
    frames = collected(tmp_path, ros, kernel)
    assert frames["callback_scheduling"]["callback_instance_id"].to_list() == [1]
    assert scheduling(frames) == [(30, 10, 0, None, 1, 0, 0, None)]
    health = dict(frames["health"].select("kind", "count").iter_rows())
    assert health["threads_not_in_kernel_trace"] == 1
    assert health["outside_kernel_trace"] == 2


def in_a_container(tmp_path: Path, kernel: list[Row]) -> dict[str, pl.DataFrame]:
    """Thread 70 of the container is 5070 to the kernel; it is preempted from 110 to 130."""
    ros = [program(70, 100, "callback_start"), program(70, 150, "callback_end")]
    frames = collected(tmp_path, ros, kernel)
    assert scheduling(frames) == [(30, 20, 0, None, 1, 0, 0, None)]
    return frames


def test_threads_of_a_container_by_the_contexts_of_the_switches(tmp_path: Path) -> None:
    """As roslens records it, sched_switch has the vpid and vtid of the thread that leaves."""
    mine = {"vpid": 7, "vtid": 70, "procname": "node"}
    theirs = {"vpid": 1, "vtid": 1, "procname": "x"}
    switches = [
        (switch(20, 0, OTHER, 5070), theirs),
        (switch(110, 0, 5070, 70), mine),  # to the kernel, 70 is quite another thread
        (switch(130, 0, 70, 5070), theirs),
        (switch(200, 0, 5070, OTHER, ASLEEP), mine),
    ]
    kernel = [(*row[:3], context, row[4]) for row, context in switches]
    frames = in_a_container(tmp_path, kernel)
    assert frames["health"].filter(pl.col("kind") == "thread_ids_assumed").is_empty()


def test_threads_of_a_container_by_the_statedump(tmp_path: Path) -> None:
    state = {"tid": 5070, "vtid": 70, "vpid": 7, "ns_level": 1, "ns_inum": 4026532201}
    root = state | {"vtid": 5070, "vpid": 5007, "ns_level": 0}
    kernel = [
        (10, 0, "lttng_statedump_process_pid_ns", {}, root),
        (11, 0, "lttng_statedump_process_pid_ns", {}, state),
        switch(20, 0, OTHER, 5070),
        switch(110, 0, 5070, 70),
        switch(130, 0, 70, 5070),
        switch(200, 0, 5070, OTHER, ASLEEP),
    ]
    in_a_container(tmp_path, kernel)


def test_threads_whose_numbers_nothing_tells(tmp_path: Path) -> None:
    """Without any evidence, the numbers are taken to be equal, and health says so."""
    kernel = [
        switch(20, 0, OTHER, 70),
        switch(110, 0, 70, OTHER),
        switch(130, 0, OTHER, 70),
        switch(200, 0, 70, OTHER, ASLEEP),
    ]
    frames = in_a_container(tmp_path, kernel)
    health = dict(frames["health"].select("kind", "count").iter_rows())
    assert health["thread_ids_assumed"] == 1


def test_executions_of_which_a_switch_may_have_been_dropped() -> None:
    """Thread 70 runs callbacks at 100, 200, 300 and 400, each 50 long; the tracer dropped kernel
    events from 210 to 220. The callback of 200 had just begun; before that of 300 nothing says that
    the thread still runs, but an event within it does, so the one of 400 is known again.
    """
    trace = Trace()
    for us in (100, 200, 300, 400):
        trace.run(us, 0x30, lasts=50, tid=70)
    for us, state, prev, following in (
        (50, 1, 98, 70),
        (110, 0, 70, 98),
        (120, 1, 98, 70),
        (320, 0, 70, 98),
        (330, 1, 98, 70),
        (500, 1, 70, 98),
    ):
        trace.emit(us, "sched_switch", prev_tid=prev, prev_state=state, next_tid=following)
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
    trace = Trace()
    for us in (100, 210, 300):
        trace.run(us, 0x30, lasts=50, tid=70)
    for us, prev, following in (
        (90, 0, 70), (150, 70, 0), (205, 0, 70), (270, 70, 0), (290, 0, 70), (360, 70, 0),
    ):  # fmt: skip
        if not gap[0] < us < gap[1]:
            trace.emit(us, "sched_switch", cpu=1, prev_tid=prev, prev_state=1, next_tid=following)
    trace.lose(*gap, count, trace="kernel", cpu_id=1 if gap[0] == 150 else 0)
    scheduled = trace.tables()["callback_scheduling"].select("callback_instance_id", "cpu_ns")
    assert scheduled.rows() == known


def test_a_thread_that_is_next_seen_to_come_was_on_a_cpu_that_is_not_known() -> None:
    """By hand: thread 70 came to CPU 1 at 165 and left it at 180, both of which CPU 1 has lost, and
    comes to CPU 0 at 240, so the CPU time of its callback from 170 to 250 is not known.
    """
    trace = Trace()
    trace.run(100, 0x30, lasts=40, tid=70)
    trace.run(170, 0x30, lasts=80, tid=70)
    trace.run(300, 0x30, lasts=50, tid=70)
    for us, cpu, prev, following in (
        (90, 1, 0, 70), (150, 1, 70, 0), (240, 0, 0, 70), (360, 0, 70, 0),
    ):  # fmt: skip
        trace.emit(us, "sched_switch", cpu=cpu, prev_tid=prev, prev_state=1, next_tid=following)
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
    for us, state, prev, following in (
        (50, 1, 98, 5070), (110, 0, 5070, 98), (130, 1, 98, 5070), (190, 1, 5070, 6070),
        (300, 1, 6070, 98),
    ):  # fmt: skip
        trace.emit(us, "sched_switch", prev_tid=prev, prev_state=state, next_tid=following)
    frames = trace.frames()
    number = {name: inode for _, name, inode, _ in containers}
    if namespaces:
        for name in ("ros2:callback_start", "ros2:callback_end"):
            namespace = pl.col("procname").replace_strict(number, return_dtype=pl.UInt64)
            frames[name] = frames[name].with_columns(namespace.alias("ctx_pid_ns"))
    frames["kernel:lttng_statedump_process_pid_ns"] = pl.DataFrame(
        [
            {"time_ns": at(10), "host": "h0", "tid": tid, "field_vpid": 7, "field_vtid": 70,
             "vpid": None, "vtid": None, "procname": None, "ns_inum": inode}
            for _, _, inode, tid in containers
        ],
        schema_overrides={"vpid": pl.Int32, "vtid": pl.Int32, "procname": pl.String},
    )  # fmt: skip
    tables = build_tables(frames)
    scheduled = tables["callback_scheduling"].select("start_ns", "cpu_ns", "preempted_ns")
    whole = [(at(100), 30_000, 20_000), (at(200), 50_000, 0)]
    assert scheduled.rows() == (whole if namespaces else [])
    assert findings(tables).get("threads_not_in_kernel_trace") == (None if namespaces else 1)
