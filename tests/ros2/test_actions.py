"""Test the goals of actions; expected rows are worked out by hand, times are in microseconds."""

import pytest
import twin
from ros2_trace import CALLS, Trace, at, findings, rows

from roslens.collectors.clocks import Clocks
from roslens.collectors.ros2 import model

CLIENT_NODE, SERVER_NODE = 0x900, 0x910
PARTS = {"send_goal": 0x100, "cancel_goal": 0x200, "get_result": 0x300}
FEEDBACK, STATUS = 0x400, 0x500
GOAL, CANCEL, RESULT = "send_goal", "cancel_goal", "get_result"
TIMES = (
    "goal_sent_ns", "goal_taken_ns", "goal_response_sent_ns", "goal_response_taken_ns",
    "result_requested_ns", "result_request_taken_ns", "result_sent_ns", "result_taken_ns",
)  # fmt: skip


def action(*, clients: int = 1) -> Trace:
    """Make /client<n> (process n) and /server (process 9) of the action /move."""
    trace = Trace()
    trace.node(1, SERVER_NODE, "server", pid=9)
    for k, (part, handle) in enumerate(PARTS.items()):
        name = f"/move/_action/{part}"
        trace.service(5 + k, handle, name, node=SERVER_NODE, pid=9)
        for pid in range(1, clients + 1):
            if k == 0:
                trace.node(1, CLIENT_NODE, f"client{pid}", pid=pid)
            gid = [handle >> 8, pid] + [3] * 14
            trace.client(10.5 + k, handle, name, node=CLIENT_NODE, gid=gid, pid=pid)
    trace.publisher(20, FEEDBACK, "/move/_action/feedback", node=SERVER_NODE, pid=9)
    trace.publisher(22, STATUS, "/move/_action/status", node=SERVER_NODE, pid=9)
    trace.declared |= CALLS | {"rcl_publish"}
    return trace


def call(trace: Trace, part: str, seq: int, *moments: float, pid: int = 1) -> None:
    """Emit a call: request sent and taken, response sent and taken."""
    sent, taken, answered, back = moments
    handle = PARTS[part]
    gid = [handle >> 8, pid] + [3] * 14
    trace.send_request(sent, handle, seq, pid=pid)
    trace.take_request(taken, handle, seq, gid=gid, pid=9)
    trace.send_response(answered, handle, seq, gid=gid, pid=9)
    trace.take_response(back, handle, seq, stamp=answered, pid=pid)


def tell(trace: Trace, publisher: int, *moments: float) -> None:
    """Emit publications at rcl level, as rcl_action makes them."""
    for us in moments:
        trace.publish_by_rcl(us, publisher, pid=9)


def one_goal(*feedback: float) -> Trace:
    """Send a goal from 100 to 130, which runs from 122 to 160, and get its result until 175."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    tell(trace, STATUS, 122, 160)
    tell(trace, FEEDBACK, *feedback)
    call(trace, RESULT, 1, 135, 138, 165, 175)
    return trace


def test_over_a_gap_order_and_absence_tell_nothing_of_a_goal() -> None:
    """Events were dropped from 140 to 150 us; the second goal comes after that."""
    trace = action()
    for begin, number in ((100, 1), (200, 2)):
        call(trace, GOAL, number, *(begin + delay for delay in (0, 10, 20, 30)))
        tell(trace, STATUS, begin + 22, begin + 60)
        tell(trace, FEEDBACK, begin + 36)
        call(trace, RESULT, number, *(begin + delay for delay in (35, 38, 65, 75)))
    trace.lose(140, 150, 3)
    goals = trace.tables()["action_goals"]
    assert rows(goals, "alone", "match", "feedback_count", "finished_ns", "result_taken_ns") == [
        (None, "approximate", None, None, 175),
        (True, "exact", 1, 260, 275),
    ]


@pytest.fixture
def clocks_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fitting the clocks of three hosts: it takes seconds and does not affect goals."""
    monkeypatch.setattr(model, "_as_they_are", lambda _: Clocks())
    monkeypatch.setattr(twin, "clock_bounds", lambda _: {})


def each_on_its_host(trace: Trace) -> Trace:
    """Put process n on host hn; a bystander on host h5 has nothing to do with the action."""
    trace.node(1, 0x950, "bystander", pid=5)
    for _, row in trace.rows:
        row["host"] = f"h{row['vpid']}"
    return trace


@pytest.mark.usefixtures("clocks_as_they_are")
@pytest.mark.parametrize(
    ("host", "traced", "tells"),
    [("h1", True, False), ("h9", True, False), ("h5", True, True), ("h5", False, False)],
)
def test_what_was_dropped_on_another_host_says_nothing_of_a_goal(
    host: str, traced: bool, tells: bool
) -> None:
    """The client is on h1, the server on h9; a client that is not traced may be on any host."""
    trace = each_on_its_host(one_goal(140))
    if not traced:
        trace.rows = [row for row in trace.rows if row[1]["vpid"] != 1]
    trace.lose(142, 150, 3, host=host)
    goals = trace.tables()["action_goals"]
    assert goals.select("alone", "match", "feedback_count").rows() == [
        (True, "exact", 1) if tells else (None, "approximate", None)
    ]
    # Undeclared gaps count as well: here a callback starts twice, as its first end is missing.
    for us in (142, 150):
        trace.emit(us, "callback_start", callback=0x77, is_intra_process=0, pid=5, host="h5")
    assert trace.tables()["action_goals"]["alone"].to_list() == [True if tells else None]


@pytest.mark.usefixtures("clocks_as_they_are")
def test_a_goal_may_seem_not_alone_by_what_another_client_lost() -> None:
    """The second goal ran alone: the first ended at 120, but its result request was lost."""
    trace = action(clients=2)
    call(trace, GOAL, 1, 50, 55, 57, 60, pid=2)
    call(trace, RESULT, 1, 110, 112, 120, 125, pid=2)
    call(trace, GOAL, 1, 100, 130, 140, 150)
    call(trace, RESULT, 1, 155, 158, 185, 195)
    each_on_its_host(trace)
    trace.rows = [row for row in trace.rows if row[1]["time_ns"] != at(110)]
    trace.lose(105, 115, 1, host="h2")
    goals = trace.tables()["action_goals"].filter(client_node="/client1")
    assert goals.select("alone", "match").rows() == [(None, "approximate")]


def test_a_goal_from_sending_to_result() -> None:
    tables = one_goal(140, 150).tables()
    goals = tables["action_goals"]
    assert rows(goals, "action", "client_node", "server_node", "sequence_number", *TIMES) == [
        ("/move", "/client1", "/server", 1, 100, 110, 120, 130, 135, 138, 165, 175),
    ]
    moments = ("finished_ns", "first_feedback_ns", "last_feedback_ns", "cancel_sent_ns")
    assert rows(goals, *moments) == [(160, 140, 150, None)]
    # Two feedback messages, 10 us apart.
    assert goals["feedback_rate_hz"].to_list() == [100_000.0]
    plain = goals.select("feedback_count", "accept_ns", "execute_ns", "result_ns", "total_ns",
                         "match", "alone")  # fmt: skip
    assert plain.rows() == [(2, 30_000, 40_000, 40_000, 75_000, "exact", True)]
    assert findings(tables) == {}


def test_a_rejected_goal_has_no_result_and_disturbs_no_other() -> None:
    """The first goal is rejected: it has no status, and nobody asks for its result."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    call(trace, GOAL, 2, 200, 210, 220, 230)
    tell(trace, STATUS, 222, 260)
    tell(trace, FEEDBACK, 240)
    call(trace, RESULT, 1, 235, 238, 265, 275)
    goals = trace.tables()["action_goals"]
    assert rows(goals, "goal_sent_ns", "result_taken_ns", "finished_ns") == [
        (100, None, None),
        (200, 275, 260),
    ]
    assert goals.select("feedback_count", "feedback_rate_hz", "match", "alone").rows() == [
        (0, None, None, True),
        (1, None, "exact", True),
    ]


def test_goals_that_overlap_share_their_feedback() -> None:
    """The trace does not tell to which of two clients' goals a feedback or a status belongs."""
    trace = action(clients=2)
    call(trace, GOAL, 1, 100, 110, 120, 130)
    call(trace, GOAL, 1, 105, 125, 130, 140, pid=2)
    tell(trace, STATUS, 122, 132, 160, 170)
    tell(trace, FEEDBACK, 150)
    call(trace, RESULT, 1, 135, 138, 162, 175)
    call(trace, RESULT, 1, 145, 148, 172, 185, pid=2)
    tables = trace.tables()
    goals = tables["action_goals"]
    assert rows(goals, "client_node", "goal_sent_ns", "result_taken_ns", "finished_ns") == [
        ("/client1", 100, 175, None),
        ("/client2", 105, 185, None),
    ]
    assert goals.select("feedback_count", "match", "alone").rows() == [(None, "exact", False)] * 2
    assert findings(tables) == {"overlapping_goals": 2}


def test_results_asked_for_late_are_given_out_in_order() -> None:
    """Both goals of one client are accepted before it asks for either result."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    call(trace, GOAL, 2, 140, 150, 160, 170)
    call(trace, RESULT, 1, 200, 210, 220, 230)
    call(trace, RESULT, 2, 240, 250, 260, 270)
    goals = trace.tables()["action_goals"]
    assert rows(goals, "goal_sent_ns", "result_requested_ns", "match") == [
        (100, 200, "approximate"),
        (140, 240, "approximate"),
    ]


def test_no_result_is_of_a_goal_that_came_later() -> None:
    """The first goal's result is requested twice: matched in order, the second request would
    belong to a later goal.
    """
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    call(trace, RESULT, 1, 140, 150, 160, 170)
    call(trace, RESULT, 2, 180, 181, 182, 183)
    call(trace, GOAL, 2, 200, 210, 220, 230)
    call(trace, RESULT, 3, 240, 250, 260, 270)
    goals = trace.tables()["action_goals"]
    assert rows(goals, "goal_sent_ns", "result_requested_ns", "result_taken_ns", "match") == [
        (100, 140, 170, "approximate"),
        (200, None, None, None),
    ]


def test_a_cancelled_goal() -> None:
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    tell(trace, STATUS, 122, 152, 160)
    call(trace, RESULT, 1, 135, 138, 165, 175)
    call(trace, CANCEL, 1, 145, 150, 154, 156)
    goals = trace.tables()["action_goals"]
    assert rows(goals, "cancel_sent_ns", "finished_ns", "result_taken_ns") == [(145, 160, 175)]


def test_a_client_that_is_not_traced() -> None:
    trace = one_goal()
    trace.rows = [row for row in trace.rows if row[1]["vpid"] == 9]
    goals = trace.tables()["action_goals"]
    assert rows(goals, "client_node", "server_node", *TIMES) == [
        (None, "/server", None, 110, 120, None, None, 138, 165, None),
    ]
    assert goals.select("accept_ns", "execute_ns", "result_ns", "match").rows() == [
        (None, 40_000, None, "exact"),
    ]


def test_before_kilted_goals_are_not_told_apart() -> None:
    trace = action()
    tell(trace, STATUS, 122, 160)
    tell(trace, FEEDBACK, 140, 150)
    trace.declared = set()
    tables = trace.tables()
    assert tables["action_goals"].is_empty()
    health = tables["health"]
    missing = health.filter(kind="missing_events", where="action_goals")
    assert missing["count"].to_list() == [4]
    assert "Kilted" in missing["what"].item()
    seen = health.filter(kind="goals_not_recorded").row(0, named=True)
    assert (seen["count"], seen["where"]) == (1, "/move")
    assert "2 feedback messages" in seen["what"]


@pytest.mark.parametrize(
    ("ended", "alone"), [(165, [True, True]), (245, [False, False]), (None, [None, None])]
)
def test_a_goal_without_an_end_may_have_ended_before_the_next(
    ended: int | None, alone: list[bool | None]
) -> None:
    """The second goal was taken at 210 and ended at 265; the first was taken at 110."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    if ended is not None:
        call(trace, RESULT, 1, 135, 138, ended, ended + 5)
    call(trace, GOAL, 2, 200, 210, 220, 230)
    call(trace, RESULT, 2, 235, 238, 265, 275)
    assert trace.tables()["action_goals"]["alone"].to_list() == alone


def named(trace: Trace, us: float, goal: int, tid: int = 9) -> None:
    """Emit the goal id of the request that was just taken."""
    trace.emit(us, "action_request", goal_id=[goal] * 16, pid=9, tid=tid)


def becomes(trace: Trace, goal: int, *changes: tuple[float, int]) -> None:
    for us, status in changes:
        trace.emit(us, "goal_status", goal_id=[goal] * 16, status=status, pid=9)


def hexadecimal(goal: int) -> str:
    return bytes([goal] * 16).hex()


def test_ids_tell_goals_apart_that_overlap() -> None:
    """Both results are requested late, the second goal's first; the second is also cancelled."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    named(trace, 111, 1)
    becomes(trace, 1, (121, 1), (122, 2))
    call(trace, GOAL, 2, 140, 150, 160, 170)
    named(trace, 151, 2)
    becomes(trace, 2, (155, 1), (156, 2))
    call(trace, CANCEL, 1, 180, 185, 190, 195)
    named(trace, 186, 2)
    becomes(trace, 2, (188, 3))
    call(trace, RESULT, 1, 200, 210, 260, 270)
    named(trace, 211, 2)
    call(trace, RESULT, 2, 220, 230, 250, 255)
    named(trace, 231, 1)
    becomes(trace, 1, (245, 6))
    becomes(trace, 2, (248, 5))
    tables = trace.tables()
    goals = tables["action_goals"]
    moments = (
        "goal_sent_ns", "accepted_ns", "cancel_sent_ns", "finished_ns", "result_requested_ns",
    )  # fmt: skip
    assert rows(goals, "goal_id", "outcome", "match", "alone", *moments) == [
        (hexadecimal(1), "aborted", "exact", False, 100, 121, None, 245, 220),
        (hexadecimal(2), "canceled", "exact", False, 140, 155, 180, 248, 200),
    ]
    assert findings(tables) == {}


def test_a_goal_that_was_answered_and_not_accepted_was_rejected() -> None:
    """The second goal's response is missing, and events around the third were dropped."""
    trace = action()
    for begin, number in ((100, 1), (200, 2), (300, 3)):
        call(trace, GOAL, number, *(begin + delay for delay in (0, 10, 20, 30)))
        named(trace, begin + 11, number)
    trace.rows = [row for row in trace.rows if row[1]["time_ns"] not in (at(220), at(230))]
    trace.lose(312, 315, 1)
    goals = trace.tables()["action_goals"]
    assert goals.select("goal_id", "outcome").rows() == [
        (hexadecimal(1), "rejected"), (hexadecimal(2), None), (hexadecimal(3), None),
    ]  # fmt: skip


def test_before_kilted_a_goal_has_its_end_and_its_action() -> None:
    trace = action()
    becomes(trace, 1, (110, 1), (111, 2))
    tell(trace, STATUS, 112)
    becomes(trace, 1, (150, 4))
    tell(trace, STATUS, 151)
    trace.declared = set()
    tables = trace.tables()
    assert rows(
        tables["action_goals"],
        *("action", "server_node", "goal_id", "outcome", "accepted_ns", "finished_ns"),
        *("goal_sent_ns", "match"),
    ) == [("/move", "/server", hexadecimal(1), "succeeded", 110, 150, None, None)]
    assert tables["health"].filter(kind="goals_not_recorded").is_empty()


def test_a_request_to_cancel_all_is_of_the_goal_that_ran_alone() -> None:
    """The request names no goal: its id is zero."""
    trace = action()
    call(trace, GOAL, 1, 100, 110, 120, 130)
    named(trace, 111, 1)
    call(trace, CANCEL, 1, 145, 150, 154, 156)
    named(trace, 151, 0)
    becomes(trace, 1, (121, 1), (152, 3), (160, 5))
    goals = trace.tables()["action_goals"]
    assert rows(goals, "outcome", "cancel_sent_ns", "finished_ns") == [("canceled", 145, 160)]
