"""Remove events from recordings, and test that no row then says anything wrong.

The tables of the whole recording are the truth; `benchmarks/taken_out.py` is the long form.
"""

import random
from pathlib import Path

import pytest
from benchmarks.taken_out import Count, Truth, Undecidable, trials, without
from ros2_trace import at, findings
from test_messages import CALLBACK, PUB, SUB, talker_and_listener
from tests.samples import SAMPLES
from twin import differences

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording, find_recordings

RUNS = ("communication/001_r0_unique_ptr_ipc-on", "two_process/000_r0_fastrtps")
TRIALS = 2


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("ways", "unknown"),
    [
        (("init", "late", "kind", "snapshot", "restart", "sessions"), 0.4),
        (("bursts", "cut_head", "cut_tail", "packets"), 0.6),
    ],
)
def test_what_was_dropped_makes_no_row_wrong(
    run: str, ways: tuple[str, ...], unknown: float
) -> None:
    """Some removals show no gap, or one at the beginning; others the reader reports as gaps."""
    count = Count()
    for _, trial in trials(Recording.at(SAMPLES / run), TRIALS, 1, ways):
        count.add(trial)
    assert count.removed > 50
    assert count.rows > 1000
    assert count.wrong == {}, count.examples
    assert count.unknown < unknown * count.messages
    turned = count.unknown + count.endless
    assert turned <= 3 * (turned - count.careful.total()), count.careful


@pytest.mark.recording
@pytest.mark.parametrize("way", ["silent", "bursts", "packets", "cut_head", "cut_tail"])
@pytest.mark.parametrize("run", [RUNS[0], "lifecycle/000_r0_cell"])
def test_what_is_left_means_the_same_to_the_reference_model(run: str, way: str) -> None:
    raw = read_raw(Recording.at(SAMPLES / run))
    frames = {name: frame.sort("time_ns") for name, frame in raw.events.items()}
    left, losses, removed = without(frames, way, random.Random(f"{way} of {run}"))
    assert removed > 20
    assert differences(left, losses) == {}


@pytest.mark.parametrize(
    ("loss", "durations"),
    [
        # Threads move between CPUs, so events dropped on one CPU may be of any thread.
        ({}, [10_000, None, 10_000]),
        ({"cpu_id": 1}, [10_000, None, 10_000]),
        # A file of the native tracer belongs to one process.
        ({"cpu_id": None, "stream": "ros2_1_5f_0"}, [10_000, None, 10_000]),
        ({"cpu_id": None, "stream": "ros2_7_5f_0"}, [10_000, 10_000, 10_000]),
        ({"trace": "kernel"}, [10_000, 10_000, 10_000]),
        ({"host": "h1"}, [10_000, 10_000, 10_000]),
    ],
)
def test_nothing_of_a_thread_goes_on_over_what_was_dropped(
    loss: dict[str, object], durations: list[int | None]
) -> None:
    """By hand: the gap from 103 to 107 us lies within the second of three executions."""
    trace = talker_and_listener(sub_pid=1)
    for us in (50, 100, 150):
        trace.run(us, CALLBACK, lasts=10)
    trace.lose(103, 107, 4, **loss)
    assert trace.tables()["callback_instances"]["duration_ns"].to_list() == durations


@pytest.mark.parametrize(
    ("gap", "busy", "undecidable"),
    [
        # The take of the first message lies in the gap, and may not have happened.
        ((105, 125), False, [True, False]),
        # The second could have been taken in the gap, unless its thread is seen all the while.
        ((150, 200), False, [False, True]),
        ((150, 200), True, [False, False]),
        # The third was taken before the gap, and the second no later.
        ((320, 400), False, [False, False]),
    ],
)
def test_what_cannot_be_told_is_different_in_two_whole_recordings(
    gap: tuple[int, int], busy: bool, undecidable: list[bool]
) -> None:
    """By hand: of three messages, published at 100, 130 and 300 us, the second is not taken."""
    trace = talker_and_listener(sub_pid=1)
    for us in (100, 130, 300):
        trace.publish(us, PUB, message=us, stamp=at(us), tid=2)
        if us != 130:
            trace.receive(us + 10, SUB, CALLBACK, stamp=at(us))
    trace.rows += [
        ("rclcpp_executor_wait_for_work", {**trace.rows[0][1], "time_ns": at(us), "timeout": 0})
        for us in range(140, 210, 5)
        if busy
    ]
    whole = Truth(trace.tables())
    trace.rows = [
        (name, row)
        for name, row in trace.rows
        if not at(gap[0]) < row["time_ns"] < at(gap[1]) or name.startswith("rclcpp_executor")
    ]
    judge = Undecidable(trace.frames(), whole, [("h0", None, at(gap[0]), at(gap[1]))])
    first, second, _ = sorted(whole.pairs.values(), key=lambda row: row["publish_ns"])
    assert second["outcome"] == "lost"
    assert [judge.message(row, row) for row in (first, second)] == undecidable


def test_an_end_without_a_start_says_that_something_is_missing() -> None:
    """By hand: a callback runs three times within another one, and its second start is missing.

    Executions open at that point have no end, and later publications are not within them.
    """
    trace = talker_and_listener(sub_pid=1)
    trace.run(100, 0x77, lasts=50)
    for us in (110, 120, 130):
        trace.run(us, CALLBACK)
        trace.publish(us + 6, PUB, message=us, stamp=at(us))
    trace.rows.remove(
        next(r for r in trace.rows if r[0] == "callback_start" and r[1]["time_ns"] == at(120))
    )
    tables = trace.tables()
    assert findings(tables)["undeclared_gaps"] == 1
    assert tables["callback_instances"]["duration_ns"].to_list() == [None, 5_000, 5_000]
    assert tables["publications"]["callback_instance_id"].to_list() == [None] * 3


def test_a_callback_that_spins_within_itself_looks_like_a_missing_event() -> None:
    """By hand: the outer start looks like one that never ended, so the outer end has no start."""
    trace = talker_and_listener(sub_pid=1)
    trace.run(100, CALLBACK, lasts=20)
    trace.run(110, CALLBACK)
    tables = trace.tables()
    assert findings(tables)["undeclared_gaps"] == 1
    assert tables["callback_instances"]["duration_ns"].to_list() == [None, 5_000]


@pytest.mark.recording
@pytest.mark.parametrize(
    "run", [run.path for run in find_recordings(SAMPLES)], ids=lambda path: path.name
)
def test_nothing_seems_missing_where_nothing_is(run: Path) -> None:
    """The programs' logs confirm this, see `benchmarks/ground_truth.py`."""
    raw = read_raw(Recording.at(run))
    assert raw.losses.is_empty()
    assert "undeclared_gaps" not in findings(build_tables(raw.events))
