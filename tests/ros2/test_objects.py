"""Test which objects existed and for how long; expected rows by hand, times in microseconds."""

import polars as pl
from ros2_trace import T0, Trace, findings, rows
from test_actions import CLIENT_NODE, SERVER_NODE, action
from test_lifecycle import cell
from test_messages import (
    BUFFER,
    CALLBACK,
    NODE,
    PUB,
    SUB,
    intra_publish,
    intra_receive,
    one_process,
)

from roslens.collectors.ros2 import build_tables

HISTORY = 0x2500


def test_an_object_ends_when_its_address_is_given_to_the_next_one() -> None:
    """Every object is made twice at the same address, except the nodes."""
    trace = Trace()
    for us, name in ((0, "a"), (500, "b")):
        node = NODE + us
        trace.node(us + 10, node, name)
        trace.publisher(us + 20, PUB, f"/{name}", node=node)
        trace.subscription(us + 30, SUB, f"/{name}", node=node, callback=CALLBACK)
        trace.emit(us + 50, "rcl_timer_init", timer_handle=0x500, period=1000)
        trace.service(us + 60, 0x600, f"/{name}", node=node)
    tables = trace.tables()
    assert rows(tables["nodes"], "node", "created_ns", "ended_ns") == [
        ("/a", 10, None),
        ("/b", 510, None),
    ]
    for name, number, created in (
        ("publishers", "publisher_id", 20),
        ("subscriptions", "subscription_id", 30),
        ("timers", "timer_id", 50),
        ("services", "service_id", 60),
        ("callbacks", "callback_id", 32),
    ):
        assert rows(tables[name], number, "created_ns", "ended_ns") == [
            (0, created, 500 + created),
            (1, 500 + created, None),
        ], name


def test_a_publisher_of_log_messages_does_not_end_with_its_address() -> None:
    """rcl records an address on its stack, where the next node's publisher lies as well."""
    trace = Trace()
    for us, rmw in ((20, 0x301), (120, 0x401)):
        trace.node(us - 10, NODE + us, f"n{us}")
        trace.publisher(us, 0x7FF0, "/rosout", node=NODE + us, rmw=rmw)
    assert rows(trace.tables()["publishers"], "topic", "created_ns", "ended_ns") == [
        ("/rosout", 20, None),
        ("/rosout", 120, None),
    ]


def test_hosts() -> None:
    """The second host has two processes; on the third only the kernel was recorded."""
    trace = Trace()
    trace.node(10, NODE, "a")
    trace.node(20, NODE, "b", host="h1")
    trace.node(30, NODE, "c", host="h1", pid=2)
    trace.publisher(50, PUB, "/data", node=NODE, host="h1", pid=2)
    hosts = build_tables(trace.frames(), hosts=("h0", "h1", "h2"))["hosts"]
    assert rows(hosts, "host", "processes", "begin_ns", "end_ns", "events") == [
        ("h0", 1, 10, 10, 1),
        ("h1", 2, 20, 50, 4),
        ("h2", 0, None, None, 0),
    ]


def keep_history(trace: Trace, us: float) -> None:
    """Emit a transient local publisher's history: a buffer that is linked to no subscription."""
    trace.emit(us, "rclcpp_construct_ring_buffer", buffer=HISTORY, capacity=2)
    trace.emit(us + 0.5, "rclcpp_buffer_to_ipb", buffer=HISTORY, ipb=HISTORY + 2)


def test_ring_buffers_of_a_subscription_and_of_a_publisher() -> None:
    """The subscription's buffer is later given to another subscription."""
    trace = one_process(capacity=3)
    keep_history(trace, 21)
    trace.subscription(230, SUB, "/other", node=NODE, callback=CALLBACK)
    trace.ring_buffer(235, BUFFER, subscription=SUB, callback=0x990)
    assert rows(
        trace.tables()["ring_buffers"], "ring_buffer_id", "subscription_id", "publisher_id",
        "node", "topic", "capacity", "buffer", "ipb", "created_ns", "ended_ns",
    ) == [
        (0, None, 0, "/n", "/data", 2, HISTORY, HISTORY + 2, 21, None),
        (1, 0, None, "/n", "/data", 3, BUFFER, BUFFER + 2, 35, 235),
        (2, 1, None, "/n", "/other", 2, BUFFER, BUFFER + 2, 235, None),
    ]  # fmt: skip


def test_what_a_publisher_keeps_for_late_joiners_is_no_message() -> None:
    """Each publication also goes into the history: the third takes the first one's place."""
    trace = one_process()
    keep_history(trace, 21)
    for us, place in ((100, 0), (200, 1), (300, 0)):
        intra_publish(trace, us, place)
        trace.emit(
            us + 2, "rclcpp_ring_buffer_enqueue", buffer=HISTORY, index=place, size=1,
            overwritten=int(us == 300),
        )  # fmt: skip
        trace.publish(us + 5, PUB)
        intra_receive(trace, us + 10, place)
    tables = trace.tables()
    columns = ("subscription_id", "publish_ns", "take_ns", "intra_process", "outcome")
    expected = [(0, us, us + 10, True, "delivered") for us in (100, 200, 300)]
    assert rows(tables["messages"], *columns) == expected
    assert "events_before_init" not in findings(tables)


def test_where_links_of_buffers_were_not_recorded_none_is_a_publishers() -> None:
    trace = one_process()
    trace.rows = [row for row in trace.rows if row[0] != "rclcpp_ipb_to_subscription"]
    buffers = trace.tables()["ring_buffers"]
    assert buffers.select("subscription_id", "publisher_id", "capacity").rows() == [(None, None, 2)]


def test_state_machines() -> None:
    trace = cell()
    trace.rows += cell(500, name="second").rows
    assert rows(
        trace.tables()["state_machines"], "state_machine_id", "node_id", "node", "created_ns",
        "ended_ns",
    ) == [(0, 0, "/cell", 15, 505), (1, 1, "/second", 505, None)]  # fmt: skip


def test_actions_by_their_names() -> None:
    """Two clients run in two processes, the second listens to feedback; one server runs."""
    trace = action(clients=2)
    feedback = "/move/_action/feedback"
    trace.subscription(30, 0x700, feedback, node=CLIENT_NODE, callback=1, pid=2)
    trace.subscription(40, 0x800, feedback, node=SERVER_NODE, callback=2, pid=9)
    tables = trace.tables()
    names = ("send_goal", "cancel_goal", "get_result", "feedback", "status")
    assert rows(
        tables["actions"], "vpid", "node", "action", "role", *(f"{name}_id" for name in names),
        "created_ns",
    ) == [
        (9, "/server", "/move", "server", 0, 1, 2, 0, 1, 5),
        (1, "/client1", "/move", "client", 0, 2, 4, None, None, 10.5),
        (2, "/client2", "/move", "client", 1, 3, 5, 0, None, 10.5),
    ]  # fmt: skip
    assert tables["clients"]["vpid"].to_list() == [1, 2, 1, 2, 1, 2]


def test_two_action_clients_of_one_node() -> None:
    """The three services of each client are made one after the other, which tells them apart."""
    trace = action()
    for k, part in enumerate(("send_goal", "cancel_goal", "get_result")):
        service, gid = f"/move/_action/{part}", [k] * 16
        trace.client(60 + k, (k + 1) << 12, service, node=CLIENT_NODE, gid=gid)
    clients = trace.tables()["actions"].filter(pl.col("role") == "client")
    assert clients.select("send_goal_id", "cancel_goal_id", "get_result_id").rows() == [
        (0, 1, 2),
        (3, 4, 5),
    ]
    assert (clients["created_ns"] - T0).to_list() == [10_500, 60_000]
