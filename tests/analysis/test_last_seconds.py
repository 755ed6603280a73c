"""Test live figures; expected values are counted by hand."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from synthetic import table

from roslens.analysis.overview.live import USED, LastSeconds, Since, last_seconds
from roslens.live.screen import Moment, line, screen
from roslens.live.watch import INSTANCES, MESSAGES
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
    return figures(*arguments).topics["rate_hz"].to_list()  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("count", "p50", "p99"), [(5, 0, 0), (6, 1, 0), (298, 1, 0), (299, 1, 1)])
def test_percentiles_of_callbacks_need_as_many_as_everywhere(
    count: int, p50: int, p99: int
) -> None:
    """A percentile's interval exists if q^n + (1-q)^n is at most .05: from 6 and 299 on."""
    rows = [
        {"host": "h", "vpid": 1, "vtid": 1, "kind": "timer", "name": "1 s", "node": "/n",
         "start_ns": second * S, "end_ns": second * S + 2_000_000, "duration_ns": 2_000_000}
        for second in range(count)
    ]  # fmt: skip
    instances = table("callback_instances", *rows).select(INSTANCES)
    last = last_seconds(table("messages").select(MESSAGES), instances, 0, count * S)
    expected = [2.0 if p50 else None, 2.0 if p99 else None, 2.0]
    (row,) = last.callbacks.select("p50_ms", "p99_ms", "worst_ms").rows()
    assert list(row) == expected
    assert last.nodes["p99_ms"].to_list() == expected[1:2]


def test_an_end_that_is_missing_lies_before_the_next_begin() -> None:
    """The end of the execution at 1 s is missing; the one at 2 s begins and ends before 5 s."""
    rows = [
        {"host": "h", "vpid": 1, "vtid": 1, "kind": "timer", "name": "1 s", "node": "/n",
         "start_ns": round(at * S), "end_ns": round(end * S) if end else None}
        for at, end in ((1, None), (2, 2.1), (7, 7.5), (8, None), (8.25, 8.5))
    ]  # fmt: skip
    instances = table("callback_instances", *rows).select(INSTANCES)
    last = last_seconds(table("messages").select(MESSAGES), instances, 5 * S, 10 * S)
    # 0.5, up to the next one 0.25, and 0.25 of 5 s.
    assert last.nodes["busy"].to_list() == [0.2]


def test_a_node_is_what_its_callbacks_and_messages_are() -> None:
    """Thread 1 runs /m for 0.5 s at 1, 2, 3 and 4, /k within the first; thread 2 /m from 4 to 5."""
    ran = [(1, "/m", at, at + 0.5) for at in (1, 2, 3, 4)]
    ran += [(1, "/k", 1.1, 1.2), (2, "/m", 4, 5)]
    rows = [
        {"host": "h", "vpid": 1, "vtid": thread, "kind": "timer", "name": "1 s", "node": node,
         "start_ns": round(a * S), "end_ns": round(b * S), "duration_ns": round((b - a) * S)}
        for thread, node, a, b in ran
    ]  # fmt: skip
    instances = table("callback_instances", *rows).select(INSTANCES)
    sent = [{"topic": "/a", "publisher_node": "/n", "subscription_node": "/m", "publish_ns": at * S,
             "outcome": "lost" if at == 3 else "delivered"} for at in (2, 3, 4, 5)]  # fmt: skip
    messages = table("messages", *sent).select(MESSAGES)
    used = pl.DataFrame([("/m", 0.2, 4096)], schema=USED, orient="row")
    nodes = last_seconds(messages, instances, 0, 10 * S, used=used).nodes
    names = ("node", "rate_hz", "busy", "worst_ms", "lost", "cpu", "rss_bytes")
    assert nodes.select(names).rows() == [
        ("/m", pytest.approx(4 / 9), pytest.approx(0.3), 1000, 0.25, 0.2, 4096),
        ("/k", 0, 0, pytest.approx(100), None, None, None),
        ("/n", 0, 0, None, None, None, None),
    ]
    # From 2.5 to 4.5 s: two executions in two seconds and one on another thread, which goes on.
    later = last_seconds(messages, instances, round(2.5 * S), round(4.5 * S)).nodes
    assert later.select(names[:4]).row(0) == ("/m", 1.5, pytest.approx(1.5 / 2), 1000)


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
