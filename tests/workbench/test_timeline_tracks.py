"""Test tracks and their pictures, by hand and by a plain second computation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.synthetic import table
from tests.samples import SAMPLES

import roslens as rl
from roslens.analysis.path.path import NEEDED, Paths
from roslens.analysis.timeline import arrows as kinds
from roslens.analysis.timeline.arrows import Flows
from roslens.analysis.timeline.build import build_timeline
from roslens.analysis.timeline.journey import journey_of, journeys_to
from roslens.analysis.timeline.latencies import ROWS, Latencies
from roslens.analysis.timeline.tracks import Timeline, Track
from roslens.widgets.timeline import timeline_of


def track(intervals: list[tuple[int, int]]) -> Track:
    ordered = sorted(intervals)
    begins = np.array([b for b, _ in ordered], dtype=np.int64)
    ends = np.array([e for _, e in ordered], dtype=np.int64)
    count = len(ordered)
    return Track(
        "k",
        "node",
        "process",
        "callback",
        begins,
        ends,
        np.zeros(count, np.int32),
        np.arange(count),
    )


INTERVALS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 60)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=40,
)


@given(INTERVALS, st.integers(0, 200), st.integers(1, 120))
def test_every_interval_that_touches_a_window_is_in_its_range(
    intervals: list[tuple[int, int]], begin: int, length: int
) -> None:
    row = track(intervals)
    first, last = row.range(begin, begin + length)
    touching = {
        i
        for i in range(row.ids.size)
        if row.begin_ns[i] <= begin + length and row.end_ns[i] >= begin
    }
    assert touching <= set(range(first, last))


@given(INTERVALS, st.integers(1, 9))
def test_the_busy_part_is_the_union_of_the_intervals(
    intervals: list[tuple[int, int]], columns: int
) -> None:
    row = track(intervals)
    edges = np.linspace(0, 270, columns + 1).astype(np.int64)
    # As a second way, every nanosecond is counted by itself.
    covered = np.zeros(270, bool)
    for begin, end in intervals:
        covered[begin:end] = True
    expected = [covered[a:b].mean() for a, b in pairwise(edges)]
    np.testing.assert_allclose(row.busy(edges), expected, atol=1e-12)
    begun = [sum(a <= b < e for b, _ in intervals) for a, e in pairwise(edges)]
    assert row.starts(edges).tolist() == begun


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(10, 500))
def test_no_picture_has_more_marks_than_asked_for(count: int, most: int) -> None:
    timeline = Timeline([track([(10 * i, 10 * i + 5) for i in range(count)])], ["x"], 0, 10 * count)
    picture = timeline.picture(0, 10 * count, 1000, most=most)
    assert picture.marks <= most
    assert bool(picture.slices.ids.size) == (count <= most)


def test_few_intervals_are_sent_as_they_are_and_many_as_columns() -> None:
    few, many = track([(0, 10), (20, 30)]), track([(2 * i, 2 * i + 1) for i in range(500)])
    timeline = Timeline([few, many], ["x"], 0, 1000)
    picture = timeline.picture(0, 1000, 100, most=300)
    assert picture.slices.track.tolist() == [0, 0]
    assert picture.slices.begin_ns.tolist() == [0, 20]
    assert set(picture.bins.track.tolist()) == {1}
    # Every column holds five callbacks of 1 ns in its 10 ns.
    assert picture.bins.columns == 100
    assert picture.bins.count.tolist() == [5] * 100
    np.testing.assert_allclose(picture.bins.busy, 0.5)


def test_more_callbacks_than_pixels_are_no_solid_bar() -> None:
    """Callbacks of 2 µs each ms, in 100 columns of 10 ms: a part of 0.002 is busy."""
    rare = track([(1_000_000 * i, 1_000_000 * i + 2_000) for i in range(1000)])
    picture = Timeline([rare], ["x"], 0, 10**9).picture(0, 10**9, 100)
    assert not picture.slices.ids.size
    assert picture.bins.count.tolist() == [10] * 100
    np.testing.assert_allclose(picture.bins.busy, 0.002)


def test_columns_since_1970_are_as_exact_as_those_since_0() -> None:
    """Columns of 50 ns, of which a callback takes 25, at a time that floats know to 256 ns."""
    origin = 1_760_000_000_000_000_001
    busy = track([(origin + 50 * i, origin + 50 * i + 25) for i in range(1000)])
    picture = Timeline([busy], ["x"], origin, origin + 5000).picture(origin, origin + 5000, 100)
    assert picture.bins.count.tolist() == [1] * 100
    assert picture.bins.busy.tolist() == [0.5] * 100


def test_the_innermost_interval_is_the_one_clicked() -> None:
    timeline = Timeline([track([(0, 100), (40, 60)])], ["x"], 0, 100)
    assert timeline.at(0, 50) == 1
    assert timeline.at(0, 10) == 0
    assert timeline.at(0, 110) is None
    assert timeline.at(0, 110, within_ns=20) is not None


def frames() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    callbacks = pl.DataFrame(
        {
            "callback_instance_id": [0, 1, 2],
            "callback_id": [10, 11, 12],
            "host": ["h0", "h0", "h0"],
            "vpid": [7, 7, 8],
            "vtid": [7, 7, 9],
            "node": ["/a", None, "/b"],
            "kind": ["timer", "subscription", "subscription"],
            "name": ["100 ms", None, "/topic"],
            "start_ns": [100, 300, 500],
            "end_ns": [200, None, 700],
        }
    )
    waits = pl.DataFrame(
        {
            "host": ["h0", "h0"],
            "vpid": [7, 7],
            "vtid": [7, 7],
            "state": ["wait", "busy"],
            "begin_ns": [0, 90],
            "end_ns": [90, 200],
        }
    )
    processes = pl.DataFrame({"host": ["h0", "h0"], "vpid": [7, 8], "procname": ["talker", None]})
    return callbacks, waits, processes


def test_tracks_by_thread_and_node_with_waiting_below() -> None:
    timeline = build_timeline(*map(pl.DataFrame.lazy, frames()))
    assert [(t.label, t.group, t.kind) for t in timeline.tracks] == [
        ("(node unknown)", "h0 talker 7, thread 7", "callback"),
        ("/a", "h0 talker 7, thread 7", "callback"),
        ("waiting for work", "h0 talker 7, thread 7", "wait"),
        ("/b", "h0 process 8, thread 9", "callback"),
    ]
    assert (timeline.begin_ns, timeline.end_ns) == (0, 700)
    unknown = timeline.tracks[0]
    # A callback without an end is drawn as its beginning.
    assert (unknown.begin_ns.tolist(), unknown.end_ns.tolist()) == ([300], [300])
    assert timeline.names[int(timeline.tracks[3].names[0])] == "/topic"


def test_tracks_by_process_node_and_executor() -> None:
    # Threads 7 and 8 execute callback 10, so they are of one executor; thread 9 is alone.
    callbacks = pl.LazyFrame(
        {
            "callback_instance_id": [0, 1, 2, 3],
            "callback_id": [10, 10, 11, 12],
            "host": ["h0"] * 4,
            "vpid": [7] * 4,
            "vtid": [7, 8, 8, 9],
            "node": ["/a", "/a", "/b", "/b"],
            "kind": ["timer"] * 4,
            "name": ["100 ms"] * 4,
            "start_ns": [0, 100, 200, 300],
            "end_ns": [50, 150, 250, 350],
        }
    )
    _, waits, processes = (frame.lazy() for frame in frames())
    waits = waits.filter(pl.col("state") == "wait")
    timeline = build_timeline(callbacks, waits, processes)
    shown = {
        by: [track.places[by] for track in timeline.tracks]
        for by in ("process", "node", "executor")
    }
    executor = "h0 talker 7, executor of threads 7, 8"
    assert shown["process"] == [
        ("h0 talker 7", label)
        for label in ("/a", "waiting for work", "/a, thread 8", "/b, thread 8", "/b, thread 9")
    ]
    assert shown["node"] == [
        ("/a", "h0 talker 7"),
        ("processes and threads", "waiting for work, h0 talker 7"),
        ("/a", "h0 talker 7, thread 8"),
        ("/b", "h0 talker 7, thread 8"),
        ("/b", "h0 talker 7, thread 9"),
    ]
    assert [heading for heading, _ in shown["executor"]] == [
        *4 * [executor],
        "h0 talker 7, executor of thread 9",
    ]


def test_hits_go_on_and_back_over_all_tracks() -> None:
    first, second = track([(0, 10), (50, 60)]), track([(20, 30)])
    timeline = Timeline([first, second], ["x"], 0, 100)
    assert timeline.hit({0}, set(), -1, 1) == (0, 0)
    assert timeline.hit({0}, set(), 0, 1) == (1, 0)
    assert timeline.hit({0}, set(), 20, 1) == (0, 1)
    assert timeline.hit({0}, set(), 50, 1) is None
    assert timeline.hit({0}, set(), 50, -1) == (1, 0)
    # The track's own name alone decides.
    assert timeline.hit(set(), {1}, -1, 1) == (1, 0)
    assert timeline.hit(set(), set(), -1, 1) is None


def test_latencies_are_counted_by_time_and_size() -> None:
    # 1, 10, 100 µs at 0, 50, 99 ns; one is lost at 60 ns; another topic is not counted.
    messages = pl.LazyFrame(
        {
            "topic": ["/t", "/t", "/t", "/t", "/other"],
            "publish_ns": [0, 50, 99, 60, 10],
            "latency_ns": [1_000, 10_000, 100_000, None, 5],
            "outcome": ["delivered"] * 3 + ["lost", "delivered"],
            "clock_bound_ns": None,
            "callback_instance_id": [5, 6, 7, None, 8],
        }
    )
    latencies = Latencies(messages)
    assert latencies.topics == ["/t", "/other"]
    grid = latencies.grid("/t", 0, 100, 10)
    assert grid.counts.sum(axis=1).tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert grid.lost.tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert (grid.low_ns, grid.high_ns) == (900, pytest.approx(110_000))
    # Equal steps of the logarithm: 36 from 0.9 to 110 µs.
    step = np.log(110_000 / 900) / ROWS
    expected = [int(np.log(latency / 900) / step) for latency in (1_000, 10_000, 100_000)]
    assert np.argmax(grid.counts[[0, 5, 9]], axis=1).tolist() == expected
    assert latencies.grid("/t", 10, 90, 4).counts.sum() == 1
    assert latencies.nearest("/t", 52, 11_000, 10, 1.5) == 6
    assert latencies.nearest("/t", 52, 90_000, 10, 1.5) is None
    assert latencies.grid("/none", 0, 100, 10).p50_ns is None
    # The interval of a median needs 6 latencies, that of a P99 299.
    assert (grid.p50_ns, grid.p99_ns) == (None, None)
    for count, known in ((5, (None, None)), (6, (7, None)), (299, (7, 7))):
        same = pl.LazyFrame(
            {"topic": "/t", "publish_ns": range(count), "latency_ns": 7, "outcome": "delivered",
             "clock_bound_ns": None, "callback_instance_id": range(count)}
        )  # fmt: skip
        of_count = Latencies(same).grid("/t", 0, 100, 10)
        assert (of_count.p50_ns, of_count.p99_ns) == known


@pytest.mark.recording
def test_what_was_published_before_the_first_callback_is_seen() -> None:
    recordings = rl.open(SAMPLES / "lifecycle")
    messages = recordings.messages.filter(pl.col("latency_ns").is_not_null()).collect()
    timeline, latencies = timeline_of(recordings), Latencies(recordings.messages)
    assert messages["publish_ns"].min() < recordings.callback_instances.collect()["start_ns"].min()
    for (topic,), of_topic in messages.group_by("topic"):
        grid = latencies.grid(str(topic), timeline.begin_ns, timeline.end_ns, 100)
        assert grid.counts.sum() == of_topic.height


def test_a_run_without_callbacks_is_empty_and_no_error() -> None:
    callbacks, waits, processes = (frame.clear().lazy() for frame in frames())
    timeline = build_timeline(callbacks, waits, processes)
    assert timeline.tracks == []
    assert timeline.picture(0, 10, 100).marks == 0


MESSAGE = {
    "message_id": 5,
    "topic": "/t",
    "publisher_node": "/a",
    "subscription_node": "/b",
    "outcome": "delivered",
    "publish_ns": 100,
    "rcl_publish_ns": 110,
    "rmw_publish_ns": 130,
    "take_ns": 400,
    "rclcpp_take_ns": None,
    "callback_start_ns": 500,
    "callback_end_ns": 700,
    "latency_ns": 400,
    "callback_instance_id": 2,
}


def no_paths() -> Paths:
    return Paths({name: table(name) for name in NEEDED}, {})


def test_hops_add_up_to_the_whole_way() -> None:
    """Two earlier messages of the same callback, one after the other, are one hop."""
    place = {"host": "h", "vpid": 1, "vtid": 7, "kind": "subscription", "name": "/t", "node": "/b"}
    ran = [(0, 50, 150), (1, 150, 400), (2, 500, 700)]
    given = {
        "messages": [MESSAGE | {"subscription_id": 3, "subscription_host": "h",
                                "subscription_vpid": 1}],
        "callback_instances": [
            place | {"callback_instance_id": number, "start_ns": start, "end_ns": end,
                     "callback_id": 4}
            for number, start, end in ran
        ],
    }  # fmt: skip
    tables = {name: table(name, *given.get(name, ())) for name in NEEDED}
    paths = Paths(tables, {})
    journey = journey_of(tables["messages"].lazy(), 2, lambda: paths)
    assert journey is not None
    assert [(h.name, h.duration_ns) for h in journey.hops] == [
        ("publishing", 30),
        ("queue, subscription callback (/t) of /b", 270),
        ("executor", 100),
        ("running", 200),
    ]
    assert sum(h.duration_ns for h in journey.hops[:-1]) == journey.latency_ns
    assert journey_of(tables["messages"].lazy(), 99, lambda: paths) is None
    (without,) = journeys_to(tables["messages"].lazy(), [2], no_paths)
    assert not without.hops


def test_arrows_of_a_window_and_their_number_beyond_the_most() -> None:
    messages = pl.DataFrame([MESSAGE | {"message_id": i, "publish_ns": 100 * i,
                                        "callback_start_ns": 100 * i + 250,
                                        "callback_instance_id": i} for i in range(10)])  # fmt: skip
    publications = pl.DataFrame(
        {"message_id": list(range(10)), "callback_instance_id": [None, *range(20, 29)]}
    )
    flows = Flows(messages.lazy(), publications.lazy())
    arrows = flows.arrows(300, 400).rows
    # Messages published from 50 to 400: 1 (ends at 350) to 4.
    assert arrows["to_id"].to_list() == [1, 2, 3, 4]
    assert arrows["from_id"].to_list() == [20, 21, 22, 23]
    assert arrows["name"].unique().to_list() == ["/t"]
    assert arrows["kind"].unique().to_list() == [kinds.MESSAGE]
    assert flows.arrows(0, 5000).rows["from_id"][0] is None
    # All took equally long: none was faster.
    assert arrows["place"].to_list() == [0] * 4
    slower = messages.with_columns(latency_ns=pl.Series([300, 100, 400, 200, *[50] * 6]))
    places = Flows(slower.lazy(), publications.lazy()).arrows(0, 5000).rows["place"].to_list()
    assert places == [0.8, 0.6, 0.9, 0.7, *[0] * 6]
    many = flows.arrows(0, 5000, most=3)
    assert (many.count, many.rows.height) == (10, 0)
    # The order of the table does not matter.
    turned = Flows(messages.reverse().lazy(), publications.reverse().lazy())
    assert turned.arrows(300, 400).rows.equals(arrows)


def test_a_lost_message_is_where_it_was_published() -> None:
    lost = MESSAGE | {"message_id": 8, "outcome": "lost", "publish_ns": 300, "latency_ns": None,
                      "callback_start_ns": None, "callback_instance_id": None}  # fmt: skip
    publications = pl.LazyFrame({"message_id": [5, 8], "callback_instance_id": [None, 21]})
    arrows = Flows(pl.LazyFrame([MESSAGE, lost]), publications).arrows(0, 1000).rows
    names = ("begin_ns", "end_ns", "from_id", "to_id", "kind", "place")
    assert arrows.select(names).rows() == [
        (100, 500, None, 2, kinds.MESSAGE, 0.0),
        (300, 300, 21, None, kinds.LOST_MESSAGE, None),
    ]


CALL = {
    "service": "/add",
    "client_node": "/c",
    "server_node": "/s",
    "sequence_number": 4,
    "request_called_ns": None,
    "request_sent_ns": 100,
    "request_taken_ns": 150,
    "callback_start_ns": 200,
    "callback_end_ns": 300,
    "response_called_ns": None,
    "response_sent_ns": 310,
    "response_taken_ns": 400,
    "callback_instance_id": 11,
    "client_callback_instance_id": 10,
}


def test_a_call_is_an_arrow_there_and_one_back_and_a_journey() -> None:
    open_call = CALL | {"request_sent_ns": 1000, "request_taken_ns": 1010,
                        "callback_start_ns": 1020, "callback_instance_id": 12,
                        "client_callback_instance_id": None,
                        "response_sent_ns": None, "response_taken_ns": None}  # fmt: skip
    calls = pl.DataFrame([CALL, open_call]).lazy()
    none = pl.DataFrame([MESSAGE]).clear().lazy()
    publications = pl.LazyFrame(schema={"message_id": pl.Int64, "callback_instance_id": pl.Int64})
    flows = Flows(none, publications, calls)
    rows = flows.arrows(0, 2000).rows
    names = ("begin_ns", "end_ns", "from_id", "to_id", "from_node", "to_node", "kind")
    assert rows.select(names).rows() == [
        (100, 200, 10, 11, "/c", "/s", kinds.REQUEST),
        (310, 400, 11, None, "/s", "/c", kinds.RESPONSE),
        (1000, 1020, None, 12, "/c", "/s", kinds.REQUEST),
    ]
    assert flows.arrows(450, 900).count == 0
    journey = journey_of(none, 11, no_paths, calls)
    assert journey is not None
    assert [(h.name, h.duration_ns) for h in journey.hops] == [
        ("request_sent -> request_taken", 50),
        ("request_taken -> callback_start", 50),
        ("callback_start -> callback_end", 100),
        ("callback_end -> response_sent", 10),
        ("response_sent -> response_taken", 90),
    ]
    assert (journey.kind, journey.latency_ns, journey.outcome) == ("call", 300, "answered")


def test_the_way_of_a_message_leads_back_to_its_source_and_on_to_its_end() -> None:
    # A timer (1) publishes 50, received by 2, which publishes 51, received by 3 and 4 (first); 4
    # publishes 52, received by 5. Nothing follows from 3.
    def message(number: int, published: int, received: int, by: int) -> dict[str, object]:
        return MESSAGE | {"message_id": number, "publish_ns": published,
                          "callback_start_ns": received, "callback_end_ns": received + 50,
                          "callback_instance_id": by}  # fmt: skip

    messages = pl.DataFrame(
        [message(50, 10, 100, 2), message(51, 120, 300, 3), message(51, 120, 200, 4),
         message(52, 210, 500, 5), message(53, 600, 700, 9)]
    ).lazy()  # fmt: skip
    publications = pl.LazyFrame(
        {"message_id": [50, 51, 52, 53], "callback_instance_id": [1, 2, 4, None]}
    )
    flows = Flows(messages, publications)
    assert flows.callbacks_on_way(2) == [2, 4, 5]
    assert flows.callbacks_on_way(4) == [2, 4, 5]
    assert flows.callbacks_on_way(3) == [2, 3]
    assert flows.callbacks_on_way(1) == [2, 4, 5]
    assert flows.callbacks_on_way(9) == [9]
    assert flows.callbacks_on_way(77) == []
    assert [j.message_id for j in journeys_to(messages, flows.callbacks_on_way(5), no_paths)] == [
        50,
        51,
        52,
    ]


def test_messages_in_a_circle_end() -> None:
    messages = pl.DataFrame(
        [
            MESSAGE | {"message_id": i, "callback_instance_id": 1 - i, "publish_ns": i}
            for i in (0, 1)
        ]
    ).lazy()
    publications = pl.LazyFrame({"message_id": [0, 1], "callback_instance_id": [0, 1]})
    assert len(Flows(messages, publications).callbacks_on_way(0)) <= 64


def test_cpus_in_use_from_sample_to_sample_and_in_callbacks() -> None:
    callbacks, waits, processes = (frame.lazy() for frame in frames())
    resources = pl.LazyFrame(
        {
            "host": ["h0"] * 4 + ["h0"],
            "vpid": [7, 7, 7, 7, 99],
            "time_ns": [0, 100, 200, 300, 0],
            # Half a CPU, then two; then another process has the number.
            "cpu_time_ns": [0, 50, 250, 10, 0],
        }
    )
    scheduling = pl.LazyFrame(
        {"callback_instance_id": [0], "host": ["h0"], "vpid": [7], "vtid": [7],
         "start_ns": [100], "duration_ns": [100], "cpu_ns": [25]}
    )  # fmt: skip
    timeline = build_timeline(
        callbacks, waits, processes, resources=resources, scheduling=scheduling
    )
    assert [(t.label, t.group) for t in timeline.tracks] == [
        ("CPU of the process", "h0 talker 7"),
        ("(node unknown)", "h0 talker 7, thread 7"),
        ("/a", "h0 talker 7, thread 7"),
        ("on a CPU in callbacks", "h0 talker 7, thread 7"),
        ("waiting for work", "h0 talker 7, thread 7"),
        ("/b", "h0 process 8, thread 9"),
    ]
    cpu, running = timeline.tracks[0], timeline.tracks[3]
    assert cpu.levels is not None
    assert list(zip(cpu.begin_ns, cpu.end_ns, cpu.levels, strict=True)) == [
        (0, 100, 0.5),
        (100, 200, 2.0),
    ]
    assert running.levels is not None
    assert running.levels.tolist() == [0.25]
    # In columns, the mean is drawn: half of the first, all of the second, nothing.
    edges = np.array([50, 150, 200, 250])
    np.testing.assert_allclose(cpu.busy(edges), [0.5 * 0.5 + 0.5 * 2, 2, 0])


def test_lanes_of_the_kernel_by_cpu_and_thread() -> None:
    """By hand: thread 7 runs, is preempted by 99, runs on; sleeps, is woken, and runs on CPU 1."""
    callbacks, waits, processes = (frame.lazy() for frame in frames())
    preempted, asleep = 0x100, 1
    switches = pl.LazyFrame(
        [(100, 0, 0, 7, 0), (150, 0, 7, 99, preempted), (180, 0, 99, 7, 0), (200, 0, 7, 0, asleep),
         (320, 1, 0, 7, 0), (350, 1, 7, 0, asleep),
         # Here an event is missing: 98 left a CPU that 97 had come to.
         (400, 1, 0, 97, 0), (450, 1, 98, 0, asleep)],
        schema=["time_ns", "cpu_id", "prev_tid", "next_tid", "prev_state"], orient="row",
    ).with_columns(
        pl.col("cpu_id").cast(pl.Int32), host=pl.lit("h0"), next_comm=pl.format("t{}", "next_tid")
    )  # fmt: skip
    wakes = pl.LazyFrame({"host": ["h0"], "tid": [7], "time_ns": [300]})
    events = {"sched_switch": switches, "sched_waking": wakes}
    timeline = build_timeline(callbacks, waits, processes, kernel=events)
    lanes = {
        (t.group, t.label): [
            (int(b), int(e), timeline.names[int(n)])
            for b, e, n in zip(t.begin_ns, t.end_ns, t.names, strict=True)
        ]
        for t in timeline.tracks
        if t.kind in {"running", "runnable", "core"}
    }
    assert lanes == {
        ("h0 talker 7, thread 7", "on a CPU"): [
            (100, 150, "on CPU 0"), (180, 200, "on CPU 0"), (320, 350, "on CPU 1"),
        ],
        ("h0 talker 7, thread 7", "waits for a CPU"): [
            (150, 180, "preempted"), (300, 320, "woken, waits for a CPU"),
        ],
        ("h0 CPUs", "CPU 0"): [(100, 150, "t7 7"), (150, 180, "t99 99"), (180, 200, "t7 7")],
        ("h0 CPUs", "CPU 1"): [(320, 350, "t7 7")],
    }  # fmt: skip
    # Attaching to a running program leaves callbacks unknown, which changes nothing.
    unknown = callbacks.with_columns(callback_id=pl.lit(None, pl.Int64))
    attached = build_timeline(unknown, waits, processes, kernel=events)
    assert [t.kind for t in attached.tracks] == [t.kind for t in timeline.tracks]
    # Tracks of the CPUs lie below all others; the window is that of the callbacks.
    assert [t.kind for t in timeline.tracks][-2:] == ["core", "core"]
    assert (timeline.begin_ns, timeline.end_ns) == (0, 700)
    nothing = {"sched_switch": switches.filter(pl.col("time_ns") < 0)}
    without = build_timeline(callbacks, waits, processes, kernel=nothing)
    assert {t.kind for t in without.tracks} == {"callback", "wait"}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 300))
def test_few_marks_of_one_track_are_left_to_the_others(counts: list[int], most: int) -> None:
    tracks = [track([(3 * i, 3 * i + 1) for i in range(n)]) for n in counts]
    timeline = Timeline(tracks, ["x"], 0, 200)
    picture = timeline.picture(0, 200, 100, most=most)
    assert picture.marks <= max(most, len(counts))
    if sum(counts) <= most:
        assert picture.slices.ids.size == sum(counts)


def test_the_next_and_the_previous_interval_of_a_track() -> None:
    timeline = Timeline([track([(0, 10), (40, 60), (70, 80)])], ["x"], 0, 100)
    assert timeline.next(0, 40, 1) == 1
    assert timeline.next(0, 41, 1) == 2
    assert timeline.next(0, 40, -1) == 1
    assert timeline.next(0, 39, -1) == 0
    assert timeline.next(0, 71, 1) is None
    assert timeline.next(0, -1, -1) is None
