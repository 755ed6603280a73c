"""Clock offsets between hosts. Truth: the offsets and delays with which the traces are made."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ros2_trace import Trace, at

from roslens.collectors.ros2.host_clocks import clock_offsets, find_crossings
from roslens.tracing.recording import NotEnoughEvidenceError

HOSTS = ("h0", "h1", "h2")


def crossings(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    schema = ["from_host", "to_host", "sent_ns", "taken_ns"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_the_middle_of_what_is_possible() -> None:
    """By hand, after RFC 5905: offset ((T2-T1)+(T3-T4))/2, half of the delay beside it."""
    found = crossings(
        ("h0", "h1", 1_000, 1_700),
        ("h0", "h1", 2_000, 2_650),
        ("h1", "h0", 3_500, 3_150),
        ("h1", "h0", 9_500, 9_900),
    )
    [offset] = clock_offsets(found, ["h0", "h1"])
    assert (offset.ahead_ns, offset.within_ns) == (500, 150)
    assert (offset.there, offset.back) == (2, 2)
    assert "within 150 ns" in str(offset)


offsets = st.integers(-(10**15), 10**15)
delays = st.lists(st.integers(0, 10**8), min_size=1, max_size=20)


@given(offsets, delays, delays)
def test_the_truth_is_within_the_bound(
    offset: int, forward: list[int], backward: list[int]
) -> None:
    rows = [("h0", "h1", 10 * i, 10 * i + d + offset) for i, d in enumerate(forward)]
    rows += [("h1", "h0", 10 * i + offset, 10 * i + d) for i, d in enumerate(backward)]
    [found] = clock_offsets(crossings(*rows), ["h0", "h1"])
    assert abs(found.ahead_ns - offset) <= found.within_ns
    assert found.within_ns <= (min(forward) + min(backward) + 1) // 2


@given(st.lists(offsets, min_size=3, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_through_other_hosts(truth: list[int], draw: random.Random) -> None:
    """A ring h0 -> h1 -> h2 -> h3 -> h0: no two hosts have both directions."""
    clocks = [0, *truth]
    rows = []
    for k in range(40):
        start = k % 4
        end, delay = (start + 1) % 4, draw.randrange(1, 1_000)
        rows.append((f"h{start}", f"h{end}", k + clocks[start], k + delay + clocks[end]))
    names = ["h0", "h1", "h2", "h3"]
    for found, offset in zip(clock_offsets(crossings(*rows), names), truth, strict=True):
        assert abs(found.ahead_ns - offset) <= found.within_ns <= 2_000


def test_one_direction_is_not_enough() -> None:
    one_way = crossings(("h0", "h1", 1_000, 1_700))
    with pytest.raises(NotEnoughEvidenceError, match="no message went from h1 to h0"):
        clock_offsets(one_way, ["h0", "h1"])
    with pytest.raises(NotEnoughEvidenceError, match="no message went from h0 to h1"):
        clock_offsets(one_way.clear(), ["h0", "h1"])


def test_clocks_that_drift_have_no_offset() -> None:
    """1 ms apart at the beginning, 2 ms at the end, delays of 100 us."""
    rows = []
    for k in range(100):
        time, ahead = k * 10_000_000, 1_000_000 + k * 10_000
        rows.append(("h0", "h1", time, time + 100_000 + ahead))
        rows.append(("h1", "h0", time + ahead, time + 100_000))
    with pytest.raises(NotEnoughEvidenceError, match="drift"):
        clock_offsets(crossings(*rows), ["h0", "h1"])


PING, PONG = 0x1000, 0x2000


def two_hosts(ahead_us: float, *, back: bool = True, services: bool = False) -> Trace:
    """h0 sends 20 messages, taken after 50 us or more; h1 answers. h1's clock is ahead."""
    trace = Trace()
    draw = random.Random(1)
    where = {"host": "h1", "pid": 1}
    if services:
        trace.emit(0, "rmw_client_init", rmw_client_handle=0x31, gid=[5] * 16)
    for k in range(20):
        us, delay, way_back = 1000 * k, draw.uniform(50, 90), draw.uniform(60, 90)
        if services:
            request = {"sequence_number": k}
            trace.emit(us, "rmw_send_request", rmw_client_handle=0x31, request=1, **request)
            server = {"rmw_service_handle": 0x41, "client_gid": [5] * 16, **where, **request}
            trace.emit(us + delay + ahead_us, "rmw_take_request", request=2, taken=1, **server)
            sent = us + 300
            trace.emit(sent + ahead_us, "rmw_send_response", response=2, timestamp=1, **server)
            trace.emit(
                sent + way_back, "rmw_take_response", rmw_client_handle=0x31, response=1,
                source_timestamp=1, taken=1, **request,
            )  # fmt: skip
            continue
        # A system clock of its own: stamps are but names.
        stamp = at(us) + 777_777_777
        trace.publish(us - 2, PING, stamp=stamp)
        trace.take(us + delay + ahead_us, 0x5000, stamp=stamp, **where)
        # Not taken: it only looked.
        trace.take(us + 10 + ahead_us, 0x5000, stamp=stamp, taken=0, **where)
        if back:
            trace.publish(us + 298 + ahead_us, PONG, stamp=stamp + 5, **where)
            trace.take(us + 300 + way_back, 0x6000, stamp=stamp + 5)
    return trace


@pytest.mark.parametrize("services", [False, True])
@pytest.mark.parametrize("ahead_us", [0, 123_456.789, -3_600_000_000.5])
def test_from_events(ahead_us: float, services: bool) -> None:
    found = find_crossings(two_hosts(ahead_us, services=services).frames())
    assert found.height == 40
    [offset] = clock_offsets(found, ["h0", "h1"])
    # The smallest delays are at least 50 and 60 us, and at most a few more.
    assert abs(offset.ahead_ns - round(ahead_us * 1000)) <= offset.within_ns
    assert 55_000 <= offset.within_ns <= 65_000


def test_stamps_that_are_not_alone_tell_nothing() -> None:
    trace = two_hosts(0)
    trace.rows = [
        (name, row | {"timestamp": 7} if name == "rmw_publish" else row) for name, row in trace.rows
    ]
    assert find_crossings(trace.frames()).is_empty()


def test_events_that_are_not_there_tell_nothing() -> None:
    assert find_crossings({}).is_empty()
    assert find_crossings(two_hosts(5, back=False).frames()).height == 20
