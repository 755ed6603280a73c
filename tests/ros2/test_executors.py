"""Test the waiting and busy intervals of executor threads; expected rows by hand, times in us."""

import polars as pl
from polars.testing import assert_frame_equal
from ros2_trace import Trace, findings, rows
from test_messages import CALLBACK, NODE, SUB

from roslens.collectors.ros2.blocked import with_blocked


def executor() -> Trace:
    trace = Trace()
    trace.node(1, NODE, "n")
    trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK)
    return trace


def ready(trace: Trace, *moments: float, tid: int = 1) -> None:
    for us in moments:
        trace.emit(us, "rclcpp_executor_get_next_ready", tid=tid)


def wait(trace: Trace, us: float, timeout: int = -1, tid: int = 1) -> None:
    trace.emit(us, "rclcpp_executor_wait_for_work", timeout=timeout, tid=tid)


def execute(trace: Trace, us: float, tid: int = 1) -> None:
    trace.emit(us, "rclcpp_executor_execute", handle=SUB, tid=tid)


def found(trace: Trace) -> list[tuple[object, ...]]:
    frame = trace.tables()["executor_intervals"].sort("vtid", "begin_ns", maintain_order=True)
    frame = frame.rename({"timeout_ns": "timeout", "callback_ns": "callback"})
    return rows(frame, "vtid", "state", "begin_ns", "end_ns", "timeout", "executed", "callback")


def test_wait_and_busy_take_turns() -> None:
    """One busy interval has two executions, of 5 and 10 us; the last wait never ends."""
    trace = executor()
    ready(trace, 100)
    wait(trace, 101, timeout=500_000)
    ready(trace, 150)
    execute(trace, 152)
    trace.run(153, CALLBACK, lasts=5)
    ready(trace, 160)
    execute(trace, 161)
    trace.run(162, CALLBACK, lasts=10)
    ready(trace, 175)
    wait(trace, 176)
    assert found(trace) == [
        (1, "busy", 100, 101, None, 0, 0),
        (1, "wait", 101, 150, 500_000, 0, 0),
        (1, "busy", 150, 176, None, 2, 15_000),
        (1, "wait", 176, None, -1, None, None),
    ]
    frame = trace.tables()["executor_intervals"]
    assert frame["duration_ns"].to_list() == [1_000, 49_000, 26_000, None]
    assert findings(trace.tables()) == {}


def test_an_executor_that_waits_outside_of_rcl() -> None:
    """Each wait lies between two callbacks; its timeout is not recorded."""
    trace = executor()
    trace.run(110, CALLBACK, lasts=10)
    trace.emit(121, "executor_wait_start")
    trace.emit(150, "executor_wait_end")
    trace.run(152, CALLBACK, lasts=8)
    trace.emit(161, "executor_wait_start")
    assert found(trace) == [
        (1, "wait", 121, 150, None, 0, 0),
        (1, "busy", 150, 161, None, 0, 8_000),
        (1, "wait", 161, None, None, None, None),
    ]
    assert findings(trace.tables()) == {}


def test_a_stretch_in_which_something_may_be_missing_has_no_end() -> None:
    """The gap from 153 to 158 us lies within the second busy interval; a new one begins at 160."""
    trace = executor()
    wait(trace, 101)
    ready(trace, 150)
    execute(trace, 152)
    trace.lose(153, 158, 4)
    ready(trace, 160)
    execute(trace, 161)
    trace.run(162, CALLBACK, lasts=10)
    wait(trace, 176)
    trace.lose(180, 185, 4)
    trace.run(190, CALLBACK, lasts=10)
    assert found(trace) == [
        (1, "wait", 101, 150, -1, 0, 0),
        (1, "busy", 150, None, None, None, None),
        (1, "busy", 160, 176, None, 1, 10_000),
        (1, "wait", 176, None, -1, None, None),
    ]


def test_threads_are_told_apart_and_a_spin_within_a_callback_waits_inside_of_it() -> None:
    """Thread 2's callback (110 to 190) spins: its wait from 120 to 150 lies within it."""
    trace = executor()
    wait(trace, 100)
    wait(trace, 101, tid=2)
    ready(trace, 105, tid=2)
    execute(trace, 107, tid=2)
    trace.run(110, CALLBACK, lasts=80, tid=2)
    wait(trace, 120, timeout=7, tid=2)
    ready(trace, 150, tid=2)
    execute(trace, 152, tid=2)
    trace.run(160, CALLBACK + 8, lasts=10, tid=2)
    wait(trace, 195, tid=2)
    ready(trace, 200)
    assert found(trace) == [
        (1, "wait", 100, 200, -1, 0, 0),
        (1, "busy", 200, None, None, None, None),
        (2, "wait", 101, 105, -1, 0, 0),
        (2, "busy", 105, 120, None, 1, 10_000),
        (2, "wait", 120, 150, 7, 0, 30_000),
        (2, "busy", 150, 195, None, 1, 40_000),
        (2, "wait", 195, None, -1, None, None),
    ]


def test_a_callback_that_never_ended_counts_for_nothing() -> None:
    trace = executor()
    ready(trace, 100)
    execute(trace, 102)
    trace.run(103, CALLBACK, lasts=None)
    ready(trace, 120)
    wait(trace, 121)
    ready(trace, 130)
    assert found(trace) == [
        (1, "busy", 100, 121, None, 1, 0),
        (1, "wait", 121, 130, -1, 0, 0),
        (1, "busy", 130, None, None, None, None),
    ]


def test_callbacks_before_the_first_and_after_the_last_event_of_a_thread() -> None:
    """A callback before the thread's first event lies in no interval, one after the last event in
    the last interval, and one of a thread without events in none.
    """
    trace = executor()
    trace.run(50, CALLBACK, lasts=20)
    ready(trace, 100)
    trace.run(110, CALLBACK, lasts=30)
    trace.run(50, CALLBACK, lasts=20, tid=2)
    trace.run(50, CALLBACK, lasts=20, tid=3)
    wait(trace, 200, tid=3)
    assert found(trace) == [
        (1, "busy", 100, None, None, None, None),
        (3, "wait", 200, None, -1, None, None),
    ]


def test_an_executor_that_emits_no_events_is_named() -> None:
    """Events executors and rclpy run callbacks without executor events: unseen, but not idle."""
    trace = executor()
    trace.declared |= {
        "rclcpp_executor_get_next_ready", "rclcpp_executor_wait_for_work",
        "rclcpp_executor_execute",
    }  # fmt: skip
    trace.run(100, CALLBACK, tid=7)
    trace.run(200, CALLBACK, tid=8)
    tables = trace.tables()
    assert tables["executor_intervals"].is_empty()
    assert findings(tables) == {"executor_without_events": 2}


def pool() -> Trace:
    """Run two threads of one executor; thread 1 waits from 100 to 150 and from 260 to 300.

    Thread 2 executes from 105 to 125, tries to wait and gets the lock at 151: it is blocked while
    thread 1 waits. Time before its callback is its own work, though thread 1 waits meanwhile.
    """
    trace = executor()
    wait(trace, 90, tid=2)
    ready(trace, 99, tid=2)
    wait(trace, 100)
    execute(trace, 101, tid=2)
    trace.run(105, CALLBACK, lasts=20, tid=2)
    ready(trace, 150)
    ready(trace, 151, tid=2)
    execute(trace, 152)
    wait(trace, 152, tid=2)
    trace.run(153, CALLBACK, lasts=10)
    ready(trace, 250, tid=2)
    execute(trace, 251, tid=2)
    wait(trace, 260)
    trace.run(261, CALLBACK, lasts=9, tid=2)
    ready(trace, 300)
    wait(trace, 301, tid=2)
    return trace


def scheduled_pool() -> Trace:
    """Schedule thread 2 on CPU 0 except for 126 to 150.5, 153 to 249 and 271 to 300.5."""
    trace = pool()
    for us, prev, following in (
        (80, 0, 2), (126, 2, 0), (150.5, 0, 2), (153, 2, 0), (249, 0, 2), (271, 2, 0),
        (300.5, 0, 2), (350, 2, 0),
    ):  # fmt: skip
        trace.emit(us, "sched_switch", cpu=0, prev_tid=prev, prev_state=1, next_tid=following)
    return trace


def cpu_times(tables: dict[str, pl.DataFrame]) -> list[tuple[object, ...]]:
    """Return the states and CPU times of thread 2."""
    frame = tables["executor_intervals"].filter(vtid=2).sort("begin_ns")
    return frame.select("state", "cpu_ns").rows()


def test_a_thread_that_another_one_blocks_need_not_run_when_it_no_longer_does() -> None:
    """The kernel dropped an event of CPU 1 later on."""
    trace = scheduled_pool()
    trace.lose(400, 410, 1, trace="kernel", cpu_id=1)
    assert cpu_times(trace.tables()) == [
        ("wait", 9_000),
        ("busy", 26_000),
        ("blocked", 1_000),
        ("busy", 1_500),
        ("wait", 2_000),
        ("busy", 20_000),
        ("blocked", 1_000),
        ("busy", 500),
        ("wait", None),
    ]


def test_the_cpu_time_of_a_stretch_is_what_the_kernel_accounted() -> None:
    """The kernel accounts at the end of each turn except the last, which begins at 300.5.

    It accounted 1 us more than lies between 150.5 and 153, from before the switch, and another CPU
    2 us less than lies between 249 and 271, as the hypervisor had these. For the turn from 80 to
    126 it accounted more than lies between that turn and any earlier one.
    """
    trace = scheduled_pool()
    without = trace.tables()["callback_scheduling"]
    for us, cpu, ran in (
        (100, 0, 30_000), (125.9, 0, 40_000), (152.9, 0, 3_500), (260, 1, 11_000), (270.9, 0, 9_000)
    ):  # fmt: skip
        trace.emit(us, "sched_stat_runtime", cpu=cpu, tid=2, runtime=ran)
    tables = trace.tables()
    assert cpu_times(tables) == [
        ("wait", 9_000),
        ("busy", 26_000),
        # 1 us up to 126, and 0.5 us from 149.5 on.
        ("blocked", 1_500),
        ("busy", 2_000),
        # 1 us up to 153, nothing before 251.
        ("wait", 1_000),
        ("busy", 19_000),
        ("blocked", 1_000),
        ("busy", 500),
        ("wait", None),
    ]
    assert_frame_equal(tables["callback_scheduling"], without)
    # It is unknown what else the other CPU accounted in the turn from 249 to 271.
    trace.lose(262, 265, 1, trace="kernel", cpu_id=1)
    assert cpu_times(trace.tables())[4:6] == [("wait", 2_000), ("busy", 20_000)]


def test_a_thread_is_blocked_while_another_one_of_its_executor_waits() -> None:
    assert found(pool()) == [
        (1, "wait", 100, 150, -1, 0, 0),
        (1, "busy", 150, 163, None, 1, 10_000),
        # Thread 2 holds the lock while it waits from 152 to 250.
        (1, "blocked", 163, 250, None, 0, 0),
        (1, "busy", 250, 260, None, 0, 0),
        (1, "wait", 260, 300, -1, 0, 0),
        (1, "busy", 300, None, None, None, None),
        (2, "wait", 90, 99, -1, 0, 0),
        (2, "busy", 99, 125, None, 1, 20_000),
        (2, "blocked", 125, 150, None, 0, 0),
        (2, "busy", 150, 152, None, 0, 0),
        (2, "wait", 152, 250, -1, 0, 0),
        (2, "busy", 250, 270, None, 1, 9_000),
        (2, "blocked", 270, 300, None, 0, 0),
        (2, "busy", 300, 301, None, 0, 0),
        (2, "wait", 301, None, -1, None, None),
    ]


def test_the_tables_themselves_can_be_split() -> None:
    """An engine that knows threads as the tables do can split the table's intervals."""
    tables = pool().tables()
    thread = pl.col("vpid").cast(pl.Int64) * 2**32 + pl.col("vtid")
    whole = tables["executor_intervals"].drop("cpu_ns").with_columns(thread=thread)
    busy = pl.when(pl.col("state") == "wait").then("state").otherwise(pl.lit("busy"))
    column = pl.col("begin_ns")
    # Undo the split: busy from the end of each wait to the next one.
    joined = (
        whole.with_columns(busy.alias("state"))
        .sort("vtid", "begin_ns")
        .group_by("thread", pl.col("state").rle_id().alias("n"), maintain_order=True)
        .agg(
            pl.col("host", "vpid", "vtid", "state", "begin_ns", "timeout_ns").first(),
            pl.col("end_ns").last(),
            pl.col("duration_ns", "executed", "callback_ns").sum(),
        )
        .with_columns(duration_ns=pl.col("end_ns") - column)
        .with_columns(
            pl.when(pl.col("end_ns").is_not_null()).then(pl.col("executed", "callback_ns"))
        )
        .select(whole.columns)
    )  # fmt: skip
    assert joined.height < whole.height
    again = with_blocked(joined, tables["callback_instances"].with_columns(thread=thread))
    assert_frame_equal(again, whole.sort("begin_ns", "thread"))


def test_threads_that_share_no_callback_are_of_executors_of_their_own() -> None:
    trace = executor()
    trace.subscription(7, SUB + 1, "/other", node=NODE, callback=CALLBACK + 1)
    wait(trace, 100)
    ready(trace, 100.5, tid=2)
    execute(trace, 101, tid=2)
    trace.run(105, CALLBACK, lasts=20, tid=2)
    ready(trace, 150)
    execute(trace, 151)
    trace.run(153, CALLBACK + 1, lasts=10)
    wait(trace, 200, tid=2)
    ready(trace, 205, tid=2)
    wait(trace, 210)
    assert {row[1] for row in found(trace)} == {"wait", "busy"}
    # A third thread, which executed callbacks of both, makes the three one executor.
    ready(trace, 300, tid=3)
    trace.run(310, CALLBACK, lasts=5, tid=3)
    trace.run(320, CALLBACK + 1, lasts=5, tid=3)
    blocked = [(row[0], *row[2:4]) for row in found(trace) if row[1] == "blocked"]
    assert blocked == [(1, 200, 205), (2, 125, 150)]
    # Threads that ever waited at the same time cannot share a lock.
    wait(trace, 400, tid=2)
    assert not [row for row in found(trace) if row[1] == "blocked"]


def test_a_stretch_with_nothing_executed_may_be_blocked_from_its_beginning() -> None:
    """Thread 2 finds nothing at 400; its execution at 500 has no callback in the trace."""
    trace = pool()
    ready(trace, 400, tid=2)
    wait(trace, 401)
    ready(trace, 450)
    wait(trace, 460, tid=2)
    ready(trace, 500, tid=2)
    trace.emit(501, "rclcpp_executor_execute", handle=0x999, tid=2)
    wait(trace, 502)
    ready(trace, 550)
    wait(trace, 560, tid=2)
    assert [row[:6] for row in found(trace) if row[0] == 2 and row[2] >= 400] == [
        (2, "busy", 400, 401, None, 0),
        (2, "blocked", 401, 450, None, 0),
        (2, "busy", 450, 460, None, 0),
        (2, "wait", 460, 500, -1, 0),
        (2, "busy", 500, 560, None, 1),
        (2, "wait", 560, None, -1, None),
    ]
