"""Events are taken out of recordings: no row may then say what is not so.

The tables of the whole recording are the truth; `benchmarks/taken_out.py` is the long form.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from ros2_trace import Trace, at, findings
from test_messages import CALLBACK, NODE, PUB, SUB
from twin import differences

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.tracing.recording import Recording, find_recordings

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples"
sys.path.insert(0, str(ROOT / "benchmarks"))

from taken_out import Count, trials, without  # noqa: E402

RUNS = ("communication/001_r0_unique_ptr_ipc-on", "two_process/000_r0_fastrtps")
TRIALS = 2


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS)
def test_few_missing_events_make_no_row_wrong(run: str) -> None:
    """0.1 and 0.5 % of all events, init events, a stream, declared bursts, the head, the tail."""
    found = Count()
    ways = ("random", "init", "stream", "declared", "head", "tail")
    for _, _, of in trials(Recording.at(ROOT / "data" / "samples" / run), TRIALS, 1, ways):
        found.add(of)
    assert found.removed > 100
    assert found.rows > 1000
    assert found.wrong == {}, found.examples
    assert found.unknown < 0.05 * found.messages


@pytest.mark.recording
@pytest.mark.parametrize("way", ["random", "burst", "declared", "stream"])
@pytest.mark.parametrize("run", [RUNS[0], "lifecycle/000_r0_cell"])
def test_what_is_left_means_the_same_to_the_reference_model(run: str, way: str) -> None:
    raw = read_raw(Recording.at(ROOT / "data" / "samples" / run))
    frames = {name: frame.sort("time_ns") for name, frame in raw.events.items()}
    left, losses, removed = without(frames, way, random.Random(f"{run} {way}"), 0.05)
    assert removed > 100
    assert differences(left, losses) == {}


def _talker() -> Trace:
    """A timer's callback that publishes, every 100 us: on CPU 0."""
    trace = Trace()
    trace.node(1, NODE, "n")
    trace.publisher(3, PUB, "/data", node=NODE)
    trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK)
    return trace


def _ran(trace: Trace) -> list[int | None]:
    return trace.tables()["callback_instances"]["duration_ns"].to_list()


@pytest.mark.parametrize(
    ("loss", "durations"),
    [
        # Whether the thread was on that CPU is told by its events, which happen on CPU 0.
        ({}, [10_000, None, 10_000]),
        ({"cpu_id": 1}, [10_000, 10_000, 10_000]),
        ({"cpu_id": None}, [10_000, None, 10_000]),
        # The native tracer's files are of one process.
        ({"cpu_id": None, "stream": "ros2_1_5f_0"}, [10_000, None, 10_000]),
        ({"cpu_id": None, "stream": "ros2_7_5f_0"}, [10_000, 10_000, 10_000]),
        ({"trace": "kernel"}, [10_000, 10_000, 10_000]),
    ],
)
def test_nothing_of_a_thread_goes_on_over_what_was_dropped_of_it(
    loss: dict[str, object], durations: list[int | None]
) -> None:
    """By hand: the gap from 103 to 107 us lies within the second of three executions."""
    trace = _talker()
    for us in (50, 100, 150):
        trace.emit(us, "callback_start", callback=CALLBACK, is_intra_process=0)
        trace.emit(us + 10, "callback_end", callback=CALLBACK)
    trace.lose(103, 107, 4)
    trace.losses[-1] |= loss
    assert _ran(trace) == durations


def test_a_broken_sequence_says_that_something_is_missing() -> None:
    """By hand: from the second `rmw_publish` to the third `rcl_publish` all is gone, undeclared."""
    trace = _talker()
    for number, us in enumerate((100, 200, 300, 400)):
        trace.emit(us, "callback_start", callback=0x77, is_intra_process=0)
        trace.publish(us + 10, PUB, message=number + 1, stamp=at(us + 12))
        trace.emit(us + 20, "callback_end", callback=0x77)
    gone = range(212, 312)
    trace.rows = [row for row in trace.rows if (row[1]["time_ns"] - at(0)) // 1000 not in gone]
    assert _ran(trace) == [20_000, None, 20_000]
    assert findings(trace.tables())["undeclared_gaps"] == 1
    trace.lose(212, 311, 9)
    assert "undeclared_gaps" not in findings(trace.tables())


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("rclcpp_executor_execute", [None, 6_000]),
        ("rclcpp_publish", [None, None]),
        ("rmw_publish", [None, None]),
    ],
)
def test_what_executors_and_publishers_do_is_in_order(name: str, second: list[int | None]) -> None:
    """By hand: a callback spins and another one publishes in it; one event of the second is gone.

    Nothing that was open before the event that comes too early has an end.
    """
    trace = _talker()
    for us in (50, 100, 150):
        trace.emit(us, "callback_start", callback=0x77, is_intra_process=0)
        trace.emit(us + 1, "rclcpp_executor_get_next_ready")
        trace.emit(us + 2, "rclcpp_executor_execute", handle=SUB)
        trace.emit(us + 3, "callback_start", callback=CALLBACK, is_intra_process=0)
        trace.publish(us + 4, PUB, message=us, stamp=at(us + 6))
        trace.emit(us + 9, "callback_end", callback=CALLBACK)
        trace.emit(us + 10, "callback_end", callback=0x77)
    trace.rows = [
        row for row in trace.rows if row[0] != name or not at(100) < row[1]["time_ns"] < at(150)
    ]
    assert _ran(trace) == [10_000, 6_000, *second, 10_000, 6_000]


@pytest.mark.recording
@pytest.mark.parametrize(
    "run", [run.path for run in find_recordings(SAMPLES)], ids=lambda path: path.name
)
def test_nothing_seems_missing_where_nothing_is(run: Path) -> None:
    """Their programs' logs say the same of them, see `benchmarks/ground_truth.py`."""
    raw = read_raw(Recording.at(run))
    assert raw.losses.is_empty()
    assert "undeclared_gaps" not in findings(build_tables(raw.events))


def test_a_rule_is_what_an_object_did_from_the_first() -> None:
    """By hand, as the executors of rclpy and action clients do.

    Several are executed after one `get_next_ready`; a timer's callback may happen to follow a
    request that was not there; an action client takes without `rclcpp_take`.
    """
    trace = _talker()
    action = 0x7000
    trace.subscription(20, action, "/fib/_action/feedback", node=NODE, callback=0x99)
    for us in (100, 200, 300, 400):
        if us % 200:
            trace.emit(us, "rclcpp_executor_get_next_ready")
        trace.emit(us + 1, "rclcpp_executor_execute", handle=SUB)
        trace.receive(us + 2, SUB, CALLBACK, stamp=at(us))
        if us == 200:
            trace.emit(
                us + 21, "rmw_take_request", rmw_service_handle=0x51, request=0x52,
                client_gid=[1] * 16, sequence_number=1, taken=0,
            )  # fmt: skip
        trace.run(us + 22, 0x77)
        trace.emit(
            us + 40, "rmw_take", rmw_subscription_handle=action + 1, message=0x60,
            source_timestamp=at(us + 30), taken=1,
        )  # fmt: skip
        trace.emit(us + 41, "rcl_take", message=0x60)
    tables = trace.tables()
    assert "undeclared_gaps" not in findings(tables)
    assert tables["callback_instances"]["duration_ns"].to_list() == [5_000] * 8


def test_nobody_knows_who_filled_a_place_after_others_that_were_left_out() -> None:
    """By hand: of four messages within a process all but the first `intra_publish` and the last
    `enqueue` of the middle two are gone; their places are 1 and 2. What left the second one is
    gone, too, so nobody knows whether the callback after the first take was for its message.
    """
    trace = _talker()
    trace.ring_buffer(20, 0x500, subscription=SUB, callback=CALLBACK, capacity=10)
    for index, us in enumerate((100, 200, 300, 400)):
        if index != 2:
            trace.emit(us, "rclcpp_intra_publish", publisher_handle=PUB, message=us)
        if index != 1:
            trace.emit(
                us + 1, "rclcpp_ring_buffer_enqueue", buffer=0x500, index=index, size=1,
                overwritten=0,
            )  # fmt: skip
            taken = {"buffer": 0x500, "index": index, "size": 0}
            trace.emit(us + 5, "rclcpp_ring_buffer_dequeue", **taken, tid=2)
            trace.run(us + 6, CALLBACK, intra=1, tid=2)
    messages = trace.tables()["messages"].sort("publish_ns", nulls_last=True)
    assert messages.select("publish_ns", "take_ns", "outcome").rows() == [
        (at(100), at(105), "taken"),
        (at(200), None, "unknown"),
        (at(400), at(405), "delivered"),
        (None, at(305), "unknown"),
    ]


def _polled(name: str) -> list[int | None]:
    """By hand: three messages, each taken by the executor and given to the callback.

    The end of the second execution and the start of the third one are gone; and, of the first
    message, an event of this name.
    """
    trace = _talker()
    for us in (100, 200, 300):
        trace.emit(us, "rclcpp_executor_get_next_ready")
        trace.emit(us + 1, "rclcpp_executor_execute", handle=SUB)
        trace.receive(us + 2, SUB, CALLBACK, stamp=at(us))
    gone = {("callback_end", at(210)), ("callback_start", at(305))}
    gone.add((name, next(row["time_ns"] for kind, row in trace.rows if kind == name)))
    before = len(trace.rows)
    trace.rows = [row for row in trace.rows if (row[0], row[1]["time_ns"]) not in gone]
    assert len(trace.rows) == before - 3
    tables = trace.tables()
    assert findings(tables)["undeclared_gaps"] == 1
    return tables["callback_instances"]["duration_ns"].to_list()


def test_what_was_taken_began_its_callback_before_that_ended() -> None:
    assert _polled("rclcpp_executor_get_next_ready") == [5_000, None]


def test_a_buffer_gives_its_places_in_turn() -> None:
    """By hand: of four executions the second's end, all of the third, and the fourth's start are
    gone: what is left looks like a long one. The next place says that two were left out.

    The one after that had its message taken unseen, which its start tells: nothing is doubted.
    """
    trace = _talker()
    trace.ring_buffer(20, 0x500, subscription=SUB, callback=CALLBACK, capacity=4)
    for number, us in enumerate((100, 200, 300, 400, 500, 600, 700)):
        trace.emit(us, "rclcpp_intra_publish", publisher_handle=PUB, message=us)
        trace.emit(
            us + 1, "rclcpp_ring_buffer_enqueue", buffer=0x500, index=number % 4, size=1,
            overwritten=0,
        )  # fmt: skip
        taken = {"buffer": 0x500, "index": number % 4, "size": 0}
        if number not in {2, 3, 5}:
            trace.emit(us + 5, "rclcpp_ring_buffer_dequeue", **taken, tid=2)
        trace.run(us + 6, CALLBACK, intra=1, tid=2)
    gone = range(at(207), at(407))
    trace.rows = [
        row for row in trace.rows if row[1].get("vtid") == 1 or row[1]["time_ns"] not in gone
    ]
    tables = trace.tables()
    assert findings(tables)["undeclared_gaps"] == 2
    assert tables["callback_instances"]["duration_ns"].to_list() == [
        5_000,
        None,
        5_000,
        5_000,
        5_000,
    ]
    messages = tables["messages"].sort("publish_ns")
    assert messages["outcome"].to_list() == [
        "delivered", "taken", "unknown", "unknown", "delivered", "unknown", "delivered",
    ]  # fmt: skip


@pytest.mark.parametrize(("more", "second"), [(0, None), (2, 120_000)])
def test_a_callback_hardly_publishes_twice_where_events_are_missing(
    more: int, second: int | None
) -> None:
    """By hand: the end of the second execution and the start of the third are gone.

    Of 41 executions 1, or 3, publish twice then: fewer than one of twenty, or not.
    """
    trace = _talker()
    for number in range(43):
        us = 100 + 100 * number
        trace.emit(us, "callback_start", callback=0x77, is_intra_process=0)
        for nth in range(2 if 10 <= number < 10 + more else 1):
            trace.publish(us + 3 + 4 * nth, PUB, message=us + nth, stamp=at(us + 5 + 4 * nth))
        trace.emit(us + 20, "callback_end", callback=0x77)
    late = at(100 + 100 * 42)
    trace.rows = [
        row
        for row in trace.rows
        if (row[0], row[1]["time_ns"])
        not in {("callback_end", at(220)), ("callback_start", at(300))}
        and not (row[0] == "rmw_publish" and row[1]["time_ns"] > late)
    ]
    tables = trace.tables()
    assert findings(tables)["undeclared_gaps"] == 1
    assert tables["callback_instances"]["duration_ns"][1] == second
    within = tables["publications"]["callback_instance_id"][1:3].to_list()
    assert within == ([None, None] if second is None else [1, 1])
