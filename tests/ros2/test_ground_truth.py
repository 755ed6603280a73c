"""Test the tables of real recordings against the logs of their workloads."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from benchmarks.ground_truth import (
    Verdict,
    along_the_chain,
    as_recorded_by,
    compare,
    compare_calls,
    compare_goals,
    compare_timers,
    compare_transitions,
    compare_unowned,
    logged_of,
    recordings,
    truth_of,
    verdicts_of,
)
from tests.samples import SAMPLES

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording

RUNS = list(recordings([SAMPLES]))


def test_there_are_samples_with_ground_truth() -> None:
    assert RUNS


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_every_logged_message_and_call_is_one_row(run: Path) -> None:
    """The workload logs CLOCK_REALTIME itself, before publish() and in the callback.

    The trace's latency is shorter, as the events lie within: by less than 50 us at the median,
    except for messages that are copied after callback_start (unique_ptr callbacks of rclcpp without
    intra-process communication), where the difference grows with the message.
    """
    recording = Recording.at(run)
    raw = read_raw(recording)
    tables = build_tables(raw.events, raw.losses)
    verdicts = []
    if (truth := truth_of(run)) is not None:
        verdicts.append(compare(tables["messages"], truth))
        factors = recording.manifest.factors if recording.manifest else {}
        if factors.get("callback") != "unique_ptr" or factors.get("intra_process"):
            assert -20_000 < verdicts[0].longer_ns.median() < 50_000
    if (calls := logged_of(run, "calls.csv")) is not None:
        verdicts.append(compare_calls(tables["service_calls"], calls))
    if (sent := logged_of(run, "goals.csv")) is not None and "ros2:rmw_send_request" in raw.events:
        verdicts.append(compare_goals(tables["action_goals"], sent))
    if (moves := logged_of(run, "transitions.csv")) is not None:
        verdicts.append(compare_transitions(tables["lifecycle_states"], moves))
    assert verdicts
    for verdict in verdicts:
        assert verdict.problems == []
        assert verdict.logged > 0


def messages(*rows: tuple[int, int, int | None, str]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"topic": "/t", "message_id": m, "publish_ns": p, "latency_ns": latency, "outcome": o}
            for m, p, latency, o in rows
        ],
        schema_overrides={"latency_ns": pl.Int64},
    )


FIRST, LAST = (0, 1010, 450, "delivered"), (2, 3010, 440, "delivered")
LOST = (1, 2010, None, "lost")
TRUTH = pl.DataFrame(
    {"topic": ["/t"] * 3, "sent_ns": [1000, 2000, 3000], "received_ns": [1500, None, 3500]}
)


def check(
    judge: Callable[[pl.DataFrame, pl.DataFrame], Verdict],
    truth: pl.DataFrame,
    right: tuple[pl.DataFrame, list[int] | None],
    *wrong: tuple[pl.DataFrame, str],
) -> None:
    """Check that right rows pass, by how much the log is longer, and that wrong ones are found."""
    verdict = judge(right[0], truth)
    assert verdict.problems == []
    assert right[1] in (None, verdict.longer_ns.to_list())
    for rows, problem in wrong:
        assert any(problem in text for text in judge(rows, truth).problems), problem


def test_the_check_of_messages() -> None:
    check(
        compare,
        TRUTH,
        (messages(FIRST, LOST, LAST), [50, 60]),
        (messages(FIRST, LOST), "logged, but not in the table"),
        (messages(FIRST, LOST, LAST, (3, 4000, None, "lost")), "in the table, but not logged"),
        (messages(FIRST, LOST, (2, 3010, None, "lost")), "received, but not delivered"),
        (messages(FIRST, (1, 2010, 3, "delivered"), LAST), "not received, but not lost either"),
        (messages(FIRST, (0, 2010, None, "lost"), LAST), "more than one row"),
        (messages(FIRST, LOST, (2, 3_000_000_000, 4, "delivered")), "out of step with the log"),
    )


CALLS = pl.DataFrame(
    {"service": ["/s"] * 2, "sent_ns": [1000, 2000], "called_ns": [1200, None],
     "received_ns": [1500, None]}
)  # fmt: skip


def calls(*rows: tuple[int | None, int | None, int | None]) -> pl.DataFrame:
    names = ("request_sent_ns", "callback_start_ns", "response_taken_ns")
    schema = dict.fromkeys(names, pl.Int64())
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    absent = pl.lit(None, pl.Int64)
    return frame.with_columns(
        pl.lit("/s").alias("service"), request_called_ns=absent, request_taken_ns=absent
    )


def test_the_check_of_calls() -> None:
    check(
        compare_calls,
        CALLS,
        (calls((1010, 1190, 1490), (2010, None, None)), [20]),
        (calls((1010, 1190, 1490)), "logged, but not in the table"),
        (calls((1010, 1190, 1490), (2010, None, None), (3010, None, None)), "not logged"),
        (calls((1010, 1190, None), (2010, None, None)), "no response"),
        (calls((1010, None, 1490), (2010, None, None)), "served or not"),
    )
    # Before Kilted only callbacks are known.
    check(compare_calls, CALLS, (calls((None, 1190, None)), [10]))


MOVES = pl.DataFrame(
    {"node": ["/n"], "state": ["inactive"], "called_ns": [1000], "returned_ns": [1900]}
)


def states(*rows: tuple[str, int | None]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"state": pl.String(), "begin_ns": pl.Int64()}, orient="row")
    return frame.with_columns(pl.lit("/n").alias("node"))


def test_the_check_of_transitions() -> None:
    first, through = ("unconfigured", 0), ("configuring", 1100)
    check(
        compare_transitions,
        MOVES,
        (states(first, through, ("inactive", 1700)), [300]),
        (states(first), "logged, but not there"),
        (states(first, through), "logged, but not there"),
        (states(first, through, ("inactive", 1700), ("activating", 1800)), "but not logged"),
        (states(first, through, ("active", 1700)), "led to another state"),
        (states(first, through, ("inactive", 2000)), "not within the logged times"),
    )


GOALS = pl.DataFrame(
    {"action": ["/a"] * 2, "sent_ns": [1000, 2000], "accepted_ns": [1300, 2300],
     "received_ns": [1900, None], "feedback": [2, 0]},
)  # fmt: skip


def goals(*rows: tuple[int, int, int | None, int]) -> pl.DataFrame:
    names = ("goal_sent_ns", "goal_response_taken_ns", "result_taken_ns", "feedback_count")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64()), orient="row")
    return frame.with_row_index("action_goal_id").with_columns(
        pl.lit("/a").alias("action"),
        (pl.col("result_taken_ns") - pl.col("goal_sent_ns")).alias("total_ns"),
        (pl.col("goal_response_taken_ns") + 100).alias("first_feedback_ns"),
    )


def test_the_check_of_goals() -> None:
    first, second = (1010, 1290, 1890, 2), (2010, 2290, None, 0)
    check(
        compare_goals,
        GOALS,
        (goals(first, second), [20]),
        (goals(first), "logged, but not in the table"),
        (goals(first, second, (3010, 3100, None, 0)), "not logged"),
        (goals((1010, 1290, None, 2), second), "no result"),
        (goals((1010, 1390, 1890, 2), second), "before the response"),
        (goals((1010, 1290, 1890, 3), second), "other feedback"),
    )
    # The client did not log feedback that came before it knew the goal, and it logged none that is
    # not in the table.
    early = pl.lit(1200).alias("first_feedback_ns")
    more = goals((1010, 1290, 1890, 3), second).with_columns(early)
    assert compare_goals(more, GOALS).problems == []
    less = goals((1010, 1290, 1890, 1), second).with_columns(early)
    assert compare_goals(less, GOALS).problems == ["1 other feedback than logged"]


def test_where_samples_of_the_chain_lead_to() -> None:
    """By hand: the second sample is published in /a2's callback; the node that joins the inputs
    wrote the row.
    """
    samples = pl.DataFrame(
        {
            "sent_ns": [1, 2, 3],
            "b_ns": [10, 30, 31],
            "a2_ns": [5, 40, 29],
            "c_ns": [12, 41, 42],
            "received_ns": [15, 50, 51],
        }
    )
    assert along_the_chain(samples, linked=False).rows() == [(1, 15), (3, 51)]
    assert along_the_chain(samples, linked=True).rows() == [(1, 15), (2, 50), (3, 51)]


def deliveries(*rows: tuple[int, int, int, int | None]) -> pl.DataFrame:
    """Make messages of one topic from message, publisher and subscription ids and latencies.

    Message m is published at 1000 * m ns.
    """
    return pl.DataFrame(
        [
            {
                "topic": "/t",
                "message_id": m,
                "publisher_id": p,
                "subscription_id": s,
                "publisher_vpid": 1,
                "subscription_vpid": 1,
                "publish_ns": 1000 * m,
                "latency_ns": latency,
                "outcome": "lost" if latency is None else "delivered",
            }
            for m, p, s, latency in rows
        ],
        schema_overrides={"latency_ns": pl.Int64},
    )


def test_one_publisher_and_several_subscriptions(tmp_path: Path) -> None:
    """The second subscription, whose id is 9, got all of the three messages except the last."""
    (tmp_path / "messages.csv").write_text(
        "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription\n"
        + "".join(f"/t,{i},{1000 * i - 10},{1000 * i + 50},0,0\n" for i in (1, 2, 3))
        + "/t,1,990,1060,0,1\n/t,2,1990,2060,0,1\n/t,3,2990,,0,1\n"
    )
    truth = truth_of(tmp_path)
    of_first = [(i, 4, 7, 40) for i in (1, 2, 3)]
    right = compare(deliveries(*of_first, (1, 4, 9, 45), (2, 4, 9, 45), (3, 4, 9, None)), truth)
    assert right.problems == []
    assert (right.logged, right.received) == (6, 5)
    assert sorted(right.longer_ns) == [20, 20, 20, 25, 25]
    # The other subscription's loss would go unseen if the subscriptions were not told apart.
    wrong = compare(
        deliveries(*of_first[:2], (3, 4, 7, None), *[(i, 4, 9, 45) for i in (1, 2, 3)]), truth
    )
    assert wrong.problems == [
        "1 received, but not delivered",
        "1 not received, but not lost either",
    ]
    assert compare(deliveries(*of_first, (1, 4, 9, 45), (2, 4, 9, 45)), truth).problems


def test_two_processes_leave_two_files(tmp_path: Path) -> None:
    head = "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription\n"
    (tmp_path / "messages_publisher.csv").write_text(head + "/t,0,990,,0,\n/t,1,1990,,0,\n")
    (tmp_path / "messages_subscriber.csv").write_text(
        head + "/t,0,,1050,0,0\n/t,1,,2050,0,0\n/t,1,,2060,0,1\n"
    )
    truth = truth_of(tmp_path)
    rows = truth.sort("subscription", "sent_ns").select("sent_ns", "received_ns").rows()
    assert rows == [(990, 1050), (1990, 2050), (990, None), (1990, 2060)]
    assert list(recordings([tmp_path])) == [tmp_path]


def test_the_check_of_timers(tmp_path: Path) -> None:
    (tmp_path / "timers.csv").write_text(
        "timer,sequence,start_realtime_ns,end_realtime_ns\n0,0,110,190\n0,1,310,390\n"
    )
    truth = logged_of(tmp_path, "timers.csv")

    def instances(*spans: tuple[int, int]) -> pl.DataFrame:
        rows = [
            {"kind": "timer", "callback_instance_id": i, "start_ns": begin, "end_ns": end}
            for i, (begin, end) in enumerate(spans)
        ]
        # The check ignores callbacks that are not timers'.
        return pl.DataFrame([*rows, {**rows[0], "kind": "service", "callback_instance_id": 99}])

    check(
        compare_timers,
        truth,
        (instances((100, 200), (300, 400)), [-20, -20]),
        (instances((100, 200)), "1 logged, but not in the table"),
        (instances((100, 200), (300, 350)), "1 logged, but not in the table"),
        (instances((100, 200), (300, 400), (500, 600)), "1 in the table, but not logged"),
        (instances((100, 400)), "2 more than one in a row"),
    )


def test_the_check_of_calls_whose_service_is_not_known() -> None:
    """By hand: callback 3 served both calls, callback 4 an unlogged one."""
    logged = pl.DataFrame({"called_ns": [110, 310, None], "received_ns": [190, 390, None]})

    def instances(*rows: tuple[int, int, int, str | None]) -> pl.DataFrame:
        names = ("callback_id", "start_ns", "end_ns", "kind")
        frame = pl.DataFrame(rows, dict.fromkeys(names, pl.Int64()) | {"kind": pl.String()},
                             orient="row")  # fmt: skip
        return frame.with_row_index("callback_instance_id")

    first, unlogged, timers = (3, 100, 200, None), (4, 220, 240, None), (1, 310, 320, "timer")
    right = instances(first, unlogged, timers, (3, 300, 400, None))
    assert compare_unowned(right, logged).outcomes == {"run": 2}
    check(
        compare_unowned,
        logged,
        (right, None),
        (instances(first, timers), "1 logged, but not in the table"),
        (instances(first, unlogged, (3, 300, 305, None)), "1 logged, but not in the table"),
        (instances(first, (3, 300, 400, None), (3, 500, 600, None)), "1 in the table, but not log"),
        (instances((3, 100, 400, None)), "2 more than one in a row"),
    )


@pytest.mark.recording
@pytest.mark.parametrize("distro", [None, "iron", "humble", "galactic"])
def test_services_that_were_not_recorded_are_not_asked_for(distro: str | None) -> None:
    """The workload's log shows that each call ran a callback, even if its service is unrecorded."""
    run = next(path for path in RUNS if path.parent.name == "demo")
    raw = read_raw(Recording.at(run))
    few = ("ros2:rcl_service_init", "ros2:rclcpp_service_callback_added", "ros2:rcl_client_init")
    events = {name: frame for name, frame in raw.events.items() if name not in few}
    if distro is not None:
        events = as_recorded_by(distro, events)
    tables = build_tables(events, raw.losses)
    verdicts = dict(verdicts_of(run, tables, set(events), whole=distro is None))
    calls = verdicts["calls, of services not recorded"]
    assert (calls.problems, calls.logged, calls.outcomes) == ([], 22, {"run": 22})
