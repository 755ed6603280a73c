"""Events are taken out of recordings: no row may then say what is not so.

The tables of the whole recording are the truth; `benchmarks/taken_out.py` is the long form.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from ros2_trace import Trace, at
from test_messages import CALLBACK, NODE, PUB, SUB
from twin import differences

from roslens.collectors.decoding import read_raw
from roslens.tracing.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
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
