"""Test callback executions and their owners; expected rows by hand, times in microseconds."""

import polars as pl
from ros2_trace import Trace, findings, rows

NODE, SUB, A, B = 0x100, 0x300, 0x400, 0x700
COLUMNS = ("symbol", "vtid", "start_ns", "end_ns")


def two_callbacks() -> Trace:
    """Make subscriptions /a and /b with callbacks `A` ("a") and `B` ("b")."""
    trace = Trace()
    trace.node(10, NODE, "n", namespace="/robot")
    trace.subscription(20, SUB, "/a", node=NODE, callback=A, symbol="a")
    trace.subscription(30, SUB + 0x80, "/b", node=NODE, callback=B, symbol="b")
    trace.declared |= {"callback_start", "callback_end"}
    return trace


def test_nested_callbacks_end_each_with_their_own() -> None:
    """Callback a spins, so that b runs twice within it."""
    trace = two_callbacks()
    trace.run(100, A, lasts=100)
    trace.run(110, B, lasts=10)
    trace.run(160, B, lasts=10)
    tables = trace.tables()
    assert rows(tables["callback_instances"], *COLUMNS, "duration_ns") == [
        ("a", 1, 100, 200, 100_000),
        ("b", 1, 110, 120, 10_000),
        ("b", 1, 160, 170, 10_000),
    ]
    assert findings(tables) == {}


def test_a_start_is_never_closed_by_a_later_execution_of_its_callback() -> None:
    """The first end and the third start are missing, so the duration of neither is known."""
    trace = two_callbacks()
    trace.run(100, A, lasts=None)
    trace.run(200, A, lasts=10)
    trace.emit(310, "callback_end", callback=A)
    tables = trace.tables()
    assert rows(tables["callback_instances"], *COLUMNS) == [
        ("a", 1, 100, None),
        ("a", 1, 200, 210),
    ]
    assert findings(tables) == {
        "unfinished_callbacks": 1, "callback_end_without_start": 1, "undeclared_gaps": 1,
    }  # fmt: skip


def test_a_reentrant_callback_runs_in_two_threads_at_once() -> None:
    trace = two_callbacks()
    trace.run(100, A, lasts=100, tid=11)
    trace.run(150, A, lasts=10, tid=12)
    instances = trace.tables()["callback_instances"]
    assert rows(instances, *COLUMNS) == [("a", 11, 100, 200), ("a", 12, 150, 160)]


def test_a_callback_that_raised_leaves_the_later_ones_alone() -> None:
    trace = two_callbacks()
    trace.run(100, A, lasts=10)
    trace.run(200, A, lasts=None)
    trace.run(250, B, lasts=10)
    trace.run(300, A, lasts=10)
    trace.run(400, A, lasts=10)
    tables = trace.tables()
    assert rows(tables["callback_instances"], *COLUMNS) == [
        ("a", 1, 100, 110),
        ("a", 1, 200, None),
        ("b", 1, 250, 260),
        ("a", 1, 300, 310),
        ("a", 1, 400, 410),
    ]
    assert tables["callback_instances"]["duration_ns"].null_count() == 1
    assert findings(tables) == {"unfinished_callbacks": 1}


def test_an_end_whose_start_was_before_the_trace_is_counted() -> None:
    trace = two_callbacks()
    trace.emit(90, "callback_end", callback=A)
    trace.run(100, A, lasts=10)
    tables = trace.tables()
    assert rows(tables["callback_instances"], *COLUMNS) == [("a", 1, 100, 110)]
    assert findings(tables) == {"callback_end_without_start": 1}


def test_subscriptions_services_and_timers_own_callbacks() -> None:
    trace = two_callbacks()
    trace.service(40, 0x1000, "/robot/set", node=NODE, callback=0x1100)
    trace.emit(42, "rclcpp_callback_register", callback=0x1100, symbol="serve")
    trace.timer(50, 0x2000, 2_000_000, callback=0x2100, node=NODE)
    trace.timer(60, 0x3000, 1_500_000_000, callback=0x3100)
    trace.timer(70, 0x4000, 1_000_000_000, callback=0x4100)
    trace.emit(80, "rclcpp_callback_register", callback=0x5100, symbol="of a waitable")
    for us, callback in ((100, A), (200, 0x1100), (300, 0x2100), (400, 0x5100), (500, 0x6100)):
        trace.run(us, callback)
    tables = trace.tables()
    assert rows(
        tables["callback_instances"], "kind", "name", "node", "symbol", "intra_process"
    ) == [
        ("subscription", "/a", "/robot/n", "a", False),
        ("service", "/robot/set", "/robot/n", "serve", None),
        ("timer", "2 ms", "/robot/n", "tick", None),
        (None, None, None, "of a waitable", False),
        (None, None, None, None, False),
    ]
    assert rows(tables["callbacks"].filter(pl.col("kind") == "timer"), "name", "node") == [
        ("2 ms", "/robot/n"),
        ("1500 ms", None),
        ("1 s", None),
    ]
    assert findings(tables) == {"events_before_init": 1, "callbacks_without_owner": 1}


def test_a_publication_belongs_to_the_innermost_callback_around_it() -> None:
    """Publications lie outside; in a; in b nested in a; in a again; in the other thread; in an
    execution of a that has no end and may have raised by then; in b; and after that.
    """
    trace = two_callbacks()
    trace.publisher(40, 0x900, "/out", node=NODE)
    trace.run(100, A, lasts=100)
    trace.run(120, B, lasts=20)
    trace.run(300, A, lasts=None)
    trace.run(400, B, lasts=10)
    for us, tid in ((90, 1), (110, 1), (130, 1), (150, 1), (160, 2), (310, 1), (405, 1), (450, 1)):
        trace.publish(us, 0x900, tid=tid)
    tables = trace.tables()
    assert rows(tables["publications"], "publish_ns", "callback_instance_id") == [
        (90, None),
        (110, 0),
        (130, 1),
        (150, 0),
        (160, None),
        (310, None),
        (405, 3),
        (450, None),
    ]


def test_processes_count_all_their_events() -> None:
    trace = two_callbacks()
    trace.emit(5, "rcl_init", context_handle=1, version="8.2.2")
    trace.run(100, A)
    trace.emit(50, "rcl_init", context_handle=1, version="4.1.1", pid=7, host="h1")
    assert rows(
        trace.tables()["processes"], "host", "vpid", "procname", "tracetools_version", "begin_ns",
        "end_ns", "events",
    ) == [
        ("h0", 1, "p1", "8.2.2", 5, 105, 14),
        ("h1", 7, "p7", "4.1.1", 50, 50, 1),
    ]  # fmt: skip


def function(trace: Trace, us: float, *, lasts: float | None, stack: int, number: int = 1) -> None:
    """Emit a call of a probed function; `stack` is the address at which its caller's frame ends."""
    trace.emit(us, "function_entry", function=number, stack=stack)
    if lasts is not None:
        trace.emit(us + lasts, "function_exit", function=number, stack=stack)


def test_functions_are_executions_beside_those_of_callbacks() -> None:
    """update calls step, which calls a: a's publications are a's, and step's have no callback."""
    trace = two_callbacks()
    trace.publisher(40, 0x500, "/out", node=NODE)
    for number, name in enumerate(("libloop.so:update", "libloop.so:step"), 1):
        trace.emit(50, "function_register", function=number, function_name=name)
    function(trace, 100, lasts=100, stack=0x9000)
    function(trace, 110, lasts=80, stack=0x8000, number=2)
    trace.publish(115, 0x500)
    trace.run(120, A, lasts=50)
    trace.publish(130, 0x500)
    function(trace, 140, lasts=10, stack=0x7000, number=2)
    trace.publish(160, 0x500)
    tables = trace.tables()
    of_functions = ("kind", "name", "node", "start_ns", "end_ns")
    assert rows(tables["callback_instances"], *of_functions) == [
        ("function", "libloop.so:update", None, 100, 200),
        ("function", "libloop.so:step", None, 110, 190),
        ("subscription", "/a", "/robot/n", 120, 170),
        ("function", "libloop.so:step", None, 140, 150),
    ]
    number = tables["callback_instances"].filter(kind="subscription")["callback_instance_id"][0]
    within = tables["publications"].sort("publish_ns")["callback_instance_id"]
    assert within.to_list() == [None, number, number]
    assert findings(tables) == {}


def test_a_function_that_is_left_without_a_return_has_no_end() -> None:
    """Calls recurse; then an exception leaves two frames and is caught above, and the function
    is called from the same place.

    The last event is the exit of a call that began before the recording.
    """
    trace = two_callbacks()
    function(trace, 100, lasts=50, stack=0x9000)
    function(trace, 110, lasts=10, stack=0x8000)
    function(trace, 130, lasts=10, stack=0x8000)
    function(trace, 200, lasts=None, stack=0x9000)
    function(trace, 210, lasts=None, stack=0x8000)
    function(trace, 220, lasts=10, stack=0x9000)
    function(trace, 300, lasts=None, stack=0x8000)
    trace.emit(310, "function_exit", function=1, stack=0x9100)
    executions = rows(trace.tables()["callback_instances"], "start_ns", "end_ns")
    ended = [(100, 150), (110, 120), (130, 140), (220, 230)]
    assert executions == sorted([*ended, (200, None), (210, None), (300, None)])
