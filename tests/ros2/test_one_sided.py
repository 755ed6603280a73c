"""Test recordings of the receiver alone; expected rows by hand, times in microseconds."""

from ros2_trace import Trace, at, findings, rows

from roslens.collectors.ros2 import build_tables

COLUMNS = (
    "topic", "subscription_node", "publisher_recorded", "source_timestamp_ns", "take_ns",
    "callback_start_ns", "latency_ns", "outcome",
)  # fmt: skip


def listener() -> Trace:
    trace = Trace()
    trace.node(10, 0x100, "listener")
    trace.subscription(20, 0x200, "/data", node=0x100, callback=0x290)
    return trace


def test_latency_from_the_source_timestamp() -> None:
    """Sent at 100, callback at 133; the message sent at 5 is older than the subscription."""
    trace = listener()
    trace.receive(40, 0x200, 0x290, stamp=at(5))
    trace.receive(130, 0x200, 0x290, stamp=at(100))
    trace.take(230, 0x200, stamp=at(200))
    tables = build_tables(trace.frames(), synchronisation="ptp")
    assert rows(tables["one_sided_messages"], *COLUMNS) == [
        ("/data", "/listener", False, 5, 40, 43, None, "replayed"),
        ("/data", "/listener", False, 100, 130, 133, 33_000, "delivered"),
        ("/data", "/listener", False, 200, 230, None, None, "taken"),
    ]
    assert tables["one_sided_messages"]["clock_offset_ns"].to_list() == [None] * 3
    assert tables["one_sided_messages"]["synchronisation"].to_list() == ["ptp"] * 3
    assert tables["messages"].is_empty()
    assert findings(tables) == {"takes_without_publication": 3}


def test_the_system_clock_went_on_otherwise_than_the_events() -> None:
    """The host's own publications are stamped 7 ms late, so its clock is ahead by 7 ms.

    The sender has the same clock: the message takes 50 us from sending to the callback.
    """
    trace = listener()
    trace.publisher(30, 0x300, "/other", node=0x100)
    trace.publish(100, 0x300, stamp=at(102 + 7000))
    trace.receive(147, 0x200, 0x290, stamp=at(100 + 7000))
    tables = trace.tables()
    one_sided = tables["one_sided_messages"]
    assert one_sided.select("clock_offset_ns", "latency_ns").rows() == [(7_000_000, 50_000)]
    assert tables["messages"]["outcome"].to_list() == ["no_subscriber"]


def test_a_publication_that_was_dropped_is_told_from_a_sender_that_is_not_traced() -> None:
    trace = listener()
    trace.node(11, 0x100, "talker", pid=2)
    trace.publisher(30, 0x300, "/data", node=0x100, pid=2)
    trace.publish(100, 0x300, pid=2)
    trace.receive(110, 0x200, 0x290, stamp=at(102))
    trace.receive(210, 0x200, 0x290, stamp=at(202))
    tables = trace.tables()
    assert rows(tables["one_sided_messages"], "take_ns", "publisher_recorded") == [(210, True)]
    assert rows(tables["messages"], "take_ns", "outcome") == [(110, "delivered")]
