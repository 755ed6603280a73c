"""Probed functions against what their program wrote of each call, by the same clock."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

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
NEAR_NS = 50_000
FIRST = {"update": 300, "nested": 31, "leaves": 11}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; beside it, as a library, ``libloop.so``."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    made = tmp_path_factory.mktemp("loop") / "probed_loop"
    source = ["g++", "-O2", "-pthread", str(HERE / "probed_loop.cpp")]
    subprocess.run([*source, "-o", str(made)], check=True)
    library = made.with_name("libloop.so")
    subprocess.run([*source, "-shared", "-fPIC", "-o", str(library)], check=True)
    return made


def options(*probes: str) -> TracingOptions:
    return TracingOptions(tracer="native", kernel="off", probes=probes)


def executions(folder: Path) -> pl.DataFrame:
    collect(find_recordings(folder)[0])
    found = tables(find_recordings(folder)[0])["callback_instances"].collect()
    return found.sort("start_ns")


def left_in_tracefs(pid: int) -> bool:
    with tracefs() as root:
        names = [x.name for x in (root / "instances").iterdir()]
        text = (root / "uprobe_events").read_text() + "\n".join(names)
    return f"-{pid}-" in text or f"_{pid}_" in text


def test_calls_are_those_of_the_log(
    loop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Periodic, recursive, and left by an exception, longjmp and the end of a thread."""
    names = [*FIRST, "never_called"]
    folder, manifest = record_command(
        [str(loop), "300"],
        tmp_path / "run",
        options=options(*(f"{loop}:{name}" for name in names)),
        ros="none",
    )
    assert manifest.status == "complete", manifest.failure
    told = "\n".join(manifest.warnings)
    assert "probed_loop:never_called was not called while it was probed" in told
    assert "probed_loop:never_called can end in a jump to puts" in told
    assert not left_in_tracefs(os.getpid())
    rows = executions(folder)
    assert rows["kind"].unique().to_list() == ["function"]
    log: dict[str, list[tuple[int, int]]] = {name: [] for name in FIRST}
    for name, begin, end in csv.reader(capfd.readouterr().out.splitlines()):
        log[name].append((int(begin), int(end)))
    assert {name: len(calls) for name, calls in log.items()} == FIRST
    for name, calls in log.items():
        mine = rows.filter(pl.col("name") == f"probed_loop:{_full(name)}")
        begin, end = np.array(sorted(calls)).T
        assert mine["end_ns"].is_null().to_list() == (end == 0).tolist()
        lasted = (end - begin)[end > 0]
        more = mine["duration_ns"].drop_nulls().to_numpy() - lasted
        assert more.min() >= 0
        assert np.median(more) <= NEAR_NS
        # Both clocks are the same: between their readings lies the probe alone.
        apart = np.diff(mine["start_ns"].to_numpy()) - np.diff(begin)
        assert np.median(np.abs(apart)) <= NEAR_NS
    found = rl.open(folder).callbacks.periods().filter(name="probed_loop:probed::Loop::update")
    begin, end = np.array(log["update"]).T
    intervals = np.diff(begin)
    period = np.median(intervals)
    assert abs(found["period_ns"].item() - period) <= NEAR_NS
    jitter = np.median(np.abs(intervals - period))
    assert abs(found["jitter_p50_ns"].item() - jitter) <= NEAR_NS
    surely, perhaps = ((end - begin > period + x).sum() for x in (0, -NEAR_NS))
    # Where the thread lost its CPU between the probe and the program's clock, the log is short.
    mine = rows.filter(pl.col("name") == "probed_loop:probed::Loop::update").sort("start_ns")
    lasted = mine["duration_ns"].to_numpy()
    cut_short = ((lasted > period) & (lasted - (end - begin) > NEAR_NS)).sum()
    assert surely <= found["overruns"].item() <= perhaps + cut_short


def _full(name: str) -> str:
    return f"probed::Loop::{name}"


@pytest.mark.parametrize("attached", [False, True])
def test_callbacks_and_their_messages_are_as_without(
    loop: Path, tmp_path: Path, *, attached: bool
) -> None:
    """A function within a callback, in a library that is loaded after the program began."""
    library, log = loop.with_name("libloop.so"), tmp_path / "ran"
    node = [str(HERE / "probed_node.py"), str(library), str(log)]
    probe = "libloop.so:Loop::update" if attached else f"{library}:Loop::update"
    if attached:
        ros = embedded_ros()
        environment = ros.process_environment(dict(os.environ))
        program = subprocess.Popen([str(ros.python), *node, "100"], env=environment)
        try:
            time.sleep(8)
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
    assert 0 <= calls["duration_ns"].median() - 2_000_000 <= NEAR_NS
    if attached:
        # Callbacks of Python have no events here.
        assert 10 < calls.height < int(log.read_text())
        return
    ticks = rows.filter(pl.col("kind") == "timer")
    assert ticks.height == calls.height == int(log.read_text()) > 10
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
    command = [sys.executable, "-P", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert "UsageError: --probe: no kernel trace by ftrace: " in last
    assert "root" in last


def test_a_killed_recorder_leaves_no_probe(loop: Path, tmp_path: Path) -> None:
    command = ["record", "--tracer", "native", "--kernel", "off", "--ros", "none"]
    recorder = subprocess.Popen(
        [sys.executable, "-P", "-m", "roslens", *command, "--probe", f"{loop}:update",
         "-o", str(tmp_path / "run"), "--", str(loop), "6000"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    pages = tmp_path / "run" / "functions"
    wait_for(lambda: any(x.stat().st_size for x in pages.glob("cpu*")))
    assert left_in_tracefs(recorder.pid)
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.wait()
    wait_for(lambda: not left_in_tracefs(recorder.pid))


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)
