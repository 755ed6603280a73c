"""The pass over events gives, to the last value, the tables of the model of frames.

In memory, and with events in stretches and next to nothing in memory.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from missing_events import dequeue_missing, rcl_inits_missing, request_take_missing
from one_pass import Model, batches_of, stretches
from random_system import System
from test_windows import RUNS, SAMPLES, STEPS, emit, objects

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables, messages
from roslens.collectors.ros2.blocked import with_blocked
from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import Events, Raw
from roslens.collectors.ros2.objects import find_objects
from roslens.collectors.schema.tables import LOSSES, TABLES

TABLES_OF_THE_PASS = (
    "callback_instances", "publications", "takes", "messages", "one_sided_messages",
    "executor_intervals", "service_calls", "timer_activations", "heap", "callback_heap",
    "callback_allocations",
)  # fmt: skip


def assert_same(
    raw: Raw, losses: pl.DataFrame | None, *, without: Sequence[str] = (), **about: Any
) -> None:
    """Both ways give the same tables; the model of frames is the oracle.

    But for what is drawn from finished rows, in whichever way these were made: what the order of a
    way proves, and the bounds of clocks.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "weigh", lambda rows, *_: rows)
        patch.setattr(messages, "with_bounds", without_bounds)
        whole = build_tables(raw, losses, **about)
    events = Events(raw, about.get("hosts", ()))
    made = find_objects(events)
    lost = LOSSES.empty() if losses is None else LOSSES.conform(losses)
    given, callbacks = batches_of(events), callback_objects(events, made)
    in_memory = Model(events, made, callbacks, lost)
    in_memory.feed(given)
    with TemporaryDirectory() as folder:
        # The least that may stay in memory.
        spilling = Model(events, made, callbacks, lost, path=f"{folder}/rows", rows=0, keys=1)
        for part in stretches(given, 3):
            spilling.feed(part)
        first, again = spilling.tables()[0], spilling.tables(last=True)[0]
    for found in (in_memory.tables(last=True)[0], first, again):
        found["messages"] = without_bounds(found["messages"])
        found["executor_intervals"] = with_blocked(
            found["executor_intervals"], found["callback_instances"], ("host", "vpid", "vtid")
        )
        for name in TABLES_OF_THE_PASS:
            table = TABLES[name].conform(found[name])
            assert name in without or table.equals(whole[name]), name


def without_bounds(rows: pl.DataFrame, *_: object) -> pl.DataFrame:
    return rows.with_columns(clock_bound_ns=pl.lit(None, dtype=pl.Int64))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(1, 3), st.integers(0, 1)),
        min_size=20,
        max_size=80,
    )
)
def test_whatever_happens(happened: list[tuple[str, int, int, int]]) -> None:
    trace = objects()
    for place, (step, number, pid, thread) in enumerate(happened):
        emit(trace, 20 + place * 3, step, number, {"pid": pid, "tid": 10 * pid + thread})
    # Starts on a grid of their own lie as near to one point of a timer's grid as to the next.
    assert_same(trace.frames(), None, without=["timer_activations"])


@pytest.mark.parametrize(("seed", "lost"), [(1, 0.0), (2, 0.02), (3, 0.05), (4, 0.2), (5, 0.2)])
def test_a_system_of_which_events_are_missing(seed: int, lost: float) -> None:
    rng = random.Random(seed)
    trace = System(seed).trace
    trace.declared = {name for name, _ in trace.rows}
    trace.rows = [row for row in trace.rows if rng.random() >= lost]
    assert_same(trace.frames(), None)


def test_a_dequeue_is_missing() -> None:
    assert_same(dequeue_missing().frames(), None)


def test_the_take_of_a_request_is_missing() -> None:
    assert_same(request_take_missing().frames(), None)


def test_init_events_of_rcl_are_missing() -> None:
    assert_same(rcl_inits_missing().frames(), None)


@pytest.mark.recording
@pytest.mark.parametrize("run_of", RUNS)
def test_recordings(run_of: str) -> None:
    trace = open_trace(Path(SAMPLES / run_of))
    info = trace.info()
    assert_same(trace.read(), info.losses, hosts=info.hosts)
