"""Test workloads of one rclpy process, recorded, against what they themselves log."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.record_suite import record_changed

import roslens as rl
from roslens.analysis.leaks.by_cell import leaks_of, memory_series

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.live

CHUNK = 8208  # 8,192 bytes asked for and the header, rounded up to 16: glibc on 64 bits


def test_messages_calls_and_goals_are_as_they_were_logged(tmp_path: Path) -> None:
    factors = {
        "workload": ["pubsub", "service", "action"],
        "executor": ["Events"],
        "payload": [1000],
        "clients": [2],
    }
    changes: dict[str, Any] = {"factors": factors, "exclude": [], "duration": 1, "warm_up": 0}
    recordings = record_changed("executors", tmp_path, {**changes, "repetitions": 1})
    check = ROOT / "benchmarks" / "ground_truth.py"
    done = subprocess.run(
        [sys.executable, str(check), str(recordings)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "3 recordings checked, 0 failed" in done.stdout
    assert {"messages:", "calls:", "goals:"} <= set(done.stdout.split())


def test_simulated_time_drives_the_work(tmp_path: Path) -> None:
    factors = {"executor": ["SingleThreaded"], "sim_time": [True]}
    changes: dict[str, Any] = {"factors": factors, "duration": 1, "repetitions": 1}
    opened = rl.open(record_changed("executors-sim-time", tmp_path, changes))
    topics = opened.messages.group_by("topic").len().collect()
    counts = dict(topics.iter_rows())
    # 500 ticks and 100 messages per second were asked for; a loaded machine gives fewer.
    assert counts["/clock"] > counts["/data"] > 10


def test_as_many_entities_as_asked_for_are_in_the_trace(tmp_path: Path) -> None:
    factors = {"entity": ["subscription", "node"], "count": [7]}
    changes: dict[str, Any] = {"factors": factors, "duration": 0.5, "repetitions": 1}
    opened = rl.open(record_changed("entities", tmp_path, changes))
    subscriptions = opened.subscriptions.filter(
        pl.col("topic").str.starts_with("/topic_")
    ).collect()
    assert subscriptions["topic"].n_unique() == 7
    nodes = opened.nodes.filter(pl.col("node").str.starts_with("/node_")).collect()
    assert nodes["node"].n_unique() == 7


def test_resident_memory_grows_by_the_allocator_s_chunk_per_message(tmp_path: Path) -> None:
    changes = {"duration": 6, "repetitions": 1, "factors": {"leak": [8192]}, "sampler_hz": 20}
    changes["samplers"] = {"memory": 20, "gives_way": False}
    opened = rl.open(record_changed("leak-injection", tmp_path, changes))
    native = opened.recordings[0].native
    facts = json.loads((native / "leak.json").read_text())
    assert (facts["bytes"], facts["chunk_bytes"]) == (8192, CHUNK)
    with (native / "messages.csv").open(newline="") as stream:
        logged = list(csv.DictReader(stream))
    received = [row for row in logged if row["callback_realtime_ns"]]
    assert facts["messages"] == len(received) > 500
    work = opened.messages.collect()
    assert work.filter(topic="/data").height == len(logged)
    series = memory_series(opened.resources, opened.messages, opened.runs, "rss")
    (leak,) = leaks_of(series, "rss", opened.runs)
    assert leak.verdict in {"climbs", "not_enough_evidence"}  # it is one run
    # The node itself and the tracer's buffers grow a little in so short a time.
    assert leak.per_message.value == pytest.approx(CHUNK, rel=0.05)
