"""Test the heap tables; expected rows by hand, or from what the live test's program does."""

import os
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ros2_trace import Trace, at, findings, rows

from roslens.collectors.collection import collect, tables
from roslens.recording import Recording
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon
from roslens.tracing.ros import embedded_ros

PROGRAM = Path(__file__).parent / "programs" / "allocations.c"
LIVE = ("time_ns", "live_bytes", "live_blocks", "peak_bytes", "allocated_bytes", "allocations")
INSTANCE = ("allocations", "allocated_bytes", "frees", "freed_bytes", "kept_bytes")
STEP = 100_000
"""Microseconds from one row to the next."""


def heap(trace: Trace, us: float, call: str, **payload: Any) -> None:
    trace.emit(us, f"lttng_ust_libc:{call}", **payload)


def with_callback() -> Trace:
    trace = Trace()
    trace.declared |= {"lttng_ust_libc:malloc", "lttng_ust_libc:free"}
    trace.node(10, 0x100, "node")
    trace.subscription(20, 0x200, "/a", node=0x100, callback=0x290)
    return trace


def test_live_bytes_over_time() -> None:
    """300 bytes are allocated, then 100; 300 are freed in the next 0.1 s; each has its row."""
    trace = with_callback()
    heap(trace, 100, "malloc", size=300, ptr=0x1000)
    heap(trace, 200, "calloc", nmemb=4, size=25, ptr=0x2000)
    heap(trace, STEP + 1, "malloc", size=50, ptr=0x3000)
    heap(trace, STEP + 2, "free", ptr=0x3000)
    heap(trace, STEP + 3, "free", ptr=0x1000)
    heap(trace, STEP + 4, "free", ptr=0)
    tables = trace.tables()
    assert rows(tables["heap"], *LIVE) == [
        (200, 400, 2, 400, 400, 2),
        (STEP + 3, 100, 1, 450, 450, 3),
    ]
    assert findings(tables) == {}


def test_what_realloc_does() -> None:
    """realloc moves, keeps, begins and ends a block, and fails; a failure keeps the block."""
    trace = with_callback()
    for us, call, payload in (
        (1, "malloc", {"size": 10, "ptr": 0x1000}),
        (2, "realloc", {"in_ptr": 0x1000, "size": 20, "ptr": 0x2000}),
        (3, "realloc", {"in_ptr": 0x2000, "size": 30, "ptr": 0x2000}),
        (4, "realloc", {"in_ptr": 0, "size": 5, "ptr": 0x3000}),
        (5, "realloc", {"in_ptr": 0x2000, "size": 2**40, "ptr": 0}),
        (6, "realloc", {"in_ptr": 0x3000, "size": 0, "ptr": 0}),
        # The first address is free again, and malloc returns it again.
        (7, "malloc", {"size": 7, "ptr": 0x1000}),
    ):
        heap(trace, us, call, **payload)
    tables = trace.tables()
    assert rows(tables["heap"], *LIVE) == [(7, 37, 2, 37, 72, 5)]
    assert findings(tables) == {"failed_allocations": 1}


def test_realloc_tells_after_another_thread_has_got_the_address() -> None:
    """Thread 1's realloc freed 0x1000, which thread 2 got before thread 1's event was recorded."""
    trace = with_callback()
    heap(trace, 1, "malloc", size=100, ptr=0x1000)
    trace.emit(5, "lttng_ust_libc:malloc", size=30, ptr=0x1000, tid=2)
    heap(trace, 6, "realloc", in_ptr=0x1000, size=200, ptr=0x2000)
    trace.emit(STEP, "lttng_ust_libc:free", ptr=0x1000, tid=2)
    tables = trace.tables()
    assert [row[1:3] for row in rows(tables["heap"], *LIVE)] == [(230, 2), (200, 1)]
    assert findings(tables) == {}


def test_frees_of_the_unknown_and_blocks_never_seen_to_end() -> None:
    """A freed block is from before the recording; an address is returned twice without a free."""
    trace = with_callback()
    heap(trace, 1, "free", ptr=0x9000)
    heap(trace, 2, "malloc", size=10, ptr=0x1000)
    heap(trace, 3, "malloc", size=20, ptr=0x1000)
    heap(trace, 4, "free", ptr=0x1000)
    heap(trace, 5, "free", ptr=0x1000)
    heap(trace, 6, "posix_memalign", size=64, out_ptr=0x5000, result=12)
    heap(trace, 7, "posix_memalign", size=64, out_ptr=0x5000, result=0)
    tables = trace.tables()
    assert rows(tables["heap"], *LIVE) == [(7, 64, 1, 64, 94, 3)]
    assert findings(tables) == {"unknown_frees": 2, "unseen_frees": 1, "failed_allocations": 1}


@pytest.mark.parametrize("missing", [("vpid",), ("vpid", "vtid"), ("vpid", "vtid", "procname")])
@pytest.mark.parametrize("with_ros", [True, False])
def test_calls_of_nobody_knows_whom_are_left_out(missing: tuple[str, ...], with_ros: bool) -> None:
    """Without contexts, an address may be a block in any process, so no calls can be paired."""
    trace = with_callback() if with_ros else Trace()
    unknown = dict.fromkeys(missing)
    heap(trace, 100, "malloc", size=300, ptr=0x1000, **unknown)
    heap(trace, 150, "malloc", size=300, ptr=0x1000, **unknown)
    heap(trace, 200, "free", ptr=0x1000, **unknown)
    tables = trace.tables()
    assert tables["heap"].is_empty()
    assert tables["callback_allocations"].is_empty()
    assert findings(tables)["missing_context"] == 3


def test_calls_of_unknown_threads_count_for_their_process() -> None:
    trace = with_callback()
    heap(trace, 100, "malloc", size=300, ptr=0x1000, vtid=None)
    heap(trace, 200, "free", ptr=0x1000)
    tables = trace.tables()
    assert rows(tables["heap"], *LIVE) == [(200, 0, 0, 300, 300, 1)]
    assert findings(tables) == {"missing_context": 1}


def test_addresses_are_those_of_one_process() -> None:
    trace = with_callback()
    trace.node(11, 0x100, "other", pid=2)
    heap(trace, 100, "malloc", size=10, ptr=0x1000)
    trace.emit(200, "lttng_ust_libc:malloc", size=20, ptr=0x1000, pid=2)
    heap(trace, 300, "free", ptr=0x1000)
    tables = trace.tables()
    assert rows(tables["heap"], "vpid", *LIVE) == [
        (2, 200, 20, 1, 20, 20, 1),
        (1, 300, 0, 0, 10, 10, 1),
    ]
    assert findings(tables) == {}


def test_blocks_belong_to_the_callback_that_allocated_them() -> None:
    """The first execution keeps 60 of 100 bytes; the second frees these 60 bytes."""
    trace = with_callback()
    trace.subscription(30, 0x300, "/b", node=0x100, callback=0x390)
    trace.run(100, 0x290, lasts=50)
    heap(trace, 110, "malloc", size=60, ptr=0x1000)
    heap(trace, 120, "malloc", size=40, ptr=0x2000)
    heap(trace, 130, "free", ptr=0x2000)
    heap(trace, 160, "malloc", size=500, ptr=0x5000)  # outside of all
    trace.run(STEP + 200, 0x290, lasts=50)
    heap(trace, STEP + 210, "free", ptr=0x1000)
    trace.run(STEP + 220, 0x390, lasts=10)
    heap(trace, STEP + 225, "malloc", size=8, ptr=0x3000)
    trace.run(STEP + 300, 0x290, lasts=50)
    tables = trace.tables()
    assert rows(tables["callback_allocations"], *INSTANCE) == [
        (2, 100, 1, 40, 0),
        (0, 0, 1, 60, 0),
        (1, 8, 0, 0, 8),
        (0, 0, 0, 0, 0),
    ]
    assert rows(tables["callback_heap"], "name", *LIVE) == [
        ("/a", 130, 60, 1, 100, 100, 2),
        ("/a", STEP + 210, 0, 0, 0, 100, 2),
        ("/b", STEP + 225, 8, 1, 8, 8, 1),
    ]
    assert tables["heap"]["live_bytes"].to_list() == [560, 508]
    assert at(STEP) % 100_000_000 == 0


@pytest.mark.live
def test_a_program_with_known_allocations(tmp_path: Path) -> None:
    program = tmp_path / "allocations"
    subprocess.run(["cc", "-O0", str(PROGRAM), "-o", str(program), "-ldl"], check=True)
    wrapper = "liblttng-ust-libc-wrapper.so.1"
    library = embedded_ros().preload()[0]
    options = TracingOptions(events=("ros2:*", "lttng_ust_libc:*"), kernel="off")
    run = Recording.at(tmp_path / "run")
    with (
        session_daemon() as daemon,
        recording_session(daemon, options, run.path / "trace") as session,
    ):
        environment = {
            **os.environ,
            **session.workload_variables,
            "LD_PRELOAD": f"{wrapper}:{library}",
            "LTTNG_UST_REGISTER_TIMEOUT": "-1",
        }
        subprocess.run([str(program)], env=environment, check=True, timeout=60)
    assert session.loss.discarded_events == 0
    collect(run)
    frames = {name: frame.collect() for name, frame in tables(run).items()}
    instances = frames["callback_allocations"].join(
        frames["callback_instances"], on="callback_instance_id"
    )
    # The first execution allocates malloc 1000, calloc 200, posix_memalign 512, memalign 256,
    # malloc 77, realloc to 3000, and frees 77, and 1000 by realloc. The second frees 200, 512 and
    # 256, and allocates 50.
    assert rows(instances, *INSTANCE)[1:] == [
        (6, 1000 + 200 + 512 + 256 + 77 + 3000, 2, 1077, 3000),
        (1, 50, 3, 968, 50),
    ]
    live = frames["heap"].select(pl.col("live_bytes").last()).item()
    assert live >= 3050
