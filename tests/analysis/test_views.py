"""Test which rows views keep, by hand; times in seconds after the first event."""

from pathlib import Path

import polars as pl
import pytest
from ros2_trace import Trace, at
from test_services import CLIENT, client_and_servers, serve

import roslens as rl
from roslens.collectors import views
from roslens.collectors.schema import SAMPLED, TABLES
from roslens.recording import UsageError
from roslens.recordings import Recordings

TALKER, LISTENER = 0x110, 0x120
S = 1_000_000


def two_topics() -> Trace:
    """Let /talker (process 1) publish /a and /b each second from 1 to 4 s, for /ear (2), /eye (3).

    /ear subscribes to /a, /eye to /b; callbacks follow 50 us after. A service call is at 2.5 s. The
    executor of process 2 waits from 1.5 to 2.5 s, and from 3.5 s on.
    """
    trace = client_and_servers(4)
    trace.emit(0, "rcl_init", context_handle=1, version="8.6.0")
    trace.node(10, TALKER, "talker")
    for k, topic in enumerate(("/a", "/b")):
        trace.publisher(20 + 5 * k, 0x200 + 0x10 * k, topic, node=TALKER)
        pid = 2 + k
        trace.node(10, LISTENER, ("ear", "eye")[k], pid=pid)
        trace.subscription(40, 0x300, topic, node=LISTENER, callback=0x400, pid=pid)
        for second in range(1, 5):
            us = second * S + 100 * k
            trace.publish(us, 0x200 + 0x10 * k)
            trace.receive(us + 50, 0x300, 0x400, stamp=at(us + 2), pid=pid)
    trace.send_request(2.5 * S, CLIENT, 1)
    serve(trace, 2.5 * S + 10, 1, pid=4)
    for second, name in ((1.5, "wait_for_work"), (2.5, "get_next_ready"), (3.5, "wait_for_work")):
        payload = {"timeout": -1} if name == "wait_for_work" else {}
        trace.emit(second * S, f"rclcpp_executor_{name}", pid=2, **payload)
    return trace


def write(folder: Path, trace: Trace) -> Path:
    """Write a bare recording's tables without its trace, which is all that `open` needs."""
    tables = folder / "roslens" / "tables"
    tables.mkdir(parents=True)
    for name, frame in trace.tables().items():
        frame.write_parquet(tables / f"{name}.parquet")
    (folder / "metadata").touch()
    return folder


@pytest.fixture
def whole(tmp_path: Path) -> Recordings:
    return rl.open(write(tmp_path / "run", two_topics()), collect=False)


def seconds(frame: pl.LazyFrame, column: str = "publish_ns") -> list[tuple[str, int]]:
    rows = frame.sort(column).select("topic", (pl.col(column) - at(0)) // 10**9)
    return [(topic, second) for topic, second in rows.collect().iter_rows()]


def test_a_window_by_seconds_and_by_the_clock(whole: Recordings) -> None:
    expected = [("/a", 2), ("/b", 2), ("/a", 3), ("/b", 3)]
    for seen in (
        whole.view(window=(1.5, 3.5)),
        whole.view(window_ns=(at(1.5 * S), at(3.5 * S))),
        whole.view(warm_up=1.5).view(window=(None, 3.5)),
        whole.view(warm_up=1.5, window=(1.0, 3.5)),
        whole.view(window=("+1.5s", "+3.5s")),
        whole.view(window=("22:13:21.5", "2023-11-14 22:13:23.5 UTC")),
        whole.view(warm_up=1.5, window=("+1s", 3.5)),
    ):
        assert seconds(seen.messages) == expected
        assert seconds(seen.publications) == expected
        assert seconds(seen.takes, "take_ns") == expected
        assert seen.callback_instances.collect().height == 5
        assert seen.service_calls.collect().height == 1
        assert seen.subscriptions.collect().height == 2
    assert whole.messages.collect().height == 8


def test_a_window_begins_with_its_first_moment_and_ends_before_its_last(whole: Recordings) -> None:
    assert seconds(whole.view(window=(2, 3)).messages) == [("/a", 2), ("/b", 2)]


def test_stretches_count_that_touch_the_window(whole: Recordings) -> None:
    """The stretches are wait 1.5-2.5, busy 2.5-3.5, and wait from 3.5 on without end."""
    states = whole.view(window=(2.6, 3)).executor_intervals.collect()
    assert states["state"].to_list() == ["busy"]
    later = whole.view(window=(3.9, None)).executor_intervals.collect()
    assert later["state"].to_list() == ["wait"]


def test_topics(whole: Recordings) -> None:
    seen = whole.view(topics="/b")
    assert {topic for topic, _ in seconds(seen.messages)} == {"/b"}
    assert seen.publishers.collect()["topic"].to_list() == ["/b"]
    kinds = seen.callback_instances.group_by("kind", "name").len().sort("kind").collect()
    assert kinds.rows() == [("service", "/add", 1), ("subscription", "/b", 4)]
    assert seen.nodes.collect().height == whole.nodes.collect().height


def test_nodes_at_either_end(whole: Recordings) -> None:
    assert whole.view(nodes="/e*").messages.collect().height == 8
    assert {t for t, _ in seconds(whole.view(nodes="/ear").messages)} == {"/a"}
    assert whole.view(nodes=["/ear", "/server4"]).service_calls.collect().height == 1
    assert whole.view(nodes="/ear").service_calls.collect().height == 0


def test_processes_by_name_and_number(whole: Recordings) -> None:
    for names in ("p2", "2", ["p2", "2"]):
        seen = whole.view(processes=names)
        assert {topic for topic, _ in seconds(seen.messages)} == {"/a"}
        assert seen.executor_intervals.collect().height == 3
        assert seen.service_calls.collect().height == 0
        assert seen.processes.collect()["vpid"].to_list() == [2]
    assert whole.view(processes="p4").service_calls.collect().height == 1


def test_views_of_views_narrow_further(whole: Recordings) -> None:
    seen = whole.view(topics="/a").view(window=(1.5, 2.5))
    assert seconds(seen.messages) == [("/a", 2)]
    assert "2 views" in repr(seen)


def test_what_was_lost_is_never_cut(tmp_path: Path) -> None:
    trace = two_topics()
    trace.lose(100, 200, 7)
    whole = rl.open(write(tmp_path / "run", trace), collect=False)
    seen = whole.view(window=(3, 4), topics="/a", nodes="/ear", processes="p2")
    assert seen.losses.collect().height == 1
    assert seen.health.collect().height == whole.health.collect().height
    assert "THE TRACER LOST EVENTS" in repr(seen)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"nodes": "/nobody"}, r"no node is named '/nobody'; there are /client, /ear"),
        ({"topics": ["/a", "/c*"]}, r"no topic is named '/c\*'; there are /a, /b"),
        ({"processes": "9"}, "no process is named '9'"),
        ({"window": (3, 2)}, r"ends \(2\) before it begins \(3\)"),
        ({"window": (10, None)}, "touches no run: the longest takes 4.000"),
        ({"window_ns": (0, 1)}, "touches no run"),
        ({"window": ("+3s", "+2s")}, "touches no run: .* begins at 20"),
        ({"window": ("noon", None)}, "'noon' is no time"),
        ({"window": ([1], None)}, r"\[1\] is no time; give seconds"),
    ],
)
def test_a_view_of_nothing_says_so(
    whole: Recordings, arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        whole.view(**arguments)


def test_relative_windows_count_from_each_runs_own_begin(tmp_path: Path) -> None:
    for k, name in enumerate(("r0", "r1")):
        trace = two_topics()
        for _, row in trace.rows:
            row["time_ns"] += k * 3600 * 10**9
        write(tmp_path / name, trace)
    seen = rl.open([tmp_path / "r0", tmp_path / "r1"], collect=False).view(window=(1.5, 2.5))
    counts = seen.publications.group_by("run").len().sort("run").collect()
    assert counts.rows() == [("r0", 2), ("r1", 2)]


def test_every_table_says_how_it_is_cut() -> None:
    table_names = {*views.NEVER_CUT, *views.OBJECTS, *views.MOMENTS, *views.STRETCHES}
    assert table_names == {*TABLES, *(table.name for table in SAMPLED)}
