"""Test live figures; expected values are counted by hand."""

import subprocess
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from synthetic import table

from roslens.analysis.overview.live import USED, LastSeconds, Since, last_seconds
from roslens.live.screen import Moment, line, screen
from roslens.live.watch import INSTANCES, MESSAGES, Living
from roslens.recording.terminal import Console

S = 1_000_000_000


def figures(
    times_s: list[float], begin_s: float, end_s: float, since: Since | None = None
) -> LastSeconds:
    """Return figures of messages from /n to /m on /a, each of which arrived after 22 ns."""
    rows = [
        {"topic": "/a", "publisher_node": "/n", "subscription_node": "/m", "latency_ns": 22,
         "publish_ns": round(t * S), "callback_start_ns": round(t * S) + 22, "outcome": "delivered"}
        for t in times_s
    ]  # fmt: skip
    messages = table("messages", *rows).select(MESSAGES)
    instances = table("callback_instances").select(INSTANCES)
    return last_seconds(messages, instances, round(begin_s * S), round(end_s * S), since)


def rates(*arguments: object) -> list[float | None]:
    return figures(*arguments).topics["rate_hz"].to_list()


def test_a_rate_is_of_the_window_and_of_what_was_there_to_count() -> None:
    ten_hz = [k / 10 for k in range(200)]
    # 3.0, 3.1, ..., 13.0 lie within.
    assert rates(ten_hz, 3, 13) == [10.1]
    # The topic began 1.9 s ago: there are 19 after the first.
    assert rates([time + 100 for time in ten_hz], 92, 101.9) == [10]
    # Half a second is too short to know, unless nothing longer is requested.
    assert rates([time + 100 for time in ten_hz], 92, 100.5) == [None]
    assert rates([time + 100 for time in ten_hz], 100.0, 100.5) == [10]


def test_a_topic_that_died_is_seen_to_be_dead() -> None:
    # Three messages within 1 ms, then nothing: 2 in 8 s, and 0 when they are out of the window.
    burst = [50, 50.0005, 50.001]
    assert rates(burst, 48, 58) == [pytest.approx(2 / 8)]
    dead = figures(burst, 51, 61)
    assert dead.topics.select("topic", "from", "to", "messages", "rate_hz", "p50_ms").rows() == [
        ("/a", "/n", "/m", 0, 0.0, None)
    ]
    # This holds even when the messages are forgotten.
    assert rates([], 70, 80, dead.since) == [0]
    assert rates([], 70, 80) == []
    assert rates([79], 70, 80, dead.since) == [0.1]


def ran(*executions: tuple[int, str, float, float | None]) -> pl.DataFrame:
    """Return executions: process and thread, node, begin and end in seconds."""
    rows = [
        {"host": "h", "vpid": pid, "vtid": pid, "kind": "timer", "name": node, "node": node,
         "start_ns": round(a * S), "end_ns": None if b is None else round(b * S)}
        for pid, node, a, b in executions
    ]  # fmt: skip
    instances = table("callback_instances", *rows)
    return instances.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns")).select(
        INSTANCES
    )


@pytest.mark.parametrize(("count", "p50", "p99"), [(5, 0, 0), (6, 1, 0), (298, 1, 0), (299, 1, 1)])
def test_percentiles_of_callbacks_need_as_many_as_everywhere(
    count: int, p50: int, p99: int
) -> None:
    """A percentile's interval exists if q^n + (1-q)^n is at most .05: from 6 and 299 on."""
    instances = ran(*((1, "/n", second, second + 0.002) for second in range(count)))
    last = last_seconds(table("messages").select(MESSAGES), instances, 0, count * S)
    expected = [2.0 if p50 else None, 2.0 if p99 else None, 2.0]
    (row,) = last.callbacks.select("p50_ms", "p99_ms", "worst_ms").rows()
    assert list(row) == expected
    assert last.nodes["p99_ms"].to_list() == expected[1:2]


def test_an_end_that_is_missing_lies_before_the_next_begin() -> None:
    """The end of the execution at 1 s is missing; the one at 2 s begins and ends before 5 s."""
    spans = ((1, None), (2, 2.1), (7, 7.5), (8, None), (8.25, 8.5))
    instances = ran(*((1, "/n", at, end) for at, end in spans))
    last = last_seconds(table("messages").select(MESSAGES), instances, 5 * S, 10 * S)
    # 0.5, up to the next one 0.25, and 0.25 of 5 s.
    assert last.nodes["busy"].to_list() == [0.2]


def test_a_node_is_what_its_callbacks_and_messages_are() -> None:
    """Thread 1 runs /m for 0.5 s at 1, 2, 3 and 4, /k within the first; thread 2 /m from 4 to 5."""
    halves = [(1, "/m", at, at + 0.5) for at in (1, 2, 3, 4)]
    instances = ran(*halves, (1, "/k", 1.1, 1.2), (2, "/m", 4, 5))
    sent = [{"topic": "/a", "publisher_node": "/n", "subscription_node": "/m", "publish_ns": at * S,
             "outcome": "lost" if at == 3 else "delivered"} for at in (2, 3, 4, 5)]  # fmt: skip
    messages = table("messages", *sent).select(MESSAGES)
    used = pl.DataFrame([("/m", 0.2, 4096)], schema=USED, orient="row")
    nodes = last_seconds(messages, instances, 0, 10 * S, used=used).nodes
    names = ("node", "rate_hz", "busy", "worst_ms", "lost", "cpu", "rss_bytes")
    assert nodes.select(names).rows() == [
        ("/m", pytest.approx(4 / 9), pytest.approx(0.3), 1000, 0.25, 0.2, 4096),
        ("/k", 0, pytest.approx(0.01), pytest.approx(100), None, None, None),
        ("/n", 0, 0, None, None, None, None),
    ]
    # From 2.5 to 4.5 s: two executions in two seconds and one on another thread, which goes on.
    later = last_seconds(messages, instances, round(2.5 * S), round(4.5 * S)).nodes
    assert later.select(names[:4]).row(0) == ("/m", 1.5, pytest.approx(1.5 / 2), 1000)


def busy(
    instances: pl.DataFrame, begin_s: float, end_s: float, **about: object
) -> tuple[dict[str, float | None], list[float | None]]:
    """Return how busy each node is, and each thread."""
    messages = table("messages").select(MESSAGES)
    last = last_seconds(messages, instances, round(begin_s * S), round(end_s * S), **about)
    return dict(last.nodes.select("node", "busy").rows()), last.threads["busy"].to_list()


def test_each_node_has_the_time_of_all_its_executions_also_of_those_within_others() -> None:
    """/a runs from 1 to 9 s, and within it /b at 2, 3 and 4 s for 0.5 s each."""
    within = [(1, "/b", at, at + 0.5) for at in (2, 3, 4)]
    assert busy(ran((1, "/a", 1, 9), *within), 0, 10) == (
        {"/a": pytest.approx(0.8), "/b": pytest.approx(0.15)},
        [pytest.approx(0.8)],
    )


def test_what_others_follow_may_have_ended() -> None:
    """Without an end it spins, or an exception ended it; not once its process had ended before."""
    hung = ran((1, "/a", 1, None), (1, "/b", 2, 2.5), (1, "/b", 6, 7))
    assert busy(hung, 0, 10) == ({"/a": None, "/b": 0.15}, [None])
    assert busy(hung, 8, 10, alive={1: False}) == ({"/a": 0, "/b": 0}, [])
    # It spun before: /b ran within the execution from 0 to 0.5 s. So it runs on, from 1 to 10 s.
    before = ran((1, "/a", 0, 0.5), (1, "/b", 0.1, 0.2))
    spins = {"/a": pytest.approx(0.95), "/b": pytest.approx(0.16)}
    assert busy(pl.concat([before, hung]), 0, 10) == (spins, [pytest.approx(0.95)])


def test_what_has_not_ended_runs_as_long_as_its_process_lives() -> None:
    """A callback of /a begins at 4 s; one of /b, in another thread of the process, ends at 5 s."""
    hung = ran((1, "/a", 4, None), (2, "/b", 1, 5)).with_columns(vpid=pl.lit(7, pl.Int32))
    for alive, of_a in (
        (None, 0.6),
        ({7: True}, 0.6),
        # Up to the process's last event.
        ({7: False}, 0.1),
        # Nobody knows.
        ({}, None),
    ):
        nodes, _ = busy(hung, 0, 10, alive=alive)
        assert nodes == {"/a": of_a and pytest.approx(of_a), "/b": pytest.approx(0.4)}
    assert busy(hung, 6, 10, alive={7: False}) == ({"/a": 0, "/b": 0}, [])


def test_a_process_has_ended_if_it_was_here_or_would_be() -> None:
    """A number of an unknown namespace (0) that was never seen here may be of a container."""
    own = Path("/proc/self/ns/pid").stat().st_ino
    living = Living()
    with subprocess.Popen(("sleep", "60")) as process:
        nodes = [("/n", process.pid, 0, 0), ("/far", process.pid + 1, own + 1, 0)]
        assert living.of(nodes) == {process.pid: True}
        process.kill()
    assert living.of(nodes) == {process.pid: False}
    # Another watcher never saw it.
    assert Living().of(nodes) == {}
    assert Living().of([("/n", process.pid, own, 0)]) == {process.pid: False}


def test_what_a_node_did_before_anything_was_read_is_not_known() -> None:
    """/m runs something, then nothing; /n was only seen to publish, and may be in a callback."""
    sent = figures([1, 2], 0, 10).since
    messages = table("messages").select(MESSAGES)
    first = last_seconds(messages, ran((1, "/m", 1, 2)), 0, 10 * S, sent, is_whole=False)
    assert dict(first.nodes.select("node", "busy").rows()) == {"/m": 0.1, "/n": None}
    for is_whole, of_n in ((False, None), (True, 0)):
        later = last_seconds(messages, ran(), 20 * S, 30 * S, first.since, is_whole=is_whole)
        assert dict(later.nodes.select("node", "busy").rows()) == {"/m": 0, "/n": of_n}


def test_a_rate_counts_publications_whatever_became_of_them() -> None:
    """/n publishes at 10 Hz; /m takes all twice, by two subscriptions, until it ends at 5 s."""
    sent = [
        {"topic": "/a", "publisher_node": "/n", "publish_ns": round(k / 10 * S),
         "subscription_node": "/m" if k < 50 else None,
         "outcome": "delivered" if k < 50 else "no_subscriber"}
        for k in range(100) for _ in range(2 if k < 50 else 1)
    ]  # fmt: skip
    messages = table("messages", *sent).select(MESSAGES)
    last = last_seconds(messages, ran(), 3 * S, 9 * S)
    # 61 publications in 6 s, and two messages for each of the 20 before 5 s.
    (row,) = last.topics.select("messages", "rate_hz").rows()
    assert row == (40, pytest.approx(61 / 6))


def test_a_screen_has_room_for_all_its_tables() -> None:
    one_topic = figures([k / 100 for k in range(300)], 0, 10)
    many = replace(
        one_topic,
        topics=pl.concat([one_topic.topics] * 50),
        nodes=pl.concat([one_topic.nodes] * 20),
    )
    moment = Moment(many, 8.0, 0, notes=["said"])
    console = Console(width=100, color_system=None)
    for height in (16, 30, 200):
        with console.capture() as capture:
            console.print(screen(moment, height))
        lines = capture.get().splitlines()
        assert len(lines) <= height
        assert {"topic", "node", "callback", "thread", "said"} <= {
            text.split()[0] for text in lines if text
        }
    # Of 50 topics and 40 nodes nothing is left out if there is room.
    assert "more" not in capture.get()


def test_times_are_told_in_units_that_fit() -> None:
    printed = line(Moment(figures([1, 2, 3, 4, 5, 6], 0, 10), 8.0, 0))
    # Five after the first in 9 s; too few for P99.
    assert "/a 0.556 Hz P99 - lost 0 %" in printed
    many = line(Moment(figures([k / 100 for k in range(300)], 0, 10), 8.0, 0))
    assert "P99 22.0 ns" in many
