"""Test attaching to running programs: every message against what both sides logged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from tests.programs import programs_of_ros, wait_for
from tests.rclcpp import need_sources
from tests.small_disk import small_disk

import roslens as rl
from roslens.collectors.collection import collect, tables
from roslens.collectors.reader import open_trace
from roslens.recording import Manifest, RunFailedError, find_recordings
from roslens.tracing import attach
from roslens.tracing.attach import record_attached
from roslens.tracing.campaign import Event
from roslens.tracing.ftrace.tracefs import tracefs, why_no_ftrace
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import RosEnvironment, embedded_ros
from roslens.tracing.ros.cyclonedds import cyclonedds_for
from roslens.tracing.ros.packages import with_prefix
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.workloads.rclcpp_workloads import prepare, run

HERE = Path(__file__).parent
REASON = why_no_ftrace()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
ATTACHED_S = 4


@dataclass
class Pair:
    """A publisher and a subscriber that have found each other, and their log of messages.

    `log`, which ends both programs, has publish_ns, and callback_ns or null.
    """

    pids: list[int]
    log: Callable[[], pl.DataFrame]
    nodes: tuple[str, str]
    topic: str
    type: str


def rclpy_pair(ros: RosEnvironment, folder: Path, started: list[subprocess.Popen[bytes]]) -> Pair:
    stop = folder / "stop"
    environment = ros.process_environment(dict(os.environ))
    for role in ("listener", "talker"):
        node = [str(HERE / "pair_node.py"), role, str(folder / role), str(stop)]
        started.append(subprocess.Popen([str(ros.python), *node], env=environment))

    def log() -> pl.DataFrame:
        stop.touch()
        assert [process.wait(timeout=60) for process in started] == [0, 0]
        sent, heard = (pl.read_csv(folder / role) for role in ("talker", "listener"))
        return sent.join(heard, on="number", how="left").select(
            publish_ns="begin_ns", callback_ns="begin_ns_right"
        )

    wait_for(lambda: all((folder / f"{role}.on").exists() for role in ("talker", "listener")))
    return Pair(
        [process.pid for process in started],
        log,
        ("/talker", "/listener"),
        "/pair",
        "std_msgs/msg/String",
    )


def rclcpp_pair(ros: RosEnvironment, folder: Path, started: list[subprocess.Popen[bytes]]) -> Pair:
    need_sources()
    ros = with_prefix(ros, rclcpp_for(embedded_ros()).prefix)
    programs = Path(prepare.prepare()["RCLCPP_WORKLOADS"])
    ready = {"ROSLENS_READY_FILE": str(folder / "ready")}
    environment = ros.process_environment(os.environ | ready)
    for role in ("subscriber", "publisher"):
        command = [str(programs / "messages"), "--role", role, "--seconds", "300"]
        command += ["--rate", "100", "--output", str(folder)]
        started.append(subprocess.Popen(command, env=environment))

    def log() -> pl.DataFrame:
        _, publisher = started
        publisher.send_signal(signal.SIGINT)
        assert [process.wait(timeout=60) for process in started] == [0, 128 + signal.SIGINT]
        run.merge(folder)
        return pl.read_csv(folder / "messages.csv").select(
            publish_ns="publish_realtime_ns", callback_ns="callback_realtime_ns"
        )

    nodes, kind = ("/publisher", "/subscriber"), "std_msgs/msg/UInt8MultiArray"
    wait_for((folder / "ready").exists)
    return Pair([process.pid for process in started], log, nodes, "/data", kind)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Run without other ROS programs, whose calls would count in the cost of the probes."""
    with programs_of_ros(alone=True):
        yield


@pytest.fixture
def ros(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RosEnvironment]:
    environment = embedded_ros()
    if request.param == "rmw_cyclonedds_cpp":
        try:
            environment = cyclonedds_for(environment).with_middleware(request.param)
        except RunFailedError as error:
            pytest.skip(str(error))
    with environment.isolated(tmp_path / "log") as isolated:
        yield isolated


@pytest.fixture
def pair(request: pytest.FixtureRequest, ros: RosEnvironment, tmp_path: Path) -> Iterator[Pair]:
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        stack.callback(lambda: [process.kill() for process in started if process.poll() is None])
        yield request.param(ros, tmp_path, started)


@pytest.mark.parametrize("pair", [rclpy_pair, rclcpp_pair], indirect=True)
@pytest.mark.parametrize("ros", ["rmw_fastrtps_cpp", "rmw_cyclonedds_cpp"], indirect=True)
def test_messages_have_names_and_are_those_of_the_log(pair: Pair, tmp_path: Path) -> None:
    folder, manifest = record_attached(
        [str(pid) for pid in pair.pids],
        tmp_path / "run",
        options=TracingOptions(kernel="off"),
        time_limit=ATTACHED_S,
    )
    log = pair.log()
    assert manifest.status == "complete", manifest.failure
    assert "names" in manifest.warnings[0]
    assert agrees(folder, manifest, pair, log) == 0
    with tracefs() as root:
        assert not list((root / "instances").glob(f"roslens-*-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("pair", "ros"),
    [(rclpy_pair, "rmw_fastrtps_cpp"), (rclcpp_pair, "rmw_cyclonedds_cpp")],
    indirect=True,
)
def test_what_is_sampled_is_right_and_the_rest_not_called_lost(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes cost as much as on a machine where pauses are necessary."""
    monkeypatch.setattr(attach, "cost_of_call", lambda *_: 2e-4)
    notes: list[str] = []
    folder, manifest = record_attached(
        [str(pid) for pid in pair.pids],
        tmp_path / "run",
        options=TracingOptions(kernel="off"),
        time_limit=4 * ATTACHED_S,
        share=0.1,
        on_event=lambda event: notes.append(event.text),
    )
    log = pair.log()
    assert manifest.status == "complete", manifest.failure
    assert any(f"{pair.topic} published" in note for note in notes)
    assert any("from now on probes are off for a part of the time" in note for note in notes)
    assert agrees(folder, manifest, pair, log) >= 2
    cost = re.search(r"attaching cost ([\d.]+)% of a CPU", " ".join(manifest.tracing.notes))
    assert cost is not None
    assert 0 < float(cost[1]) <= 10
    run = rl.open(folder)
    # Compare with the number that the program says it published in the recorded time, including the
    # time after the last pause: on a busy machine it does not publish equally often in each
    # stretch.
    pauses = run.losses.filter(kind="not_sampled").sort("begin_ns").collect()
    sent = run.messages.filter(topic=pair.topic).select("publish_ns").collect()["publish_ns"]
    begins = [sent.min() - 1e6, *pauses["end_ns"]]
    ends = [*pauses["begin_ns"], sent.max()]
    spans = [span for span in zip(begins, ends, strict=True) if span[1] > span[0]]
    count = sum(log["publish_ns"].is_between(*span).sum() for span in spans)
    (rate,) = run.latency.topics().filter(topic=pair.topic)["rate_hz"]
    assert rate == pytest.approx(count / sum(end - begin for begin, end in spans) * 1e9, rel=0.03)
    assert not manifest.loss.discarded_events


@pytest.mark.parametrize(("pair", "ros"), [(rclpy_pair, "rmw_fastrtps_cpp")], indirect=True)
def test_a_full_disk_ends_the_recording_and_what_fitted_is_kept(pair: Pair, tmp_path: Path) -> None:
    """What both sides logged until the disk was filled is there."""
    disk, full_ns = tmp_path / "disk", []
    disk.mkdir()

    def fill(event: Event) -> None:
        if "published" in event.text:
            full_ns.append(time.time_ns())
            with suppress(OSError):
                (disk / "filler").write_bytes(bytes(16 << 20))

    with small_disk(disk, "size=16m"):
        folder, manifest = record_attached(
            list(map(str, pair.pids)), disk / "run", time_limit=100, on_event=fill
        )
        (disk / "filler").unlink()
        log = pair.log().filter(pl.col("callback_ns") < full_ns[0] - 300_000_000)
        taken = open_trace(folder / "trace").read()["ros2:rmw_take"]
        assert manifest.status == "failed"
        assert "the kernel's trace is not whole: No space left" in str(manifest.failure)
        assert manifest.end_ns - full_ns[0] < 60e9
        heard = log.filter(pl.col("callback_ns") > taken["time_ns"].min() + 10_000_000).height
        assert 0 < heard <= taken.height


def agrees(folder: Path, manifest: Manifest, pair: Pair, log: pl.DataFrame) -> int:
    """Check all that was recorded against the log, and return the number of pauses."""
    collect(find_recordings(folder)[0])
    frames = {name: table.collect() for name, table in tables(find_recordings(folder)[0]).items()}
    pauses = frames["losses"].filter(kind="not_sampled").select("begin_ns", "end_ns").sort("end_ns")
    messages = frames["messages"]
    named = messages.filter(pl.col("topic") == pair.topic)
    first, last = named["publish_ns"].min(), named["publish_ns"].max()
    # A message published as the probes are removed may lack the event that names its publisher.
    assert messages.filter(pl.col("publish_ns") <= last)["topic"].null_count() == 0
    # Compare the messages that were published and taken while everything was recorded.
    begin = max(first, manifest.start_ns) + 1_000_000_000
    end = min(last, manifest.end_ns) - 300_000_000
    logged = log.filter(pl.col("publish_ns").is_between(begin, end)).sort("publish_ns")
    # Join each message with the next pause; it is published a while after the log says so.
    logged = logged.join_asof(
        pauses, left_on="publish_ns", right_on="end_ns", strategy="forward"
    ).with_columns(pl.col("begin_ns").fill_null(2**62))
    logged = logged.filter(pl.col("publish_ns") < pl.col("begin_ns") - 20_000_000)
    traced = named.filter(pl.col("publish_ns").is_between(begin, end + 300_000_000)).sort(
        "publish_ns"
    )
    joined = logged.join_asof(
        traced.with_columns(traced_ns="publish_ns"), on="publish_ns", strategy="forward"
    )
    assert logged.height > 100
    assert joined["traced_ns"].n_unique() == logged.height
    delivered, unknown = (
        pl.col("outcome").is_in(["delivered", "taken"]),
        pl.col("outcome") == "unknown",
    )
    heard_before = pl.col("callback_ns") < pl.col("begin_ns")
    assert joined.filter(unknown & heard_before).is_empty()
    joined = joined.filter(~unknown)
    assert joined.filter(delivered != pl.col("callback_ns").is_not_null()).is_empty()
    nodes = joined.filter(
        (pl.col("publisher_node") == pair.nodes[0]) & (pl.col("subscription_node") == pair.nodes[1])
    )
    assert nodes.height >= 0.95 * joined.height
    for ends in ("publishers", "subscriptions"):
        assert frames[ends].filter(topic=pair.topic)["type"].to_list() == [pair.type]
    callback, take = pl.col("callback_start_ns"), pl.col("take_ns")
    assert joined.filter(take < pl.col("traced_ns")).is_empty()
    assert joined.filter(take > pl.col("callback_ns")).is_empty()
    if joined["callback_start_ns"].null_count() < joined.height:
        # rclpy's callbacks emit no events.
        assert joined.filter((callback < take) | (callback > pl.col("callback_ns"))).is_empty()
        latency = pl.col("callback_ns") - pl.col("publish_ns")
        difference = (callback - pl.col("traced_ns") - latency).abs().median()
        # Of the seven probes on the way, half of two lie between the log and the events.
        assert joined.select(difference < latency.median() / 4).item()
    return pauses.height
