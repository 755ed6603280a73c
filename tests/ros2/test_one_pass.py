"""Test that events in stretches, with almost no memory, give exactly the same tables.

`ros2_trace.Trace.tables` also checks every trace against the reference model.
"""

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_system import System
from ros2_trace import at, in_stretches
from tests.samples import SAMPLES
from whatever import HEAP, STEPS, emit, objects

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import Events, Raw
from roslens.collectors.ros2.objects import find_objects
from roslens.collectors.ros2.one_pass import Pass, batches_of
from roslens.collectors.schema.tables import LOSSES, TABLES

RUNS = (
    "two_process/000_r0_fastrtps",
    "demo/000_r0_executor-Events",
    "lifecycle/000_r0_cell",
    "communication/001_r0_unique_ptr_ipc-on",
)


def edges_of(raw: Raw, count: int) -> list[int]:
    """Return times that cut the events into `count` stretches of equal numbers of events."""
    parts = [frame.lazy().select(pl.col("time_ns").cast(pl.Int64)) for frame in raw.values()]
    times = pl.concat(parts).collect()["time_ns"].sort()
    return sorted({times[len(times) * place // count] for place in range(1, count)})


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(1, 3), st.integers(0, 1)),
        min_size=20,
        max_size=80,
    ),
    st.sets(st.integers(0, 90), min_size=1, max_size=4),
)
def test_whatever_happens_and_wherever_it_is_cut(
    happened: list[tuple[str, int, int, int]], cuts: set[int]
) -> None:
    trace = objects()
    for place, (step, number, pid, thread) in enumerate(happened):
        emit(trace, 20 + place * 3, step, number, {"pid": pid, "tid": 10 * pid + thread})
    trace.tables_cut_at([at(20 + place * 3) for place in cuts])


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(HEAP), st.integers(0, 2), st.integers(1, 2), st.integers(0, 1)),
        min_size=10,
        max_size=60,
    ),
    st.sets(st.integers(0, 70), min_size=1, max_size=4),
)
def test_the_heap_wherever_it_is_cut(
    happened: list[tuple[str, int, int, int]], cuts: set[int]
) -> None:
    """A few addresses are allocated and freed in any order; steps of the tables span cuts."""
    trace, gap = objects(), 30_000
    for place, (step, number, pid, thread) in enumerate(happened):
        us, where = 20 + place * gap, {"pid": pid, "tid": 10 * pid + thread}
        pointer = 0x1000 + 16 * number
        if step in {"start", "end"}:
            emit(trace, us, step, number, where)
        elif step == "realloc":
            again = 0x1000 + 16 * (number + thread)
            trace.emit(
                us, "lttng_ust_libc:realloc", in_ptr=pointer, size=8 + place, ptr=again, **where
            )
        elif step == "malloc":
            trace.emit(us, "lttng_ust_libc:malloc", size=1 + place, ptr=pointer, **where)
        else:
            trace.emit(us, "lttng_ust_libc:free", ptr=pointer, **where)
    trace.tables_cut_at([at(20 + place * gap) for place in cuts])


@pytest.mark.parametrize(("seed", "lost"), [(1, 0.0), (2, 0.02), (3, 0.05), (4, 0.2), (5, 0.2)])
def test_a_system_of_which_events_are_missing(seed: int, lost: float) -> None:
    """The events come in stretches; `test_twin` checks more such systems by the reference model."""
    rng = random.Random(seed)
    trace = System(seed).trace
    trace.declared = {name for name, _ in trace.rows}
    trace.rows = [row for row in trace.rows if rng.random() >= lost]
    assert_same(trace.frames(), None)


@pytest.mark.recording
@pytest.mark.parametrize("run_of", RUNS)
def test_recordings(run_of: str) -> None:
    trace = open_trace(SAMPLES / run_of)
    info = trace.info()
    assert_same(trace.read(), info.losses, warnings=info.warnings, hosts=info.hosts)


def assert_same(raw: Raw, losses: pl.DataFrame | None, **about: Any) -> None:
    whole = build_tables(raw, losses, **about)
    tables = in_stretches(raw, losses, edges_of(raw, 4), **about)
    for name, table in whole.items():
        assert tables[name].equals(table), name
        assert tables[name].schema == table.schema


@pytest.mark.recording
def test_tables_so_far_are_those_of_the_events_so_far() -> None:
    """The tables are asked for midway, and the pass goes on; process facts are the whole's."""
    trace = open_trace(SAMPLES / RUNS[0])
    events = Events(trace.read())
    objects = find_objects(events)
    about = (events, objects, callback_objects(events, objects), LOSSES.empty())
    (batches,) = batches_of(events)
    frames = {n: pl.DataFrame(b) for n, b in batches.items() if isinstance(b, pl.DataFrame)}
    (edge,) = edges_of(frames, 2)
    before = {name: frame.filter(pl.col("time_ns") < edge) for name, frame in frames.items()}
    after = {name: frame.filter(pl.col("time_ns") >= edge) for name, frame in frames.items()}
    whole, begun, half = Pass(*about), Pass(*about), Pass(*about)
    whole.feed(frames)
    half.feed(before)
    begun.feed(before)
    so_far, then = half.tables()[0], begun.tables(last=False)[0]
    begun.feed(after)
    for left, right in ((so_far, then), (whole.tables()[0], begun.tables()[0])):
        for name in TABLES.keys() & left.keys():
            assert left[name].frame().equals(right[name].frame()), name
    with pytest.raises(ValueError, match="come to its end"):
        begun.feed(after)
