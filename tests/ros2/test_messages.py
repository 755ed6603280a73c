"""Test what became of each message.

Every expected row is worked out by hand from the events above it, after the rules of
docs/tables.md; times are microseconds.
"""

import polars as pl
import pytest
from ros2_trace import Trace, at, findings, rows

NODE, PUB, SUB, CALLBACK = 0x100, 0x200, 0x300, 0x400
BUFFER, TWIN_CALLBACK = 0x500, 0x600


def talker_and_listener(*, sub_pid: int = 2, host: str = "h0", depth: int = 10) -> Trace:
    """Make /talker, which publishes /data in process 1, and /listener in process `sub_pid`."""
    where = {"pid": sub_pid, "host": host}
    trace = Trace()
    trace.emit(0, "rcl_init", context_handle=1, version="8.2.2")
    trace.node(10, NODE, "talker")
    trace.publisher(20, PUB, "/data", node=NODE)
    trace.node(10, NODE + 8, "listener", **where)
    trace.subscription(30, SUB, "/data", node=NODE + 8, callback=CALLBACK, depth=depth, **where)
    return trace


def one_delivered() -> Trace:
    """Publish a message at 100 and take it at 150; the callback runs from 153 to 158."""
    trace = talker_and_listener()
    trace.publish(100, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    return trace


def test_one_message_between_two_processes() -> None:
    tables = one_delivered().tables()
    assert rows(
        tables["messages"],
        "message_id", "host", "topic", "publisher_node", "subscription_node", "publisher_vpid",
        "subscription_vpid", "intra_process", "publish_ns", "rcl_publish_ns", "rmw_publish_ns",
        "source_timestamp_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns",
        "latency_ns", "outcome", "match",
    ) == [
        (0, "h0", "/data", "/talker", "/listener", 1, 2, False, 100, 101, 102, 102, 150, 152, 153,
         158, 53_000, "delivered", "exact"),
    ]  # fmt: skip
    assert findings(tables) == {}


def test_one_publication_for_two_subscriptions_and_one_made_too_late() -> None:
    trace = talker_and_listener()
    second, third = 0x1300, 0x2300
    trace.subscription(50, second, "/data", node=NODE + 8, callback=0x1400, pid=2)
    trace.publish(100, PUB)
    trace.subscription(150, third, "/data", node=NODE + 8, callback=0x2400, pid=2)
    trace.receive(200, second, 0x1400, stamp=at(102), pid=2)
    trace.receive(220, SUB, CALLBACK, stamp=at(102), pid=2)
    messages = trace.tables()["messages"].sort("subscription_id")
    assert rows(messages, "message_id", "subscription_id", "take_ns", "outcome") == [
        (0, 0, 220, "delivered"),
        (0, 1, 200, "delivered"),
    ]


def test_no_subscriber_and_a_take_that_only_polls() -> None:
    trace = Trace()
    trace.node(10, NODE, "talker")
    trace.publisher(20, PUB, "/nobody", node=NODE)
    trace.publisher(22, 0x1200, "/polled", node=NODE)
    trace.subscription(30, SUB, "/polled", node=NODE, callback=CALLBACK)
    trace.publish(100, PUB)
    trace.publish(200, 0x1200)
    trace.take(210, SUB, stamp=0, taken=0)
    trace.take(220, SUB, stamp=at(202))
    tables = trace.tables()
    assert rows(
        tables["messages"], "topic", "subscription_id", "intra_process", "take_ns",
        "callback_start_ns", "latency_ns", "outcome", "match",
    ) == [
        ("/nobody", None, None, None, None, None, "no_subscriber", None),
        ("/polled", 0, False, 220, None, None, "taken", "exact"),
    ]  # fmt: skip
    assert tables["takes"].height == 1


def test_a_reused_address_names_the_object_of_the_moment() -> None:
    """The publisher and the callback are made again at the same addresses for another topic."""
    trace = Trace()
    trace.node(10, NODE, "first")
    trace.publisher(20, PUB, "/old", node=NODE)
    trace.subscription(30, SUB, "/old", node=NODE, callback=CALLBACK, symbol="old")
    trace.publish(100, PUB)
    trace.receive(110, SUB, CALLBACK, stamp=at(102))
    trace.node(200, NODE, "second")
    trace.publisher(220, PUB, "/new", node=NODE)
    trace.subscription(230, SUB, "/new", node=NODE, callback=CALLBACK, symbol="new")
    trace.publish(300, PUB)
    trace.receive(310, SUB, CALLBACK, stamp=at(302))
    tables = trace.tables()
    assert rows(
        tables["messages"], "topic", "publisher_id", "publisher_node", "subscription_id",
        "subscription_node", "outcome",
    ) == [
        ("/old", 0, "/first", 0, "/first", "delivered"),
        ("/new", 1, "/second", 1, "/second", "delivered"),
    ]  # fmt: skip
    assert rows(tables["callback_instances"], "name", "symbol", "node") == [
        ("/old", "old", "/first"),
        ("/new", "new", "/second"),
    ]


def test_a_subscription_ends_when_its_address_is_given_away() -> None:
    trace = Trace()
    trace.node(10, NODE, "n")
    trace.publisher(20, PUB, "/data", node=NODE)
    trace.subscription(30, SUB, "/data", node=NODE, callback=CALLBACK)
    trace.subscription(200, SUB, "/other", node=NODE, callback=CALLBACK)
    trace.publish(300, PUB)
    trace.run(5_000_000, 0xDEAD)
    assert rows(trace.tables()["messages"], "topic", "subscription_id", "outcome") == [
        ("/data", None, "no_subscriber")
    ]


def test_a_process_that_has_gone_receives_nothing_and_is_named() -> None:
    """Its last event is at 158 us. The next publication could have reached it; the one a second
    later could not.
    """
    trace = one_delivered()
    trace.publish(700_000, PUB)
    trace.publish(2_000_000, PUB)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "subscription_id", "outcome") == [
        (100, 0, "delivered"),
        (700_000, 0, "unknown"),
        (2_000_000, None, "no_subscriber"),
    ]
    assert findings(tables) == {"receiver_gone": 1}


@pytest.mark.parametrize(("ends", "outcome"), [(None, "unknown"), (5, "no_subscriber")])
def test_a_process_that_hangs_in_a_callback_has_not_gone(ends: float | None, outcome: str) -> None:
    """Nothing was seen of the receiver for 3 s, as of one that has gone; but its callback runs on.

    The message at 158 us comes when the one that was taken had waited for 48 us: recording_ended.
    """
    trace = talker_and_listener()
    trace.publish(100, PUB)
    trace.take(150, SUB, stamp=at(102), pid=2)
    trace.run(153, CALLBACK, lasts=ends, pid=2)
    for us in (1_000_000, 2_000_000, 3_000_000):
        trace.publish(us, PUB)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "outcome") == [
        (100, "delivered"),
        (1_000_000, "unknown"),
        (2_000_000, outcome),
        (3_000_000, outcome),
    ]
    assert set(tables["messages"]["reason"][1:]) == (
        {"recording_ended"} if ends is None else {"recording_ended", "no_subscription"}
    )


def test_after_a_gap_a_callback_may_have_ended() -> None:
    """The listener's callback began before the gap, and its thread did something after it."""
    trace = talker_and_listener()
    trace.publish(100, PUB)
    trace.take(150, SUB, stamp=at(102), pid=2)
    trace.run(153, CALLBACK, lasts=None, pid=2)
    trace.lose(200, 300, 1)
    trace.emit(400, "rclcpp_executor_wait_for_work", timeout=-1, pid=2)
    for us in (1_000_000, 2_000_000, 3_000_000):
        trace.publish(us, PUB)
    outcomes = trace.tables()["messages"]["outcome"].to_list()
    assert outcomes == ["delivered", "unknown", "no_subscriber", "no_subscriber"]


def test_rosout_is_found_by_its_rmw_handle() -> None:
    """/rosout's rcl handle lies on the stack, so each publication has another one."""
    trace = Trace()
    trace.node(10, NODE, "a")
    trace.publisher(20, 0x7FFF0010, "/rosout", node=NODE, rmw=0x900)
    trace.node(30, 0x180, "b")
    trace.publisher(40, 0x7FFF0010, "/rosout", node=0x180, rmw=0xA00)
    trace.publish_by_rcl(100, 0x7FFF0010, rmw=0x900)
    trace.publish_by_rcl(200, 0x7FFF0770, rmw=0xA00)
    assert rows(trace.tables()["messages"], "topic", "publisher_node", "publish_ns", "outcome") == [
        ("/rosout", "/a", 100, "no_subscriber"),
        ("/rosout", "/b", 200, "no_subscriber"),
    ]


def test_what_the_middleware_publishes_itself_is_no_message() -> None:
    """Such publications have only rmw events, announced (Fast DDS) or not (Cyclone DDS)."""
    trace = one_delivered()
    trace.emit(40, "rmw_publisher_init", rmw_publisher_handle=0x1900, gid=[1] * 24)
    trace.emit(50, "rmw_publish", rmw_publisher_handle=0x1900, message=1, timestamp=at(50))
    trace.emit(51, "rmw_publish", rmw_publisher_handle=0x2900, message=1, timestamp=at(51))
    trace.emit(
        60, "rmw_take", rmw_subscription_handle=0x3900, message=2, source_timestamp=at(51), taken=1,
        pid=2, tid=9,
    )  # fmt: skip
    tables = trace.tables()
    assert rows(tables["publications"], "topic", "publish_ns") == [
        ("ros_discovery_info", 50),
        ("ros_discovery_info", 51),
        ("/data", 100),
    ]
    assert tables["takes"]["topic"].to_list() == ["ros_discovery_info", "/data"]
    assert tables["messages"]["topic"].to_list() == ["/data"]
    assert findings(tables) == {}


def test_equal_timestamps_are_counted_and_labelled() -> None:
    """Two publishers stamp the same nanosecond; first both messages are taken, then only one."""
    trace = talker_and_listener()
    second = 0x1200
    trace.publisher(25, second, "/data", node=NODE)
    for us, stamp in ((100, 1000), (500, 2000)):
        trace.publish(us, PUB, stamp=at(stamp), tid=11)
        trace.publish(us + 10, second, stamp=at(stamp), tid=12)
    trace.receive(1100, SUB, CALLBACK, stamp=at(1000), pid=2)
    trace.receive(1200, SUB, CALLBACK, stamp=at(1000), pid=2)
    trace.receive(2100, SUB, CALLBACK, stamp=at(2000), pid=2)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "take_ns", "outcome", "match") == [
        (100, 1100, "delivered", "ambiguous"),
        (110, 1200, "delivered", "ambiguous"),
        (500, 2100, "delivered", "ambiguous"),
        (510, None, "unknown", None),
    ]
    assert findings(tables) == {"ambiguous_timestamps": 4}


def test_the_same_topic_on_two_hosts_and_equal_pids() -> None:
    """Addresses and pids are equal on both hosts; the message goes from h0 to h1."""
    trace = Trace()
    trace.node(10, NODE, "talker")
    trace.publisher(20, PUB, "/data", node=NODE)
    trace.node(12, NODE, "listener", host="h1")
    trace.subscription(30, PUB, "/data", node=NODE, callback=CALLBACK, host="h1")
    trace.publish(100, PUB)
    trace.receive(150, PUB, CALLBACK, stamp=at(102), host="h1")
    messages = trace.tables()["messages"]
    columns = ("host", "publisher_host", "subscription_host", "subscription_node", "outcome")
    assert rows(messages, *columns) == [("h0", "h0", "h1", "/listener", "delivered")]


# Messages within one process.


def one_process(*, capacity: int = 2) -> Trace:
    trace = Trace()
    trace.node(10, NODE, "n")
    trace.publisher(20, PUB, "/data", node=NODE)
    trace.subscription(30, SUB, "/data", node=NODE, callback=CALLBACK)
    trace.ring_buffer(35, BUFFER, subscription=SUB, callback=TWIN_CALLBACK, capacity=capacity)
    trace.declared |= {"rmw_publish", "rmw_take", "rclcpp_ring_buffer_dequeue"}
    return trace


def intra_publish(trace: Trace, us: float, index: int, *, overwritten: int = 0) -> None:
    trace.emit(us, "rclcpp_intra_publish", publisher_handle=PUB, message=0x9000)
    trace.emit(
        us + 1, "rclcpp_ring_buffer_enqueue", buffer=BUFFER, index=index, size=1,
        overwritten=overwritten,
    )  # fmt: skip


def intra_receive(trace: Trace, us: float, index: int) -> None:
    trace.emit(us, "rclcpp_ring_buffer_dequeue", buffer=BUFFER, index=index, size=0, tid=2)
    trace.run(us + 1, TWIN_CALLBACK, intra=1, tid=2)


def test_a_message_within_a_process() -> None:
    trace = one_process()
    intra_publish(trace, 100, 0)
    intra_receive(trace, 130, 0)
    tables = trace.tables()
    assert rows(
        tables["messages"], "topic", "publisher_node", "subscription_node", "intra_process",
        "publish_ns", "rmw_publish_ns", "take_ns", "callback_start_ns", "callback_end_ns",
        "latency_ns", "outcome", "match",
    ) == [
        ("/data", "/n", "/n", True, 100, None, 130, 131, 136, 31_000, "delivered", "exact"),
    ]  # fmt: skip
    assert rows(tables["takes"], "topic", "take_ns", "intra_process") == [("/data", 130, True)]


def test_a_cleared_buffer_drops_what_it_held() -> None:
    trace = one_process()
    intra_publish(trace, 100, 0)
    trace.emit(150, "rclcpp_ring_buffer_clear", buffer=BUFFER)
    intra_publish(trace, 200, 0)
    intra_receive(trace, 250, 0)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "take_ns", "outcome") == [
        (100, None, "overwritten"),
        (200, 250, "delivered"),
    ]
    assert findings(tables) == {"ring_buffer_cleared": 1}


def test_both_ways_at_once_are_one_row_per_subscription() -> None:
    """A subscription in another process makes rclcpp also publish through the middleware; the
    publisher's own subscription takes that copy too and drops it. The copy lies at another address.
    """
    trace = one_process()
    trace.node(10, NODE, "far", pid=2)
    trace.subscription(40, SUB, "/data", node=NODE, callback=CALLBACK, pid=2)
    intra_publish(trace, 100, 0)
    trace.publish(110, PUB, message=0x9999)
    intra_receive(trace, 130, 0)
    trace.take(150, SUB, stamp=at(112), tid=2)
    trace.receive(170, SUB, CALLBACK, stamp=at(112), pid=2)
    tables = trace.tables()
    assert tables["publications"].height == 1
    assert rows(
        tables["messages"].sort("subscription_id"), "message_id", "subscription_node",
        "intra_process", "publish_ns", "rmw_publish_ns", "take_ns", "outcome",
    ) == [
        (0, "/n", True, 100, 112, 130, "delivered"),
        (0, "/far", False, 100, 112, 170, "delivered"),
    ]  # fmt: skip


def test_a_log_line_after_an_intra_process_publication_is_its_own() -> None:
    trace = one_process()
    trace.publisher(25, 0x7FFF0010, "/rosout", node=NODE, rmw=0x900)
    intra_publish(trace, 100, 0)
    trace.publish_by_rcl(105, 0x7FFF0220, rmw=0x900)
    intra_receive(trace, 130, 0)
    publications = trace.tables()["publications"]
    assert rows(publications, "topic", "intra_publish_ns", "rcl_publish_ns") == [
        ("/data", 100, None),
        ("/rosout", None, 105),
    ]


# Messages without the events that give exact joins.


def test_humble_has_no_timestamp_so_the_nearest_publication_before_it_is_taken() -> None:
    """The stamp is 3 us after the rmw event; the second message is lost; the third stamp is 20 ms
    from any publication, so it is matched to none.
    """
    trace = talker_and_listener()
    for us in (100, 20_100, 40_100):
        trace.emit(us, "rclcpp_publish", message=0x9000)
        trace.emit(us + 1, "rcl_publish", publisher_handle=PUB, message=0x9000)
        trace.emit(us + 2, "rmw_publish", message=0x9000)
    trace.receive(150, SUB, CALLBACK, stamp=at(105), pid=2)
    trace.receive(40_150, SUB, CALLBACK, stamp=at(40_105), pid=2)
    trace.receive(70_150, SUB, CALLBACK, stamp=at(70_105), pid=2)
    tables = trace.tables()
    assert rows(tables["messages"], "publish_ns", "take_ns", "latency_ns", "match") == [
        (100, 150, 53_000, "approximate"),
        (20_100, None, None, None),
        (40_100, 40_150, 53_000, "approximate"),
    ]
    assert findings(tables) == {"takes_without_publication": 1, "approximate_matches": 2}


def test_an_old_and_a_new_distro_in_one_trace() -> None:
    """The talker in process 3 runs Humble, without timestamps; the one in process 1 does not."""
    trace = talker_and_listener()
    trace.node(10, NODE, "old_talker", pid=3)
    trace.publisher(20, PUB, "/data", node=NODE, pid=3)
    trace.publish(100, PUB)
    trace.emit(103, "rcl_publish", publisher_handle=PUB, message=0x9000, pid=3)
    trace.emit(104, "rmw_publish", message=0x9000, pid=3)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    trace.receive(170, SUB, CALLBACK, stamp=at(107), pid=2)
    assert rows(trace.tables()["messages"], "publisher_node", "publish_ns", "take_ns", "match") == [
        ("/talker", 100, 150, "exact"),
        ("/old_talker", 103, 170, "approximate"),
    ]


def test_publications_that_name_no_publisher_in_a_process_with_several() -> None:
    trace = only_callbacks()
    trace.publisher(26, 0x1300, "/other", node=NODE)
    trace.emit(100, "rclcpp_publish", message=0x9000)
    tables = trace.tables()
    assert rows(tables["messages"], "topic", "outcome") == [(None, "unknown")]
    assert findings(tables) == {"publisher_not_named": 1}


def only_callbacks() -> Trace:
    """Make what the leak recordings hold: rclcpp_publish, callbacks and names."""
    trace = talker_and_listener(sub_pid=1)
    trace.publisher(15, 0x1200, "/parameter_events", node=NODE)
    return trace


@pytest.mark.parametrize(
    ("begun", "joined"),
    [
        # The second callback starts after the third publication: the latency exceeds the period.
        ((110, 310, 320), (110, 310, 320)),
        # Only one assignment is possible.
        ((110, 310), (110, None, 310)),
        # Both start after the last of three publications: either could belong to any of them.
        ((310, 320), (None, None, None)),
    ],
)
def test_without_takes_callbacks_are_joined_in_order_where_that_says_whose_they_are(
    begun: tuple[int, ...], joined: tuple[int | None, ...]
) -> None:
    trace = only_callbacks()
    for us in (100, 200, 300):
        trace.emit(us, "rclcpp_publish", message=0x9000)
    for us in begun:
        trace.run(us, CALLBACK, tid=2)
    tables = trace.tables()
    columns = ("topic", "publisher_node", "publish_ns", "callback_start_ns", "outcome", "match")
    matched, unknown = ("delivered", "approximate"), ("unknown", None)
    assert rows(tables["messages"], *columns) == [
        ("/data", "/talker", us, start, *(matched if start else unknown))
        for us, start in zip((100, 200, 300), joined, strict=True)
    ]
    missing = joined.count(None)
    expected = {"approximate_matches": 3 - missing, "loss_not_known": missing}
    assert findings(tables) == {kind: count for kind, count in expected.items() if count}


def loaned() -> Trace:
    """Make /listener (process 2), which takes loaned messages, and /other, which takes copies.

    rmw traces loaned takes only from Lyrical on. A loaned publication has all three events, with
    the loan's address.
    """
    trace = talker_and_listener()
    trace.node(12, NODE, "other", pid=3)
    trace.subscription(40, SUB, "/data", node=NODE, callback=CALLBACK, pid=3)
    for us in (100, 200, 300):
        trace.publish(us, PUB, message=0x9000 + us)
        trace.receive(us + 20, SUB, CALLBACK, stamp=at(us + 2), pid=3)
    return trace


def test_loaned_messages_are_taken_without_an_event() -> None:
    """Only the callbacks of loaned messages are recorded: they are joined by order, whatever other
    subscriptions take.
    """
    trace = loaned()
    for us in (110, 210, 310):
        trace.run(us, CALLBACK, pid=2)
    tables = trace.tables()
    messages = tables["messages"].sort("publish_ns", "subscription_id")
    columns = ("subscription_node", "publish_ns", "take_ns", "callback_start_ns", "outcome")
    assert rows(messages, *columns, "match") == [
        row
        for us in (100, 200, 300)
        for row in (
            ("/listener", us, None, us + 10, "delivered", "approximate"),
            ("/other", us, us + 20, us + 23, "delivered", "exact"),
        )
    ]
    assert findings(tables) == {"takes_not_recorded": 1, "approximate_matches": 3}


def test_where_takes_have_no_event_nothing_is_called_lost() -> None:
    """Two callbacks start after the last of three publications: either could belong to any."""
    trace = loaned()
    for us in (310, 320):
        trace.run(us, CALLBACK, pid=2)
    tables = trace.tables()
    mine = tables["messages"].filter(pl.col("subscription_node") == "/listener")
    assert mine.select("outcome", "match").rows() == [("unknown", None)] * 3
    assert findings(tables) == {"takes_not_recorded": 1}


def test_serialized_messages() -> None:
    """A typed publisher's message has no rclcpp event, a generic one's has; takes have all three.

    If a publisher has both, nothing tells whether the rclcpp event was dropped.
    """
    trace = talker_and_listener()
    for us, generic in ((100, False), (200, True)):
        if generic:
            trace.emit(us - 1, "rclcpp_publish", message=0xB000)
        trace.publish_by_rcl(us, PUB, message=0xB000)
        trace.receive(us + 20, SUB, CALLBACK, stamp=at(us + 1), pid=2, message=0xC000)
    tables = trace.tables()
    assert rows(
        tables["messages"], "publish_ns", "rcl_publish_ns", "rmw_publish_ns", "take_ns",
        "callback_start_ns", "outcome", "match",
    ) == [
        (100, 100, 101, 120, 123, "delivered", "approximate"),
        (199, 200, 201, 220, 223, "delivered", "exact"),
    ]  # fmt: skip
    assert findings(tables) == {"approximate_matches": 1}


def test_a_message_of_an_unknown_publisher_is_not_taken_for_one_of_its_history() -> None:
    """Tracing began after /talker was made; only a message older than /listener is a replay."""
    trace = talker_and_listener()
    trace.rows = [(name, row) for name, row in trace.rows if row["vpid"] == 2]
    trace.publish(5, PUB)
    trace.publish(100, PUB)
    for us, stamp in ((50, 7), (150, 102)):
        trace.receive(us, SUB, CALLBACK, stamp=at(stamp), pid=2)
    messages = trace.tables()["messages"]
    columns = ("topic", "subscription_node", "publish_ns", "take_ns", "outcome", "match")
    assert rows(messages, *columns) == [
        ("/data", "/listener", 5, 50, "replayed", "approximate"),
        ("/data", "/listener", 100, 150, "delivered", "approximate"),
    ]


def test_tracing_that_began_late_keeps_rows_without_names() -> None:
    """Without init events, messages are joined by the timestamp alone, and the match says so."""
    trace = Trace()
    trace.publish(100, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    trace.publish(200, PUB)
    tables = trace.tables()
    assert rows(
        tables["messages"], "topic", "publisher_id", "subscription_id", "publish_ns", "take_ns",
        "latency_ns", "outcome", "match",
    ) == [
        (None, None, None, 100, 150, 53_000, "delivered", "approximate"),
        (None, None, None, 200, None, None, "unknown", None),
    ]  # fmt: skip
    assert findings(tables) == {"approximate_matches": 1, "events_before_init": 4}


def test_rclpy_messages_are_joined_by_their_order_on_the_thread() -> None:
    """rclpy's rclcpp_publish holds a Python object's id, which differs from rcl's address."""
    trace = talker_and_listener()
    for us, pointer in ((100, 0xAAA0), (200, 0xBBB0)):
        trace.emit(us, "rclcpp_publish", message=0x55555)
        trace.publish_by_rcl(us + 10, PUB, message=pointer)
        trace.receive(us + 50, SUB, CALLBACK, stamp=at(us + 11), pid=2)
    messages = trace.tables()["messages"]
    assert rows(messages, "publish_ns", "rcl_publish_ns", "latency_ns", "outcome") == [
        (100, 110, 53_000, "delivered"),
        (200, 210, 53_000, "delivered"),
    ]
