"""Test chains; expected instances and parts by hand, from events in microseconds."""

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ros2_trace import Trace, at, rows

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import chain_instances, mean_parts
from roslens.analysis.flow.flow_graph import find_chains, flow_graph
from roslens.analysis.flow.links import Link
from roslens.analysis.overview.in_range import chains_overview
from roslens.analysis.path.path import Paths
from roslens.recording import UsageError

SOURCE, B, SINK = 0x10, 0x20, 0x30
PUB_A, PUB_B, SUB_A, SUB_B = 0x100, 0x110, 0x120, 0x130
TICK, CALL_B, CALL_SINK = 0x200, 0x210, 0x220


class Model:
    """The tables of a trace, as a recording gives them."""

    def __init__(self, *traces: Trace) -> None:
        runs = {f"run{k}": trace.tables() for k, trace in enumerate(traces)}
        self.tables = {
            name: pl.concat(
                frames[name].with_columns(run=pl.lit(run)) for run, frames in runs.items()
            )
            for name in runs["run0"]
        }

    def table(self, name: str) -> pl.LazyFrame:
        return self.tables[name].lazy()


def line() -> Trace:
    """Make /source (a timer, process 1) -> /a -> /b (process 2) -> /b_out -> /sink (process 3)."""
    trace = Trace()
    trace.node(1, SOURCE, "source")
    trace.publisher(3, PUB_A, "/a", node=SOURCE)
    trace.timer(5, 0x300, 100_000, callback=TICK, node=SOURCE)
    trace.node(1, B, "b", pid=2)
    trace.subscription(10, SUB_A, "/a", node=B, callback=CALL_B, pid=2)
    trace.publisher(20, PUB_B, "/b_out", node=B, pid=2)
    trace.node(1, SINK, "sink", pid=3)
    trace.subscription(10, SUB_B, "/b_out", node=SINK, callback=CALL_SINK, pid=3)
    return trace


def tick(trace: Trace, us: float) -> None:
    """Run the timer from `us` - 5 to `us` + 5, and publish /a at `us`, stamped + 2."""
    trace.run(us - 5, TICK, lasts=10)
    trace.publish(us, PUB_A)


def forward(trace: Trace, us: float, stamp: float, out: float | None) -> None:
    """Let /b take at `us`, run its callback from + 3 to + 20, and publish at `out`."""
    trace.take(us, SUB_A, stamp=at(stamp), pid=2)
    trace.run(us + 3, CALL_B, lasts=17, pid=2)
    if out is not None:
        trace.publish(out, PUB_B, pid=2)


def end(trace: Trace, us: float, stamp: float) -> None:
    """Let /sink take at `us`, and run its callback from + 3 to + 8."""
    trace.receive(us, SUB_B, CALL_SINK, stamp=at(stamp), pid=3)


def once() -> Trace:
    """Send a message all the way, from 100 to 208 us."""
    trace = line()
    tick(trace, 100)
    forward(trace, 150, 102, 160)
    end(trace, 200, 162)
    return trace


CHAIN = Chain.of("/source -> /a -> /b -> /b_out -> /sink")
INSTANCES = ("begin_ns", "end_ns", "latency_ns", "outcome", "stopped_at")


def parts(hops: pl.DataFrame, instance: int = 0) -> list[tuple[Any, ...]]:
    one_instance = hops.filter(pl.col("instance") == instance)
    return rows(one_instance, "hop", "topic", "part", "begin_ns", "end_ns")


def test_one_instance_and_its_parts() -> None:
    trace = once()
    chain = chain_instances(Model(trace), CHAIN)
    assert chain.links == (None,)
    assert rows(chain.instances, *INSTANCES) == [(100, 208, 108_000, "complete", None)]
    assert parts(chain.hops) == [
        (0, "/a", "publish_call", 100, 102),
        (0, "/a", "transport", 102, 150),
        (0, "/a", "take", 150, 152),
        (0, "/a", "dispatch", 152, 153),
        (0, "/a", "callback", 153, 160),
        (1, "/b_out", "publish_call", 160, 162),
        (1, "/b_out", "transport", 162, 200),
        (1, "/b_out", "take", 200, 202),
        (1, "/b_out", "dispatch", 202, 203),
        (1, "/b_out", "callback", 203, 208),
    ]
    assert chain.hops["duration_ns"].sum() == 108_000
    assert chain.hops["node"].unique().sort().to_list() == ["/b", "/sink"]


def test_a_chain_may_begin_with_the_callback_that_publishes() -> None:
    trace = once()
    chain = chain_instances(Model(trace), CHAIN, begin="callback")
    assert rows(chain.instances, *INSTANCES) == [(95, 208, 113_000, "complete", None)]
    assert parts(chain.hops)[:2] == [
        (0, "/a", "source", 95, 100),
        (0, "/a", "publish_call", 100, 102),
    ]
    assert chain.hops["duration_ns"].sum() == 113_000


def test_whatever_does_not_arrive_says_where_it_stopped() -> None:
    """In turn: arrives, lost on /a, no output, lost on /b_out, arrives, never ends."""
    trace = line()
    for us in (100, 200, 300, 400, 500, 600):
        tick(trace, us)
    for us, out in ((110, 120), (310, None), (410, 420), (510, 520), (610, 620)):
        forward(trace, us, us - 8, out)
    for us in (130, 530):
        end(trace, us, us - 8)
    trace.take(630, SUB_B, stamp=at(622), pid=3)
    trace.run(633, CALL_SINK, lasts=None, pid=3)
    chain = chain_instances(Model(trace), CHAIN)
    assert rows(chain.instances, *INSTANCES) == [
        (100, 138, 38_000, "complete", None),
        (200, None, None, "lost", "/a"),
        (300, None, None, "no_output", "/b"),
        (400, None, None, "lost", "/b_out"),
        (500, 538, 38_000, "complete", None),
        (600, None, None, "unfinished", "/sink"),
    ]
    assert chain.hops["instance"].unique().to_list() == [0, 4]


def test_the_worst_case_waits_since_the_last_that_arrived() -> None:
    """A value that came just after 100 was not seen before 300: 338 - 100."""
    trace = line()
    for us in (100, 200, 300):
        tick(trace, us)
    for us in (110, 310):
        forward(trace, us, us - 8, us + 10)
        end(trace, us + 20, us + 12)
    chain = chain_instances(Model(trace), CHAIN)
    assert chain.instances["worst_ns"].to_list() == [None, None, 238_000]
    assert chain.response_times().rows() == [("run0", 2, 38_000, 38_000, 238_000)]


@pytest.mark.parametrize(
    ("hosts", "bounds", "expected"),
    [
        (("h0", "h0", "h0"), (None, None), 0.0),
        (("h0", "h1", "h2"), (700, 500), 1200.0),
        (("h0", "h1", "h1"), (700, None), 700.0),
        # There and back again: both ends are by one clock.
        (("h0", "h1", "h0"), (700, 700), 0.0),
        (("h0", "h1", "h1"), (None, None), math.inf),
    ],
)
def test_clocks_of_hosts_bound_a_chain(
    hosts: tuple[str, str, str], bounds: tuple[int | None, int | None], expected: float
) -> None:
    """By hand: the bounds of the messages between hosts add up."""
    trace = once()
    model = Model(trace)
    messages = model.tables["messages"]
    assert messages["topic"].to_list() == ["/a", "/b_out"]
    model.tables["messages"] = messages.with_columns(
        pl.Series("publisher_host", hosts[:2]),
        pl.Series("subscription_host", hosts[1:]),
        pl.Series("clock_bound_ns", bounds, pl.Int64),
    )
    assert chain_instances(model, CHAIN).instances["clock_bound_ns"].to_list() == [expected]


def test_two_subscriptions_of_a_node_execute_for_one_message() -> None:
    trace = once()
    trace.subscription(30, 0x140, "/b_out", node=SINK, callback=0x230, pid=3)
    trace.receive(220, 0x140, 0x230, stamp=at(162), pid=3)
    instances = chain_instances(Model(trace), CHAIN).instances
    assert rows(instances, "begin_ns", "end_ns") == [(100, 208), (100, 228)]
    assert instances["last_message_id"].n_unique() == 1
    assert instances["last_message_id"].null_count() == 0


@pytest.mark.parametrize(
    ("hosts", "bound", "durations", "times"),
    [
        # Over half of the 48 us of the transport of /a, but not of the 108 us of the whole.
        (("h0", "h1", "h1"), 24_001, [2, None, 2, 1, 7, 2, 38, 2, 1, 5], (108_000, 108_000)),
        (("h0", "h1", "h1"), 54_000, [2, None, 2, 1, 7, 2, 38, 2, 1, 5], (108_000, 108_000)),
        (("h0", "h1", "h1"), 54_001, [2, None, 2, 1, 7, 2, 38, 2, 1, 5], (None, None)),
        (("h0", "h1", "h1"), None, [2, None, 2, 1, 7, 2, 38, 2, 1, 5], (None, None)),
        (("h0", "h1", "h1"), 24_000, [2, 48, 2, 1, 7, 2, 38, 2, 1, 5], (108_000, 108_000)),
        # Both ends of the chain are by one clock, both transports by two.
        (("h0", "h1", "h0"), None, [2, None, 2, 1, 7, 2, None, 2, 1, 5], (108_000, 108_000)),
    ],
)
def test_what_the_clocks_of_hosts_forbid_saying_is_not_said(
    hosts: tuple[str, str, str],
    bound: int | None,
    durations: list[int | None],
    times: tuple[int | None, int | None],
) -> None:
    """By hand: a time is known if it is twice what the clocks of its ends may be apart."""
    model = Model(once())
    crosses = [hosts[0] != hosts[1], hosts[1] != hosts[2]]
    model.tables["messages"] = model.tables["messages"].with_columns(
        pl.Series("publisher_host", hosts[:2]),
        pl.Series("subscription_host", hosts[1:]),
        pl.Series("clock_bound_ns", [bound if c else None for c in crosses], pl.Int64),
    )
    chain = chain_instances(model, CHAIN)
    assert mean_parts(chain)["duration_ms"].to_list() == [
        None if us is None else pytest.approx(us / 1e3) for us in durations
    ]
    assert chain.response_times().select("best_ns", "slowest_ns").rows() == [times]
    worst_ms = times[0] and times[0] / 1e6
    assert chains_overview([chain]).select("complete", "worst_ms").rows() == [(1, worst_ms)]


def test_only_the_first_output_of_a_callback_counts() -> None:
    trace = line()
    tick(trace, 100)
    forward(trace, 150, 102, 160)
    trace.publish(165, PUB_B, pid=2)
    end(trace, 200, 162)
    end(trace, 220, 167)
    chain = chain_instances(Model(trace), CHAIN)
    assert rows(chain.instances, *INSTANCES) == [(100, 208, 108_000, "complete", None)]


def test_parts_without_an_event_between_are_one() -> None:
    """Without rmw_publish of /a or rclcpp_take, nobody can say where one part ended."""
    trace = once()
    trace.rows = [row for row in trace.rows if row[0] != "rclcpp_take"]
    chain = chain_instances(Model(trace), CHAIN)
    assert parts(chain.hops)[1:4] == [
        (0, "/a", "transport", 102, 150),
        (0, "/a", "take+dispatch", 150, 153),
        (0, "/a", "callback", 153, 160),
    ]
    assert chain.hops["duration_ns"].sum() == 108_000


def test_within_a_process_there_is_no_take() -> None:
    trace = Trace()
    trace.node(1, SOURCE, "source")
    trace.publisher(3, PUB_A, "/a", node=SOURCE)
    trace.subscription(10, SUB_A, "/a", node=SOURCE, callback=CALL_B)
    trace.ring_buffer(20, 0x500, subscription=SUB_A, callback=0x600)
    trace.emit(100, "rclcpp_intra_publish", publisher_handle=PUB_A, message=1)
    buffer = {"buffer": 0x500, "index": 0, "size": 1}
    trace.emit(101, "rclcpp_ring_buffer_enqueue", overwritten=0, **buffer)
    trace.emit(140, "rclcpp_ring_buffer_dequeue", **buffer)
    trace.run(142, 0x600, intra=1)
    chain = chain_instances(Model(trace), Chain.of("/source -> /a -> /source"))
    assert parts(chain.hops) == [
        (0, "/a", "transport", 100, 140),
        (0, "/a", "dispatch", 140, 142),
        (0, "/a", "callback", 142, 147),
    ]


def timed_b() -> Trace:
    """Let /b publish from its own timer."""
    trace = line()
    trace.timer(30, 0x400, 100_000, callback=0x410, node=B, pid=2)
    return trace


def tock(trace: Trace, us: float) -> None:
    """Let /b's timer publish at `us`, and /sink receive the message 10 us later."""
    trace.run(us - 1, 0x410, lasts=5, pid=2)
    trace.publish(us, PUB_B, pid=2)
    end(trace, us + 10, us + 2)


def test_a_periodic_output_uses_the_last_message_again_and_again() -> None:
    """/a at 100 and 200 arrive; /b publishes at 190 (the first), 250 and 350 (the second)."""
    trace = timed_b()
    for us in (100, 200):
        tick(trace, us)
        forward(trace, us + 10, us + 2, None)
    for us in (190, 250, 350):
        tock(trace, us)
    model = Model(trace)
    assert chain_instances(model, CHAIN).instances["outcome"].unique().to_list() == ["no_output"]
    links = [Link("periodic_async", "/b", "/a", "/b_out")]
    chain = chain_instances(model, CHAIN, links)
    assert chain.links == ("periodic_async",)
    assert rows(chain.instances, *INSTANCES) == [
        (100, 208, 108_000, "complete", None),
        (200, 268, 68_000, "complete", None),
        (200, 368, 168_000, "complete", None),
    ]
    assert parts(chain.hops)[4:7] == [
        (0, "/a", "callback", 113, 130),
        (0, "/a", "held", 130, 190),
        (1, "/b_out", "publish_call", 190, 192),
    ]
    assert chain.instances["worst_ns"].to_list() == [None, 168_000, 268_000]


def test_a_link_in_the_recording_counts_as_well() -> None:
    trace = timed_b()
    trace.emit(50, "message_link_periodic_async", subs=[SUB_A], pubs=[PUB_B], pid=2)
    tick(trace, 100)
    forward(trace, 110, 102, None)
    tock(trace, 190)
    chain = chain_instances(Model(trace), CHAIN)
    assert chain.links == ("periodic_async",)
    assert chain.complete.height == 1


def test_partial_sync_uses_each_message_once() -> None:
    """/b has a second input and publishes when both have come, in the callback of the last.

    /a at 100 is followed by the other input's callback, which publishes at 150; the next
    publication, at 250, has no new /a.
    """
    trace = line()
    trace.subscription(40, 0x140, "/other", node=B, callback=0x230, pid=2)
    tick(trace, 100)
    forward(trace, 110, 102, None)
    for us in (145, 245):
        trace.run(us, 0x230, lasts=10, pid=2)
        trace.publish(us + 5, PUB_B, pid=2)
        end(trace, us + 20, us + 7)
    links = [Link("partial_sync", "/b", topic, "/b_out") for topic in ("/a", "/other")]
    chain = chain_instances(Model(trace), CHAIN, links)
    assert rows(chain.instances, *INSTANCES) == [(100, 173, 73_000, "complete", None)]


def test_chains_are_found_with_their_links() -> None:
    trace = timed_b()
    tick(trace, 100)
    forward(trace, 110, 102, None)
    tock(trace, 190)
    model = Model(trace)
    unlinked = [Chain(("/b", "/b_out", "/sink")), Chain(("/source", "/a", "/b"))]
    assert find_chains(model) == unlinked
    links = [Link("periodic_async", "/b", "/a", "/b_out")]
    assert find_chains(model, links) == [CHAIN]
    assert flow_graph(model, links).rows() == [
        ("/b", "/a", "/b_out", "periodic_async", 1),
        ("/sink", "/b_out", None, "sink", 1),
        ("/source", None, "/a", "source", 1),
    ]
    assert flow_graph(model).filter(pl.col("node") == "/b").rows() == [
        ("/b", None, "/b_out", "source", 1),
        ("/b", "/a", None, "sink", 1),
    ]


def test_a_cycle_is_followed_once() -> None:
    trace = line()
    trace.subscription(40, 0x140, "/b_out", node=B, callback=0x230, pid=2)
    trace.publisher(50, 0x150, "/a", node=B, pid=2)
    tick(trace, 100)
    forward(trace, 110, 102, 115)
    trace.take(140, 0x140, stamp=at(117), pid=2)
    trace.run(143, 0x230, lasts=10, pid=2)
    trace.publish(145, 0x150, pid=2)
    forward(trace, 160, 147, None)
    assert [str(chain) for chain in find_chains(Model(trace))] == [
        "/source -> /a -> /b -> /b_out -> /b -> /a -> /b",
        "/source -> /a -> /b -> /b_out -> /sink",
    ]
    whole = chain_instances(Model(trace), find_chains(Model(trace))[0])
    assert rows(whole.instances, *INSTANCES) == [(100, 180, 80_000, "complete", None)]


def test_what_blocked_a_callback() -> None:
    """Between 102 and 190 thread 2 ran three others: 18 of 40, 30, and 10 with one nested."""
    trace = line()
    for us, lasts in ((80, 40), (130, 30), (165, 10)):
        trace.run(us, 0x230, lasts=lasts, pid=2)
    trace.run(167, 0x231, lasts=3, pid=2)
    trace.run(100, 0x230, lasts=50, pid=2, tid=99)
    tick(trace, 100)
    forward(trace, 190, 102, None)
    path = Paths(Model(trace).tables, {}).segments_of().drop_nulls("who")
    assert rows(path, "message_id", "kind", "begin_ns", "end_ns") == [
        (0, "executor", 102, 120), (0, "executor", 130, 160), (0, "executor", 165, 175),
    ]  # fmt: skip


def test_runs_are_kept_apart() -> None:
    """Numbers count within a run: both runs have message 0 and callback 0."""
    traces = [line(), line()]
    for k, trace in enumerate(traces):
        tick(trace, 100)
        forward(trace, 150, 102, 160)
        end(trace, 200 + 10 * k, 162)
    model = Model(*traces)
    chain = chain_instances(model, CHAIN)
    assert chain.instances.select("run", "latency_ns").rows() == [
        ("run0", 108_000),
        ("run1", 118_000),
    ]
    assert chain.response_times().select("run", "best_ns").rows() == [
        ("run0", 108_000),
        ("run1", 118_000),
    ]


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.sampled_from([None, "periodic_async", "partial_sync"]),
)
def test_parts_always_add_up(gaps: list[int], kind: Any) -> None:
    """Whatever the waits and the links, parts add up to the nanosecond."""
    trace = timed_b()
    us = 100.0
    for k, gap in enumerate(gaps):
        tick(trace, us)
        us += 6 + gap
        forward(trace, us, us - 4 - gap, us + 5 if k % 2 else None)
        if k % 2:
            end(trace, us + 9, us + 7)
        us += 25
        if k % 3 == 0:
            tock(trace, us)
        us += 20
    links = [Link(kind, "/b", "/a", "/b_out")] if kind else []
    chain = chain_instances(Model(trace), CHAIN, links)
    sums = chain.hops.group_by("instance").agg(pl.col("duration_ns").sum())
    joined = chain.complete.join(sums, on="instance", how="full")
    assert joined["latency_ns"].to_list() == joined["duration_ns"].to_list()
    assert (chain.hops["duration_ns"] >= 0).all()


def test_a_chain_that_no_message_took() -> None:
    trace = line()
    tick(trace, 100)
    forward(trace, 150, 102, None)
    with pytest.raises(UsageError, match="no message on /b_out from /b to /sink"):
        chain_instances(Model(trace), CHAIN)


@pytest.mark.parametrize("text", ["/a", "/a -> /t", "/a -> /t -> /b -> /u"])
def test_a_chain_ends_with_a_node(text: str) -> None:
    with pytest.raises(UsageError, match="ending with a node"):
        Chain.of(text)
