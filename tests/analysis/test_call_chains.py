"""Test chains through services and actions; expected parts by hand, in microseconds."""

from dataclasses import replace

import polars as pl
from ros2_trace import Trace, at, rows
from test_actions import one_goal
from test_chains import Model

from roslens.analysis.chains.estimates import FollowedChain, chain_estimates, check_requirements
from roslens.analysis.chains.requirements import NamedChain
from roslens.analysis.chains.tables import chains_table
from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import chain_instances
from roslens.analysis.flow.flow_graph import find_chains
from roslens.analysis.flow.links import Link
from roslens.analysis.overview.in_range import chains_overview
from roslens.analysis.runs import Run
from roslens.analysis.verdicts.budgets import parse_budget
from roslens.analysis.verdicts.sides import Side

GID = [5, 6, *range(14)]
CLIENT, SERVICE, SERVE, PUB_C, SUB_C = 0x400, 0x500, 0x510, 0x600, 0x700


def through_a_service() -> Trace:
    """Make /client (process 1) take /in and call /add, and /server (2) publish /out to /sink (3).

    Call and publication are in callbacks. This happens twice; the second response never comes.
    """
    trace = Trace()
    trace.node(1, 0x100, "source", pid=4)
    trace.publisher(3, 0x200, "/in", node=0x100, pid=4)
    trace.node(1, 0x100, "client")
    trace.subscription(10, 0x300, "/in", node=0x100, callback=0x390)
    trace.client(16, CLIENT, "/add", node=0x100, gid=GID)
    trace.publisher(18, 0x220, "/done", node=0x100)
    trace.node(1, 0x100, "server", pid=2)
    trace.service(20, SERVICE, "/add", node=0x100, callback=SERVE, pid=2)
    trace.publisher(23, PUB_C, "/out", node=0x100, pid=2)
    trace.node(1, 0x100, "sink", pid=3)
    trace.subscription(10, SUB_C, "/out", node=0x100, callback=0x790, pid=3)
    trace.subscription(30, 0x720, "/done", node=0x100, callback=0x7A0, pid=3)
    for k in range(2):
        us = 1000 + 1000 * k
        trace.publish(us, 0x200, pid=4)
        trace.take(us + 10, 0x300, stamp=at(us + 2))
        trace.run(us + 13, 0x390, lasts=20)
        trace.send_request(us + 20, CLIENT, k)
        trace.take_request(us + 50, SERVICE, k, gid=GID, pid=2)
        trace.run(us + 55, SERVE, lasts=40, pid=2)
        trace.publish(us + 70, PUB_C, pid=2)
        trace.send_response(us + 90, SERVICE, k, gid=GID, pid=2)
        trace.receive(us + 100, SUB_C, 0x790, stamp=at(us + 72), pid=3)
    trace.take_response(1120, CLIENT, 0, stamp=1090)
    trace.publish(1130, 0x220)
    trace.receive(1150, 0x720, 0x7A0, stamp=at(1132), pid=3)
    return trace


def test_through_the_request() -> None:
    model = Model(through_a_service())
    chain = Chain.of("/source -> /in -> /client -> /add.request -> /server -> /out -> /sink")
    followed = chain_instances(model, chain)
    assert rows(followed.instances, "begin_ns", "end_ns", "latency_ns", "outcome") == [
        (1000, 1108, 108_000, "complete"),
        (2000, 2108, 108_000, "complete"),
    ]
    first = followed.hops.filter(instance=0)
    assert rows(first, "topic", "node", "part", "begin_ns", "end_ns") == [
        ("/in", "/client", "publish_call", 1000, 1002),
        ("/in", "/client", "transport", 1002, 1010),
        ("/in", "/client", "take", 1010, 1012),
        ("/in", "/client", "dispatch", 1012, 1013),
        ("/in", "/client", "callback", 1013, 1020),
        ("/add.request", "/server", "publish_call+transport", 1020, 1050),
        ("/add.request", "/server", "take+dispatch", 1050, 1055),
        ("/add.request", "/server", "callback", 1055, 1070),
        ("/out", "/sink", "publish_call", 1070, 1072),
        ("/out", "/sink", "transport", 1072, 1100),
        ("/out", "/sink", "take", 1100, 1102),
        ("/out", "/sink", "dispatch", 1102, 1103),
        ("/out", "/sink", "callback", 1103, 1108),
    ]
    assert first["duration_ns"].sum() == 108_000
    assert chain in find_chains(model)


def test_what_begins_with_a_call_takes_at_least_so_long() -> None:
    """By hand: the call began before its request was written, at 1020."""
    model = Model(through_a_service())
    asked = chain_instances(model, Chain.of("/client -> /add.request -> /server -> /out -> /sink"))
    assert rows(asked.instances, "latency_ns", "at_least") == [(88_000, True), (88_000, True)]
    heard = chain_instances(model, Chain.of("/source -> /in -> /client -> /add.request -> /server"))
    assert heard.instances["at_least"].to_list() == [False, False]
    result = chains_overview([asked, heard])
    assert result.select("worst_ms", "at_least").rows() == [(0.095, False), (0.088, True)]
    followed = FollowedChain(NamedChain(asked.chain, "asked"), asked)
    runs = [Run("r", {})]
    frame = asked.instances.with_columns(run=pl.lit("r"))
    followed = replace(followed, instances=replace(asked, instances=frame))
    by_metric = {e.metric: e for e in chain_estimates(followed, runs)}
    assert by_metric["response_time_mean"].value is None
    assert "at least 0.088 ms" in str(by_metric["response_time_mean"].refused)
    assert "at least 0.0880" in " ".join(chains_table([followed]).rows[0])
    for limit in ("100 us", "50 us"):
        text = f"response_time_max < {limit}"
        named = replace(
            followed.named, budgets=[parse_budget({"budget": text, "where": {"chain": "asked"}})]
        )
        judged = [replace(followed, named=named)]
        result = check_requirements(
            judged, list(by_metric.values()), runs, Side("x", [], [{}], 1, 0)
        )
        assert result.checks[0].verdict == "not_enough_evidence"


def test_through_the_response_and_on_by_a_declared_link() -> None:
    """What follows a response is in no callback, so a link is declared; the second never came."""
    model = Model(through_a_service())
    chain = Chain.of(
        "/source -> /in -> /client -> /add.request -> /server -> /add.response -> /client"
        " -> /done -> /sink"
    )
    link = Link("partial_sync", "/client", "/add.response", "/done")
    followed = chain_instances(model, chain, [link])
    assert rows(followed.instances, "begin_ns", "latency_ns", "outcome", "stopped_at") == [
        (1000, 158_000, "complete", None),
        (2000, None, "unknown", "/add.response"),
    ]
    sums = followed.hops.group_by("instance").agg(pl.col("duration_ns").sum())
    assert sums.rows() == [(0, 158_000)]


def test_through_an_action() -> None:
    """The goal is sent at 100 and taken at 110, the result is sent at 165 and taken at 175."""
    chain = Chain.of("/client1 -> /move.goal -> /server -> /move.result -> /client1")
    followed = chain_instances(Model(one_goal()), chain)
    assert rows(followed.hops, "topic", "node", "part", "begin_ns", "end_ns") == [
        ("/move.goal", "/server", "publish_call+transport", 100, 110),
        ("/move.goal", "/server", "take+dispatch", 110, 110),
        ("/move.goal", "/server", "callback", 110, 165),
        ("/move.result", "/client1", "publish_call+transport", 165, 175),
        ("/move.result", "/client1", "take+dispatch", 175, 175),
        ("/move.result", "/client1", "callback", 175, 175),
    ]
    assert followed.instances["latency_ns"].to_list() == [75_000]
