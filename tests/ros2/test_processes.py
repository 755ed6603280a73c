"""Test how processes are told apart; expected rows by hand, times in microseconds."""

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from ros2_trace import TYPES, Trace, at, findings, rows
from tests.samples import RUN

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.processes import _MADE
from roslens.recording import Recording

_TIMES = {"time_ns", "timestamp", "source_timestamp"}
TOLD = ("delivered", "lost", "replaced", "overwritten", "replayed")
_ADDRESSES = {*_MADE.values(), "rcl_handle", "rmw_handle", "service_handle", "client_handle", "ipb"}


def talker(trace: Trace, us: float, node: str, topic: str, **where: Any) -> None:
    """Emit a process that initialises ROS and publishes once, 50 us later."""
    trace.emit(us, "rcl_init", context_handle=1, version="8.6.0", **where)
    trace.node(us + 1, 0x100, node, **where)
    trace.publisher(us + 5, 0x200, topic, node=0x100, **where)
    trace.publish(us + 50, 0x200, **where)


def with_namespace(
    frames: dict[str, pl.DataFrame], namespaces: dict[str, int]
) -> dict[str, pl.DataFrame]:
    """Add the context pid_ns, according to procname."""
    return {
        name: frame.with_columns(
            pl.col("procname")
            .replace_strict(namespaces, return_dtype=pl.UInt64)
            .alias("ctx_pid_ns")
        )
        for name, frame in frames.items()
    }


def test_two_namespaces_with_one_number() -> None:
    """Two containers have the same pid and the same addresses at the same time."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    talker(trace, 120, "two", "/two", procname="other")
    tables = build_tables(with_namespace(trace.frames(), {"p1": 4026531836, "other": 4026532201}))
    assert rows(
        tables["processes"], "process_id", "vpid", "pid_namespace", "procname", "begin_ns"
    ) == [
        (0, 1, 4026531836, "p1", 100),
        (1, 1, 4026532201, "other", 120),
    ]
    assert rows(tables["publications"], "topic", "node", "publish_ns") == [
        ("/one", "/one", 150),
        ("/two", "/two", 170),
    ]
    assert rows(tables["contexts"], "process_id", "tracetools_version", "created_ns") == [
        (0, "8.6.0", 100),
        (1, "8.6.0", 120),
    ]
    assert findings(tables) == {}


def test_without_namespaces_a_collision_is_reported() -> None:
    """The first process still publishes when the second has begun."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    talker(trace, 120, "two", "/two", procname="other")
    assert findings(trace.tables()) == {"vpid_collision": 1, "several_contexts": 1}


def test_a_number_given_to_the_next_process() -> None:
    """The first process has ended; its addresses mean nothing in the second."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    trace.emit(1000, "rcl_init", context_handle=1, version="8.2.2", procname="other")
    trace.node(1001, 0x100, "two", procname="other")
    # The init event of its own publisher is missing.
    trace.publish(1050, 0x200, procname="other")
    tables = trace.tables()
    assert rows(
        tables["processes"], "process_id", "procname", "tracetools_version", "begin_ns", "end_ns"
    ) == [(0, "p1", "8.6.0", 100, 152), (1, "other", "8.2.2", 1000, 1052)]
    assert rows(tables["publications"], "topic", "publish_ns") == [("/one", 150), (None, 1050)]
    assert findings(tables) == {"vpid_used_again": 1, "events_before_init": 1}


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_program_started_again_with_its_number(is_made_again: bool) -> None:
    """The program has the same name and the same or other addresses, as in a container."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    trace.emit(1000, "rcl_init", context_handle=1, version="8.6.0")
    address = 0x200 if is_made_again else 0x900
    trace.node(1001, address - 0x100, "one")
    trace.publisher(1005, address, "/one", node=address - 0x100)
    trace.publish(1050, address)
    tables = build_tables(trace.frames())
    assert rows(tables["processes"], "process_id", "begin_ns", "end_ns") == [
        (0, 100, 152), (1, 1000, 1052),
    ]  # fmt: skip
    assert rows(tables["publications"], "publisher_id", "topic", "publish_ns") == [
        (0, "/one", 150), (1, "/one", 1050),
    ]  # fmt: skip
    assert findings(tables) == {"vpid_used_again": 1}


@pytest.mark.parametrize("distance", [0, 1 << 40])
def test_a_recording_that_happens_again_with_the_same_numbers(distance: int) -> None:
    """The recording is repeated and must count twice; the second time, addresses may differ."""
    raw = read_raw(Recording.at(RUN)).events
    frames = {name: frame.lazy().collect() for name, frame in raw.items()}
    ends = [frame["time_ns"].max() for frame in frames.values() if frame.height]
    begins = [frame["time_ns"].min() for frame in frames.values() if frame.height]
    later = max(ends) - min(begins) + 2_000_000_000
    twice = {
        name: pl.concat([
            frame,
            frame.with_columns(
                *(pl.col(column) + later for column in _TIMES & set(frame.columns)),
                *(pl.col(column) + distance for column in _ADDRESSES & set(frame.columns)),
            ),
        ])
        for name, frame in frames.items()
    }  # fmt: skip
    once, again = build_tables(frames), build_tables(twice)
    assert again["processes"].height == 2 * once["processes"].height
    counted = [
        tables["messages"]
        .filter(pl.col("outcome").is_in(TOLD))
        .group_by("topic", "outcome")
        .len()
        .sort("topic", "outcome")
        for tables in (once, again)
    ]
    assert_frame_equal(counted[0].with_columns(pl.col("len") * 2), counted[1])


def test_ros_initialised_twice() -> None:
    """The first context goes on: its publisher publishes after the second context began."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    trace.emit(500, "rcl_init", context_handle=2, version="8.6.0")
    trace.node(501, 0x300, "two")
    trace.publisher(505, 0x400, "/two", node=0x300)
    trace.publish(550, 0x400)
    trace.publish(560, 0x200)
    tables = trace.tables()
    assert tables["processes"].height == 1
    assert rows(tables["contexts"], "context_id", "created_ns") == [(0, 100), (1, 500)]
    assert findings(tables) == {"several_contexts": 1}


def test_the_middleware_as_loaded() -> None:
    """The statedump names the first process's middleware; for the second, the recording does."""
    trace = Trace()
    talker(trace, 100, "one", "/one")
    talker(trace, 200, "two", "/two", pid=2)
    paths = ["/opt/lib/librmw_implementation.so", "/opt/lib/librmw_cyclonedds_cpp.so", "/l/libc.so"]
    common = {"time_ns": at(90), "host": "h0", "trace": "t", "cpu_id": 0, "vpid": 1, "vtid": 1}
    raw = trace.frames()
    raw["lttng_ust_statedump:bin_info"] = pl.DataFrame(
        [{**common, "procname": "p1", "path": path} for path in paths],
        schema=TYPES | {"path": pl.String()},
    )
    tables = build_tables(raw, rmw="rmw_fastrtps_cpp", hosts=["h0"])
    assert rows(tables["processes"], "vpid", "rmw") == [
        (1, "rmw_cyclonedds_cpp"),
        (2, "rmw_fastrtps_cpp"),
    ]
