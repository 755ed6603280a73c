"""Test each reason for which a message has its outcome.

Each trace follows a rule in docs/model.md, and the expected outcome of one message was worked out
by hand; `Trace.tables` checks it against the reference model. Unless a case says otherwise, /talker
of process 1 publishes /data at 1000, 2000, ... us, and /listener of process 2, which keeps 10
messages, takes the messages it gets 50 us later.
"""

from collections.abc import Callable
from typing import Any

import pytest
from ros2_trace import Trace, at
from test_messages import (
    CALLBACK,
    NODE,
    PUB,
    SUB,
    intra_publish,
    intra_receive,
    one_process,
    only_callbacks,
    talker_and_listener,
)

from roslens.collectors import _native

OTHER = 0x1200
SECOND = 1_000_000

Said = tuple[str, str, str | None]
"""Outcome, reason and match."""


def said(rows: list[dict[str, Any]], us: float | None) -> set[Said]:
    """Return what is said of the message published at `us`, or (None) of those not published."""
    published = None if us is None else at(us)
    return {
        (row["outcome"], row["reason"], row["match"])
        for row in rows
        if row["publish_ns"] == published
    }


def spoken(published: int, *taken: int, depth: int = 10, host: str = "h0") -> Trace:
    """Publish at 1000, ..., `published` us, and take the messages of `taken` 50 us later."""
    trace = talker_and_listener(depth=depth, host=host)
    trace.take(500, SUB, stamp=0, taken=0, pid=2, host=host)
    for us in range(1000, published + 1, 1000):
        trace.publish(us, PUB)
        if us in taken:
            trace.receive(us + 50, SUB, CALLBACK, stamp=at(us + 2), pid=2, host=host)
    return trace


def disordered(trace: Trace, begin: float, end: float, **where: Any) -> Trace:
    """Emit a callback's end without a start on a separate thread: an event between is missing."""
    trace.run(begin - 5, 0x77, lasts=5, tid=99, **where)
    trace.emit(end, "callback_end", callback=0x77, tid=99, **where)
    return trace


def in_a_file_of(trace: Trace, pid: int, begin: float, end: float) -> Trace:
    """Drop events of one process, as the native tracer does."""
    trace.lose(begin, end, 3, stream=f"ros2_{pid}_5f_0", cpu_id=None)
    return trace


def until(trace: Trace, us: float, *, lasts: float = 5) -> Trace:
    """Let the listener begin something else at `us`."""
    trace.run(us, 0x77, lasts=lasts, pid=2)
    return trace


def taken_by_the_middleware(trace: Trace, us: float) -> Trace:
    """Let a thread of the listener's middleware take something, which rcl does not see."""
    handle = {"rmw_subscription_handle": 0x99, "message": 0x98, "source_timestamp": 0, "taken": 1}
    trace.emit(us, "rmw_take", tid=99, pid=2, **handle)
    return trace


def remade(trace: Trace, us: float) -> Trace:
    """Give the address of the listener's subscription to another subscription."""
    trace.subscription(us, SUB, "/other", node=NODE + 8, callback=0x1300, pid=2)
    return until(trace, SECOND)


# Joined.


def shared(*taken: int) -> Trace:
    """Make two publications with the same timestamp."""
    trace = spoken(0)
    trace.publisher(25, OTHER, "/data", node=NODE)
    for us, publisher in ((1000, PUB), (1010, OTHER)):
        trace.publish(us, publisher, stamp=at(1020), tid=publisher)
    for us in taken:
        trace.receive(us, SUB, CALLBACK, stamp=at(1020), pid=2)
    return until(trace, 3 * SECOND)


def publish_as_in_humble(trace: Trace, us: float) -> None:
    trace.emit(us, "rclcpp_publish", message=0x9000)
    trace.emit(us + 1, "rcl_publish", publisher_handle=PUB, message=0x9000)
    trace.emit(us + 2, "rmw_publish", message=0x9000)


def humble(*taken: int) -> Trace:
    """Publish four messages 20 ms apart without timestamps; stamp taken ones 3 us after rmw."""
    trace = talker_and_listener()
    for ms in (20, 40, 60, 80):
        publish_as_in_humble(trace, 1000 * ms)
        if ms in taken:
            trace.receive(1000 * ms + 50, SUB, CALLBACK, stamp=at(1000 * ms + 5), pid=2)
    return trace


def without_init() -> Trace:
    trace = Trace()
    trace.publish(1000, PUB)
    trace.receive(1050, SUB, CALLBACK, stamp=at(1002), pid=2)
    return trace


def rclcpp_event_missing() -> Trace:
    trace = spoken(2000, 1000, 2000)
    trace.rows.remove(next(r for r in trace.rows if r[0] == "rclcpp_publish"))
    return trace


def callbacks_alone(*begun: int) -> Trace:
    trace = only_callbacks()
    for us in (1000, 2000):
        trace.emit(us, "rclcpp_publish", message=0x9000)
    for us in begun:
        trace.run(us, CALLBACK, tid=2)
    return trace


# Replayed, and who listens.


def late_joiner(*taken: int) -> Trace:
    """Let a subscription that is made afterwards take the message."""
    trace = spoken(1000, *taken)
    trace.subscription(1500, 0x1300, "/data", node=NODE + 8, callback=0x1400, pid=2)
    trace.receive(1600, 0x1300, 0x1400, stamp=at(1002), pid=2)
    return trace


def replayed(*, history: bool = True, declared: bool = True) -> Trace:
    """Put a message nobody published into a new subscription's ring buffer, and take it."""
    trace = one_process()
    if history:
        trace.emit(21, "rclcpp_construct_ring_buffer", buffer=0x700, capacity=1)
        trace.emit(22, "rclcpp_buffer_to_ipb", buffer=0x700, ipb=0x702)
    if declared:
        trace.declared.add("rclcpp_intra_publish")
    trace.subscription(1000, 0x1300, "/data", node=NODE, callback=0x1400)
    trace.ring_buffer(1010, 0x1500, subscription=0x1300, callback=0x1600)
    trace.emit(1020, "rclcpp_ring_buffer_enqueue", buffer=0x1500, index=0, size=1, overwritten=0)
    trace.emit(1030, "rclcpp_ring_buffer_dequeue", buffer=0x1500, index=0, size=0, tid=2)
    trace.run(1031, 0x1600, intra=1, tid=2)
    return trace


def lost_before(trace: Trace, begin: float, end: float, host: str = "h0") -> Trace:
    trace.lose(begin, end, 3, host=host)
    return trace


def after_an_ordinary_one() -> Trace:
    """Let a message of unknown origin follow a published one that the subscription took."""
    trace = replayed()
    trace.rows = [row for row in trace.rows if row[1]["time_ns"] < at(1020)]
    trace.emit(1100, "rclcpp_intra_publish", publisher_handle=PUB, message=0x9000)
    for us, index, tid in ((1101, 0, 1), (1200, 1, 3)):
        where = {"buffer": 0x1500, "index": index, "size": 1}
        trace.emit(us, "rclcpp_ring_buffer_enqueue", overwritten=0, tid=tid, **where)
        trace.emit(us + 5, "rclcpp_ring_buffer_dequeue", tid=2, **where)
    return trace


def unheard(*, gap: bool = False) -> Trace:
    """Publish on a topic without subscription."""
    trace = spoken(0)
    trace.publisher(25, OTHER, "/nobody", node=NODE)
    trace.publish(1000, OTHER)
    return lost_before(trace, 5, 10) if gap else trace


# In ring buffers.


def full_buffer() -> Trace:
    """Fill two places: the message of 3000 takes that of 1000; 2000 and 3000 stay inside."""
    trace = one_process()
    for us, index, overwritten in ((1000, 0, 0), (2000, 1, 0), (3000, 0, 1)):
        intra_publish(trace, us, index, overwritten=overwritten)
    return trace


def cleared_buffer() -> Trace:
    trace = one_process()
    intra_publish(trace, 1000, 0)
    trace.emit(1500, "rclcpp_ring_buffer_clear", buffer=0x500)
    return trace


def through_a_buffer() -> Trace:
    trace = one_process()
    intra_publish(trace, 1000, 0)
    intra_receive(trace, 1050, 0)
    return trace


def left_out() -> Trace:
    """Skip the second of three places, so that nobody knows whose message the third one has."""
    trace = one_process(capacity=3)
    intra_publish(trace, 1000, 0)
    intra_publish(trace, 2000, 2)
    return trace


def unknown_buffer() -> Trace:
    """Remove the init events of one buffer: its subscription may be the known one."""
    trace = one_process()
    trace.rows = [row for row in trace.rows if "buffer" not in row[1] and "ipb" not in row[1]]
    intra_publish(trace, 1000, 0)
    intra_receive(trace, 1050, 0)
    return trace


# Never taken.


def two_publishers_of_a_topic() -> Trace:
    """Record only the rclcpp event of a publication, which may be either publisher's."""
    trace = spoken(0)
    trace.publisher(25, OTHER, "/data", node=NODE)
    trace.emit(1000, "rclcpp_publish", message=0x9000)
    return until(trace, 3 * SECOND)


def strayed(us: float) -> Trace:
    """Also take a message that, as far as is known, nobody published."""
    trace = humble(20, 60)
    trace.take(us, SUB, stamp=at(15_000), pid=2)
    return trace


def followed(us: float) -> Trace:
    """Publish another message 20 us after 40 ms; the take at `us` may be of the one of 40 ms."""
    trace = humble(20, 60)
    publish_as_in_humble(trace, 40_020)
    trace.receive(41_000, SUB, CALLBACK, stamp=at(40_030), pid=2)
    trace.take(us, SUB, stamp=at(40_040), pid=2)
    return trace


def pushed_out(*, next_ms: float, depth: int = 3, host: str = "h0") -> Trace:
    """Take 1000, skip 2000, and take the next, 3000, at `next_ms`, before or after 5000."""
    trace = talker_and_listener(depth=depth, host=host)
    for us in (1000, 2000, 3000, 4000, 5000):
        trace.publish(us, PUB)
    trace.receive(1050, SUB, CALLBACK, stamp=at(1002), pid=2, host=host)
    trace.receive(1000 * next_ms, SUB, CALLBACK, stamp=at(3002), pid=2, host=host)
    return trace


def pushed_out_by_another(*, host: str = "h0", again: bool = True) -> Trace:
    """Publish 2000 and, from another node, 3000 on one topic; the history holds one message.

    The message of 3000 waits longest, 1000 us; the first publisher's next one comes after 3000 us,
    if it publishes `again`.
    """
    trace = talker_and_listener(depth=1)
    trace.node(10, NODE + 16, "other", pid=3, host=host)
    trace.publisher(25, OTHER, "/data", node=NODE + 16, pid=3, host=host)
    for us in (500, 2000, 5000)[: 2 + again]:
        trace.publish(us, PUB)
    trace.publish(3000, OTHER, pid=3, host=host)
    for us, taken in ((500, 600), (3000, 4000), (5000, 5050))[: 2 + again]:
        trace.receive(taken, SUB, CALLBACK, stamp=at(us + 2), pid=2)
    return trace


def two_hosts(*published: float, taken: float, way: float = 50, back: bool = True) -> Trace:
    """Publish from h0 to h1, whose node takes the message of `taken` after `way` us.

    If h1 sends one `back` as well, which takes as long, their clocks are known to `way` us. The
    subscription is made at 30 us.
    """
    trace = talker_and_listener(host="h1")
    for us in published:
        trace.publish(us, PUB)
    if back:
        trace.publisher(40, OTHER, "/back", node=NODE + 8, pid=2, host="h1")
        trace.subscription(40, SUB + 8, "/back", node=NODE, callback=CALLBACK + 8)
        trace.publish(taken + 100, OTHER, pid=2, host="h1")
        trace.receive(taken + 100 + way, SUB + 8, CALLBACK + 8, stamp=at(taken + 102))
    trace.receive(taken + way, SUB, CALLBACK, stamp=at(taken + 2), pid=2, host="h1")
    return trace


GAP = ("unknown", "gap", None)
OVERTAKEN = ("lost", "overtaken", None)
UNTOLD = ("unknown", "publication_not_recorded", None)

CASES: list[tuple[Callable[[], Trace], float | None, set[Said]]] = [
    (lambda: spoken(1000, 1000), 1000, {("delivered", "same_timestamp", "exact")}),
    (through_a_buffer, 1000, {("delivered", "ring_buffer", "exact")}),
    (lambda: shared(1100, 1200), 1010, {("delivered", "shared_timestamp", "ambiguous")}),
    (lambda: humble(20), 20_000, {("delivered", "nearest_timestamp", "approximate")}),
    (without_init, 1000, {("delivered", "timestamp_alone", "approximate")}),
    (lambda: callbacks_alone(1010, 2010), 1000, {("delivered", "in_order", "approximate")}),
    (rclcpp_event_missing, 1001, {("delivered", "first_event_missing", "approximate")}),
    # Disorder in the receiver's process, in the publisher's, in another; before it, up to its
    # begin.
    *(
        (lambda p=pid, b=begin, e=end: disordered(spoken(1000, 1000), b, e, pid=p), 1000, {row})
        for joined in [("delivered", "order_broken", "approximate")]
        for exact in [("delivered", "same_timestamp", "exact")]
        for pid, begin, end, row in (
            (2, 1010, 1020, joined),
            (1, 1010, 1020, joined),
            (3, 1010, 1020, exact),
            (2, 900, 999, exact),
            (2, 900, 1000, joined),
            (2, 1050, 1100, joined),
            (2, 1051, 1100, exact),
        )
    ),
    (
        lambda: late_joiner(1000), 1000,
        {
            ("delivered", "same_timestamp", "exact"),
            ("replayed", "published_before_subscription", "exact"),
        },
    ),
    (
        late_joiner, 1000,
        {
            ("unknown", "recording_ended", None),
            ("replayed", "published_before_subscription", "exact"),
        },
    ),
    (replayed, None, {("replayed", "late_joiner", None)}),
    (lambda: replayed(history=False), None, {UNTOLD}),
    (lambda: replayed(declared=False), None, {UNTOLD}),
    (lambda: lost_before(replayed(), 500, 600), None, {UNTOLD}),
    (lambda: lost_before(replayed(), 1030, 1040), None, {("replayed", "late_joiner", None)}),
    (lambda: disordered(replayed(), 500, 600), None, {UNTOLD}),
    (after_an_ordinary_one, None, {UNTOLD}),
    (left_out, None, {UNTOLD}),
    # A declared loss is not a broken order: the publication of its thread goes on.
    (lambda: lost_before(left_out(), 1500, 1600), 2000, {("unknown", "still_in_buffer", None)}),
    # Between hosts, the subscription of 30 us may be older than its time says, as far as known.
    *(
        (lambda t=taken, w=way, b=back: two_hosts(25, 1000, taken=t, way=w, back=b), 25, {row})
        for taken, way, back, row in (
            (25, 50, False, ("delivered", "same_timestamp", "exact")),
            (1000, 50, False, ("not_matched", "before_first_take", None)),
            (25, 50, True, ("delivered", "same_timestamp", "exact")),
            (1000, 50, True, ("not_matched", "before_first_take", None)),
            (1000, 4, True, ("no_subscriber", "no_subscription", None)),
        )
    ),
    (unheard, 1000, {("no_subscriber", "no_subscription", None)}),
    (lambda: unheard(gap=True), 1000, {("unknown", "subscription_unknown", None)}),
    # A host may have lost all of its events, and with them a subscription.
    (
        lambda: lost_before(unheard(), 5, 10, "h1"),
        1000,
        {("unknown", "subscription_unknown", None)},
    ),
    (full_buffer, 1000, {("overwritten", "place_overwritten", "exact")}),
    (full_buffer, 2000, {("unknown", "still_in_buffer", None)}),
    (lambda: lost_before(full_buffer(), 1500, 1600), 1000, {("unknown", "still_in_buffer", None)}),
    (lambda: disordered(full_buffer(), 1500, 1600), 1000, {("unknown", "still_in_buffer", None)}),
    (cleared_buffer, 1000, {("overwritten", "buffer_cleared", "exact")}),
    (
        unknown_buffer, 1000,
        {("delivered", "callback_unknown", "approximate"), ("unknown", "still_in_buffer", None)},
    ),
    # Rule 1.
    (lambda: callbacks_alone(2010, 2020, 2030), 1000, {("unknown", "takes_not_recorded", None)}),
    (callbacks_alone, 1000, {("unknown", "takes_not_recorded", None)}),
    (two_publishers_of_a_topic, 1000, {("unknown", "publisher_unknown", None)}),
    (lambda: shared(1100), 1010, {("unknown", "shared_timestamp", None)}),
    # Rule 2.
    (lambda: humble(20, 60), 40_000, {OVERTAKEN}),
    (lambda: humble(60), 40_000, {("unknown", "no_timestamp", None)}),
    (lambda: humble(20), 40_000, {("unknown", "no_timestamp", None)}),
    (lambda: strayed(39_000), 40_000, {OVERTAKEN}),
    (lambda: strayed(50_000), 40_000, {("unknown", "no_timestamp", None)}),
    (lambda: strayed(70_000), 40_000, {OVERTAKEN}),
    (lambda: followed(40_500), 40_000, {("unknown", "no_timestamp", None)}),
    (lambda: followed(55_000), 40_000, {OVERTAKEN}),
    (lambda: followed(40_500), 40_020, {("delivered", "nearest_timestamp", "approximate")}),
    (lambda: followed(55_000), 40_020, {("delivered", "nearest_timestamp", "approximate")}),
    # Rule 3: from the publication at 2000 to the take at 3050, both included.
    *(
        (lambda b=begin, e=end: lost_before(spoken(3000, 1000, 3000), b, e), 2000, {row})
        for begin, end, row in (
            (1100, 1999, OVERTAKEN),
            (1100, 2000, GAP),
            (2500, 2600, GAP),
            (3050, 4000, GAP),
            (3051, 4000, OVERTAKEN),
        )
    ),
    (lambda: lost_before(humble(20, 60), 41_000, 42_000), 40_000, {GAP}),
    (lambda: in_a_file_of(spoken(3000, 1000, 3000), 2, 2500, 2600), 2000, {GAP}),
    (lambda: in_a_file_of(spoken(3000, 1000, 3000), 1, 2500, 2600), 2000, {OVERTAKEN}),
    (lambda: lost_before(spoken(3000, 1000, 3000, host="h1"), 2500, 2600), 2000, {OVERTAKEN}),
    (lambda: lost_before(spoken(3000, 1000, 3000), 2500, 2600, "h1"), 2000, {OVERTAKEN}),
    (lambda: lost_before(until(spoken(2000, 1000), SECOND), 9000, 9100), 2000, {GAP}),
    *(
        (lambda p=pid: disordered(spoken(3000, 1000, 3000), 2500, 2600, pid=p), 2000, {row})
        for pid, row in ((2, ("unknown", "order_broken", None)), (1, OVERTAKEN))
    ),
    (
        lambda: lost_before(disordered(spoken(3000, 1000, 3000), 2500, 2600, pid=2), 2700, 2800),
        2000,
        {GAP},
    ),
    # Rule 4: the message that was taken waited 50 us.
    (lambda: until(spoken(2000, 1000), 2049), 2000, {("unknown", "recording_ended", None)}),
    (lambda: until(spoken(2000, 1000), 2050), 2000, {("lost", "receiver_seen", None)}),
    (lambda: until(spoken(1000), SECOND), 1000, {("unknown", "recording_ended", None)}),
    (lambda: remade(spoken(2000, 1000), 2049), 2000, {("unknown", "recording_ended", None)}),
    (lambda: remade(spoken(2000, 1000), 2050), 2000, {("lost", "receiver_seen", None)}),
    # A thread that is in a callback until then takes nothing.
    (
        lambda: until(spoken(2000, 1000), 1990, lasts=100),
        2000,
        {("unknown", "recording_ended", None)},
    ),
    # Nor does it take anything after its executor ended, while the middleware takes for itself.
    (
        lambda: taken_by_the_middleware(until(spoken(2000, 1000), 1990), 2060),
        2000,
        {("unknown", "recording_ended", None)},
    ),
    # The last event on another host shows how long that host was recorded.
    (
        lambda: two_hosts(1000, 3 * SECOND, 4 * SECOND, 5 * SECOND, taken=1000),
        5 * SECOND,
        {("unknown", "recording_ended", None)},
    ),
    # Rule 5.
    (lambda: spoken(2000, 2000), 1000, {("not_matched", "before_first_take", None)}),
    (lambda: until(spoken(1000), 2 * SECOND), 1000, {("not_matched", "never_taken", None)}),
    # Rule 6.
    (lambda: pushed_out(next_ms=5.1), 2000, {("replaced", "pushed_out", None)}),
    (lambda: pushed_out(next_ms=4.9), 2000, {OVERTAKEN}),
    (lambda: pushed_out(next_ms=5.1, depth=4), 2000, {OVERTAKEN}),
    # The history is the subscription's: another publisher of its host fills it, too.
    (pushed_out_by_another, 2000, {("replaced", "pushed_out", None)}),
    (lambda: pushed_out_by_another(again=False), 2000, {("replaced", "pushed_out", None)}),
    (lambda: pushed_out_by_another(host="h1"), 2000, {OVERTAKEN}),
    (lambda: pushed_out(next_ms=5.1, host="h1"), 2000, {OVERTAKEN}),
    # With depth 1 only messages within 50 us of it, or within the 2100 us that 3000 waited, count.
    (lambda: spoken(3000, 1000, 3000, depth=1), 2000, {OVERTAKEN}),
    (lambda: pushed_out(next_ms=5.1, depth=1), 2000, {("replaced", "pushed_out", None)}),
    # Rule 7.
    (lambda: pushed_out(next_ms=5.1, depth=0), 2000, {("unknown", "depth_unknown", None)}),
    (lambda: pushed_out(next_ms=5.1, depth=0, host="h1"), 2000, {OVERTAKEN}),
    (lambda: until(spoken(2000, 1000, depth=0), 2050), 2000, {("lost", "receiver_seen", None)}),
    # Rule 8.
    (lambda: spoken(3000, 1000, 3000), 2000, {OVERTAKEN}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "us", "expected"),
    CASES,
    ids=[f"{n}-{'-'.join(sorted(reason for _, reason, _ in c[2]))}" for n, c in enumerate(CASES)],
)
def test_each_reason(make: Callable[[], Trace], us: float | None, expected: set[Said]) -> None:
    assert said(make().tables()["messages"].to_dicts(), us) == expected


def test_every_reason_has_a_case() -> None:
    named = {reason for _, _, expected in CASES for _, reason, _ in expected}
    assert named == {reason for reason, _ in _native.model_reasons()}
