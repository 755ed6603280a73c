"""Test the fit of host clocks by messages, against the simulation's clocks and delays."""

import random

import numpy as np
import polars as pl
import pytest
from clock_simulation import EPOCH, draw, wrong
from ros2_trace import Trace, at, findings
from test_messages import CALLBACK, NODE, PUB, SUB, talker_and_listener

from roslens.collectors.clocks import clocks_of_fit
from roslens.collectors.ros2.clock_fit import FASTEST, fit_clocks
from roslens.collectors.ros2.host_clocks import find_crossings


def crossings(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    schema = ["from_host", "to_host", "sent_ns", "taken_ns"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def bounds(crossed: pl.DataFrame, host: str, time_ns: int) -> tuple[float, float]:
    fit = fit_clocks(crossed, ["h0", "h1", "h2"])
    low, high = fit.offset_bounds(host, np.array([time_ns]))
    return low[0], high[0]


def test_the_least_delay_each_way_bounds_the_offset() -> None:
    """By hand, after RFC 5905: the offset is 350 to 650 ns; in 8 us a clock gains at most 8 ns."""
    crossed = crossings(
        ("h0", "h1", 1_000, 1_700),
        ("h0", "h1", 2_000, 2_650),
        ("h1", "h0", 3_500, 3_150),
        ("h1", "h0", 9_500, 9_900),
    )
    low, high = bounds(crossed, "h1", 3_000)
    most = 8_000 * FASTEST / 1e9 + 4
    assert 350 - most <= low <= 350
    assert 650 <= high <= 650 + most


@pytest.mark.parametrize("seed", range(12))
def test_the_truth_is_within_the_bounds(seed: int) -> None:
    """`benchmarks/clocks.py` runs this check a thousand times."""
    widths: list[float] = []
    assert wrong(draw(seed), widths) is None
    # Delays are almost surely below 20 ms.
    assert widths[0] < 20e6


@pytest.mark.parametrize("seed", [0, 6])
def test_a_step_is_found_where_it_was(seed: int) -> None:
    """The steps are -627 ms (suspended) and +142 ms; the drift meanwhile counts with the step."""
    drawn = draw(seed, step=True)
    fit = fit_clocks(drawn.crossings, ["h0", "h1"])
    (step,) = fit.steps
    drifted = abs(drawn.rate * drawn.step_ns)
    assert step.low_ns - drifted <= drawn.step_ns <= step.high_ns + drifted
    at = EPOCH + drawn.step_at_s * 1e9
    slack = 1e6 + abs(drawn.step_ns)
    assert step.begin_ns - slack <= at <= step.end_ns + slack
    assert "jumped by" in clocks_of_fit(fit, ["h0", "h1"], aligned=True).sentences[-1]


@pytest.mark.parametrize("seed", [0, 6])
def test_clocks_that_step_are_brought_together_within_their_bound(seed: int) -> None:
    assert wrong(draw(seed, step=True), []) is None


def test_through_other_hosts() -> None:
    """In a ring h0 -> h1 -> h2 -> h0, no two hosts have both directions; delays are below 1 us."""
    chance = random.Random(1)
    clocks = [0, -(10**12), 5 * 10**14]
    rows = []
    for k in range(60):
        start, end = k % 3, (k + 1) % 3
        sent = 1_000_000 * k
        taken = sent + chance.randrange(1, 1_000)
        rows.append((f"h{start}", f"h{end}", sent + clocks[start], taken + clocks[end]))
    for host in (1, 2):
        low, high = bounds(crossings(*rows), f"h{host}", 30_000_000 + clocks[host])
        assert low <= clocks[host] <= high <= low + 10_000


def test_one_direction_bounds_one_side() -> None:
    low, high = bounds(crossings(("h0", "h1", 1_000, 1_700)), "h1", 1_700)
    assert low == -np.inf
    assert 700 <= high <= 710
    fit = fit_clocks(crossings(("h0", "h1", 1_000, 1_700)), ["h0", "h1"])
    (text,) = clocks_of_fit(fit, ["h0", "h1"], aligned=True).sentences
    assert "no message from h1" in text


PING, PONG = 0x1000, 0x2000


def two_hosts(ahead_us: float, *, back: bool = True, services: bool = False) -> Trace:
    """h0 sends 20 messages, taken after 50 us or more; h1, whose clock is ahead, answers them.

    For services, the event of each sending comes 1 ms after it, as on a busy machine.
    """
    trace = Trace()
    draw = random.Random(1)
    where = {"host": "h1", "pid": 1}
    if services:
        trace.emit(0, "rmw_client_init", rmw_client_handle=0x31, gid=[5] * 16)
    for k in range(20):
        us, delay, way_back = 2000 * k, draw.uniform(50, 90), draw.uniform(60, 90)
        if services:
            request = {"sequence_number": k}
            client = {"rmw_client_handle": 0x31}
            trace.emit(us - 2, "rcl_send_request", **client)
            trace.emit(us + 1000, "rmw_send_request", request=1, **client, **request)
            server = {"rmw_service_handle": 0x41, "client_gid": [5] * 16, **where, **request}
            trace.emit(us + delay + ahead_us, "rmw_take_request", request=2, taken=1, **server)
            sent = us + 300
            trace.emit(sent - 2 + ahead_us, "callback_start", callback=0x51, **where)
            trace.emit(
                sent + 1000 + ahead_us, "rmw_send_response", response=2, timestamp=1, **server
            )
            trace.emit(
                sent + way_back, "rmw_take_response", tid=2, rmw_client_handle=0x31, response=1,
                source_timestamp=1, taken=1, **request,
            )  # fmt: skip
            continue
        # The system clock runs on its own, so stamps serve only as names.
        stamp = at(us) + 777_777_777
        trace.publish(us - 2, PING, stamp=stamp)
        trace.take(us + delay + ahead_us, 0x5000, stamp=stamp, **where)
        # This take returned no message: it only looked.
        trace.take(us + 10 + ahead_us, 0x5000, stamp=stamp, taken=0, **where)
        if back:
            trace.publish(us + 298 + ahead_us, PONG, stamp=stamp + 5, **where)
            trace.take(us + 300 + way_back, 0x6000, stamp=stamp + 5)
    return trace


@pytest.mark.parametrize("services", [False, True])
@pytest.mark.parametrize("ahead_us", [0, 123_456.789, -3_600_000_000.5])
def test_from_events(ahead_us: float, services: bool) -> None:
    crossed = find_crossings(two_hosts(ahead_us, services=services).frames())
    assert crossed.height == 40
    low, high = bounds(crossed, "h1", at(10_000 + ahead_us))
    # The smallest delays are at least 50 and 60 us, and at most a few us more.
    assert low <= round(ahead_us * 1000) <= high
    assert 110_000 <= high - low <= 150_000


def test_stamps_that_are_not_alone_tell_nothing() -> None:
    trace = two_hosts(0)
    trace.rows = [
        (name, row | {"timestamp": 7} if name == "rmw_publish" else row) for name, row in trace.rows
    ]
    assert find_crossings(trace.frames()).is_empty()


def test_events_that_are_not_there_tell_nothing() -> None:
    assert find_crossings({}).is_empty()
    assert find_crossings(two_hosts(5, back=False).frames()).height == 20


def three_each_way(ahead: float) -> Trace:
    """Send three messages from h0 to h1, whose clock is `ahead` us ahead, and three back.

    Each is taken after at least 100 us, and its callback starts 3 us later.
    """
    trace = talker_and_listener(host="h1")
    trace.publisher(40, PUB, "/back", node=NODE + 8, pid=2, host="h1")
    trace.subscription(50, SUB + 0x80, "/back", node=NODE, callback=CALLBACK + 0x80)
    for us, takes in ((1000, 100), (2000, 130), (3000, 150)):
        trace.publish(us, PUB)
        trace.receive(us + 2 + takes + ahead, SUB, CALLBACK, stamp=at(us + 2), pid=2, host="h1")
        sent = us + 500 + ahead
        trace.publish(sent, PUB, pid=2, host="h1")
        trace.receive(us + 502 + takes, SUB + 0x80, CALLBACK + 0x80, stamp=at(sent + 2))
    return trace


def test_latencies_between_hosts_have_the_bound_of_their_clocks() -> None:
    """Offsets from -100 to +100 us fit at 2 ms, as no message may take less than no time.

    Within 2 ms either way, clocks gain at most 2 us.
    """
    tables = three_each_way(0).tables()
    (bound,) = tables["messages"]["clock_bound_ns"].unique()
    assert 100_000 <= bound <= 104_000
    # Latencies are at least 105 us: 100 to the take, 2 from publish and 3 to the callback.
    assert tables["messages"]["latency_ns"].min() == 105_000
    assert findings(tables) == {"clocks_bounded": 6}


def test_clocks_that_are_apart_are_told() -> None:
    """h1 is 1 ms behind: messages there take -895 us or more, messages back 1,105 us or more.

    Each latency may be wrong by more than its size, so none is reported.
    """
    tables = three_each_way(-1000).tables()
    messages = tables["messages"]
    (bound,) = messages["clock_bound_ns"].unique()
    assert 1_100_000 <= bound <= 1_104_000
    latencies = messages["latency_ns"].drop_nulls()
    assert (latencies > bound).all()
    assert (messages["match"] == "exact").all()
    (text,) = tables["health"].filter(kind="clocks_apart")["what"]
    assert "ns behind" in text


def test_where_nothing_comes_back_no_bound_is_told() -> None:
    trace = talker_and_listener(host="h1")
    trace.publish(1000, PUB)
    trace.receive(1100, SUB, CALLBACK, stamp=at(1002), pid=2, host="h1")
    tables = trace.tables()
    assert tables["messages"].select("latency_ns", "clock_bound_ns").rows() == [(None, None)]
    assert findings(tables) == {"clocks_not_bounded": 1}
