"""Test cases of several objects at once, with known answers.

The expected rows are worked out by hand from the events above them, after docs/tables.md; times are
microseconds.
"""

from __future__ import annotations

from ros2_trace import Trace, at, findings, rows
from test_actions import CANCEL, FEEDBACK, GOAL, RESULT, STATUS, action, call, tell

MESSAGES = (
    "topic", "publisher_node", "subscription_node", "intra_process", "publish_ns", "take_ns",
    "callback_start_ns", "callback_end_ns", "outcome", "match",
)  # fmt: skip
INSTANCES = ("name", "node", "vpid", "vtid", "start_ns", "end_ns")


def test_two_hosts() -> None:
    """All addresses of the processes are equal on both hosts."""
    trace = Trace()
    trace.node(10, 0x100, "here")
    trace.publisher(20, 0x200, "/data", node=0x100)
    trace.subscription(30, 0x300, "/echo", node=0x100, callback=0x390)
    trace.node(11, 0x100, "there", host="h1")
    trace.publisher(21, 0x200, "/echo", node=0x100, host="h1")
    trace.subscription(31, 0x300, "/data", node=0x100, callback=0x390, host="h1")
    trace.publish(100, 0x200)
    trace.take(150, 0x300, stamp=at(102), host="h1")
    trace.run(153, 0x390, lasts=20, host="h1")
    trace.publish(160, 0x200, host="h1")
    trace.receive(200, 0x300, 0x390, stamp=at(162))
    tables = trace.tables()
    assert rows(
        tables["messages"], "topic", "publisher_host", "subscription_host", "publisher_vpid",
        "subscription_vpid", "publish_ns", "callback_start_ns", "outcome",
    ) == [
        ("/data", "h0", "h1", 1, 1, 100, 153, "delivered"),
        ("/echo", "h1", "h0", 1, 1, 160, 203, "delivered"),
    ]  # fmt: skip
    assert rows(tables["nodes"], "host", "vpid", "node") == [
        ("h0", 1, "/here"),
        ("h1", 1, "/there"),
    ]
    assert rows(tables["callback_instances"], "host", "name", "node", "start_ns", "end_ns") == [
        ("h1", "/data", "/there", 153, 173),
        ("h0", "/echo", "/here", 203, 208),
    ]
    # The clocks are indistinguishable, so health reports what the messages allow.
    assert findings(tables) == {"clocks_bounded": 2}


def test_late_joiners() -> None:
    """/map is transient local: it comes again to a subscription of another process, and to one
    of the same process through its ring buffer, for which there is no publication. For the latter,
    rclcpp keeps published messages in a buffer of the publisher.
    """
    trace = Trace()
    trace.node(10, 0x100, "server")
    trace.publisher(20, 0x200, "/map", node=0x100)
    trace.emit(21, "rclcpp_construct_ring_buffer", buffer=0x600, capacity=1)
    trace.emit(22, "rclcpp_buffer_to_ipb", buffer=0x600, ipb=0x602)
    trace.emit(98, "rclcpp_intra_publish", publisher_handle=0x200, message=0x9000)
    trace.emit(99, "rclcpp_ring_buffer_enqueue", buffer=0x600, index=0, size=1, overwritten=0)
    trace.publish(100, 0x200)
    trace.node(200, 0x100, "viewer", pid=2)
    trace.subscription(210, 0x300, "/map", node=0x100, callback=0x390, pid=2)
    trace.receive(250, 0x300, 0x390, stamp=at(102), pid=2)
    trace.subscription(300, 0x400, "/map", node=0x100, callback=0x490)
    trace.ring_buffer(310, 0x700, subscription=0x400, callback=0x590)
    trace.emit(320, "rclcpp_ring_buffer_enqueue", buffer=0x700, index=0, size=1, overwritten=0)
    trace.emit(330, "rclcpp_ring_buffer_dequeue", buffer=0x700, index=0, size=0)
    trace.run(331, 0x590, intra=1)
    tables = trace.tables()
    assert rows(tables["messages"], *MESSAGES) == [
        ("/map", "/server", "/viewer", False, 98, 250, 253, 258, "replayed", "exact"),
        ("/map", None, "/server", True, None, 330, 331, 336, "replayed", None),
    ]
    owners = ("buffer", "publisher_id", "subscription_id", "capacity")
    assert tables["ring_buffers"].select(owners).rows() == [
        (0x600, 0, None, 1),
        (0x700, None, 1, 2),
    ]
    assert findings(tables) == {}


def test_a_spin_inside_of_a_callback() -> None:
    """The callback of /outer waits for work and runs that of /inner; each publishes once."""
    trace = Trace()
    trace.node(10, 0x100, "node")
    trace.publisher(20, 0x200, "/from_inner", node=0x100)
    trace.publisher(22, 0x210, "/from_outer", node=0x100)
    trace.subscription(30, 0x300, "/outer", node=0x100, callback=0x390)
    trace.subscription(40, 0x400, "/inner", node=0x100, callback=0x490)
    trace.node(11, 0x100, "source", pid=2)
    trace.publisher(21, 0x200, "/outer", node=0x100, pid=2)
    trace.publisher(23, 0x210, "/inner", node=0x100, pid=2)
    trace.publish(80, 0x200, pid=2)
    trace.publish(90, 0x210, pid=2)
    trace.emit(95, "rclcpp_executor_wait_for_work", timeout=-1)
    trace.emit(98, "rclcpp_executor_get_next_ready")
    trace.emit(99, "rclcpp_executor_execute", handle=0x300)
    trace.take(100, 0x300, stamp=at(82))
    trace.run(103, 0x390, lasts=77)
    trace.emit(110, "rclcpp_executor_wait_for_work", timeout=1_000)
    trace.emit(120, "rclcpp_executor_get_next_ready")
    trace.emit(121, "rclcpp_executor_execute", handle=0x400)
    trace.take(122, 0x400, stamp=at(92))
    trace.run(130, 0x490, lasts=20)
    trace.publish(140, 0x200)
    trace.publish(170, 0x210)
    tables = trace.tables()
    assert rows(tables["callback_instances"], *INSTANCES) == [
        ("/outer", "/node", 1, 1, 103, 180),
        ("/inner", "/node", 1, 1, 130, 150),
    ]
    assert rows(tables["publications"], "topic", "publish_ns", "callback_instance_id") == [
        ("/outer", 80, None),
        ("/inner", 90, None),
        ("/from_inner", 140, 1),
        ("/from_outer", 170, 0),
    ]
    assert rows(tables["messages"], *MESSAGES)[:2] == [
        ("/outer", "/source", "/node", False, 80, 100, 103, 180, "delivered", "exact"),
        ("/inner", "/source", "/node", False, 90, 122, 130, 150, "delivered", "exact"),
    ]
    assert rows(tables["executor_intervals"], "state", "begin_ns", "end_ns", "executed") == [
        ("wait", 95, 98, 0),
        ("busy", 98, 110, 1),
        ("wait", 110, 120, 0),
        ("busy", 120, None, None),
    ]
    assert findings(tables) == {}


def test_packets_lost_on_the_network() -> None:
    """Of two subscribers, the second message reaches only one, and the third reaches none."""
    trace = Trace()
    trace.node(10, 0x100, "talker")
    trace.publisher(20, 0x200, "/data", node=0x100)
    for pid in (2, 3):
        trace.node(10 + pid, 0x100, f"ear{pid}", pid=pid)
        trace.subscription(30 + pid, 0x300, "/data", node=0x100, callback=0x390, pid=pid)
    for us in (100, 200, 300, 400):
        trace.publish(us, 0x200)
    for us, stamp, pid in (
        (120, 102, 2),
        (130, 102, 3),
        (220, 202, 3),
        (420, 402, 2),
        (430, 402, 3),
    ):
        trace.receive(us, 0x300, 0x390, stamp=at(stamp), pid=pid)
    # An executor was woken for nothing: rcl and rclcpp report a take, but nothing was taken.
    trace.take(320, 0x300, stamp=0, taken=0, pid=2)
    tables = trace.tables()
    messages = tables["messages"].sort("publish_ns", "subscription_node")
    assert rows(messages, "subscription_node", "publish_ns", "take_ns", "outcome") == [
        ("/ear2", 100, 120, "delivered"),
        ("/ear3", 100, 130, "delivered"),
        ("/ear2", 200, None, "lost"),
        ("/ear3", 200, 220, "delivered"),
        ("/ear2", 300, None, "lost"),
        ("/ear3", 300, None, "lost"),
        ("/ear2", 400, 420, "delivered"),
        ("/ear3", 400, 430, "delivered"),
    ]
    assert findings(tables) == {}


def test_a_service_with_two_servers() -> None:
    """Both servers take and answer request 1; only one takes request 2, and never answers it."""
    trace = Trace()
    gid = [1, 15, *range(14)]
    trace.node(10, 0x100, "client")
    trace.client(16, 0x200, "/add", node=0x100, gid=gid)
    for pid in (2, 3):
        trace.node(20 + pid, 0x100, f"server{pid}", pid=pid)
        trace.service(30 + 3 * pid, 0x300, "/add", node=0x100, callback=0x390, pid=pid)
    for us, number in ((100, 1), (200, 2)):
        trace.send_request(us, 0x200, number)
    for us, number, pid in ((110, 1, 2), (112, 1, 3), (210, 2, 3)):
        trace.take_request(us, 0x300, number, gid=gid, pid=pid)
    trace.run(113, 0x390, lasts=10, pid=2)
    trace.run(114, 0x390, lasts=20, pid=3)
    trace.run(213, 0x390, lasts=None, pid=3)
    for us, pid in ((120, 2), (130, 3)):
        trace.send_response(us, 0x300, 1, gid=gid, pid=pid)
        trace.take_response(us + 30, 0x200, 1, stamp=us)
    tables = trace.tables()
    assert rows(
        tables["service_calls"], "service", "client_node", "server_node", "sequence_number",
        "request_sent_ns", "request_taken_ns", "callback_start_ns", "callback_end_ns",
        "response_sent_ns", "response_taken_ns",
    ) == [
        ("/add", "/client", "/server2", 1, 100, 110, 113, 123, 120, 150),
        ("/add", "/client", "/server3", 1, 100, 112, 114, 134, 130, 160),
        ("/add", "/client", "/server3", 2, 200, 210, 213, None, None, None),
    ]  # fmt: skip
    assert findings(tables) == {"unfinished_callbacks": 1}


def test_an_action_whose_goal_is_cancelled() -> None:
    """Goal 1 runs to its end with two feedback messages; goal 2 is cancelled after one."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    call(trace, RESULT, 1, 135, 138, 170, 180)
    tell(trace, STATUS, 124, 164)
    tell(trace, FEEDBACK, 140, 150)
    call(trace, GOAL, 2, 300, 310, 320, 330)
    call(trace, RESULT, 2, 335, 338, 400, 410)
    call(trace, CANCEL, 1, 360, 365, 370, 375)
    tell(trace, STATUS, 324, 367, 394)
    tell(trace, FEEDBACK, 350)
    tables = trace.tables()
    assert rows(
        tables["action_goals"], "action", "client_node", "server_node", "sequence_number",
        "goal_sent_ns", "goal_taken_ns", "goal_response_sent_ns", "goal_response_taken_ns",
        "result_requested_ns", "result_sent_ns", "result_taken_ns", "cancel_sent_ns",
        "finished_ns", "first_feedback_ns", "last_feedback_ns", "feedback_count", "match", "alone",
    ) == [
        ("/move", "/client1", "/server", 1, 100, 110, 120, 130, 135, 170, 180, None, 164, 140, 150,
         2, "exact", True),
        ("/move", "/client1", "/server", 2, 300, 310, 320, 330, 335, 400, 410, 360, 394, 350, 350,
         1, "exact", True),
    ]  # fmt: skip
    assert rows(tables["actions"], "vpid", "action", "role", "created_ns") == [
        (9, "/move", "server", 5),
        (1, "/move", "client", 10.5),
    ]
    assert findings(tables) == {}
