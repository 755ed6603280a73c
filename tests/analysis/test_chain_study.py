"""Test the study of chains.

Expected values are by hand from events in microseconds and, on the sample, what the program itself
logged at each stage with the system clock.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from ros2_trace import Trace, at
from test_chains import Model
from tests.samples import RUN, SAMPLES, uncollected

import roslens as rl
from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.chains.requirements import read_requirements
from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import UNTOLD, chain_instances
from roslens.analysis.flow.links import Link
from roslens.analysis.flow.taking_turns import as_yaml, links_found
from roslens.compare import measured
from roslens.recording import UsageError

SAMPLE = SAMPLES / "chain.tar.zst"
MAIN = "/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink"
LEFT, RIGHT, OUT, FUSION, SINK = 0x100, 0x110, 0x120, 0x20, 0x30
SUB_LEFT, SUB_RIGHT, SUB_OUT = 0x130, 0x140, 0x150
CALL_LEFT, CALL_RIGHT, CALL_OUT = 0x200, 0x210, 0x220


def fusion(order: str, *, each: bool = False) -> Trace:
    """Make /left and /right -> /fusion -> /out -> /sink; `order` is such as ``lrrl``.

    /fusion publishes when it has one more of both, or `each` time.
    """
    trace = Trace()
    trace.node(1, 0x10, "source")
    trace.publisher(3, LEFT, "/left", node=0x10)
    trace.publisher(3, RIGHT, "/right", node=0x10)
    trace.node(1, FUSION, "fusion", pid=2)
    trace.subscription(10, SUB_LEFT, "/left", node=FUSION, callback=CALL_LEFT, pid=2)
    trace.subscription(10, SUB_RIGHT, "/right", node=FUSION, callback=CALL_RIGHT, pid=2)
    trace.publisher(20, OUT, "/out", node=FUSION, pid=2)
    trace.node(1, SINK, "sink", pid=3)
    trace.subscription(10, SUB_OUT, "/out", node=SINK, callback=CALL_OUT, pid=3)
    got = {"l": 0, "r": 0}
    out = 0
    for number, side in enumerate(order):
        us = 100 + 100 * number
        trace.publish(us, LEFT if side == "l" else RIGHT)
        sub, call = (SUB_LEFT, CALL_LEFT) if side == "l" else (SUB_RIGHT, CALL_RIGHT)
        trace.take(us + 20, sub, stamp=at(us + 2), pid=2)
        trace.run(us + 23, call, lasts=17, pid=2)
        got[side] += 1
        if each or min(got.values()) > out:
            out += 1
            trace.publish(us + 30, OUT, pid=2)
            trace.receive(us + 60, SUB_OUT, CALL_OUT, stamp=at(us + 32), pid=3)
    return trace


BOTH = [
    Link("partial_sync", "/fusion", "/left", "/out"),
    Link("partial_sync", "/fusion", "/right", "/out"),
]


def test_a_node_that_waits_for_two_topics_is_found() -> None:
    model = Model(fusion("lrrl" * 5))
    assert links_found(model) == BOTH
    # Declared links are left alone.
    assert links_found(model, BOTH[:1]) == []


@pytest.mark.parametrize(
    ("order", "each"),
    [
        ("lr" * 10, True),  # sends on whatever it receives
        ("lr" * 10, False),  # always /right is the last: nothing says that /left was needed
        ("lrrl" * 4 + "l" * 8, False),  # more of one than it could use
        ("lrrl" * 2, False),  # too few
    ],
)
def test_others_are_not(order: str, *, each: bool) -> None:
    assert links_found(Model(fusion(order, each=each))) == []


def test_with_the_link_nothing_seems_lost() -> None:
    model = Model(fusion("lrrl" * 5))
    chain = Chain.of("/source -> /left -> /fusion -> /out -> /sink")
    without = chain_instances(model, chain).instances
    assert without["outcome"].value_counts().sort("outcome").rows() == [
        ("complete", 5),
        ("no_output", 5),
    ]
    instances = chain_instances(model, chain, BOTH).instances
    assert instances["outcome"].unique().to_list() == ["complete"]
    assert instances["match"].unique().to_list() == ["exact"]
    # l at 100 waits for r at 200: out at 230, its callback from 260 + 3 to + 8. l at 400 completes.
    assert instances["latency_ns"].to_list()[:2] == [168_000, 68_000]


def test_which_of_several_waiting_messages_was_used_is_not_sure() -> None:
    model = Model(fusion("llrr" * 5))
    chain = Chain.of("/source -> /left -> /fusion -> /out -> /sink")
    instances = chain_instances(model, chain, BOTH[:1]).instances
    assert instances["outcome"].unique().to_list() == ["complete"]
    assert "approximate" in instances["match"].to_list()


@pytest.fixture(scope="module")
def recording() -> rl.Recordings:
    return rl.open(SAMPLE)


@pytest.mark.recording
@pytest.mark.parametrize(
    ("chain", "logged", "right"),
    [(MAIN, "a_publish", 598), ("/source2 -> /a2 -> /node_c -> /c -> /sink", "a2_publish", 524)],
)
def test_response_times_are_those_that_the_program_logged(
    recording: rl.Recordings, chain: str, logged: str, right: int
) -> None:
    report = ChainsReport(
        recording, ChainsParameters.checked({"recordings": [str(SAMPLE)], "chains": [chain]})
    )
    instances = report.chains[0].found.instances.sort("begin_ns")
    assert instances["outcome"].value_counts().rows() == [("complete", 600)]
    log = pl.read_csv(recording.recordings[0].path / "samples.csv")
    published = log[f"{logged}_realtime_ns"].to_numpy()
    # The log's time is taken just before publish().
    instance = instances[np.searchsorted(instances["begin_ns"].to_numpy(), published)]
    assert instance["instance"].n_unique() == 600
    # The last callback takes a few microseconds.
    wrong = np.abs(instance["end_ns"].to_numpy() - log["sink_start_realtime_ns"]) > 200_000
    assert (instance["match"].to_numpy()[wrong] == "approximate").all()
    assert (~wrong).sum() >= right
    latency = log["sink_start_realtime_ns"].to_numpy() - published
    assert instance["latency_ns"].mean() == pytest.approx(latency.mean(), rel=1e-3)


@pytest.mark.recording
def test_chains_of_disturbed_runs_can_be_left_out(recording: rl.Recordings) -> None:
    disturbed = [replace(run, disturbances=("heat",)) for run in recording.runs]
    opened = recording.with_runs(disturbed)
    _, estimates = measured(opened, ["chain_rate"])
    _, rest = measured(opened, ["chain_rate"], leave_out=["disturbed"])
    assert any(e.metric == "chain_rate" for e in estimates)
    assert not any(e.metric == "chain_rate" for e in rest)


REQUIRED = f"""
chains:
  - name: main
    path: {MAIN}
    response_time: {{p50: 8 ms, max: 12 ms}}
    rate: 10 Hz
    complete: 99 %
"""


def test_links_and_chains_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "required.yaml"
    path.write_text(REQUIRED + as_yaml(BOTH))
    requirements = read_requirements(path)
    assert list(requirements.links) == BOTH
    assert [str(b.text) for b in requirements.chains[0].budgets] == [
        "response_time_p50 < 8 ms",
        "response_time_max < 12 ms",
        "chain_rate > 10 Hz",
        "chain_complete > 99 %",
    ]
    assert requirements.percentiles == [0.5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("links: [", "no YAML"),
        ("[]", "give 'chains', 'links', or both"),
        ("chain: []", "give 'chains', 'links', or both"),
        ("links: 3", "expected a list under the key 'links'"),
        ("links:\n- {kind: direct}\n", "link 1: expected the keys"),
        (
            "links:\n- {kind: sync, node: /f, subscriptions: [/l], publishers: [/o]}\n",
            "kind is 'sync'",
        ),
        (
            "links:\n- {kind: partial_sync, node: /f, subscriptions: /l, publishers: [/o]}\n",
            "lists of them",
        ),
        ("chains: [{name: x}]", "chain 1: path: Field required"),
        ("chains: [{path: /a}]", "chain 1: chain /a: expected node, topic, node"),
        ("chains: [{path: /a -> /t -> /b, rates: 3}]", "rates: Extra inputs"),
        ("chains: [{path: /a -> /t -> /b, rate: fast}]", "chain_rate > fast"),
        ("chains: [{path: /a -> /t -> /b, response_time: {p0: 1 ms}}]", "'p0' is none of"),
        ("chains: [{path: /a -> /t -> /b}, {path: /a->/t->/b}]", "two chains are called"),
    ],
)
def test_a_file_that_says_something_else(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "required.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_requirements(path)


@pytest.mark.recording
@pytest.mark.parametrize("kept", [100_000, 200_000])
def test_what_lost_events_forbid_saying_is_not_said(tmp_path: Path, kept: int) -> None:
    """One stream is cut off; the whole recording tells how far every instance really came."""
    cut = uncollected(RUN, tmp_path / "cut")
    os.truncate(cut / "trace/ust/uid/0/64-bit/ch0_1", kept)
    chain = Chain.of("/talker -> /data -> /listener")
    whole, rest = (chain_instances(rl.open(path), chain).instances for path in (RUN, cut))
    # For two instances whose first publish event is lost, the second one is the first known.
    joined = rest.join(whole, on="begin_ns", suffix="_whole")
    assert rest.height - 2 <= joined.height <= rest.height
    assert set(joined["outcome"]) > {"complete"}
    sure = joined.filter(~pl.col("outcome").is_in(UNTOLD))
    assert sure["outcome"].to_list() == sure["outcome_whole"].to_list()
    worst = joined.drop_nulls("worst_ns")
    assert worst["worst_ns"].to_list() == worst["worst_ns_whole"].to_list()
    assert 50 < worst.height < joined.filter(outcome="complete").height
