"""The leaking node, recorded: the truth is what it asked the allocator for, by its own log."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import roslens as rl
from analysis.memory import leaks_by_cell
from tracing.suite import SHIPPED

pytestmark = pytest.mark.live

CHUNK = 8208  # 8,192 bytes asked for and the header, rounded up to 16: glibc on 64 bits


def test_resident_memory_grows_by_the_allocator_s_chunk_per_message(tmp_path: Path) -> None:
    suite = yaml.safe_load((SHIPPED / "leak-injection.yaml").read_text())
    suite.update(duration=6, repetitions=1, factors={"leak": [8192]}, sampler_hz=20)
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump(suite))
    command = [sys.executable, "-m", "roslens", "record", "--suite", str(file)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "recordings")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    opened = rl.open(tmp_path / "recordings")
    native = opened.recordings[0].native
    told = json.loads((native / "leak.json").read_text())
    assert (told["bytes"], told["chunk_bytes"]) == (8192, CHUNK)
    with (native / "messages.csv").open(newline="") as stream:
        logged = list(csv.DictReader(stream))
    received = [row for row in logged if row["callback_realtime_ns"]]
    assert told["messages"] == len(received) > 500
    work = opened.messages.collect()
    assert work.filter(topic="/data").height == len(logged)
    (found,) = leaks_by_cell(opened.resources, opened.messages, opened.runs, names=["rss"])
    assert found.verdict in {"climbs", "not_enough_evidence"}  # it is one run
    # The node itself and the tracer's buffers grow a little in so short a time.
    assert found.per_message.value == pytest.approx(CHUNK, rel=0.05)
