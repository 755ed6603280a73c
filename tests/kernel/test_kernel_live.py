"""Test the kernel recorded by ftrace beside ROS 2 on this machine, against the programs' logs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest
from tests.kernel.moments import in_order
from tests.kernel.nodes import executions, kernel, recorded
from tests.programs import roslens_command, wait_for

import roslens as rl
from roslens.analysis.measures.message_moments import message_moments
from roslens.analysis.path.path import Paths
from roslens.collectors.collection import tables
from roslens.collectors.reader import open_trace
from roslens.recording import UsageError, find_recordings
from roslens.recording.manifest import read_manifest
from roslens.tracing.attach import record_attached
from roslens.tracing.command import record_command
from roslens.tracing.ftrace.recorder import Drain, convert, describe, ftrace_recording, own_instance
from roslens.tracing.ftrace.switches import RUNTIME
from roslens.tracing.ftrace.tracefs import (
    group_of,
    new_name,
    remove,
    remove_leftovers,
    tracefs,
    why_no_ftrace,
    write,
)  # fmt: skip
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import KERNEL_EVENTS

HERE = Path(__file__).parent
REASON = why_no_ftrace()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
MARKS = ("kernel-begin", "kernel-end")


def instances_of(pid: int) -> list[str]:
    """Return the tracefs instances of one recorder: others may record at the same time."""
    with tracefs() as root:
        return [path.name for path in (root / "instances").glob(f"roslens-*-{pid}-*-*")]


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory) -> Path:
    """Record a node that a real-time process keeps from its CPU."""
    return recorded("disturbed_node.py", tmp_path_factory.mktemp("disturbed") / "run")


def nearly_all(folder: Path) -> float:
    """Return the share of executions that must be right.

    The share is lower if the kernel left out switches that cannot be put back: a switch and the one
    back, both left out, cannot be seen as missing, and a wrong rule would be wrong for all.
    """
    lost = open_trace(folder).losses.filter(pl.col("trace").str.contains("kernel"))
    return 0.95 if lost.is_empty() else 0.8


def test_nearly_every_execution_can_be_told(disturbed):
    """Nearly all executions of the node's log are found, even if switches from idle are missing."""
    log = pl.read_csv(disturbed / "native" / "callbacks.csv")
    assert executions(disturbed).height >= nearly_all(disturbed) * log.height


def test_time_on_a_cpu_is_what_the_thread_says(disturbed):
    """CLOCK_THREAD_CPUTIME_ID is read within the callback, which is shorter than the execution.

    Interrupts, and time taken by a virtual machine's host, count only for the kernel's switches:
    for the latter, the kernel says how much it was in all.
    """
    rows = executions(disturbed)
    parts = ("cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns")
    assert (rows.select(pl.sum_horizontal(parts)).to_series() == rows["duration_ns"]).all()
    outside = pl.col("duration_ns") - (pl.col("spun_ns") - pl.col("begin_ns"))
    more = pl.col("cpu_ns") - pl.col("own_cpu_ns")
    slack = pl.max_horizontal(pl.lit(50_000), pl.col("own_cpu_ns") * 0.02)
    assert rows.select((more >= -slack).mean()).item() >= nearly_all(disturbed)
    beyond = rows.select((more - outside - slack).clip(0)).to_series()
    manifest = read_manifest(disturbed / "manifest.json")
    cpu_ns = (manifest.end_ns - manifest.start_ns) * manifest.host.cpu_count
    stolen_ns = (manifest.host.steal_fraction or 0) * cpu_ns
    assert (beyond == 0).mean() >= nearly_all(disturbed) or beyond.sum() <= stolen_ns


def test_the_burner_is_blamed(disturbed):
    """The burner's log says during which executions it burned: 99 % if no switch is missing."""
    rows = executions(disturbed)
    burns = pl.read_csv(disturbed / "native" / "burns.csv").rename(
        {"begin_ns": "burn_ns", "end_ns": "burnt_ns"}
    )
    shared = pl.min_horizontal("burnt_ns", "spun_ns") - pl.max_horizontal("burn_ns", "locked_ns")
    hit = (
        rows.join_where(
            burns, pl.col("burn_ns") < pl.col("spun_ns"), pl.col("burnt_ns") > pl.col("locked_ns")
        )
        .filter(shared > 200_000)["callback_instance_id"]
        .unique()
    )
    recording = rl.open(disturbed)
    paths = Paths.of_run(recording, recording.runs[0].name)
    messages = paths.messages.with_row_index("message").cast({"message": pl.Int64})
    hit = hit.filter(hit.is_in(messages["callback_instance_id"].implode()))
    preempted = (
        paths.segments_of()
        .filter(pl.col("kind") == "preempted", pl.col("who").str.starts_with("burner "))
        .join(messages.select("message", "callback_instance_id", "callback_start_ns"), on="message")
        .filter(pl.col("begin_ns") >= pl.col("callback_start_ns"))
    )
    assert len(hit) >= 20
    missed = (~hit.is_in(preempted["callback_instance_id"].implode())).sum()
    assert missed <= max(1, 0.01 * len(hit), (0.95 - nearly_all(disturbed)) * len(hit))


def test_late_messages_name_the_burner(disturbed):
    """The burner is named only if its log says that it burned before the callback, for as long."""
    recording = rl.open(disturbed)
    number = "callback_instance_id"
    worst = recording.latency.worst("/work", 20)
    paths = Paths.of_run(recording, recording.runs[0].name)
    messages = paths.messages.with_row_index("message").filter(
        pl.col(number).is_in(worst[number].implode())
    )
    named = (
        paths.segments_of(messages["message"].to_numpy().astype(np.int64), to_start=True)
        .filter(pl.col("kind") == "preempted", pl.col("who").str.starts_with("burner "))
        .join(messages.select(pl.col("message").cast(pl.Int64), number), on="message")
    )
    rows = named.group_by(number).agg(by_ns=pl.col("duration_ns").sum()).join(worst, on=number)
    if rows.is_empty():
        pytest.skip("the burner delayed none of the worst messages before their callbacks")
    # The burner also takes time around the times that it writes down.
    burns = pl.read_csv(disturbed / "native" / "burns.csv")
    begin, end = (burns[column].to_numpy() for column in ("begin_ns", "end_ns"))
    longer = 0
    for row in rows.iter_rows(named=True):
        first, last = row["publish_ns"], row["callback_start_ns"]
        shared = np.minimum(end + 1_000_000, last) - np.maximum(begin - 1_000_000, first)
        assert (shared > 0).any()
        longer += row["by_ns"] > shared[shared > 0].sum()
    assert longer <= max(1, (1 - nearly_all(disturbed)) * rows.height)
    tids = open_trace(disturbed).read(["sched_switch"])["sched_switch"]
    assert set(named["who_vtid"]) <= set(tids.filter(pl.col("next_comm") == "burner")["next_tid"])


def test_the_lock_is_waited_for_off_the_cpu(disturbed):
    """From asking for the lock to having it, the thread is off the CPU for what its clock lacks.

    It is asleep, or preempted before it came to sleep: a row shows at least as much of both as the
    execution was off the CPU. Time taken by interrupts and by a virtual machine's host counts as
    CPU time for the switches, but not for the thread's clock.
    """
    rows = executions(disturbed).filter(pl.col("locked_ns") - pl.col("begin_ns") > 1_000_000)
    away = pl.sum_horizontal("blocked_ns", "scheduling_delay_ns", "preempted_ns")
    taken = (pl.col("cpu_ns") - pl.col("own_cpu_ns")).clip(0)
    lacking = pl.col("locked_ns") - pl.col("begin_ns") - pl.col("lock_cpu_ns") - taken
    assert rows.select((away - lacking >= -50_000).mean()).item() >= nearly_all(disturbed)
    asleep = rows.filter(pl.col("preempted_ns") < lacking - 50_000)
    assert asleep.is_empty() or (asleep["waits"] > 0).mean() >= nearly_all(disturbed)


def test_the_moments_of_a_message_follow_each_other(disturbed):
    frames = {
        name: table.collect() for name, table in tables(find_recordings(disturbed)[0]).items()
    }
    messages = frames["messages"].filter(pl.col("topic") == "/work")
    moments = message_moments(
        messages, frames["callback_instances"], kernel(disturbed)["sched_switch"],
        kernel(disturbed)["sched_waking"], frames["publications"],
    )  # fmt: skip
    # Messages that a late joiner got are included.
    assert moments.height == messages.drop_nulls("latency_ns").height
    assert in_order(moments)
    assert moments.filter(pl.col("arrived_ns").is_null())["reason"].null_count() == 0


@pytest.mark.skipif(shutil.which("trace-cmd") is None, reason="trace-cmd is not installed")
def test_the_same_as_trace_cmd_beside_it(tmp_path):
    """All switches of each CPU between the starts of two programs must be the same, one by one."""
    for name in MARKS:
        shutil.copy("/bin/true", tmp_path / name)
    first, last = (str(tmp_path / name) for name in MARKS)
    busy = "for n in $(seq 200); do sleep 0.001; done"
    inner = f"sleep 0.3; {first}; {busy}; {last}; sleep 0.3"
    names = ("sched_switch", "sched_process_exec")
    events = " ".join(f"-e sched:{name}" for name in names)
    # Some kernels refuse options for functions, which nobody needs here.
    script = (
        "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; echo 1 > one; : > none; "
        "mount --bind one /proc/sys/kernel/ftrace_enabled; cd /sys/kernel/tracing; "
        'for f in set_ftrace_* set_graph_*; do mount --bind "$OLDPWD/none" $f; done; '
        "cd - >/dev/null; "
        f"exec trace-cmd record -q -C mono {events} -o own.dat sh -c '{inner}'"
    )
    (tmp_path / "trace").mkdir()
    with ftrace_recording(tmp_path / "trace", names, buffer_bytes=4 << 20) as recording:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        pytest.skip(f"trace-cmd cannot record here: {why[-1]}")
    assert not recording.troubles
    report = subprocess.check_output(
        ["trace-cmd", "report", "-R", "-t", "own.dat"], cwd=tmp_path, text=True
    )
    theirs: dict[int, list[tuple[int, int]]] = {}
    inside = False
    begin = end = 0
    for line in report.splitlines():
        if any(
            f"filename={program}" in line or f"/{Path(program).name}" in line
            for program in (first, last)
        ):
            inside = Path(first).name in line
            time_ns = int(line.split("]")[1].split(":")[0].strip().replace(".", ""))
            begin, end = (time_ns, end) if inside else (begin, time_ns)
        elif inside and "sched_switch:" in line:
            cpu = int(line.split("[")[1].split("]")[0])
            fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
            pair = int(fields["prev_pid"], 0), int(fields["next_pid"], 0)
            theirs.setdefault(cpu, []).append(pair)
    frames = open_trace(tmp_path / "trace").read(names)
    marks = frames["sched_process_exec"]
    edges = [
        marks.filter(pl.col("filename") == program)["time_ns"].item() for program in (first, last)
    ]
    ours = frames["sched_switch"].filter(pl.col("time_ns").is_between(*edges))
    # Both write an event at slightly different times, so events at the marks may differ.
    for cpu, pairs in theirs.items():
        switches = ours.filter(pl.col("cpu_id") == cpu).select("prev_tid", "next_tid").rows()
        assert abs(len(switches) - len(pairs)) <= 2
        assert str(pairs[2:-2])[1:-1] in str(switches)
    assert sum(map(len, theirs.values())) > 200


def ping_pong(rounds: int) -> None:
    """Run two processes that wake each other."""
    code = (
        "import os\n(a, b), (c, d) = os.pipe(), os.pipe()\n"
        f"if os.fork() == 0:\n  [(os.read(a, 1), os.write(d, b'x')) for _ in range({rounds})]\n"
        f"else:\n  [(os.write(b, b'x'), os.read(c, 1)) for _ in range({rounds})]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_kernel_lost_is_counted(tmp_path):
    """Nobody reads the small buffer while it overflows; the kernel's own sum is the truth."""
    raw = tmp_path / "ftrace"
    raw.mkdir()
    with own_instance(64 << 10) as instance:
        instance.enable("sched_switch")
        write(instance.path / "tracing_on", "1")
        ping_pong(3000)
        write(instance.path / "tracing_on", "0")
        overruns = sum(instance.overruns().values())
        Drain(instance, raw, troubles := []).end()
        describe(instance, raw)
    done = convert(raw, tmp_path / "trace" / "kernel", beside=tmp_path)
    trace = open_trace(tmp_path / "trace")
    assert (troubles, overruns > 1000) == ([], True)
    assert done.lost == overruns
    # The manifest's number is the one that 'info' counts.
    assert done.missing == trace.info().discarded_events == overruns + done.switches_missing


def test_only_the_workload_where_asked(tmp_path):
    """A process beside the workload sleeps as often, and shows only in switches with ours."""
    naps = [sys.executable, "-c", "import time; [time.sleep(0.001) for _ in range(200)]"]
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; [time.sleep(0.001) for _ in range(99999)]"]
    )
    options = TracingOptions(
        tracer="native", kernel="ftrace", kernel_of="workload", kernel_events=("sched_switch",)
    )
    try:
        folder, manifest = record_command(naps, tmp_path / "run", options=options, ros="none")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert manifest.status == "complete", manifest.failure
    switches = open_trace(folder).read(["sched_switch"])["sched_switch"]
    to_idle = (pl.col("prev_tid") == sleeper.pid) & (pl.col("next_tid") == 0)
    assert switches.height >= 200
    assert switches.filter(to_idle).is_empty()


def test_a_killed_recorder_leaves_nothing_after_the_next_start(tmp_path):
    """The guard is killed too; somebody else's instance stays."""
    with tracefs() as root:
        foreign = root / "instances" / f"not-{new_name()}"
        foreign.mkdir()
        try:
            given = ("--tracer", "native", "--kernel", "ftrace", "--ros", "none")
            recorder = subprocess.Popen(
                roslens_command("record", *given, "-o", tmp_path / "run", "--", "sleep", "60"),
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            (name,) = wait_for(lambda: instances_of(recorder.pid))
            is_on = root / "instances" / name / "tracing_on"
            wait_for(lambda: is_on.exists() and is_on.read_text() == "1\n")
            group = group_of(name)
            library = Path(f"/proc/{recorder.pid}/exe").resolve()
            write(root / "uprobe_events", f"p:{group}/left {library}:0x1000\n")
            # Kill the guards first: otherwise they would clear up, which other tests cover.
            for child in psutil.Process(recorder.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            recorder.kill()
            recorder.wait()

            def gone() -> bool:
                probes = (root / "uprobe_events").read_text()
                return not instances_of(recorder.pid) and group not in probes

            # Another test that records here may be the next recorder that starts.
            assert wait_for(lambda: remove_leftovers() is not None and gone())
            assert foreign.is_dir()
        finally:
            foreign.rmdir()


def test_attach_says_what_it_cannot(tmp_path):
    for wanted, message in (
        ("1", "has no libtracetools mapped"),
        ("4194000", "does not run"),
        ("no-such-program", "does not run"),
    ):
        with pytest.raises(UsageError, match=message):
            record_attached([wanted], tmp_path / "run", time_limit=0.1)
    with pytest.raises(UsageError, match="give the process id"):
        record_attached([], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_cpu_time_that_others_account_is_not_recorded_without_them(tmp_path):
    (tmp_path / "trace").mkdir()
    with ftrace_recording(
        tmp_path / "trace", ("sched_switch", RUNTIME), buffer_bytes=1 << 20, descendants_only=True
    ) as recording:
        pass
    assert recording.events == ["sched_switch"]
    assert recording.notes == ["sched_stat_runtime is recorded only of the whole machine"]


def test_default_events_are_known_here(tmp_path):
    (tmp_path / "trace").mkdir()
    with ftrace_recording(tmp_path / "trace", KERNEL_EVENTS, buffer_bytes=1 << 20) as recording:
        pass
    assert recording.events == sorted((*KERNEL_EVENTS, RUNTIME))
    assert not (tmp_path / "ftrace").exists()
    assert not recording.troubles
    with tracefs() as root:
        remove(root, "not-ours")
