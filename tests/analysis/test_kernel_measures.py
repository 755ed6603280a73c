"""Test thread states, who had the CPU, and moments of messages; by hand, times in ns."""

import polars as pl
import pytest
from tests.kernel.moments import in_order

from roslens.analysis.measures.cpu_waits import find_states
from roslens.analysis.measures.message_moments import message_moments
from roslens.analysis.path.kernel import kernel_view

EXECUTOR, RECEIVER, SENDER, BURNER, OTHER = 70, 71, 50, 99, 98
PREEMPTED, ASLEEP = 0x100, 1
IN_SOFTIRQ = 16


def switches(*rows: tuple[int, int, int, int, int]) -> pl.LazyFrame:
    names = ("time_ns", "cpu_id", "prev_tid", "next_tid", "prev_state")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    return frame.with_columns(
        pl.col("cpu_id").cast(pl.Int32), pl.lit("h0").alias("host"),
        pl.format("t{}", "next_tid").alias("next_comm"),
    ).lazy()  # fmt: skip


def wakes(*rows: tuple[int, int, int, int]) -> pl.LazyFrame:
    names = ("time_ns", "tid", "ctx_tid", "ctx_flags")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    return frame.with_columns(pl.lit("h0").alias("host")).lazy()


SWITCHES = switches(
    (50, 0, EXECUTOR, BURNER, ASLEEP),
    (60, 1, RECEIVER, 0, ASLEEP),
    (132, 1, 0, RECEIVER, 0),
    (145, 1, RECEIVER, 0, ASLEEP),
    (150, 0, BURNER, EXECUTOR, PREEMPTED),
    (175, 0, EXECUTOR, BURNER, PREEMPTED),
    (180, 0, BURNER, OTHER, PREEMPTED),
    (190, 0, OTHER, EXECUTOR, ASLEEP),
    (228, 1, 0, RECEIVER, 0),
    (300, 0, EXECUTOR, 0, ASLEEP),
)
WAKES = wakes(
    (130, RECEIVER, SENDER, IN_SOFTIRQ),
    (140, EXECUTOR, RECEIVER, 0),
    (185, EXECUTOR, RECEIVER, 0),  # of a thread that does not sleep: means nothing
    (225, RECEIVER, SENDER, IN_SOFTIRQ),
)


def test_states_of_a_thread():
    states = find_states(SWITCHES, WAKES).filter(pl.col("tid") == EXECUTOR)
    assert states.select("kind", "cpu_id", "begin_ns", "end_ns").rows() == [
        ("blocked", 0, 50, 140),
        ("woken", 0, 140, 150),
        ("ran", 0, 150, 175),
        ("preempted", 0, 175, 190),
        ("ran", 0, 190, 300),
    ]
    # The thread came at 190; its leaving before it came again at 400 is missing.
    line = pl.concat([SWITCHES.filter(pl.col("time_ns") < 300), switches((400, 1, 0, EXECUTOR, 0))])
    states = find_states(line, WAKES).filter(pl.col("tid") == EXECUTOR)
    assert states["begin_ns"].to_list() == [50, 140, 150, 175]


def test_nobody_is_named_where_a_switch_is_missing():
    """The burner came at 175 and another thread leaves at 190: since when is not known."""
    line = switches(
        (100, 0, 0, EXECUTOR, 0), (175, 0, EXECUTOR, BURNER, PREEMPTED),
        (190, 0, OTHER, EXECUTOR, ASLEEP), (300, 0, EXECUTOR, 0, ASLEEP),
    )  # fmt: skip
    view = kernel_view({"sched_switch": line}, THREADS)
    assert view.had_cpu.select("begin_ns", "end_ns", "by_tid", "by_name").rows() == [
        (175, 190, None, None)
    ]


def events(cpu: int, *rows: tuple[int, ...], names: tuple[str, ...]) -> pl.LazyFrame:
    schema = {name: pl.String if name == "name" else pl.Int64 for name in ("time_ns", *names)}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    place = pl.lit(cpu, dtype=pl.Int32).alias("cpu_id")
    return frame.with_columns(place, pl.lit("h0").alias("host")).lazy()


THREADS = pl.DataFrame({"host": ["h0"], "tid": [EXECUTOR]})


def test_who_had_the_cpu_of_a_thread_and_what_interrupted_it():
    """The executor runs 150..175 and 190..300 on CPU 0, is woken at 140 and preempted at 175."""
    view = kernel_view(
        {
            "sched_switch": SWITCHES,
            "sched_waking": WAKES,
            # One interrupt before the wake-up, one that goes on as the thread runs, the last
            # without an end.
            "irq_handler_entry": events(
                0, (120, 7, "nic"), (145, 7, "nic"), (160, 9, "disk"), (298, 9, "disk"),
                names=("irq", "name"),
            ),
            "irq_handler_exit": events(0, (125, 7), (152, 7), (166, 9), names=("irq",)),
            "irq_softirq_entry": events(0, (192, 3), (210, 77), names=("vec",)),
            "irq_softirq_exit": events(0, (196, 3), (211, 77), names=("vec",)),
        },
        THREADS,
    )  # fmt: skip
    assert view.had_cpu.select("by_tid", "by_name", "begin_ns", "end_ns").rows() == [
        (BURNER, "t99", 140, 150), (BURNER, "t99", 175, 180), (OTHER, "t98", 180, 190),
    ]  # fmt: skip
    assert view.interrupts.sort("begin_ns").select("by_name", "begin_ns", "end_ns").rows() == [
        ("irq 7 nic", 145, 150), ("irq 7 nic", 150, 152), ("irq 9 disk", 160, 166),
        ("softirq NET_RX", 192, 196), ("softirq 77", 210, 211),
    ]  # fmt: skip


def moments(woken: pl.LazyFrame = WAKES) -> pl.DataFrame:
    """Make two messages: one wakes the executor, one arrives while it runs a callback."""
    messages = pl.DataFrame(
        {
            "message_id": [0, 1],
            "subscription_id": 3,
            "publisher_host": "h0",
            "subscription_host": "h0",
            "publisher_vpid": 5,
            "subscription_vpid": 7,
            "publish_ns": [100, 200],
            "rmw_publish_ns": [110, 210],
            "take_ns": [160, 265],
            "callback_start_ns": [170, 270],
            "latency_ns": [70, 70],
            "callback_instance_id": [5, 6],
        }
    )
    executions = pl.DataFrame(
        {"callback_instance_id": [5, 6], "host": "h0", "vtid": EXECUTOR, "end_ns": [260, 280]}
    )
    senders = pl.DataFrame({"message_id": [0, 1], "vtid": SENDER})
    return message_moments(messages, executions, SWITCHES, woken, senders)


def test_moments_of_messages():
    names = ("arrived_ns", "woken_ns", "on_cpu_ns", "reason")
    assert moments().sort("message_id").select(names).rows() == [
        (130, 140, 150, None),
        (225, None, None, "busy"),
    ]
    assert in_order(moments())


@pytest.mark.parametrize(
    ("waker", "flags", "reason"), [(0, 8, "interrupt"), (SENDER, 0, "publisher")]
)
def test_who_wakes_the_executor_is_not_always_a_receiver(waker, flags, reason):
    moment = moments(wakes((140, EXECUTOR, waker, flags))).filter(message_id=0)
    assert moment.select("arrived_ns", "woken_ns", "reason").rows() == [(None, 140, reason)]
