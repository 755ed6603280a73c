"""Test service calls; expected rows are worked out by hand, times are in microseconds."""

from typing import Any

from ros2_trace import CALLS, Trace, at, findings, rows

CLIENT, SERVER = 0x100, 0x200
GID = [1, 15, *range(14)]
COLUMNS = (
    "service", "client_node", "server_node", "sequence_number", "request_sent_ns",
    "request_taken_ns", "callback_start_ns", "callback_end_ns", "response_sent_ns",
    "response_taken_ns",
)  # fmt: skip


def client_and_servers(*servers: int) -> Trace:
    trace = Trace()
    trace.node(10, 0x900, "client")
    trace.client(16, CLIENT, "/add", node=0x900, gid=GID)
    for pid in servers:
        trace.node(10, 0x900, f"server{pid}", pid=pid)
        trace.service(20, SERVER, "/add", node=0x900, callback=0x300, pid=pid)
        trace.emit(22, "rclcpp_callback_register", callback=0x300, symbol="add", pid=pid)
    trace.declared |= CALLS
    return trace


def serve(trace: Trace, us: float, seq: int, **where: Any) -> None:
    """Emit a request's take at `us`, the callback from +1 to +10, and the response at +9."""
    trace.take_request(us, SERVER, seq, gid=GID, **where)
    trace.run(us + 1, 0x300, lasts=9, **where)
    trace.send_response(us + 9, SERVER, seq, gid=GID, **where)


def test_a_call_and_one_that_nobody_served() -> None:
    """Fast DDS reports the request after the write, so the server's take may come earlier."""
    trace = client_and_servers(2)
    trace.send_request(101, CLIENT, 1)
    serve(trace, 100, 1, pid=2)
    trace.take_response(120, CLIENT, 1, stamp=109)
    trace.send_request(200, CLIENT, 2)
    tables = trace.tables()
    assert rows(tables["service_calls"], *COLUMNS) == [
        ("/add", "/client", "/server2", 1, 101, 100, 101, 110, 109, 120),
        ("/add", "/client", None, 2, 200, None, None, None, None, None),
    ]
    assert findings(tables) == {}


def test_when_rcl_was_called_and_when_the_caller_was_told() -> None:
    """By hand: a failed call, which sent no request, is not taken for the next call's beginning."""
    trace = client_and_servers(2)
    rmw = {"rmw_client_handle": CLIENT + 1}
    trace.emit(98, "rcl_send_request", **rmw)
    trace.send_request(101, CLIENT, 1)
    trace.emit(99.5, "rcl_send_request", tid=9, **rmw)
    serve(trace, 100, 1, pid=2)
    trace.take_response(120, CLIENT, 1, stamp=109)
    trace.emit(125, "client_callback_start", sequence_number=1, **rmw)
    trace.emit(150, "rcl_send_request", **rmw)
    trace.emit(151, "rclcpp_executor_wait_for_work", timeout=-1)
    trace.send_request(201, CLIENT, 2)
    calls = trace.tables()["service_calls"]
    names = ("request_called_ns", "request_sent_ns", "response_received_ns")
    assert rows(calls, *names) == [(98, 101, 125), (None, 201, None)]


def test_two_servers_answer_one_request() -> None:
    """Responses are told apart by their timestamps, even when the later one is taken first."""
    trace = client_and_servers(2, 3)
    trace.send_request(100, CLIENT, 1)
    serve(trace, 110, 1, pid=2)
    serve(trace, 115, 1, pid=3)
    trace.take_response(140, CLIENT, 1, stamp=124)
    trace.take_response(150, CLIENT, 1, stamp=119)
    calls = trace.tables()["service_calls"].sort("request_taken_ns")
    assert rows(calls, *COLUMNS) == [
        ("/add", "/client", "/server2", 1, 100, 110, 111, 120, 119, 150),
        ("/add", "/client", "/server3", 1, 100, 115, 116, 125, 124, 140),
    ]


def test_only_the_first_16_bytes_of_a_gid_count() -> None:
    trace = client_and_servers(2)
    trace.emit(12, "rmw_client_init", rmw_client_handle=0x55, gid=[*GID[:15], 99, *([3] * 8)])
    init = next(row for name, row in trace.rows if name == "rmw_client_init")
    init["gid"] = [*GID, 5, 5, 5, 5, 5, 5, 5, 5]
    trace.send_request(100, CLIENT, 1)
    serve(trace, 110, 1, pid=2)
    calls = trace.tables()["service_calls"]
    assert rows(calls, "client_node", "server_node", "request_taken_ns") == [
        ("/client", "/server2", 110)
    ]


def test_a_client_that_is_not_traced() -> None:
    trace = client_and_servers(2)
    trace.rows = [row for row in trace.rows if "client" not in row[0]]
    serve(trace, 110, 1, pid=2)
    tables = trace.tables()
    assert rows(tables["service_calls"], *COLUMNS) == [
        ("/add", None, "/server2", 1, None, 110, 111, 120, 119, None),
    ]
    assert findings(tables) == {}


def test_before_kilted_only_the_servers_callbacks_are_known() -> None:
    trace = client_and_servers(2)
    trace.declared = set()
    trace.run(100, 0x300, pid=2)
    tables = trace.tables()
    assert rows(tables["service_calls"], *COLUMNS) == [
        ("/add", None, "/server2", None, None, None, 100, 105, None, None),
    ]
    missing = tables["health"].filter(kind="missing_events", where="service_calls")
    assert missing["count"].to_list() == [4]
    assert "Kilted" in missing["what"].item()


def test_a_step_of_the_clock_shows_in_responses_too() -> None:
    """From 2.5 s on, the server's timestamps are 3 s behind; nothing is published."""
    trace = client_and_servers(2)
    for k in range(50):
        us = 1000 + 100_000 * k
        trace.send_request(us, CLIENT, k)
        serve(trace, us + 10, k, pid=2)
        sent = trace.rows[-1][1]
        sent["timestamp"] -= 3_000_000_000 if us > 2_500_000 else 0
        trace.take_response(us + 40, CLIENT, k, stamp=(sent["timestamp"] - at(0)) / 1000)
    tables = trace.tables()
    assert tables["service_calls"]["response_taken_ns"].null_count() == 0
    assert findings(tables) == {"clock_step": 1}
    step = tables["health"].filter(kind="clock_step").row(0, named=True)
    assert "3000.0 ms" in step["what"]


def test_calls_of_a_client_and_a_server_whose_begin_was_not_recorded() -> None:
    """Such calls are rows with the host and process of the events themselves."""
    trace = Trace()
    trace.send_request(10, 0x90, 7, pid=2)
    trace.take_request(12, 0x80, 7, gid=[9] * 16, pid=3)
    tables = trace.tables()
    calls = tables["service_calls"]
    call_rows = rows(calls, "host", "service", "request_sent_ns", "request_taken_ns")
    assert call_rows == [("h0", None, 10.0, None), ("h0", None, None, 12.0)]
    assert findings(tables) == {"events_before_init": 2}
    assert "service_calls" in tables["health"].filter(kind="events_before_init")["where"].item()
