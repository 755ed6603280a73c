"""Test own threads recorded by perf_event_open, against what the kernel told the threads."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from roslens.analysis.measures.cpu_waits import find_turns
from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.perf.buffers import PerfBuffers, why_no_perf
from roslens.tracing.perf.switches import convert, perf_recording
from roslens.tracing.tracer import choose_kernel

REASON = why_no_perf()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
NAP = """
import resource, sys, time
def count():
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_nvcsw, used.ru_nivcsw
def told():
    # All of one moment: without a switch in between.
    while True:
        found = *count(), time.time_ns()
        if count() == found[:2]:
            return found
open("/proc/self/comm", "w").write("napping")
begin, naps = told(), []
for _ in range(300):
    asleep = time.time_ns()
    time.sleep(0.0005)
    naps.append((asleep, time.time_ns(), time.thread_time_ns()))
    stop = time.thread_time() + 0.001
    while time.thread_time() < stop:
        pass
print(*begin, *told(), *(x for nap in naps for x in nap))
"""


def switches(trace: Path) -> pl.DataFrame:
    return open_trace(trace).read(["sched_switch"])["sched_switch"].sort("time_ns")


def test_switches_are_those_that_the_kernel_counts_of_the_thread(tmp_path):
    """There are as many switches as getrusage says, when the thread says that it sleeps.

    From nap to nap their durations are nearly the time that the thread's clock lacks, but where a
    virtual machine's host took time.
    """
    (tmp_path / "trace").mkdir()
    with perf_recording(tmp_path / "trace", buffer_bytes=1 << 20) as recording:
        process = subprocess.Popen([sys.executable, "-c", NAP], stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate(timeout=120)
    assert (recording.troubles, recording.lost) == ([], 0)
    assert not (tmp_path / "perf").exists()
    numbers = np.array(output.split(), dtype=np.int64)
    voluntary, forced, _ = numbers[3:6] - numbers[:3]
    begin, end = numbers[2], numbers[5]
    events = switches(tmp_path / "trace")
    inside = events.filter(pl.col("time_ns").is_between(begin, end))
    out = inside.filter(pl.col("prev_tid") == process.pid)
    into = inside.filter(pl.col("next_tid") == process.pid)
    # A nap may be over before the thread leaves its CPU.
    assert out.height == into.height == voluntary + forced >= 270
    assert set(out["next_tid"]) == {-1}
    assert set(out["prev_comm"]) == {"napping"}
    # The thread leaves, comes, leaves, ..., and comes.
    away = into["time_ns"] - out["time_ns"]
    assert away.min() > 0
    asleep, awake, cpu_ns = numbers[6:].reshape(-1, 3).T
    nap = np.searchsorted(awake, into["time_ns"])
    without = np.bincount(nap, away, minlength=len(awake))[1 : len(awake)]
    # The kernel begins to account a turn 10 to 30 us before the event of its switch.
    assert abs(np.median(np.diff(cpu_ns) - (np.diff(awake) - without))) <= 50_000
    slept = (out["prev_state"].cast(pl.Int64) == 1).to_numpy()
    assert slept.sum() == voluntary
    left, back = out["time_ns"].to_numpy()[slept], into["time_ns"].to_numpy()[slept]
    nap = np.searchsorted(asleep, left) - 1
    # Reading a page of a file also makes a thread sleep.
    assert ((asleep[nap] <= left) & (back <= awake[nap])).mean() >= 0.99
    turns = find_turns(events.lazy())
    assert set(turns.filter(pl.col("by_tid") != process.pid)["by_tid"].drop_nulls()).isdisjoint(
        {-1}
    )


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_name_whatever_cpu_it_was_given_on(tmp_path, order):
    program = """
import os, sys
for name, cpu in zip(("first", "last"), sorted(os.sched_getaffinity(0))[:2][:: int(sys.argv[1])]):
    os.sched_setaffinity(0, {cpu})
    open("/proc/self/comm", "w").write(name)
"""
    (tmp_path / "trace").mkdir()
    with perf_recording(tmp_path / "trace", buffer_bytes=1 << 20):
        process = subprocess.Popen([sys.executable, "-c", program, str(order)])
        assert process.wait(120) == 0
    events = switches(tmp_path / "trace").filter(pl.col("prev_tid") == process.pid)
    assert set(events["prev_comm"]) == {"last"}


def test_what_does_not_fit_is_counted(tmp_path):
    """Nobody empties the one-page buffer meanwhile: recorded and lost switches add up to all."""
    buffers = PerfBuffers(tmp_path, 1, range(os.cpu_count() or 1))
    buffers._stop.set()
    buffers._thread.join()
    done: list[int] = []

    def nap() -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD)
        for _ in range(1000):
            time.sleep(0)
            time.sleep(1e-6)
        after = resource.getrusage(resource.RUSAGE_THREAD)
        done.append(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw)
        tids.append(threading.get_native_id())

    tids: list[int] = []
    thread = threading.Thread(target=nap)
    thread.start()
    thread.join()
    buffers.end()
    lost = convert(tmp_path, tmp_path / "kernel", beside=tmp_path)
    trace = open_trace(tmp_path / "kernel")
    assert lost > 0
    assert trace.losses["count"].sum() == lost
    events = switches(tmp_path / "kernel").filter(
        (pl.col("prev_tid") == tids[0]) | (pl.col("next_tid") == tids[0])
    )
    assert events.height < 2 * done[0] <= events.height + lost


def test_record_without_root(tmp_path):
    """Only the workload's threads are recorded."""
    options = TracingOptions(tracer="native", kernel="perf")
    program = [sys.executable, "-c", NAP]
    folder, manifest = record_command(program, tmp_path / "run", options=options, ros="none")
    assert manifest.status == "complete", manifest.failure
    assert (manifest.tracing.kernel, manifest.tracing.domains) == ("perf", ["ust", "kernel"])
    assert any("not who had it instead" in note for note in manifest.tracing.notes)
    events = switches(folder)
    assert "napping" in set(events["prev_comm"])


def test_auto_takes_it_where_nothing_else_can(monkeypatch):
    monkeypatch.setattr("roslens.tracing.tracer.why_no_ftrace", lambda: "no kernel trace by it")
    options = TracingOptions(tracer="native", kernel="auto")
    kind, (note,) = choose_kernel(options)
    assert kind == "perf"
    assert note.startswith("perf_event_open shows")
    assert note.endswith("no kernel trace by it")
    monkeypatch.setattr("roslens.tracing.tracer.why_no_perf", lambda: "nor by this")
    assert choose_kernel(options)[0] is None
    with pytest.raises(UsageError, match="nor by this"):
        choose_kernel(options.model_copy(update={"kernel": "required"}))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_nobody_may_do_it_too():
    """Any user may record if ``perf_event_paranoid`` allows it: at most 2."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        os._exit(why_no_perf() is not None)
    _, status = os.waitpid(child, 0)
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    assert (status == 0) == (paranoid <= 2)
