"""Test lifecycle states; expected rows are worked out by hand, times are in microseconds."""

from ros2_trace import Trace, findings, rows

NODE, MACHINE = 0x10, 0x20
COLUMNS = ("node", "state", "begin_ns", "end_ns")


def cell(us: float = 10, handle: int = NODE, machine: int = MACHINE, name: str = "cell") -> Trace:
    trace = Trace()
    trace.node(us, handle, name)
    trace.emit(
        us + 5, "rcl_lifecycle_state_machine_init", node_handle=handle, state_machine=machine
    )
    trace.declared |= {"rcl_lifecycle_transition"}
    return trace


def go(trace: Trace, us: float, start: str, goal: str, machine: int = MACHINE) -> None:
    trace.emit(
        us, "rcl_lifecycle_transition", state_machine=machine, start_label=start, goal_label=goal
    )


def test_states_follow_one_another() -> None:
    trace = cell()
    go(trace, 100, "unconfigured", "configuring")
    go(trace, 130, "configuring", "inactive")
    go(trace, 200, "inactive", "activating")
    go(trace, 210, "activating", "active")
    tables = trace.tables()
    assert rows(tables["lifecycle_states"], *COLUMNS) == [
        ("/cell", "unconfigured", 10, 100),
        ("/cell", "configuring", 100, 130),
        ("/cell", "inactive", 130, 200),
        ("/cell", "activating", 200, 210),
        ("/cell", "active", 210, None),
    ]
    assert tables["lifecycle_states"]["duration_ns"].to_list() == [
        90_000, 30_000, 70_000, 10_000, None,
    ]  # fmt: skip
    assert findings(tables) == {}


def test_a_node_that_never_moved_is_unconfigured() -> None:
    assert rows(cell().tables()["lifecycle_states"], *COLUMNS) == [
        ("/cell", "unconfigured", 10, None),
    ]


def test_a_late_start_knows_no_node_and_no_begin() -> None:
    trace = cell()
    trace.rows = []
    trace.declared |= {"rcl_node_init", "rcl_lifecycle_state_machine_init"}
    go(trace, 200, "inactive", "activating")
    tables = trace.tables()
    assert rows(tables["lifecycle_states"], *COLUMNS) == [
        (None, "inactive", None, 200),
        (None, "activating", 200, None),
    ]
    assert findings(tables) == {"events_before_init": 2}


def test_a_transition_that_was_not_recorded_leaves_a_gap_and_a_finding() -> None:
    """The transitions from configuring to active are missing, so the time of these is unknown."""
    trace = cell()
    go(trace, 100, "unconfigured", "configuring")
    go(trace, 300, "active", "deactivating")
    tables = trace.tables()
    assert rows(tables["lifecycle_states"], *COLUMNS) == [
        ("/cell", "unconfigured", 10, 100),
        ("/cell", "configuring", 100, None),
        ("/cell", "active", None, 300),
        ("/cell", "deactivating", 300, None),
    ]
    assert findings(tables) == {"lifecycle_gaps": 1}


def test_an_address_that_a_second_node_gets() -> None:
    trace = cell()
    go(trace, 100, "unconfigured", "shuttingdown")
    go(trace, 110, "shuttingdown", "finalized")
    second = cell(200, handle=0x11, name="next")
    trace.rows += second.rows
    go(trace, 300, "unconfigured", "configuring")
    assert rows(trace.tables()["lifecycle_states"], *COLUMNS) == [
        ("/cell", "unconfigured", 10, 100),
        ("/cell", "shuttingdown", 100, 110),
        ("/cell", "finalized", 110, None),
        ("/next", "unconfigured", 200, 300),
        ("/next", "configuring", 300, None),
    ]
