"""Test the causal path of messages: segments add up, and each cause gets its kind.

Expected kinds and times are laid out by hand; what must hold for every path is tested on random
tables and kernel events, and on the samples.
"""

import itertools

import numpy as np
import polars as pl
import pytest
from synthetic import table

import roslens as rl
from roslens.analysis.path.figures import path_plot
from roslens.analysis.path.kernel import kernel_view
from roslens.analysis.path.kinds import KINDS
from roslens.analysis.path.late import late_messages, untold_in_words
from roslens.analysis.path.path import Paths

KEY = ["message_id", "subscription_id"]
TABLES_NEEDED = ("messages", "callback_instances", "publications", "executor_intervals")
SWITCH = ("time_ns", "cpu_id", "prev_tid", "prev_state", "next_tid", "next_comm")
WAKE = ("time_ns", "cpu_id", "tid", "ctx_tid", "ctx_flags")
NODE, SENDER, RECEIVER, BURNER, HOLDER = 71, 51, 72, 99, 98
ASLEEP, DISK = 1, 2


def message(number: int, *moments: int | None, **more: object) -> dict:
    """Make a message from process 50 to 70 of one host: publish, sent, take, start and end."""
    publish, sent, take, start, end = moments
    return {
        "message_id": number, "subscription_id": 3, "topic": "/scan", "publisher_node": "/lidar",
        "subscription_node": "/planner", "publisher_host": "h0", "subscription_host": "h0",
        "publisher_vpid": 50, "subscription_vpid": 70, "intra_process": False,
        "publish_ns": publish, "rmw_publish_ns": sent, "take_ns": take,
        "callback_start_ns": start, "callback_end_ns": end, "outcome": "delivered",
        "latency_ns": start - publish, "callback_instance_id": number, **more,
    }  # fmt: skip


def execution(number: int, start: int, end: int | None, tid: int = NODE, **more: object) -> dict:
    return {
        "callback_instance_id": number, "host": "h0", "vpid": 70, "vtid": tid, "start_ns": start,
        "end_ns": end, "kind": "subscription", "name": "/scan", "node": "/planner",
        "callback_id": 1, **more,
    }  # fmt: skip


TIMER = {"kind": "timer", "name": "100 ms", "callback_id": 2}


def interval(state: str, begin: int, end: int, tid: int = NODE, executed: int = 0) -> dict:
    return {"host": "h0", "vpid": 70, "vtid": tid, "state": state, "begin_ns": begin, "end_ns": end,
            "duration_ns": end - begin, "executed": executed, "callback_ns": 0}  # fmt: skip


def run(messages=(), executions=(), intervals=()) -> dict[str, pl.DataFrame]:
    sent = [
        {"message_id": m["message_id"], "host": "h0", "vpid": m["publisher_vpid"],
         "vtid": m.get("sender", SENDER)}
        for m in {m["message_id"]: m for m in messages}.values()
    ]  # fmt: skip
    rows = (list(messages), list(executions), sent, list(intervals))
    return {name: table(name, *given) for name, given in zip(TABLES_NEEDED, rows, strict=True)}


def events(names: tuple[str, ...], *rows: tuple) -> pl.LazyFrame:
    schema = {name: pl.String if name in ("next_comm", "name") else pl.Int64 for name in names}
    frame = pl.DataFrame(sorted(rows), schema=schema, orient="row")
    return frame.with_columns(pl.col("cpu_id").cast(pl.Int32), pl.lit("h0").alias("host")).lazy()


def short(path: pl.DataFrame) -> list[tuple]:
    return path.select("kind", "begin_ns", "end_ns", "who").rows()


def assert_whole(path: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> None:
    """Check that delivered messages' segments go from publish to callback_end without a gap."""
    whole = tables["messages"].filter(
        pl.col("outcome") == "delivered", pl.col("publish_ns") <= pl.col("callback_start_ns"),
        pl.col("callback_start_ns") <= pl.col("callback_end_ns"),
        pl.col("publish_ns") < pl.col("callback_end_ns"),
    )  # fmt: skip
    by_message = path.group_by(KEY, maintain_order=True).agg(
        pl.col("begin_ns").first(), pl.col("end_ns").last(), pl.col("duration_ns").sum(),
        least=pl.col("duration_ns").min(), number=pl.col("segment"),
        joined=(pl.col("begin_ns").shift(-1) == pl.col("end_ns")).fill_null(value=True).all(),
    )  # fmt: skip
    assert by_message.height == whole.height
    messages = whole.join(by_message, on=KEY, nulls_equal=True)
    assert messages.height == whole.height
    length = messages["callback_end_ns"] - messages["publish_ns"]
    assert (messages["begin_ns"] == messages["publish_ns"]).all()
    assert (messages["end_ns"] == messages["callback_end_ns"]).all()
    assert (messages["duration_ns"] == length).all()
    assert (messages["least"] > 0).all()
    assert messages["joined"].all()
    assert all(numbers.to_list() == list(range(len(numbers))) for numbers in messages["number"])


def test_without_the_kernel_what_executor_events_tell():
    tables = run(
        [message(1, 100, 110, 400, 420, 500), message(2, 130, 140, 520, 530, 560)],
        [execution(7, 50, 300, **TIMER), execution(1, 420, 500), execution(2, 530, 560)],
        [interval("busy", 40, 320), interval("wait", 320, 350), interval("busy", 350, 600)],
    )
    path = Paths(tables, {}).segments_of()
    assert_whole(path, tables)
    timer = "timer callback (100 ms) of /planner"
    scan = "subscription callback (/scan) of /planner"
    assert short(path.filter(message_id=1)) == [
        ("publishing", 100, 110, None), ("executor", 110, 300, timer), ("executor", 300, 320, None),
        ("transport_or_waiting", 320, 350, None), ("executor", 350, 420, None),
        ("running", 420, 500, None),
    ]  # fmt: skip
    assert short(path.filter(message_id=2))[-3:] == [
        ("queue", 420, 520, scan), ("executor", 520, 530, None), ("running", 530, 560, None)
    ]  # fmt: skip
    assert set(path["source"]) == {"ros events"}


NOT_TOLD = [("transport_or_waiting", 110, 350, None)]


@pytest.mark.parametrize(
    ("more", "before"),
    [
        ({}, [("transport", 110, 330, None), ("unexplained", 330, 350, None)]),
        # The system's clock was set while the message was on its way.
        ({"received_ns": 9_050}, NOT_TOLD),
        ({"received_ns": 9_401}, NOT_TOLD),
        ({"publisher_host": "h1", "clock_bound_ns": 10}, NOT_TOLD),
    ],
)
def test_without_the_kernel_the_reader_tells_what_was_transport(more, before):
    """The system's clock is ahead of the events' by 9,000 ns."""
    clock = {"source_timestamp_ns": 9_110, "received_ns": 9_330}
    tables = run(
        [message(1, 100, 110, 400, 420, 500, **clock | more)],
        [execution(7, 50, 90, **TIMER), execution(1, 420, 500)],
        [interval("busy", 40, 95), interval("wait", 95, 350), interval("busy", 350, 600)],
    )
    path = Paths(tables, {}).segments_of()
    assert_whole(path, tables)
    after = [("executor", 350, 420, None), ("running", 420, 500, None)]
    assert short(path) == [("publishing", 100, 110, None), *before, *after]
    assert set(path["source"]) == {"ros events"}
    # Switches alone, as by perf, do not tell why a thread slept.
    switches = {"sched_switch": events(SWITCH, (90, 0, 0, 0, NODE, "node"))}
    path = Paths(tables, switches).segments_of()
    assert not set(path["kind"]) & {"transport", "unexplained"}


def test_a_message_within_a_process_waits_from_its_publication_on():
    tables = run(
        [message(1, 100, None, 210, 220, 230, intra_process=True, publisher_vpid=70, sender=NODE)],
        [execution(7, 50, 200, **TIMER), execution(1, 220, 230)],
    )
    assert short(Paths(tables, {}).segments_of()) == [
        ("executor", 100, 200, "timer callback (100 ms) of /planner"),
        ("unexplained", 200, 210, None), ("executor", 210, 220, None),
        ("running", 220, 230, None),
    ]  # fmt: skip


HELD = 8
"""Messages published while a timer of the same node runs on another thread."""


def grouped(
    *, overlap: bool = False, shared: bool = True, state: str = "wait", executed: int = 0
) -> pl.DataFrame:
    """Run a timer on thread 75 for 500 of every 1000; every second message comes meanwhile.

    Parameters
    ----------
    overlap
        The message's callback and the timer's ran at the same time once.
    shared
        Thread 75 also ran a callback of a message, so both threads are one executor's.
    state, executed
        What the other thread did meanwhile, and how much it executed in that time.
    """
    messages, executions, intervals = [], [], []
    for n in range(2 * HELD + 4):
        at = 10_000 + 1000 * n
        end = at + 520 if n % 2 else at + 40
        messages.append(message(n, at, at + 5, end + 5, end + 10, end + 20))
        executions.append(execution(n, end + 10, end + 20, tid=75 if shared and n == 0 else NODE))
        if n % 2:
            executions.append(execution(1000 + n, at - 10, at + 500, tid=75, **TIMER))
        intervals.append(interval(state, at - 300, end, executed=executed))
        intervals.append(interval("busy", end, at + 700, executed=1))
        intervals.append(interval("busy", at - 400, at + 600, tid=75, executed=1))
    if overlap:
        executions.append(execution(5000, 11_010 - 15, 11_010 + 3))
    tables = run(messages, executions, intervals)
    path = Paths(tables, {}).segments_of()
    assert_whole(path, tables)
    return path.filter(pl.col("message_id") == 5)


@pytest.mark.parametrize("state", ["wait", "busy"])
def test_a_callback_group_is_named_where_the_run_proves_it(state):
    """The other thread waits for work, or looks for it and executes nothing."""
    assert ("callback_group", 15_005, 15_500, "timer callback (100 ms) of /planner") in short(
        grouped(state=state)
    )


@pytest.mark.parametrize(
    "given", [{"overlap": True}, {"state": "busy", "executed": 1}, {"shared": False}]
)
def test_a_callback_group_is_not_named_without_proof(given):
    """The two ran at the same time once; no other thread was free, or none of the executor."""
    assert "callback_group" not in grouped(**given)["kind"]


def kernel(*, flags: int = 0) -> dict[str, pl.LazyFrame]:
    """The sender wakes the receiver at 130, and that the node's thread at 140.

    A burner has the CPU of the node's thread, which in its callback sleeps 220..260 (a lock) and
    270..280 (a disk).
    """
    return {
        "sched_switch": events(
            SWITCH,
            (80, 1, RECEIVER, ASLEEP, 0, "idle"),
            (90, 0, NODE, ASLEEP, BURNER, "burner"), (95, 1, 0, 0, SENDER, "lidar"),
            (132, 1, SENDER, ASLEEP, RECEIVER, "dds"), (145, 1, RECEIVER, ASLEEP, HOLDER, "holder"),
            (180, 0, BURNER, ASLEEP, NODE, "planner"), (220, 0, NODE, ASLEEP, 0, "idle"),
            (262, 0, 0, 0, NODE, "planner"), (270, 0, NODE, DISK, 0, "idle"),
            (280, 0, 0, 0, NODE, "planner"), (300, 0, NODE, ASLEEP, 0, "idle"),
        ),
        "sched_waking": events(
            WAKE, (130, 1, RECEIVER, SENDER, 0), (140, 1, NODE, RECEIVER, 0),
            (260, 1, NODE, HOLDER, flags),
        ),
        "irq_handler_entry": events(("time_ns", "cpu_id", "irq", "name"), (205, 0, 7, "nic")),
        "irq_handler_exit": events(("time_ns", "cpu_id", "irq"), (208, 0, 7)),
    }  # fmt: skip


ONE = ([message(1, 100, 110, 190, 200, 290)], [execution(1, 200, 290)])


def test_with_the_kernel_who_had_the_cpu_and_who_woke():
    tables = run(*ONE)
    path = Paths(tables, kernel()).segments_of()
    assert_whole(path, tables)
    assert short(path) == [
        ("publishing", 100, 110, None),
        ("transport", 110, 130, None),
        ("preempted", 130, 132, "lidar (thread 51)"),  # the receiver, which the sender keeps
        ("transport", 132, 140, None),
        ("preempted", 140, 180, "burner (thread 99)"),
        ("executor", 180, 200, None),
        ("running", 200, 205, None),
        ("interrupt", 205, 208, "irq 7 nic"),
        ("running", 208, 220, None),
        ("futex", 220, 260, "holder (thread 98)"),
        ("preempted", 260, 262, "the CPU, which came out of its sleep"),
        ("running", 262, 270, None),
        ("disk", 270, 280, None),
        ("running", 280, 290, None),
    ]
    assert set(path["source"][1:4]) == {"kernel"}


def test_who_an_interrupt_wakes_slept_in_a_system_call():
    path = Paths(run(*ONE), kernel(flags=8)).segments_of()
    assert ("syscall", 220, 260, None) in short(path)


def test_an_executor_that_is_busy_when_the_message_arrives_and_then_has_no_cpu():
    """The first is the timer's time, the second the burner's, and neither is transport."""
    tables = run(
        [message(0, 10, 11, 40, 45, 50), message(1, 100, 110, 190, 200, 210)],
        [execution(0, 45, 50), execution(7, 80, 160, **TIMER), execution(1, 200, 210)],
    )
    switches = events(
        SWITCH, (5, 0, NODE, ASLEEP, 0, "idle"), (22, 0, 0, 0, NODE, "planner"),
        (120, 0, NODE, 0, BURNER, "burner"), (150, 0, BURNER, ASLEEP, NODE, "planner"),
        (6, 1, RECEIVER, ASLEEP, 0, "idle"), (16, 1, 0, 0, RECEIVER, "dds"),
        (30, 1, RECEIVER, ASLEEP, 0, "idle"), (116, 1, 0, 0, RECEIVER, "dds"),
        (118, 1, RECEIVER, ASLEEP, 0, "idle"), (300, 0, NODE, ASLEEP, 0, "idle"),
    )  # fmt: skip
    wakes = events(
        WAKE, (15, 1, RECEIVER, SENDER, 0), (20, 1, NODE, RECEIVER, 0),
        (115, 1, RECEIVER, SENDER, 0),
    )  # fmt: skip
    path = Paths(tables, {"sched_switch": switches, "sched_waking": wakes}).segments_of()
    assert_whole(path, tables)
    timer = "timer callback (100 ms) of /planner"
    assert short(path.filter(message_id=1)) == [
        ("publishing", 100, 110, None), ("transport", 110, 115, None),
        ("executor", 115, 120, timer), ("preempted", 120, 150, "burner (thread 99)"),
        ("executor", 150, 160, timer), ("executor", 160, 200, None), ("running", 200, 210, None),
    ]  # fmt: skip


def test_a_thread_that_may_not_run_while_its_cpu_is_idle_is_throttled():
    switches = events(
        SWITCH, (10, 0, 0, 0, NODE, "planner"), (210, 0, NODE, 0, 0, "idle"),
        (260, 0, 0, 0, NODE, "planner"), (300, 0, NODE, ASLEEP, 0, "idle"),
    )  # fmt: skip
    path = Paths(run(*ONE), {"sched_switch": switches}).segments_of()
    assert ("throttled", 210, 260, None) in short(path)


def test_a_thread_that_looks_again_and_again_waits_for_who_wakes_it_at_last():
    """Python does this for its lock; woken for the message at 140, it still waits for work."""
    switches = events(
        SWITCH, (5, 0, NODE, ASLEEP, 0, "idle"), (22, 0, 0, 0, NODE, "planner"),
        (60, 0, NODE, ASLEEP, 0, "idle"), (142, 0, 0, 0, NODE, "planner"),
        (150, 0, NODE, ASLEEP, 0, "idle"), (162, 0, 0, 0, NODE, "planner"),
        (164, 0, NODE, ASLEEP, 0, "idle"), (182, 0, 0, 0, NODE, "planner"),
        (300, 0, NODE, ASLEEP, 0, "idle"), (6, 1, RECEIVER, ASLEEP, 0, "idle"),
        (16, 1, 0, 0, RECEIVER, "dds"), (30, 1, RECEIVER, ASLEEP, 0, "idle"),
        (132, 1, 0, 0, RECEIVER, "dds"), (145, 1, RECEIVER, ASLEEP, HOLDER, "holder"),
    )  # fmt: skip
    by_timer = 8
    wakes = events(
        WAKE, (15, 1, RECEIVER, SENDER, 0), (20, 1, NODE, RECEIVER, 0),
        (130, 1, RECEIVER, SENDER, 0), (140, 1, NODE, RECEIVER, 0),
        (160, 0, NODE, 0, by_timer), (180, 1, NODE, HOLDER, 0),
    )  # fmt: skip
    tables = run(
        [message(0, 10, 11, 40, 45, 50), message(1, 100, 110, 190, 200, 290)],
        [execution(0, 45, 50), execution(1, 200, 290)],
        [interval("wait", 1, 25), interval("busy", 25, 55), interval("wait", 55, 185)],
    )
    path = Paths(tables, {"sched_switch": switches, "sched_waking": wakes}).segments_of()
    assert_whole(path, tables)
    holder, idle = "holder (thread 98)", "the CPU, which came out of its sleep"
    assert [segment for segment in short(path.filter(message_id=1)) if segment[1] >= 140] == [
        ("preempted", 140, 142, idle),
        ("executor", 142, 150, None), ("futex", 150, 160, holder),
        ("preempted", 160, 162, idle), ("executor", 162, 164, None), ("futex", 164, 180, holder),
        ("preempted", 180, 182, idle), ("executor", 182, 200, None), ("running", 200, 290, None),
    ]  # fmt: skip


def test_a_message_that_is_taken_after_the_next_one_was_sent_arrived_before():
    """At 152 the next message arrives; the thread is woken for both before it takes one."""
    switches = events(
        SWITCH, (5, 0, NODE, ASLEEP, 0, "idle"), (22, 0, 0, 0, NODE, "planner"),
        (60, 0, NODE, ASLEEP, 0, "idle"), (142, 0, 0, 0, NODE, "planner"),
        (148, 0, NODE, ASLEEP, 0, "idle"), (162, 0, 0, 0, NODE, "planner"),
        (300, 0, NODE, ASLEEP, 0, "idle"), (6, 1, RECEIVER, ASLEEP, 0, "idle"),
        (16, 1, 0, 0, RECEIVER, "dds"), (30, 1, RECEIVER, ASLEEP, 0, "idle"),
        (132, 1, 0, 0, RECEIVER, "dds"), (145, 1, RECEIVER, ASLEEP, 0, "idle"),
        (154, 1, 0, 0, RECEIVER, "dds"), (165, 1, RECEIVER, ASLEEP, 0, "idle"),
    )  # fmt: skip
    wakes = events(
        WAKE, (15, 1, RECEIVER, SENDER, 0), (20, 1, NODE, RECEIVER, 0),
        (130, 1, RECEIVER, SENDER, 0), (140, 1, NODE, RECEIVER, 0),
        (152, 1, RECEIVER, SENDER, 0), (160, 1, NODE, RECEIVER, 0),
    )  # fmt: skip
    sent = [message(0, 10, 11, 40, 45, 50), message(1, 100, 110, 190, 200, 210),
            message(2, 150, 151, 220, 230, 240)]  # fmt: skip
    tables = run(sent, [execution(0, 45, 50), execution(1, 200, 210), execution(2, 230, 240)])
    messages = Paths(tables, {"sched_switch": switches, "sched_waking": wakes}).messages
    assert messages["arrived_ns"].to_list() == [15, 130, 152]


def test_an_interrupt_that_keeps_a_thread_from_its_cpu():
    """A soft interrupt has its CPU from 120 to 170, with another interrupt from 150 to 155."""
    recorded = kernel()
    at = ("time_ns", "cpu_id", "vec")
    recorded |= {
        "irq_softirq_entry": events(at, (120, 0, 3)), "irq_softirq_exit": events(at, (170, 0, 3)),
        "irq_handler_entry": events(("time_ns", "cpu_id", "irq", "name"), (150, 0, 7, "nic")),
        "irq_handler_exit": events(("time_ns", "cpu_id", "irq"), (155, 0, 7)),
    }  # fmt: skip
    path = Paths(run(*ONE), recorded).segments_of()
    assert short(path)[4:8] == [
        ("interrupt", 140, 150, "softirq NET_RX"), ("interrupt", 150, 155, "irq 7 nic"),
        ("interrupt", 155, 170, "softirq NET_RX"), ("preempted", 170, 180, "burner (thread 99)"),
    ]  # fmt: skip


def test_page_faults_that_follow_each_other():
    faults = events(("time_ns", "cpu_id", "ctx_tid"), *((t, 0, NODE) for t in (205, 208, 215)))
    switches = events(SWITCH, (10, 0, 0, 0, NODE, "planner"), (300, 0, NODE, 1, 0, "idle"))
    path = Paths(run(*ONE), {"sched_switch": switches, "page_fault_user": faults}).segments_of()
    assert ("page_fault", 205, 215, None) in short(path)


def test_a_page_fault_lasts_until_its_thread_runs_again_after_the_sleep_in_it():
    """By hand: 40 us from the fault to the sleep, then another thread has the CPU; 60 us: no fault.

    A fault that begins 15 us after the thread ran again belongs to the same stretch.
    """
    us = 1000
    ran = [execution(1, 200, 400 * us, NODE)]
    late = [message(1, 100, 110, 190, 200, 400 * us)]
    faults = events(
        ("time_ns", "cpu_id", "ctx_tid"), *((t * us, 0, NODE) for t in (20, 125, 200))
    )  # fmt: skip
    switches = events(
        SWITCH, (10, 0, 0, 0, NODE, "planner"), (60 * us, 0, NODE, 2, BURNER, "burner"),
        (110 * us, 0, BURNER, 0, NODE, "planner"), (260 * us, 0, NODE, 2, 0, "idle"),
        (300 * us, 0, 0, 0, NODE, "planner"),
    )  # fmt: skip
    wakes = events(WAKE, (90 * us, 1, NODE, 0, 8), (295 * us, 1, NODE, 0, 8))
    recorded = {"sched_switch": switches, "sched_waking": wakes, "page_fault_user": faults}
    inside = [
        segment[:3]
        for segment in short(Paths(run(late, ran), recorded).segments_of())
        if segment[1] >= 20 * us
    ]
    assert inside == [
        ("page_fault", 20 * us, 90 * us), ("preempted", 90 * us, 110 * us),
        ("page_fault", 110 * us, 125 * us), ("running", 125 * us, 260 * us),
        ("disk", 260 * us, 295 * us), ("preempted", 295 * us, 300 * us),
        ("running", 300 * us, 400 * us),
    ]  # fmt: skip


def scheduled(
    rng: np.random.Generator, end: int, tids: tuple[int, ...]
) -> tuple[list[tuple], list[tuple]]:
    """Draw switches and wake-ups of a random machine of two CPUs; one in 20 is lost."""
    on, ready, asleep = [0, 0], [], list(tids)
    switches, wakes = [], []
    for t in range(0, end, 3):
        cpu = int(rng.integers(0, 2))
        if asleep and rng.random() < 0.5:
            ready.append(asleep.pop(int(rng.integers(0, len(asleep)))))
            wakes.append((t, cpu, ready[-1], on[cpu], int(rng.choice([0, 0, 8]))))
            continue
        then = ready.pop(int(rng.integers(0, len(ready)))) if ready else 0
        before, state = on[cpu], int(rng.integers(0, 3))
        if before == then:
            continue
        if before:
            (asleep if state else ready).append(before)
        on[cpu] = then
        switches.append((t, cpu, before, state, then, f"t{then}"))
    lose = [[event for event in rows if rng.random() > 0.05] for rows in (switches, wakes)]
    return lose[0], lose[1]


def drawn(seed: int) -> tuple[dict[str, pl.DataFrame], dict[str, pl.LazyFrame]]:
    """Draw tables and kernel events with what real ones may lack, nested and overlapping."""
    rng = np.random.default_rng(seed)
    end, tids = 4000, (71, 72, 73)

    def maybe(value: int | None, chance: float = 0.2) -> int | None:
        return None if rng.random() < chance else value

    executions, messages, intervals = [], [], []
    for n in range(60):
        start, length = int(rng.integers(0, end)), int(rng.integers(0, 300))
        number = int(rng.integers(1, 4))
        callback = {"callback_id": number, "node": ("/a", "/b", None)[number - 1]}
        stop = maybe(start + length, 0.1)
        executions.append(execution(n, start, stop, int(rng.choice(tids)), **callback))
    for n, row in enumerate(executions):
        back = np.sort(rng.integers(0, 500, 3))[::-1]
        publish, sent, take = (int(row["start_ns"] - ago) for ago in back)
        messages.append(
            message(n // 2, publish, maybe(sent), maybe(take), row["start_ns"], row["end_ns"],
                    subscription_id=n, callback_instance_id=n,
                    received_ns=maybe(int(rng.integers(publish, row["start_ns"] + 1)), 0.5),
                    source_timestamp_ns=sent,
                    outcome=str(rng.choice(["delivered", "lost"], p=[0.9, 0.1])),
                    intra_process=bool(rng.random() < 0.3),
                    publisher_vpid=int(rng.choice([50, 70])))
        )  # fmt: skip
    for tid in tids[:2]:
        cuts = np.unique(rng.integers(0, end, 60)).tolist()
        for a, b in itertools.pairwise(cuts):
            intervals.append(interval(str(rng.choice(["wait", "busy", "blocked"])), a, b, tid))
    switches, wakes = scheduled(rng, end, (*tids, SENDER, BURNER))
    times = np.unique(rng.integers(0, end, 60)).tolist()
    kernel_events = {
        "sched_switch": events(SWITCH, *switches),
        "sched_waking": events(WAKE, *wakes),
        "irq_handler_entry": events(
            ("time_ns", "cpu_id", "irq", "name"), *((t, t % 2, 7, "nic") for t in times)
        ),
        "irq_handler_exit": events(
            ("time_ns", "cpu_id", "irq"), *((t + 3, t % 2, 7) for t in times)
        ),
        "page_fault_user": events(("time_ns", "cpu_id", "ctx_tid"), *((t, 0, 71) for t in times)),
    }
    return run(messages, executions, intervals), kernel_events


def instants(tables: dict[str, pl.DataFrame], kernel: dict[str, pl.LazyFrame]) -> set[int]:
    frames = [*tables.values(), *(frame.collect() for frame in kernel.values())]
    return {
        value
        for frame in frames
        for name in frame.columns
        if name.endswith("_ns") and name not in ("duration_ns", "latency_ns", "callback_ns")
        for value in frame[name].drop_nulls()
    }


@pytest.mark.parametrize("with_kernel", [True, False])
def test_whatever_was_recorded_segments_add_up_and_end_at_recorded_instants(with_kernel):
    kinds = set()
    for seed in range(20):
        tables, events_drawn = drawn(seed)
        kernel_events = events_drawn if with_kernel else {}
        path = Paths(tables, kernel_events).segments_of()
        assert_whole(path, tables)
        assert set(path["begin_ns"]) | set(path["end_ns"]) <= instants(tables, kernel_events)
        kinds |= set(path["kind"])
    missing = {"throttled"} if with_kernel else {"preempted", "interrupt", "futex", "syscall",
        "page_fault", "disk", "throttled"}  # fmt: skip
    assert kinds | {"callback_group", "throttled"} >= set(KINDS) - missing
    assert with_kernel or not kinds & missing


@pytest.mark.parametrize("with_kernel", [True, False])
def test_the_path_of_a_message_is_the_same_alone_and_up_to_its_callback(with_kernel):
    for seed in range(3):
        tables, kernel_events = drawn(seed)
        paths = Paths(tables, kernel_events if with_kernel else {})
        whole = paths.segments_of()
        for row in range(0, paths.messages.height, 7):
            path = whole.filter(message=row)
            assert paths.segments_of(np.array([row])).equals(path)
            start = paths.messages["callback_start_ns"][row]
            before = paths.segments_of(np.array([row]), to_start=True)
            cut = path.filter(pl.col("begin_ns") < start).with_columns(
                pl.min_horizontal("end_ns", pl.lit(start)).alias("end_ns")
            )
            times = ("kind", "begin_ns", "end_ns")
            assert before.select(times).equals(cut.select(times))


def test_nothing_to_look_at():
    path = Paths(run(), {}).segments_of()
    assert path.is_empty()
    assert "who_vtid" in path.columns
    assert late_messages(Paths(run(), {})).frame().is_empty()
    assert kernel_view({}, pl.DataFrame({"host": ["h0"], "tid": [1]})) is None


@pytest.mark.recording
def test_the_paths_of_the_samples_add_up():
    runs = rl.open("data/samples")
    for recording in runs:
        name = recording.runs[0].name
        tables = {
            needed: recording.table(needed).filter(pl.col("run") == name).collect()
            for needed in TABLES_NEEDED
        }
        assert_whole(Paths.of_run(recording, name).segments_of(), tables)


def test_a_waterfall_draws_each_segment_where_it_was() -> None:
    """Laid out by hand: 1 ms until the callback, which runs 2 ms; late after 0.5 ms."""
    ms = 1_000_000
    tables = run([message(1, 0, None, ms, ms, 3 * ms)], [execution(1, ms, 3 * ms)])
    plot = path_plot([late_messages(Paths(tables, {}), ms // 2)])
    bars = [(patch.get_x(), patch.get_width()) for patch in plot.figure.axes[0].patches]
    assert bars == [(0.0, 1.0), (1.0, 2.0)]
    (line,) = plot.figure.axes[0].collections
    assert line.get_segments()[0][:, 0].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("count", "limit"), [(298, "the P99 of its subscription's few messages"), (299, "its P99")]
)
def test_a_p99_of_few_messages_is_called_so(count: int, limit: str) -> None:
    """The first page tells no P99 of fewer than 299: 0.99 ** 298 is 5.003 %, 0.99 ** 299 4.95 %."""
    ms = 1_000_000
    ends = [(10 * n * ms, (10 * n + 1 + (n == count)) * ms) for n in range(1, count + 1)]
    tables = run(
        [message(n, begin, None, begin, begin, end) for n, (begin, end) in enumerate(ends, 1)],
        [execution(n, begin, end) for n, (begin, end) in enumerate(ends, 1)],
    )
    (sentence,) = late_messages(Paths(tables, {})).frame()["sentence"]
    assert " took 2.00 ms until the callback of " in sentence
    assert f" more than {limit}: " in sentence


@pytest.mark.parametrize(("to_start", "end"), [(False, "2.00 ms"), (True, "1.00 ms")])
def test_a_sentence_names_the_subscription_and_the_end(to_start: bool, end: str) -> None:
    """By hand: published at 0, both callbacks begin at 1 ms and end at 2 ms, beyond 0.5 ms."""
    ms = 1_000_000
    moments = (0, None, ms, ms, 2 * ms)
    nodes = ("/planner", "/logger")
    tables = run(
        [message(1, *moments, subscription_node=node, subscription_id=n, callback_instance_id=n)
         for n, node in enumerate(nodes, 3)],
        [execution(n, ms, 2 * ms, node=node) for n, node in enumerate(nodes, 3)],
    )  # fmt: skip
    late = late_messages(Paths(tables, {}), ms // 2, to_start=to_start)
    begun = "began" if to_start else "ended"
    assert sorted(s.partition(",")[0] for s in late.frame()["sentence"]) == [
        f"/scan took {end} until the callback of {node} {begun}" for node in sorted(nodes)
    ]


def test_between_hosts_only_what_the_clocks_tell_is_late() -> None:
    """By hand, against 5 ms: only 16 ms within 4 ms is longer, and only 0.5 ms is not.

    6 ms may be 2 ms, 4.9 ms may be 8.9 ms, of the fourth no bound is known, and the last was
    received before it was published.
    """
    us = 1_000
    took = [(16_000, 4_000), (500, 4_000), (6_000, 4_000), (4_900, 4_000), (9_000, None)]
    ends = [(n * 20_000, lasts, bound) for n, (lasts, bound) in enumerate([*took, (-300, 4_000)])]
    tables = run(
        [
            message(n, begin * us, None, *[(begin + lasts) * us] * 3, publisher_host="h1",
                    clock_bound_ns=None if bound is None else bound * us,
                    latency_ns=None if bound is None or lasts <= bound else lasts * us)
            for n, (begin, lasts, bound) in enumerate(ends)
        ],
        [execution(n, (begin + lasts) * us, (begin + lasts) * us)
         for n, (begin, lasts, _) in enumerate(ends)],
    )  # fmt: skip
    late = late_messages(Paths(tables, {}), 5_000 * us)
    assert late.messages["message_id"].to_list() == [0]
    assert (late.judged, late.untold, late.left_out) == (2, 4, 0)
    (sentence,) = late.frame()["sentence"]
    assert (
        " ended, 11.0 ms more than the deadline, within 4.00 ms by the clocks of its hosts: "
    ) in sentence
    assert (untold_in_words([late]) or "").startswith(
        "Of 4 messages between hosts it cannot be told whether they were late: "
    )


@pytest.mark.parametrize(("more_ns", "late"), [(1, 0), (10, 1)])
def test_a_message_is_late_from_1_ns_on(more_ns: int, late: int) -> None:
    """By hand: the P99 of 100 lies 0.66 of the way from the 99th to the longest."""
    ms = 1_000_000
    ends = [(n * 9 * ms, (n * 9 + 1) * ms + more_ns * (n == 7)) for n in range(100)]
    tables = run(
        [message(n, begin, None, begin, begin, end) for n, (begin, end) in enumerate(ends)],
        [execution(n, begin, end) for n, (begin, end) in enumerate(ends)],
    )
    assert late_messages(Paths(tables, {})).frame().height == late


@pytest.mark.parametrize(
    ("own_ms", "told"),
    [
        (
            3,
            "1.50 ms for the timer callback (3 ms) of /planner, which ran on the same thread; 7.50",
        ),
        (6, "10.5 ms for the overhead of its executor"),
    ],
)
def test_several_callbacks_that_held_the_thread_are_not_the_executors_own_work(
    own_ms: int, told: str
) -> None:
    """Laid out by hand: three timers took 4.5 ms, the largest of them a third, and own work 3 or 6.

    Own work is told only if it took more than the callbacks together.
    """
    ms = 1_000_000
    timers = [{**TIMER, "name": f"{n} ms", "callback_id": n} for n in (3, 4, 5)]
    held = [
        execution(2 + n, n * 1_500_000, (n + 1) * 1_500_000, **timer)
        for n, timer in enumerate(timers)
    ]
    start = 4_500_000 + own_ms * ms
    late_execution = execution(1, start, start + ms)
    tables = run(
        [message(1, 0, None, start, start, start + ms)], [*held, late_execution],
        [interval("busy", 0, start + ms)],
    )  # fmt: skip
    (row,) = late_messages(Paths(tables, {}), ms).frame().rows(named=True)
    assert told in row["sentence"]


def test_two_callbacks_that_held_the_thread_are_the_larger_one_and_their_sum() -> None:
    """Laid out by hand: one timer ran for 3 ms and another for 2 ms, then came the callback."""
    ms = 1_000_000
    fast_timer = {**TIMER, "name": "10 ms", "callback_id": 3}
    held = [execution(2, 0, 3 * ms, **TIMER), execution(3, 3 * ms, 5 * ms, **fast_timer)]
    late_execution = execution(1, 5 * ms, 6 * ms)
    tables = run([message(1, 0, None, 5 * ms, 5 * ms, 6 * ms)], [*held, late_execution])
    (sentence,) = late_messages(Paths(tables, {}), ms).frame()["sentence"]
    assert sentence.endswith(
        "it waited 3.00 ms for the timer callback (100 ms) of /planner, which ran on the same "
        "thread; 5.00 ms in all"
    )
