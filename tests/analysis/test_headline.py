"""Test which topic a report mentions first, and what it says about others; counted by hand."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from synthetic import of_runs, report_of, table, write_run

from roslens.analysis.latency.headline import dropped, scope, untold
from roslens.analysis.measures.samples import topic_groups, topic_traffic
from roslens.analysis.reports.front import arrival_sentence
from roslens.analysis.runs import Run
from roslens.collectors.topics import is_of_application

RUN = [Run("r", {})]
Rows = Sequence[tuple[str, str, int, int | None]]


def messages(rows: Rows) -> pl.LazyFrame:
    """Make messages from topic, outcome, count and latency in us."""
    sent = [
        {"topic": t, "outcome": o, "latency_ns": us if us is None else us * 1000}
        for t, o, count, us in rows
        for _ in range(count)
    ]
    return of_runs("messages", *sent)


UNHEARD = "No message of the application was received where it was recorded: "
EARLY = "published before their subscription first took one of that publisher"
SILENT = "No message is known to have arrived on"
DEFAULT = ("/parameter_events", "delivered", 700, 9000)


@pytest.mark.parametrize(
    ("topic", "own"),
    [
        ("/scan", True), ("/a_b", True), ("/rosout", False), ("/parameter_events", False),
        ("ros_discovery_info", False), ("/clock", False), ("/move/_action/status", False),
        ("/_hidden", False),
    ],
)  # fmt: skip
def test_which_topics_are_the_applications_own(topic: str, *, own: bool) -> None:
    assert pl.select(pl.lit(topic).alias("topic")).select(is_of_application()).item() is own


@pytest.mark.parametrize(
    ("rows", "first", "told"),
    [
        # Only a default topic arrived: that nobody received the application's messages is the news.
        (
            [DEFAULT, ("/a", "no_subscriber", 1300, None), ("/b", "no_subscriber", 11, None)],
            "/a",
            f"{UNHEARD}/a (1,300 messages), /b (11) have no recorded subscription.",
        ),
        (
            [DEFAULT, ("/a", "lost", 30, None), ("/a", "unknown", 2, None)],
            "/a",
            f"{SILENT} 1 topic of the application: /a (32 messages).",
        ),
        # Delivered topics come before busier ones: the drop is reported beside figures.
        (
            [DEFAULT, ("/a", "lost", 30, None), ("/b", "delivered", 3, 5)],
            "/b",
            f"{SILENT} 1 of 2 topics of the application: /a (30 messages).",
        ),
        ([DEFAULT], "/parameter_events", "No topic of the application is in the recordings."),
        ([DEFAULT, ("/a", "delivered", 1, 5)], "/a", None),
        # Without a callback in the trace the message arrived all the same.
        ([DEFAULT, ("/a", "taken", 1, None)], "/a", None),
    ],
)
def test_a_default_topic_makes_no_headline_beside_one_of_the_application(
    rows: Rows, first: str, told: str | None
) -> None:
    frame = messages(rows)
    assert topic_groups(frame, RUN)[0].topic == first
    assert dropped(topic_traffic(frame, RUN)) == told


@pytest.mark.parametrize(("rest", "share"), [(2, "over 99"), (6, "99"), (0, "100")])
def test_a_share_is_100_percent_only_if_it_is_all(rest: int, share: str) -> None:
    """598 of 600 messages are 99.67 %, 598 of 604 are 99.01 %; a topic may have none."""
    rows = [("/a", "delivered", 598, 5), ("/b", "delivered", rest, 7)]
    traffic = topic_traffic(messages(rows), RUN)
    if not rest:
        silent = traffic.with_columns(pl.lit("/b").alias("topic"), pl.lit(0).alias("messages"))
        traffic = pl.concat([traffic, silent], how="vertical_relaxed")
    assert f"topics of the application, with {share} % of its" in str(scope(traffic, {"/a"}))


def test_a_headline_says_its_share_and_the_worst() -> None:
    """60 of 100 messages; /b's median is 7 us, /c's one message took 50 us and 3 of 4 were lost."""
    frame = messages(
        [DEFAULT, ("/a", "delivered", 60, 5), ("/b", "delivered", 31, 7), ("/c", "lost", 2, None),
         ("/c", "replaced", 1, None), ("/c", "delivered", 1, 50), ("/d", "no_subscriber", 5, None)]
    )  # fmt: skip
    traffic = topic_traffic(frame, RUN)
    assert scope(traffic, {"/a"}) == (
        "/a is 1 of 4 topics of the application, with 60 % of its messages; the slowest is /c with "
        "0.0500 ms at the median of 1; the longest latency is 0.0500 ms on /c; the greatest share "
        "is lost on /c, 3 of 4 (2 lost on the way, 1 replaced by newer ones in a full history "
        "before they were taken); /d (5 messages) has no recorded subscription."
    )
    assert str(scope(traffic, {"/c"})).startswith(
        "/c is 1 of 4 topics of the application, with 4 % of its messages; none of the others is "
        "slower at the median;"
    )
    assert str(scope(traffic, {"/rosout"})).startswith(
        "/rosout is none of the 4 topics of the application;"
    )
    assert scope(topic_traffic(messages([DEFAULT, ("/a", "lost", 1, None)]), RUN), {"/a"}) is None


def test_calls_and_goals_that_no_event_tells_of_are_named() -> None:
    """No request is known for three services of the application, and for an action."""
    services = ("/add", "/n/get_parameters", "/move/_action/send_goal", "/plan", "/a")
    rows = [("jazzy", name) for name in services] + [("kilted", "/seen")]
    calls = pl.LazyFrame(rows, schema=["run", "service"], orient="row")
    flaws = [("jazzy", "missing_events", "service_calls"), ("jazzy", "goals_not_recorded", "/move")]
    health = pl.LazyFrame(flaws, schema=["run", "kind", "where"], orient="row")
    assert untold(calls, health) == (
        "Calls and goals of /a, /add, /plan and 1 more are not known: no events of requests were "
        "recorded, which ROS 2 has from Kilted on."
    )
    assert untold(calls, health.head(0)) is None


def test_the_report_of_a_recording_whose_application_nobody_heard(tmp_path: Path) -> None:
    """Of 1,311 messages only 7 of /parameter_events were received."""
    run = write_run(tmp_path / "r", latencies_ns=[1000] * 1318, resources=False)
    path = run / "tables" / "messages.parquet"
    rows = pl.read_parquet(path).to_dicts()
    for row in rows[:7]:
        row["topic"] = "/parameter_events"
    for row in rows[7:]:
        row |= {"outcome": "no_subscriber", "latency_ns": None, "callback_start_ns": None}
    table("messages", *rows).write_parquet(path)
    report = report_of(tmp_path)
    assert report.sentences() == [
        f"{UNHEARD}/data (1,311 messages) has no recorded subscription.",
        "Calls of 1 service follow below.",
    ]
    assert report.picture() is None
    assert "No delivered message" in repr(report.distributions())
    assert "/parameter_events" in repr(report.further_topics())

    def sentences_on(*topics: str) -> list[str]:
        return report_of(tmp_path, topics=topics).sentences()

    # Rows of the other topic have a latency.
    assert sentences_on("/data", "/parameter_events")[0] == (
        "No message on /data with a latency was delivered: nothing can be said of it."
    )
    sentences = sentences_on("/parameter_events")
    assert sentences[0].startswith("Messages on /parameter_events take")
    assert sentences[1].startswith("/parameter_events is none of the 1 topic of the application")


def test_a_headline_leaves_out_what_clocks_forbid_and_what_was_replayed() -> None:
    """By hand: the clocks of /b's hosts are 9 us apart, over half of its 17 us, but not of 18 us.

    The message of /a that was published before its subscription, and waited 90 us, is none of its
    latencies.
    """
    rows = [("/a", "delivered", 60, 5), ("/a", "replayed", 1, 90), ("/b", "delivered", 7, 17)]
    bound = pl.when(pl.col("topic") == "/b").then(9_000).cast(pl.Int64)
    all_of_them = messages(rows).with_columns(clock_bound_ns=bound)
    (first, second) = topic_traffic(all_of_them, RUN).sort("topic").iter_rows(named=True)
    assert (first["delivered"], first["latency_ns"], first["longest_ns"]) == (60, 5_000, 5_000)
    assert (second["delivered"], second["latency_ns"], second["longest_ns"]) == (7, None, None)
    assert str(scope(topic_traffic(all_of_them, RUN), {"/a"})).endswith(
        "; none of the others whose latency is known is slower at the median; the longest known "
        "latency is 0.00500 ms on /a."
    )
    one_longer = pl.concat([all_of_them, messages([("/b", "delivered", 1, 18)])])
    traffic = topic_traffic(one_longer.with_columns(clock_bound_ns=bound), RUN)
    assert str(scope(traffic, {"/a"})).endswith("latency is 0.0180 ms on /b.")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0, 1), "The only message arrived."),
        ((0, 2), "All 2 messages arrived."),
        ((1, 1), "1 of 1 message did not arrive."),
        ((0, 1, 1), "1 message arrived; of 1 more nobody can say."),
        ((0, 0, 1), "Of 1 message nobody can say whether it arrived."),
        ((0, 2, 0, 1), f"All 2 messages arrived; 1 was {EARLY}, and counts neither way."),
        ((0, 2, 0, 3), f"All 2 messages arrived; 3 were {EARLY}, and count neither way."),
    ],
)  # fmt: skip
def test_one_message_is_told_in_the_singular(counts: tuple[int, ...], said: str) -> None:
    assert arrival_sentence(*counts) == said
