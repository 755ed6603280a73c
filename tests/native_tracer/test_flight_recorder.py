"""Test the flight recorder: the last seconds of programs, and all names, as a recording."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import polars as pl
import pytest
from tests.native_tracer.test_native_tracer import compile_program, environment

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError, find_recordings, read_manifest
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.native_tracer.snapshot import record_snapshot, take_snapshot

# Emits one name, then numbered events at 20,000 per second for the given number of seconds, or,
# without a number, until it is killed.
FLYING = """
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
void ros_trace_callback_start(const void *, bool);
void ros_trace_rclcpp_callback_register(const void *, const char *);
int main(int c, char ** v) {
  ros_trace_rclcpp_callback_register((void *) 77, "name");
  uint64_t count = (uint64_t) (atof(v[1]) * 20000);
  struct timespec pause = {0, 1000000};
  for (uint64_t i = 1; count == 0 || i <= count; i++) {
    ros_trace_callback_start((void *) i, true);
    if (i % 20 == 0) nanosleep(&pause, NULL);
  }
  return 0;
}
"""
START, NAME = "ros2:callback_start", "ros2:rclcpp_callback_register"
FLIGHT = 0.3


@pytest.fixture(scope="module")
def flying(tmp_path_factory, library) -> Path:
    folder = tmp_path_factory.mktemp("flying")
    (folder / "flying.c").write_text(FLYING)
    compile_program(folder / "flying.c", library, folder / "flying")
    return folder / "flying"


def check_window(recording: Path, flight: float = FLIGHT) -> tuple[int, int]:
    """Check the numbers have no gap and the loss is reported; return the first and the last."""
    trace = open_trace(recording)
    events = trace.read([START, NAME])
    assert events[NAME]["symbol"].to_list() == ["name"]
    numbers, times = events[START]["callback"], events[START]["time_ns"]
    assert numbers.is_sorted()
    first, last = int(numbers[0]), int(numbers[-1])
    assert numbers.len() == last - first + 1
    span = times[-1] - times[0]
    info = trace.info()
    assert info.warnings == []
    if first > 1:
        assert span >= flight * 1e9
        (lost,) = info.losses.filter(pl.col("kind") == "missing_head").to_dicts()
        # The loss lasts from before the first name to the first event, a time of which nothing is
        # known.
        assert lost["begin_ns"] <= events[NAME]["time_ns"][0]
        assert lost["end_ns"] == times[0]
    return first, last


def test_a_snapshot_of_a_program_that_goes_on(flying, library, tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir(mode=0o700)
    program = subprocess.Popen(
        [str(flying), "0"], env=environment(library, folder, ROSLENS_TRACE_FLIGHT=str(FLIGHT))
    )
    try:
        lasts = []
        for number in range(8):
            time.sleep(0.25)
            record_snapshot(folder, tmp_path / f"s{number}")
            first, last = check_window(tmp_path / f"s{number}")
            lasts.append(last)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    assert lasts == sorted(lasts)
    # Each snapshot is a recording by itself: together they do not count an event twice.
    assert [run.path.name for run in find_recordings(tmp_path)][:8] == [f"s{n}" for n in range(8)]
    manifest = read_manifest(tmp_path / "s7" / "manifest.json")
    assert manifest.tracing.flight_seconds == pytest.approx(FLIGHT)
    assert manifest.start_ns < manifest.end_ns
    assert manifest.host.steal_fraction is None
    assert first > 1
    # Whatever ended the program, its last seconds are there.
    take_snapshot(folder, tmp_path / "after")
    first, last = check_window(tmp_path / "after")
    assert last > lasts[-1]
    # The files alone are not mistaken for a complete recording.
    with pytest.raises(UsageError, match="no CTF trace"):
        open_trace(folder)
    with pytest.raises(UsageError, match="is there already"):
        take_snapshot(folder, tmp_path / "after")
    with pytest.raises(UsageError, match="no flight recorder writes there"):
        take_snapshot(tmp_path / "after", tmp_path / "again")


def test_a_recorded_run_keeps_its_last_seconds(flying, tmp_path):
    options = TracingOptions(tracer="native", flight=FLIGHT, kernel="off")
    folder, manifest = record_command(
        [str(flying), "2.5"], tmp_path / "run", options=options, ros="none"
    )
    assert manifest.status == "complete", manifest.failure
    assert manifest.tracing.flight_seconds == FLIGHT
    first, last = check_window(folder)
    assert first > 1
    assert last == 50_000
    assert not (folder / "flight").exists()


def test_a_short_run_is_there_as_a_whole(flying, tmp_path):
    options = TracingOptions(tracer="native", flight=60, kernel="off")
    folder, _ = record_command([str(flying), "0.1"], tmp_path / "run", options=options, ros="none")
    assert check_window(folder, 60) == (1, 2000)
    assert open_trace(folder).info().losses.height == 0
