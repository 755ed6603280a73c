"""Test probed functions against what their program wrote about each call, by the same clock."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.programs import roslens_command, wait_for

import roslens as rl
from roslens.collectors.collection import collect, tables
from roslens.recording import UsageError, find_recordings
from roslens.tracing.attach import record_attached
from roslens.tracing.command import record_command
from roslens.tracing.ftrace.tracefs import tracefs, why_no_ftrace
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import embedded_ros

HERE = Path(__file__).parent
REASON = why_no_ftrace()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
FIRST = {"update": 300, "nested": 31, "leaves": 11}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program, and next to it ``libloop.so`` as a library."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    program = tmp_path_factory.mktemp("loop") / "probed_loop"
    source = ["g++", "-O2", "-pthread", str(HERE / "probed_loop.cpp")]
    subprocess.run([*source, "-o", str(program)], check=True)
    library = program.with_name("libloop.so")
    subprocess.run([*source, "-shared", "-fPIC", "-o", str(library)], check=True)
    return program


def options(*probes: str) -> TracingOptions:
    return TracingOptions(tracer="native", kernel="off", probes=probes)


def executions(folder: Path) -> pl.DataFrame:
    collect(find_recordings(folder)[0])
    instances = tables(find_recordings(folder)[0])["callback_instances"].collect()
    return instances.sort("start_ns")


def left_in_tracefs(pid: int) -> bool:
    with tracefs() as root:
        names = [path.name for path in (root / "instances").iterdir()]
        text = (root / "uprobe_events").read_text() + "\n".join(names)
    return f"-{pid}-" in text or f"_{pid}_" in text


def test_calls_are_those_of_the_log(
    loop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Calls are periodic, recursive, and left by an exception, longjmp and the end of a thread."""
    names = [*FIRST, "never_called"]
    folder, manifest = record_command(
        [str(loop), "300"],
        tmp_path / "run",
        options=options(*(f"{loop}:{name}" for name in names)),
        ros="none",
    )
    assert manifest.status == "complete", manifest.failure
    warnings = "\n".join(manifest.warnings)
    assert "probed_loop:never_called was not called while it was probed" in warnings
    assert "probed_loop:never_called can end in a jump to puts" in warnings
    assert not left_in_tracefs(os.getpid())
    rows = executions(folder)
    assert rows["kind"].unique().to_list() == ["function"]
    log: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, begin, end in csv.reader(capfd.readouterr().out.splitlines()):
        log[name].append((int(begin), int(end)))
    for name, count in FIRST.items():
        mine = rows.filter(pl.col("name") == f"probed_loop:{_full(name)}")
        within, around = (np.array(sorted(log[key])) for key in (name, f"around_{name}"))
        assert mine.height == len(within) == len(around) == count
        returned = within[:, 1] > 0
        assert mine["end_ns"].is_not_null().to_list() == returned.tolist()
        assert_between(mine.drop_nulls("end_ns"), within[returned], around[returned])
        # The clocks of both differ by a constant.
        begun = mine["start_ns"].to_numpy()
        assert (begun - within[:, 0]).max() <= (begun - around[:, 0]).min()
    periods = rl.open(folder).callbacks.periods().filter(name="probed_loop:probed::Loop::update")
    (begin, end), (before, after) = (np.array(log[key]).T for key in ("update", "around_update"))
    period = periods["period_ns"].item()
    shortest, longest = before[1:] - begin[:-1], begin[1:] - before[:-1]
    assert np.median(shortest) <= period <= np.median(longest)
    nearest = np.maximum(0, np.maximum(shortest - period, period - longest))
    farthest = np.maximum(abs(shortest - period), abs(longest - period))
    assert np.median(nearest) <= periods["jitter_p50_ns"].item() <= np.median(farthest)
    surely, perhaps = (end - begin > period).sum(), (after - before > period).sum()
    assert surely <= periods["overruns"].item() <= perhaps


def assert_between(calls: pl.DataFrame, within: np.ndarray, around: np.ndarray) -> None:
    """Check that each call lasts longer than its own measurement, and shorter than its caller's.

    Parameters
    ----------
    calls
        Recorded calls, in the order of the log.
    within, around
        Begin and end of each call [ns of one clock], shape (calls, 2).
    """
    lasted = calls["duration_ns"].to_numpy()
    assert (np.diff(within)[:, 0] <= lasted).all()
    assert (lasted <= np.diff(around)[:, 0]).all()
    at = calls.select("start_ns", "end_ns").to_numpy()
    offsets = at - within, at - around
    assert max(offsets[0][:, 0].max(), offsets[1][:, 1].max()) <= min(
        offsets[1][:, 0].min(), offsets[0][:, 1].min()
    )


def _full(name: str) -> str:
    return f"probed::Loop::{name}"


@pytest.mark.parametrize("attached", [False, True])
def test_callbacks_and_their_messages_are_as_without(
    loop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], *, attached: bool
) -> None:
    """A function runs within a callback, in a library that is loaded after the program began."""
    library, log = loop.with_name("libloop.so"), tmp_path / "ran"
    node = [str(HERE / "probed_node.py"), str(library), str(log)]
    probe = "libloop.so:Loop::update" if attached else f"{library}:Loop::update"
    if attached:
        ros = embedded_ros()
        environment = ros.process_environment(dict(os.environ))
        program = subprocess.Popen([str(ros.python), *node, "100"], env=environment)
        try:
            wait_for(log.exists, process=program)
            folder, _ = record_attached(
                [str(program.pid)],
                tmp_path / "run",
                options=TracingOptions(kernel="off", probes=(probe,)),
                time_limit=4,
            )
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(timeout=60)
    else:
        folder, manifest = record_command(
            ["python", *node, "5"], tmp_path / "run", options=options(probe), ros="embedded"
        )
        assert manifest.status == "complete", manifest.failure
    rows = executions(folder)
    calls = rows.filter(pl.col("kind") == "function").drop_nulls("end_ns")
    assert calls["name"].unique().to_list() == ["libloop.so:probed::Loop::update"]
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("update,")]
    within = np.array([line.split(",")[1:] for line in lines], dtype=np.int64)
    around = np.array(list(csv.reader(log.open())), dtype=np.int64)
    assert len(within) == len(around) > 10
    # The log has another clock, which agrees to within 1 ms; calls are farther apart.
    since = time.time_ns() - time.monotonic_ns() - 1_000_000
    at = np.searchsorted(around[:, 0], calls["start_ns"].to_numpy() - since) - 1
    assert_between(calls, within[at], around[at])
    if attached:
        # Python callbacks have no events here.
        assert 10 < calls.height < len(around)
        return
    ticks = rows.filter(pl.col("kind") == "timer")
    assert ticks.height == calls.height == len(around)
    assert (calls["start_ns"].to_numpy() > ticks["start_ns"].to_numpy()).all()
    assert (calls["end_ns"].to_numpy() < ticks["end_ns"].to_numpy()).all()
    sent = tables(find_recordings(folder)[0])["publications"].filter(pl.col("topic") == "/out")
    within = sent.sort("publish_ns").collect()["callback_instance_id"]
    assert within.to_list() == ticks["callback_instance_id"].repeat_by(2).explode().to_list()


def test_what_cannot_be_probed_is_one_clear_line(loop: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    shutil.copy(loop, stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    for probe, words in {
        f"{loop}:Loop::updat": "no such function; similar: probed::Loop::update",
        f"{stripped}:Loop::update": "stripped: only the ",
        "libnowhere.so:update": "no libnowhere.so where the loader",
        f"{loop}": "give LIB:FUNCTION",
        "libstdc++.so.6:append": "functions have that name, give one with its arguments",
        f"{HERE / 'probed_loop.cpp'}:update": "cannot be read as a library",
    }.items():
        with pytest.raises(UsageError, match="--probe") as refused:
            record_command(["true"], tmp_path / "no", options=options(probe), ros="none")
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "no").exists()

    with pytest.raises(UsageError, match="ftrace keeps all calls"):
        TracingOptions.checked(tracer="native", flight=10, probes=("libc.so.6:getpid",))


def test_without_root_it_is_refused() -> None:
    code = (
        "import os\nfrom roslens.tracing.ftrace.functions import find_functions\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        "find_functions(['libc.so.6:getpid'], {})"
    )
    refused = [sys.executable, "-P", "-c", code]
    run = subprocess.run(refused, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert "UsageError: --probe: no kernel trace by ftrace: " in last
    assert "root" in last


def test_a_killed_recorder_leaves_no_probe(loop: Path, tmp_path: Path) -> None:
    options = ("--tracer", "native", "--kernel", "off", "--ros", "none", "-o", tmp_path / "run")
    recorder = subprocess.Popen(
        roslens_command("record", *options, "--probe", f"{loop}:update", "--", loop, "6000"),
        stdout=subprocess.DEVNULL,
    )
    pages = tmp_path / "run" / "functions"
    wait_for(lambda: any(path.stat().st_size for path in pages.glob("cpu*")))
    assert left_in_tracefs(recorder.pid)
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.wait()
    wait_for(lambda: not left_in_tracefs(recorder.pid))
