"""Test ``roslens info --check``: possible faults of a recording, from the rows of ``health``."""

import io
import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from command_line import Roslens
from tests.samples import SAMPLES, amend

import roslens as rl
from roslens.collectors.reader import TraceInfo, open_trace
from roslens.info import show_info
from roslens.recording.terminal import Console

pytestmark = pytest.mark.recording
SAMPLE = SAMPLES / "two_process"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run whose notes report nothing wrong."""
    shutil.copytree(SAMPLE, tmp_path / "here")
    (folder,) = (tmp_path / "here").iterdir()
    amend(folder, disturbances=[])
    return folder


def test_a_sound_recording_has_only_information(roslens: Roslens, run: Path) -> None:
    done = roslens("info", "--check", run, "--json")
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    health = rl.open(run).table("health").collect()
    assert [row["kind"] for row in findings] == rl.open(run).loss.findings()["kind"].to_list()
    assert {row["severity"] for row in findings} == {"info"}
    assert sum(row["count"] for row in findings) == health["count"].sum()
    printed = roslens("info", "--check", run)
    assert printed.returncode == 0
    assert "Nothing was found" in printed.stdout


@pytest.mark.parametrize("what", ["samples", "bag", "failed", "disturbed"])
def test_each_fault_is_told_with_who_says_so(roslens: Roslens, run: Path, what: str) -> None:
    source = "manifest.json"
    if what == "samples":
        source = "resources.parquet"
        (run / source).write_bytes((run / source).read_bytes()[:500])
    elif what == "bag":
        source = "bag"
        (run / "bag").mkdir()
        (run / "bag" / "b_0.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(100))
    elif what == "failed":
        amend(run, status="failed", failure="it fell over")
    else:
        amend(run, disturbances=["a neighbour was loud"])
    done = roslens("info", "--check", run)
    assert done.returncode == 3, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("warning")]
    assert f"(by {source})" in line
    assert "could distort results" in done.stderr


def test_a_finding_of_the_model_is_told(roslens: Roslens) -> None:
    # The recording has no rmw_take events, so takes are found by time.
    done = roslens("info", "--check", SAMPLE.with_name("leak.tar.zst"))
    assert done.returncode == 3, done.stderr
    assert "warning: approximate_matches: " in done.stdout
    assert "6 of 6 runs" in done.stdout


def test_what_of_ros_was_recorded_once_it_is_collected(roslens: Roslens, run: Path) -> None:
    """The program's log says: /data, from one node to the other, 999 times."""
    for tables in ("tables", "events"):
        shutil.rmtree(run / tables, ignore_errors=True)
    before = roslens("info", run)
    assert f"Nodes, topics and rates: roslens {run}" in " ".join(before.stdout.split())
    assert json.loads(roslens("info", run, "--json").stdout)["ros"] is None
    rl.open(run)
    ros = json.loads(roslens("info", run, "--json").stdout)["ros"]
    assert (ros["distro"], ros["middleware"]) == ("Jazzy (tracetools 8.2.2)", "rmw_fastrtps_cpp")
    assert ros["nodes"] == ["/listener", "/talker"]
    (topic,) = ros["topics"]
    log = pl.read_csv(run / "native" / "messages.csv")["publish_realtime_ns"]
    assert (topic["topic"], topic["messages"]) == ("/data", log.len())
    assert topic["rate_hz"] == pytest.approx(1e9 * (log.len() - 1) / (log[-1] - log[0]), rel=1e-3)
    assert "/data  /talker  /listener  999  200" in roslens("info", run).stdout
    # /talker was made last; the raw events tell how long discovery took until its first delivered
    # message.
    events = open_trace(run).read()
    kinds = ("publisher", "subscription")
    inits = [events[f"ros2:rcl_{kind}_init"].filter(topic_name="/data") for kind in kinds]
    begin = max(frame["time_ns"].item() for frame in inits)
    handle = inits[1]["rmw_subscription_handle"].item()
    took = events["ros2:rmw_take"].filter(rmw_subscription_handle=handle, taken=1)["time_ns"].min()
    (discovery,) = [row for row in ros["discovery"] if row["topic"] == "/data"]
    assert discovery["delivered_ms"] == pytest.approx((took - begin) / 1e6)
    assert (discovery["missed"], discovery["at_least_ms"], discovery["since_ns"]) == (0, 0, begin)
    assert f"0 to {(took - begin) / 1e6:.0f}" in roslens("info", run).stdout


def test_the_folder_of_one_run_shows_what_the_run_shows(roslens: Roslens, tmp_path: Path) -> None:
    run = tmp_path / "campaign" / "run"
    shutil.copytree(next(path for path in (SAMPLES / "demo").iterdir() if path.is_dir()), run)
    rl.open(run)
    shown = roslens("info", run).stdout
    assert "nodes: /" in shown
    assert roslens("info", run.parent).stdout == shown


@pytest.mark.parametrize(
    ("of_kernel", "told"),
    [
        (0, "discarded 9 events."),
        (4, "9 events, 4 of them of the kernel."),
        (9, "9 events, all of"),
    ],
)
def test_whose_events_were_lost_is_told(of_kernel: int, told: str) -> None:
    rows = [
        {"kind": "discarded_events", "trace": trace, "count": count}
        for trace, count in (("kernel", of_kernel), ("ros2-kilted-0-0", 9 - of_kernel))
        if count
    ]
    info = TraceInfo(1, {}, 9, None, None, [], ["h0"], {}, [], rows)
    console = Console(file=io.StringIO(), width=100)
    show_info(info, console)
    assert told in console.file.getvalue()
