"""Test frames of tracetools_analysis against its `Ros2DataModel`.

Names, index and columns are written here by hand.
"""

from pathlib import Path

import pandas as pd
import pytest
from ros2_trace import Trace, at
from test_messages import CALLBACK, NODE, PUB, SUB, one_delivered, talker_and_listener
from tests.samples import RUN, uncollected

import roslens as rl
from roslens.analysis.interop.tracetools_model import TracetoolsDataModel, tracetools_frames
from roslens.recording import UsageError

LAYOUT = {
    "contexts": ("context_handle", ["timestamp", "pid", "version"]),
    "nodes": ("node_handle", ["timestamp", "tid", "rmw_handle", "name", "namespace"]),
    "rmw_publishers": ("publisher_handle", ["timestamp", "gid"]),
    "rcl_publishers": (
        "publisher_handle", ["timestamp", "node_handle", "rmw_handle", "topic_name", "depth"],
    ),
    "rmw_subscriptions": ("subscription_handle", ["timestamp", "gid"]),
    "rcl_subscriptions": (
        "subscription_handle", ["timestamp", "node_handle", "rmw_handle", "topic_name", "depth"],
    ),
    "subscription_objects": ("subscription", ["timestamp", "subscription_handle"]),
    "services": ("service_handle", ["timestamp", "node_handle", "rmw_handle", "service_name"]),
    "clients": ("client_handle", ["timestamp", "node_handle", "rmw_handle", "service_name"]),
    "timers": ("timer_handle", ["timestamp", "period", "tid"]),
    "timer_node_links": ("timer_handle", ["timestamp", "node_handle"]),
    "callback_objects": ("reference", ["timestamp", "callback_object"]),
    "callback_symbols": ("callback_object", ["timestamp", "symbol"]),
    "lifecycle_state_machines": ("state_machine_handle", ["node_handle"]),
    "rclcpp_publish_instances": (None, ["timestamp", "message"]),
    "rcl_publish_instances": (None, ["publisher_handle", "timestamp", "message"]),
    "rmw_publish_instances": (None, ["timestamp", "message"]),
    "rmw_take_instances": (
        None, ["subscription_handle", "timestamp", "message", "source_timestamp", "taken"],
    ),
    "rcl_take_instances": (None, ["timestamp", "message"]),
    "rclcpp_take_instances": (None, ["timestamp", "message"]),
    "callback_instances": (None, ["callback_object", "timestamp", "duration", "intra_process"]),
    "lifecycle_transitions": (
        None, ["state_machine_handle", "start_label", "goal_label", "timestamp"],
    ),
}  # fmt: skip


def frames(trace: Trace) -> TracetoolsDataModel:
    return tracetools_frames({name: frame.lazy() for name, frame in trace.frames().items()})


@pytest.mark.parametrize("trace", [Trace(), talker_and_listener()], ids=["empty", "objects"])
def test_names_index_and_columns(trace: Trace) -> None:
    model = frames(trace)
    assert set(vars(model)) == set(LAYOUT)
    for name, (index, columns) in LAYOUT.items():
        frame = getattr(model, name)
        assert (frame.index.name, list(frame.columns)) == (index, columns), name


def test_objects_and_what_happened() -> None:
    trace = one_delivered()
    trace.take(120, SUB, stamp=0, pid=2, taken=0)
    model = frames(trace)
    assert model.contexts.to_dict("index") == {
        1: {"timestamp": at(0), "pid": 1, "version": "8.2.2"}
    }
    assert model.nodes.loc[NODE].to_dict() == {
        "timestamp": at(10), "tid": 1, "rmw_handle": NODE + 1, "name": "talker", "namespace": "/",
    }  # fmt: skip
    assert model.rcl_publishers.loc[PUB].to_dict() == {
        "timestamp": at(20), "node_handle": NODE, "rmw_handle": PUB + 1, "topic_name": "/data",
        "depth": 10,
    }  # fmt: skip
    assert model.rmw_publishers["gid"].to_list() == [[7] * 24]
    assert model.callback_objects.loc[SUB + 2, "callback_object"] == CALLBACK
    takes = model.rmw_take_instances
    assert takes[["timestamp", "source_timestamp", "taken"]].to_numpy().tolist() == [
        [at(120), 0, False],
        [at(150), at(102), True],
    ]
    (instance,) = model.callback_instances.to_dict("records")
    assert instance == {
        "callback_object": CALLBACK,
        "timestamp": pd.Timestamp(at(153)),
        "duration": pd.Timedelta(5, "us"),
        "intra_process": False,
    }


def test_executions_that_overlap_are_all_there_in_the_order_in_which_they_end() -> None:
    """tracetools_analysis keeps one of the two, from 120 to 130."""
    trace = talker_and_listener()
    trace.run(100, CALLBACK, lasts=50, pid=2, tid=20)
    trace.run(120, CALLBACK, lasts=10, pid=2, tid=21)
    trace.run(200, CALLBACK, lasts=None, pid=2, tid=20)
    instances = frames(trace).callback_instances
    assert instances["timestamp"].to_list() == [pd.Timestamp(at(120)), pd.Timestamp(at(100))]
    assert instances["duration"].to_list() == [pd.Timedelta(10, "us"), pd.Timedelta(50, "us")]


@pytest.mark.recording
def test_of_a_recording(tmp_path: Path) -> None:
    """There are as many rows as raw events; every callback of this sample has ended."""
    opened = rl.open(uncollected(RUN, tmp_path / "run"))
    model = opened.to_tracetools_data_model()
    counts = {path.stem: path for path in opened.recordings[0].events.glob("ros2/*.parquet")}
    for name, event in (
        ("nodes", "rcl_node_init"),
        ("rmw_take_instances", "rmw_take"),
        ("callback_instances", "callback_end"),
    ):
        assert len(getattr(model, name)) == len(pd.read_parquet(counts[event])) > 0


def test_of_several_runs_or_of_none_collected(tmp_path: Path) -> None:
    for name in ("r0", "r1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").touch()
    runs = rl.open([tmp_path / "r0", tmp_path / "r1"], collect=False)
    with pytest.raises(UsageError, match="of one run, and these are 2"):
        runs.to_tracetools_data_model()
    with pytest.raises(UsageError, match="roslens collect"):
        rl.open(tmp_path / "r0", collect=False).to_tracetools_data_model()
