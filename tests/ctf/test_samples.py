"""Test every recording in data/samples by value. Oracle: babeltrace2 through python3-bt2."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from tests.oracle import babeltrace

from roslens.collectors.decoding import open_recording
from roslens.collectors.reader import open_trace
from roslens.recording import find_recordings

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
RECORDINGS = find_recordings(SAMPLES)

pytestmark = pytest.mark.recording


def test_there_are_samples():
    assert {r.path.parent.name for r in RECORDINGS} >= {"communication", "two_process"}


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: f"{r.path.parent.name}-{r.name}")
def test_every_field_of_every_event(recording):
    root = recording.trace_root
    ours = open_trace(root).read()
    theirs = babeltrace.read(root)
    assert list(ours) == list(theirs)
    assert sum(frame.height for frame in ours.values()) > 0
    for name, frame in theirs.items():
        assert_frame_equal(ours[name], frame, check_exact=True)
    info = open_trace(root).info()
    assert info.events_by_name == {n: f.height for n, f in theirs.items() if f.height}
    assert info.events_by_name == babeltrace.count_events(root)
    assert info.losses.is_empty()


def test_the_last_stream_is_gone_with_its_index(tmp_path):
    """Nothing in the trace shows it; the manifest says how many CPUs, and so files, there were."""
    for run in RECORDINGS:
        if run.path.parent.name == "demo":
            whole = tmp_path / run.name
            shutil.copytree(run.path, whole)
            assert open_recording(whole).info().loss_rows == []
            (trace,) = whole.glob("trace/ust/uid/0/64-bit")
            (trace / "ros2_1").unlink()
            (trace / "index" / "ros2_1.idx").unlink()
            info = open_recording(whole).info()
            assert [(row["kind"], row["stream"]) for row in info.loss_rows] == [
                ("missing_stream", "ros2_1")
            ]
            assert "the machine had 2 CPUs" in info.warnings[0]


def test_names_and_times_select(tmp_path):
    trace = open_trace(RECORDINGS[0].trace_root)
    everything = trace.read()
    name = "ros2:callback_start"
    times = everything[name]["time_ns"].sort()
    begin, end = int(times[len(times) // 4]), int(times[len(times) // 2])
    chosen = trace.read([name, "no:such"], begin_ns=begin, end_ns=end, threads=1)
    assert list(chosen) == [name]
    expected = everything[name].filter(everything[name]["time_ns"].is_between(begin, end))
    assert_frame_equal(chosen[name], expected)
    assert 0 < expected.height < everything[name].height
