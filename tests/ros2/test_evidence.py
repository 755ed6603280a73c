"""What order proves of messages that were never taken; expected rows are worked out by hand.

Every trace is also held against `reference_model`, and built in two stretches of time.
"""

from __future__ import annotations

from typing import Any

import pytest
from ros2_trace import Trace, at, findings, rows
from test_messages import CALLBACK, NODE, PUB, SUB


def listener(*, depth: int = 10, host: str = "h0") -> Trace:
    """/talker publishes /data in process 1; /listener of process 2 keeps `depth` messages."""
    trace = Trace()
    trace.node(10, NODE, "talker")
    trace.publisher(20, PUB, "/data", node=NODE)
    trace.node(10, NODE + 8, "listener", pid=2, host=host)
    trace.subscription(30, SUB, "/data", node=NODE + 8, callback=CALLBACK, pid=2, host=host)
    for name, row in trace.rows:
        if name == "rcl_subscription_init":
            row["queue_depth"] = depth
    return trace


def publish_as_in_humble(trace: Trace, us: float) -> None:
    trace.emit(us, "rclcpp_publish", message=0x9000)
    trace.emit(us + 1, "rcl_publish", publisher_handle=PUB, message=0x9000)
    trace.emit(us + 2, "rmw_publish", message=0x9000)


def outcomes(trace: Trace) -> list[tuple[Any, ...]]:
    return rows(trace.tables()["messages"], "publish_ns", "outcome")


def humble(*taken: float) -> Trace:
    """Five messages, 20 ms apart, of which those at `taken` (ms) are taken 1 ms later."""
    trace = listener()
    for ms in (20, 40, 60, 80, 100):
        publish_as_in_humble(trace, ms * 1000)
        if ms in taken:
            trace.receive(ms * 1000 + 1000, SUB, CALLBACK, stamp=at(ms * 1000 + 5), pid=2)
    return trace


def test_between_messages_that_were_taken_one_without_timestamp_is_lost() -> None:
    """Whatever the number of subscriptions; before the first and after the last nobody knows."""
    assert outcomes(humble(40, 80)) == [
        (20_000, "unknown"),
        (40_000, "delivered"),
        (60_000, "lost"),
        (80_000, "delivered"),
        (100_000, "unknown"),
    ]


@pytest.mark.parametrize(("us", "outcome"), [(60_500, "unknown"), (75_000, "lost")])
def test_what_nobody_published_may_be_the_message(us: float, outcome: str) -> None:
    """No publication claims the stamp of what was taken then: it may be the message of 60 ms, but
    not after the next one was taken, at 61 ms.
    """
    trace = humble(40, 80)
    publish_as_in_humble(trace, 60_020)
    trace.receive(61_000, SUB, CALLBACK, stamp=at(60_030), pid=2)
    trace.take(us, SUB, stamp=at(60_040), pid=2)
    found = dict(outcomes(trace))
    assert (found[60_000], found[60_020]) == (outcome, "delivered")


def test_a_gap_at_the_receiver_may_hide_the_take() -> None:
    trace = humble(40, 80)
    trace.lose(61_000, 62_000, 3)
    assert dict(outcomes(trace))[60_000] == "unknown"


def test_newer_messages_took_its_place() -> None:
    """Three are held: 200's place was taken when 500 came, before 300 was taken at 590."""
    trace = listener(depth=3)
    for us in (100, 200, 300, 400, 500):
        trace.publish(us, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    for us, stamp in ((590, 302), (610, 402), (630, 502)):
        trace.receive(us, SUB, CALLBACK, stamp=at(stamp), pid=2)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "take_ns", "latency_ns", "outcome", "match") == [
        (100, 150, 53_000, "delivered", "exact"),
        (200, None, None, "replaced", None),
        (300, 590, 293_000, "delivered", "exact"),
        (400, 610, 213_000, "delivered", "exact"),
        (500, 630, 133_000, "delivered", "exact"),
    ]
    assert findings(tables) == {}


def test_where_the_history_had_place_the_message_was_lost() -> None:
    """The same with room for four: 200 must have been the next one taken, had it come."""
    trace = listener(depth=4)
    for us in (100, 200, 300, 400, 500):
        trace.publish(us, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    for us, stamp in ((590, 302), (610, 402), (630, 502)):
        trace.receive(us, SUB, CALLBACK, stamp=at(stamp), pid=2)
    assert dict(outcomes(trace))[200] == "lost"


def of_depth_one(gap: float, *, host: str = "h0") -> str:
    """What became of a message that another one followed `gap` us later; waits are 50 us."""
    trace = listener(depth=1, host=host)
    for us in (1000, 2000, 2000 + gap):
        trace.publish(us, PUB)
    trace.receive(1050, SUB, CALLBACK, stamp=at(1002), pid=2, host=host)
    trace.receive(2050 + gap, SUB, CALLBACK, stamp=at(2002 + gap), pid=2, host=host)
    return dict(outcomes(trace))[2000]


def test_of_a_single_place_only_what_came_soon_is_known_to_take_it() -> None:
    """A reader that nothing kept waiting for 400 us would have taken it: it never came."""
    assert of_depth_one(40) == "replaced"
    assert of_depth_one(400) == "lost"


def test_over_the_network_a_message_may_be_lost_on_the_way() -> None:
    assert of_depth_one(40, host="h1") == "lost"


def two_hosts(ahead: float) -> Trace:
    """Three messages from h0 to h1, whose clock is `ahead` us ahead, and three back; each takes
    100 us at least until it is taken, and 3 us more until its callback starts.
    """
    trace = listener(host="h1")
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
    """From -100 to +100 us ahead fit at 2 ms: no message would then take less than nothing. In 2 ms
    more or less clocks gain 2 us at most.
    """
    tables = two_hosts(0).tables()
    (bound,) = tables["messages"]["clock_bound_ns"].unique()
    assert 100_000 <= bound <= 104_000
    # Latencies are 105 us (of three, 2 from publish and 3 to the callback) and more.
    assert tables["messages"]["latency_ns"].min() == 105_000
    assert findings(tables) == {"clocks_bounded": 6}


def test_clocks_that_are_apart_are_told() -> None:
    """1 ms behind: messages there take -895 us at least, back 1,105 us; all may be wrong by more
    than they are, so none is told.
    """
    tables = two_hosts(-1000).tables()
    messages = tables["messages"]
    (bound,) = messages["clock_bound_ns"].unique()
    assert 1_100_000 <= bound <= 1_104_000
    told = messages["latency_ns"].drop_nulls()
    assert (told > bound).all()
    assert (messages["match"] == "exact").all()
    (text,) = tables["health"].filter(kind="clocks_apart")["what"]
    assert "ns behind" in text


def test_where_nothing_comes_back_no_bound_is_told() -> None:
    trace = listener(host="h1")
    trace.publish(1000, PUB)
    trace.receive(1100, SUB, CALLBACK, stamp=at(1002), pid=2, host="h1")
    tables = trace.tables()
    assert tables["messages"].select("latency_ns", "clock_bound_ns").rows() == [(None, None)]
    assert findings(tables) == {"clocks_not_bounded": 1}
