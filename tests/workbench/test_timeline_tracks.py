"""Tracks and their pictures, against counting by hand and a plain second way of computing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.timeline.journey import Flows, journey_of
from analysis.timeline.tracks import Timeline, Track, build_timeline


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
    st.tuples(st.integers(0, 200), st.integers(0, 60)).map(lambda x: (x[0], x[0] + x[1])),
    max_size=40,
)


@given(INTERVALS, st.integers(0, 200), st.integers(1, 120))
def test_every_interval_that_touches_a_window_is_in_its_range(
    intervals: list[tuple[int, int]], begin: int, length: int
) -> None:
    made = track(intervals)
    first, last = made.range(begin, begin + length)
    touching = {
        i
        for i in range(made.ids.size)
        if made.begin_ns[i] <= begin + length and made.end_ns[i] >= begin
    }
    assert touching <= set(range(first, last))


@given(INTERVALS, st.integers(1, 9))
def test_the_busy_part_is_the_union_of_the_intervals(
    intervals: list[tuple[int, int]], columns: int
) -> None:
    made = track(intervals)
    edges = np.linspace(0, 270, columns + 1).astype(np.int64)
    # A second way: every nanosecond by itself.
    covered = np.zeros(270, bool)
    for begin, end in intervals:
        covered[begin:end] = True
    expected = [covered[a:b].mean() for a, b in pairwise(edges)]
    np.testing.assert_allclose(made.busy(edges), expected, atol=1e-12)
    begun = [sum(a <= b < e for b, _ in intervals) for a, e in pairwise(edges)]
    assert made.starts(edges).tolist() == begun


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
    # One without an end is its beginning.
    assert (unknown.begin_ns.tolist(), unknown.end_ns.tolist()) == ([300], [300])
    assert timeline.names[int(timeline.tracks[3].names[0])] == "/topic"


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


def test_hops_add_up_to_the_whole_way() -> None:
    journey = journey_of(pl.LazyFrame([MESSAGE]), 2)
    assert journey is not None
    assert [(h.name, h.duration_ns) for h in journey.hops] == [
        ("publish -> rcl_publish", 10),
        ("rcl_publish -> rmw_publish", 20),
        ("rmw_publish -> take", 270),
        ("take -> callback_start", 100),
        ("callback_start -> callback_end", 200),
    ]
    assert sum(h.duration_ns for h in journey.hops[:-1]) == journey.latency_ns
    assert journey_of(pl.LazyFrame([MESSAGE]), 99) is None


def test_arrows_of_a_window_and_their_number_beyond_the_most() -> None:
    messages = pl.DataFrame([MESSAGE | {"message_id": i, "publish_ns": 100 * i,
                                        "callback_start_ns": 100 * i + 250,
                                        "callback_instance_id": i} for i in range(10)])  # fmt: skip
    publications = pl.DataFrame(
        {"message_id": list(range(10)), "callback_instance_id": [None, *range(20, 29)]}
    )
    flows = Flows(messages.lazy(), publications.lazy())
    found = flows.arrows(300, 400)
    # Those published from 50 to 400: 1 (ends at 350) to 4.
    assert found.to_id.tolist() == [1, 2, 3, 4]
    assert found.from_id.tolist() == [20, 21, 22, 23]
    assert flows.arrows(0, 5000).from_id[0] == -1
    many = flows.arrows(0, 5000, most=3)
    assert (many.count, many.to_id.size) == (10, 0)
