"""Test a node that timers interrupt all the time, recorded by ftrace, against its own log."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from tests.kernel.moments import in_order
from tests.kernel.nodes import executions, kernel, recorded
from tests.kernel.perfetto_file import SLEPT, bundle, compact, snapshot, wake

from roslens.analysis.measures.message_moments import message_moments
from roslens.analysis.overview.in_range import worst_messages
from roslens.analysis.path.kernel import kernel_view
from roslens.analysis.path.late import explained
from roslens.collectors.collection import collect, tables
from roslens.collectors.reader import open_trace
from roslens.recording import find_recordings, read_manifest
from roslens.recording.layout import MANIFEST_NAME
from roslens.tracing.ftrace.raw import Clock
from roslens.tracing.ftrace.tracefs import why_no_ftrace
from roslens.tracing.ftrace.tsdl import clock_of_other_trace
from roslens.tracing.unpacking import unpack
from roslens.widgets.start import StartPage

REASON = why_no_ftrace()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
OF_TIMERS = ("x86_irq_vectors_local_timer_entry", "x86_irq_vectors_local_timer_exit")
"""Events of kernels in which a CPU's own timer has no handler like other interrupts."""
ENTRIES = ("irq_handler_entry", OF_TIMERS[0])


@pytest.fixture(scope="module")
def storm(tmp_path_factory) -> Path:
    return recorded("storm_node.py", tmp_path_factory.mktemp("storm") / "run", *OF_TIMERS)


def test_record_and_info_say_the_same_of_what_was_discarded(storm: Path) -> None:
    manifest = read_manifest(storm / MANIFEST_NAME)
    assert manifest.loss.discarded_events == open_trace(storm).info().discarded_events


def rows_of(folder: Path) -> pl.DataFrame:
    rows = executions(folder)
    if rows.height < 20:
        pytest.skip(f"{rows.height} executions can be told: the kernel left out switches")
    return rows


def begins(folder: Path) -> np.ndarray:
    """Return the times at which interrupts began on the node's CPU, the last one."""
    events = kernel(folder)
    frames = [events[name].select("time_ns", "cpu_id") for name in ENTRIES if name in events]
    cpu = events["sched_switch"].select(pl.col("cpu_id").max()).collect().item()
    columns = [frame.filter(pl.col("cpu_id") == cpu).collect()["time_ns"] for frame in frames]
    times = (
        np.sort(np.concatenate([column.to_numpy() for column in columns]))
        if columns
        else np.empty(0)
    )
    if len(times) < 100:
        pytest.skip(f"the kernel tells {len(times)} interrupts, so none of timers")
    return times


def test_interrupts_within_callbacks(storm):
    """At least as many interrupts begin as timer signals came, except one that came before.

    This holds for most executions: a kernel that leaves out switches also leaves out interrupts.
    """
    times, rows = begins(storm), rows_of(storm)
    inside = np.diff([np.searchsorted(times, rows[x].to_numpy()) for x in ("begin_ns", "spun_ns")],
                     axis=0)[0]  # fmt: skip
    fired = rows["fired"].to_numpy()
    assert fired.sum() > rows.height
    whole = open_trace(storm).losses.filter(pl.col("trace").str.contains("kernel")).is_empty()
    assert (inside >= fired - 1).mean() >= (0.95 if whole else 0.5)


def test_their_time_is_told(storm):
    """Almost every execution has its interrupt time, at most its thread's time by the switches."""
    begins(storm)
    rows = rows_of(storm)
    threads = rows.select("host", pl.col("vtid").cast(pl.Int64).alias("tid")).unique()
    view = kernel_view(kernel(storm), threads)
    assert view is not None
    interrupts = view.interrupts.filter(~pl.col("by_name").str.starts_with("softirq"))
    ran = rows.with_columns(
        pl.col("vtid").cast(pl.Int64).alias("tid"),
        ended_ns=pl.col("start_ns") + pl.col("duration_ns"),
    )
    shared = pl.min_horizontal("end_ns", "ended_ns") - pl.max_horizontal("begin_ns", "start_ns")
    sums = (
        interrupts.join(
            ran.select("callback_instance_id", "host", "tid", "start_ns", "ended_ns"),
            on=["host", "tid"],
        )
        .with_columns(by_ns=shared)
        .filter(pl.col("by_ns") > 0)
        .group_by("callback_instance_id")
        .agg(pl.col("by_ns").sum())
    )
    joined = rows.join(sums, on="callback_instance_id")
    assert joined.height >= rows.height // 2
    assert joined.select(pl.col("by_ns").is_between(1, pl.col("cpu_ns")).all()).item()
    names = set(interrupts["by_name"])
    assert all(name == "local timer" or name.startswith("irq ") for name in names)


def test_the_workbench_says_what_made_messages_late(storm):
    """The page says in few words what the path has, for the first ten, and repeatably."""
    page = StartPage([str(storm)])
    shown = page._worst()
    worst = worst_messages(page._messages_in_range, 0)
    reasons = explained(worst.head(10), lambda _: page.widget.paths)
    assert shown.height == worst.height > 10
    for text, cause, who in zip(shown["why"], reasons["cause"], reasons["who"], strict=False):
        # A message that was published before its subscription existed has no path.
        assert text.startswith("not known" if cause is None else cause.replace("_", " "))
        assert who is None or text.endswith(who)
    assert set(shown["why"][10:]) == {""}
    assert shown["why"].to_list() == page._worst()["why"].to_list()


def test_the_same_of_a_file_of_perfetto(storm, tmp_path):
    """Perfetto's default switches and wake-ups must give what the kernel's own recording gives.

    Compact switches do not show missing ones: there may be more executions, and one during which
    the kernel left out a switch may differ.
    """
    rows_of(storm)
    offset = clock_of_other_trace(storm / "trace" / "kernel", Clock()).offset_ns
    events = open_trace(storm).read(["sched_switch", "sched_waking"])
    trace = pb.Trace()
    snapshot(trace, BOOT=10**9, MONOTONIC=10**9 - SLEPT)
    switches, wakes = (events[name].sort("time_ns") for name in ("sched_switch", "sched_waking"))
    since = pl.col("time_ns") - (offset - SLEPT)
    for cpu in switches["cpu_id"].unique():
        packet = bundle(trace, cpu)
        of_cpu = pl.col("cpu_id") == cpu
        columns = ("prev_state", "next_tid", "next_prio", "next_comm")
        compact(packet, *switches.filter(of_cpu).select(since, *columns).iter_rows())
        for row in wakes.filter(of_cpu).select(
            since.diff().fill_null(since), "tid", "comm", "target_cpu", "ctx_flags"
        ).iter_rows():  # fmt: skip
            wake(packet, row)
    (tmp_path / "own.pftrace").write_bytes(trace.SerializeToString())
    run = tmp_path / "run"
    shutil.copytree(storm, run, ignore=shutil.ignore_patterns("kernel", "events", "tables"))
    unpack(tmp_path / "own.pftrace", run / "trace")
    collect(find_recordings(run)[0])
    original, unpacked = (
        tables(find_recordings(folder)[0])["callback_scheduling"].collect()
        for folder in (storm, run)
    )
    parts = ["cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns"]
    key = ["vtid", "start_ns", "duration_ns", *parts]
    differs = original.join(unpacked, on=key, how="anti")
    left_out = open_trace(storm).losses.select("begin_ns", gap_end_ns="end_ns")
    end = pl.col("start_ns") + pl.col("duration_ns")
    in_gaps = differs.join_where(
        left_out, pl.col("begin_ns") <= end, pl.col("gap_end_ns") >= pl.col("start_ns")
    )
    assert differs.join(in_gaps, on="callback_instance_id", how="anti").is_empty()


def test_parts_still_add_up(storm):
    rows = rows_of(storm)
    parts = ("cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns")
    assert (rows.select(pl.sum_horizontal(parts)).to_series() == rows["duration_ns"]).all()
    frames = {name: table.collect() for name, table in tables(find_recordings(storm)[0]).items()}
    events = kernel(storm)
    messages = frames["messages"].filter(pl.col("topic") == "/work")
    moments = message_moments(
        messages, frames["callback_instances"], events["sched_switch"], events["sched_waking"],
        frames["publications"],
    )  # fmt: skip
    assert moments.height == messages.drop_nulls("latency_ns").height > 20
    assert in_order(moments)
