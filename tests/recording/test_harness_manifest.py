"""Test runs recorded by another harness; expected values are those of the files made here."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from roslens.collectors.resources import scan_samples
from roslens.collectors.schema import RESOURCES
from roslens.recording import Recording, UsageError

MANIFEST: dict[str, Any] = {
    "experiment": "leak",
    "run_id": "r1_leak-1024",
    "factors": {"leak_bytes_per_message": 1024, "executor": "single", "intra_process": False},
    "repetition": 1,
    "order": 3,
    "seed": 7,
    "started_realtime_ns": 1_000_000_000,
    "duration_s": 2.5,
    "command": ["workload", "--leak", "1024"],
    "exit_status": [0],
    "environment": {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
    "ros_distro": "jazzy",
    "packages": {"rclcpp": "28.1.6"},
    "host": {"name": "host", "cpu_count": 2, "kernel": "6.1", "cpu_model": "model"},
    "tracing": {
        "tracer": "lttng-ust",
        "tracer_version": "2.13.9",
        "buffers": "per-user",
        "subbuf_size": "128K",
        "num_subbuf": 4,
        "events": ["ros2:*"],
        "contexts": ["vpid"],
        "recorded_events": 10,
        "discarded_events": 2,
        "discarded_packets": 0,
    },
}
RESOURCES_CSV = """\
time_ns_monotonic,time_ns_realtime,pid,cpu_user_s,cpu_system_s,rss_bytes,pss_bytes,vms_bytes,num_threads
5,1000000005,42,0.01,0.02,4096,2048,9999,3
6,1000000006,42,0.02,0.02,8192,,9999,4
"""


def write(folder: Path, **changes: Any) -> Recording:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, **changes}))
    (folder / "messages.csv").write_text(
        "topic,sequence,publish_realtime_ns,callback_realtime_ns\n/data,0,1,2\n"
    )
    (folder / "resources.csv").write_text(RESOURCES_CSV)
    return Recording.at(folder)


def test_its_run_is_a_run_of_ours(tmp_path: Path) -> None:
    recording = write(tmp_path)
    manifest = recording.manifest
    assert (manifest.suite, manifest.run) == ("leak", "r1_leak-1024")
    assert manifest.factors == MANIFEST["factors"]
    assert (manifest.repetition, manifest.order, manifest.seed) == (1, 3, 7)
    assert (manifest.status, manifest.exit_status, manifest.failure) == ("complete", 0, None)
    assert (manifest.start_ns, manifest.end_ns) == (1_000_000_000, 3_500_000_000)
    assert manifest.work_topic == "/data"
    assert manifest.environment.rmw == "rmw_cyclonedds_cpp"
    assert manifest.environment.executor == "SingleThreadedExecutor"
    assert manifest.tracing.subbuf_size_bytes == 128 * 1024
    assert (manifest.loss.discarded_events, manifest.loss.lost_packets) == (2, 0)
    assert recording.native == tmp_path


def test_a_process_that_did_not_end_well_makes_the_run_a_failed_one(tmp_path: Path) -> None:
    killed = write(tmp_path / "a", exit_status=[-9]).manifest
    assert (killed.status, killed.exit_status) == ("failed", -9)
    assert killed.failure == "killed by signal 9"
    second = write(tmp_path / "b", exit_status=[0, 3]).manifest
    assert (second.status, second.failure) == ("failed", "ended with status 3")


def test_with_many_publishers_there_is_no_work_topic(tmp_path: Path) -> None:
    manifest = write(tmp_path, factors={"publishers": 100}).manifest
    assert manifest.work_topic is None


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    recording = write(tmp_path, duration_s="long")
    with pytest.raises(UsageError, match=r"manifest\.json: field 'duration_s'"):
        _ = recording.manifest


def test_resources_are_brought_to_the_table(tmp_path: Path) -> None:
    recording = write(tmp_path)
    frame = scan_samples(RESOURCES, recording.samples["resources"]).collect()
    assert frame.columns == [column.name for column in RESOURCES.columns]
    sampled = frame.select("time_ns", "host", "vpid", "cpu_time_ns", "rss_bytes", "pss_bytes")
    assert sampled.rows() == [
        (1_000_000_005, "h0", 42, 30_000_000, 4096, 2048),
        (1_000_000_006, "h0", 42, 40_000_000, 8192, None),
    ]
    assert frame["heap_bytes"].null_count() == frame.height


def test_our_own_resources_come_first(tmp_path: Path) -> None:
    recording = write(tmp_path)
    pl.DataFrame(schema={"time_ns": pl.Int64}).write_parquet(tmp_path / "resources.parquet")
    assert recording.samples["resources"].name == "resources.parquet"


def test_resources_without_a_column_are_refused(tmp_path: Path) -> None:
    recording = write(tmp_path)
    recording.samples["resources"].write_text("time,pid\n1,2\n")
    with pytest.raises(UsageError, match=r"resources\.csv: not a table of resources"):
        scan_samples(RESOURCES, recording.samples["resources"])
