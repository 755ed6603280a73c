"""A model built in stretches of time is, to the last value, the one built in one piece."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ros2_trace import Trace, at, by_windows
from test_messages import BUFFER, CALLBACK, NODE, PUB, SUB

from roslens.collectors import work
from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.windows import Windows, cut, write_tables
from roslens.collectors.work import Work

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
RUNS = (
    "two_process/000_r0_fastrtps",
    "demo/000_r0_executor-Events",
    "lifecycle/000_r0_cell",
    "communication/001_r0_unique_ptr_ipc-on",
)
EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "intra": ("rclcpp_intra_publish", {"publisher_handle": PUB, "message": None}),
    "rcl": ("rcl_publish", {"publisher_handle": PUB, "message": None}),
    "rmw": ("rmw_publish", {"rmw_publisher_handle": PUB + 1, "message": None, "timestamp": None}),
    "take": (
        "rmw_take",
        {
            "rmw_subscription_handle": SUB + 1,
            "message": None,
            "source_timestamp": None,
            "taken": 1,
        },
    ),
    "poll": (
        "rmw_take",
        {
            "rmw_subscription_handle": SUB + 1,
            "message": None,
            "source_timestamp": None,
            "taken": 0,
        },
    ),
    "rcl_take": ("rcl_take", {"message": None}),
    "rclcpp_take": ("rclcpp_take", {"message": None}),
    "end": ("callback_end", {"callback": None}),
    "enqueue": (
        "rclcpp_ring_buffer_enqueue",
        {"buffer": BUFFER, "index": None, "size": 1, "overwritten": 0},
    ),
    "dequeue": ("rclcpp_ring_buffer_dequeue", {"buffer": BUFFER, "index": None, "size": 1}),
    "clear": ("rclcpp_ring_buffer_clear", {"buffer": BUFFER}),
    "wait": ("rclcpp_executor_wait_for_work", {"timeout": 5}),
    "ready": ("rclcpp_executor_get_next_ready", {}),
    "execute": ("rclcpp_executor_execute", {"handle": SUB}),
    "request": (
        "rmw_send_request",
        {"rmw_client_handle": 0x91, "request": 1, "sequence_number": None},
    ),
    "serve": (
        "rmw_take_request",
        {
            "rmw_service_handle": 0x81,
            "request": 1,
            "client_gid": None,
            "sequence_number": None,
            "taken": 1,
        },
    ),
    "answer": (
        "rmw_send_response",
        {
            "rmw_service_handle": 0x81,
            "response": 1,
            "client_gid": None,
            "sequence_number": None,
            "timestamp": None,
        },
    ),
    "answered": (
        "rmw_take_response",
        {
            "rmw_client_handle": 0x91,
            "response": 1,
            "sequence_number": None,
            "source_timestamp": None,
            "taken": 1,
        },
    ),
}
"""What may happen; what is None here is drawn."""
HEAP = ("malloc", "malloc", "free", "free", "realloc", "start", "end")
STEPS = ("publish", "start", "timer", *EVENTS)


def objects() -> Trace:
    """Two processes with one of everything, and a third that nothing is known of."""
    trace = Trace()
    for pid in (1, 2):
        trace.node(1, NODE, f"n{pid}", pid=pid)
        trace.publisher(3, PUB, "/data", node=NODE, pid=pid)
        trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK, pid=pid)
        trace.ring_buffer(10, BUFFER, subscription=SUB, callback=CALLBACK + 1, pid=pid)
        trace.emit(12, "rcl_timer_init", timer_handle=0x70, period=7_000, pid=pid)
        trace.emit(13, "rclcpp_timer_callback_added", timer_handle=0x70, callback=0x71, pid=pid)
        trace.emit(
            14, "rcl_service_init", service_handle=0x80, node_handle=NODE, rmw_service_handle=0x81,
            service_name="/ask", pid=pid,
        )  # fmt: skip
        trace.emit(14, "rclcpp_service_callback_added", service_handle=0x80, callback=0x82, pid=pid)
        trace.emit(15, "rmw_client_init", rmw_client_handle=0x91, gid=[pid] * 16, pid=pid)
        trace.emit(
            15, "rcl_client_init", client_handle=0x90, node_handle=NODE, rmw_client_handle=0x91,
            service_name="/ask", pid=pid,
        )  # fmt: skip
    return trace


def emit(trace: Trace, us: float, step: str, number: int, where: dict[str, Any]) -> None:
    """One event, or the few of a publication, of a small choice of objects and messages."""
    callback = (CALLBACK, CALLBACK + 1, 0x71, 0x82, 0xDEAD)[number % 5]
    drawn = {
        "message": 0x9000 + number % 2,
        "timestamp": 1_000 + number,
        "source_timestamp": 1_000 + number,
        "callback": callback,
        "index": number % 2,
        "sequence_number": number,
        "client_gid": [1 + number % 2] * 16,
    }
    if step == "publish":
        trace.publish(us, PUB, message=drawn["message"], stamp=1_000 + number, **where)
    elif step == "timer":
        trace.run(us, 0x71, lasts=0.5, **where)
    elif step == "start":
        intra = int(callback == CALLBACK + 1)
        trace.emit(us, "callback_start", callback=callback, is_intra_process=intra, **where)
    else:
        name, fields = EVENTS[step]
        payload = {field: drawn.get(field, value) for field, value in fields.items()}
        trace.emit(us, name, **payload, **where)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
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
    """Events in any order, of objects known and unknown; the model in one piece is the oracle."""
    trace = objects()
    for place, (step, number, pid, thread) in enumerate(happened):
        emit(trace, 20 + place * 3, step, number, {"pid": pid, "tid": 10 * pid + thread})
    edges = tuple(at(20 + place * 3) for place in sorted(cuts))
    trace.same_by_windows(Windows(edges))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
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
    """Few addresses, taken and freed in any order; steps of its tables span several cuts."""
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
    trace.same_by_windows(Windows(tuple(at(20 + place * gap) for place in sorted(cuts))))


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS)
def test_recordings(run: str, tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / run)
    info, raw = trace.info(), trace.read()
    about: dict[str, Any] = {"warnings": info.warnings, "hosts": info.hosts}
    whole = build_tables(raw, info.losses, **about)
    windows = cut(raw, 1 + info.events // 5)
    assert len(windows) >= 5
    found = by_windows(raw, info.losses, windows, tmp_path, **about)
    for name, table in whole.items():
        assert found[name].equals(table), name
        assert found[name].schema == table.schema


@pytest.mark.recording
def test_what_is_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after every few steps, and begun again: the tables are those made at once."""
    trace = open_trace(SAMPLES / RUNS[3])
    info, raw = trace.info(), trace.read()
    windows = cut(raw, 1 + info.events // 3)
    whole = build_tables(raw, info.losses, hosts=info.hosts)
    monkeypatch.setattr(work, "KEEP_SECONDS", 0.0)
    rng = random.Random(1)
    steps: list[str] = []
    patience = 0

    def tell(stage: str, done: int, _: int) -> None:
        nonlocal patience
        steps.append(f"{stage} {done}")
        patience -= 1
        if patience < 0:
            raise KeyboardInterrupt

    (tmp_path / "tables").mkdir()
    interruptions = 0
    while True:
        patience = rng.randint(1, 12)
        try:
            write_tables(
                raw, tmp_path / "tables", Work(tmp_path / "work", tell), windows,
                losses=info.losses, hosts=info.hosts,
            )  # fmt: skip
        except KeyboardInterrupt:
            interruptions += 1
            if steps[-1].startswith("tables"):
                # The last stage is not resumed: let it end.
                patience = 10**6
                write_tables(
                    raw, tmp_path / "tables", Work(tmp_path / "work", tell), windows,
                    losses=info.losses, hosts=info.hosts,
                )  # fmt: skip
                break
        else:
            break
    assert interruptions >= 5
    begun = [step for step in steps if not step.startswith("tables")]
    # Each step was begun once, or once more after it was interrupted.
    assert len(begun) - len(set(begun)) <= interruptions
    for name, table in whole.items():
        assert pl.read_parquet(tmp_path / "tables" / f"{name}.parquet").equals(table), name
