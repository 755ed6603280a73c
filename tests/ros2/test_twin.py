"""Test the tables cell by cell against a second implementation, `reference_model`.

Every test that makes tables of synthetic traces (`ros2_trace.Trace`) also checks them against it.
"""

import random
from pathlib import Path

import pytest
import reference_model
from benchmarks.ground_truth import recordings
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_system import System
from ros2_trace import Trace, at, rows
from test_messages import CALLBACK, NODE, PUB, SUB, intra_publish, intra_receive, one_process
from tests.samples import SAMPLES
from twin import compared, differences

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording

RUNS = list(recordings([SAMPLES]))
KEPT = frozenset({"rcl_service_init"})
"""Events that are never removed below: without them two servers of a name cannot be told apart,
and the tables have a row for each way to pair their takes and responses.
"""


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_recordings(run: Path) -> None:
    raw = read_raw(Recording.at(run))
    assert differences(raw.events, raw.losses) == {}


@settings(max_examples=12)
@given(st.integers(0, 2**32))
@example(25288)
def test_a_system_that_runs(seed: int) -> None:
    """Compare both models with each other, and with the fate of each message."""
    system = System(seed)
    frames = system.trace.frames()
    assert differences(frames) == {}
    tables = build_tables(frames)
    by_id = {s["subscription_id"]: s for s in tables["subscriptions"].iter_rows(named=True)}
    starts = {}
    for row in tables["messages"].drop_nulls("subscription_id").iter_rows(named=True):
        s = by_id[row["subscription_id"]]
        who = (s["host"], s["vpid"], s["subscription_handle"])
        starts[row["publish_ns"], who] = row["callback_start_ns"]
    # A publish call that is still under way has not yet reached all its subscriptions.
    assert {key: starts[key] for key in system.truth} == system.truth


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from((0.02, 0.05, 0.2)))
@example(27065, 0.05)  # A ring buffer's dequeue tells nothing about messages between processes.
def test_a_system_of_which_events_are_missing(seed: int, lost: float) -> None:
    system = System(seed)
    rng = random.Random(seed)
    trace = system.trace
    trace.declared = {name for name, _ in trace.rows}
    trace.rows = [row for row in trace.rows if row[0] in KEPT or rng.random() >= lost]
    assert differences(trace.frames()) == {}


def test_a_place_that_was_free_again_was_not_overwritten() -> None:
    """The dequeue of the first message was not recorded; the third enqueue reveals that."""
    trace = one_process()
    for us, index in ((100, 0), (200, 1), (300, 0)):
        intra_publish(trace, us, index)
    intra_receive(trace, 400, 1)
    intra_receive(trace, 500, 0)
    messages = trace.tables()["messages"]
    assert rows(messages, "publish_ns", "take_ns", "outcome", "match") == [
        (100, None, "unknown", None),
        (200, 400, "delivered", "exact"),
        (300, 500, "delivered", "exact"),
    ]


def test_a_request_of_which_the_take_is_missing_is_one_call() -> None:
    """The response has the key of the request, so this server took the request."""
    trace = Trace()
    trace.node(1, NODE, "n")
    trace.service(2, 0x80, "/ask", node=NODE)
    trace.client(4, 0x90, "/ask", node=NODE, gid=[5] * 16)
    trace.send_request(10, 0x90, 1)
    trace.send_response(30, 0x80, 1, gid=[5] * 16)
    calls = trace.tables()["service_calls"]
    assert rows(calls, "client_id", "service_id", "request_sent_ns", "response_sent_ns") == [
        (0, 0, 10, 30)
    ]


def test_endpoints_of_which_only_rmw_told_are_not_the_middlewares_own() -> None:
    """rcl's init events are missing; a message that goes through rcl is no discovery message."""
    trace = one_process()
    missing = {"rcl_publisher_init", "rcl_subscription_init"}
    trace.declared |= missing | {"rcl_take", "rcl_publish"}
    trace.rows = [row for row in trace.rows if row[0] not in missing]
    trace.publish(100, PUB)
    trace.take(150, SUB, stamp=at(102), tid=2)
    trace.run(153, CALLBACK, tid=2)
    tables = trace.tables()
    assert tables["publications"]["topic"].to_list() == [None]
    assert tables["takes"]["topic"].to_list() == [None]
    messages = tables["messages"]
    assert rows(messages, "publish_ns", "callback_start_ns", "outcome", "match") == [
        (100, 153, "delivered", "approximate")
    ]


def test_what_is_compared_is_told_apart() -> None:
    """Test the comparison itself: one cell, one extra row, and one reference to another object."""
    trace = one_process()
    intra_publish(trace, 100, 0)
    intra_receive(trace, 130, 0)
    recorded = {name: frame.to_dicts() for name, frame in trace.frames().items()}
    theirs = reference_model.tables(recorded)
    ours = {name: frame.to_dicts() for name, frame in trace.tables().items()}
    assert compared(ours, theirs) == {}
    theirs["messages"][0]["outcome"] = "lost"
    theirs["takes"].append(dict(theirs["takes"][0]))
    theirs["publications"][0]["publisher_id"] = None
    faults = compared(ours, theirs)
    assert list(faults) == ["publications", "takes", "messages"]
    assert "outcome: delivered here, lost there" in faults["messages"]


def test_the_reference_model_is_on_its_own() -> None:
    for path in Path(reference_model.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "polars" not in text
        assert "import roslens" not in text
        assert "from roslens" not in text
