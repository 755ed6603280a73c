"""Test samplers of threads, heaps and the machine, against programs and the kernel's formats."""

import os
import subprocess
import sys

import polars as pl
import psutil
import pytest
import yaml
from compiling import compiled
from test_sampler import Program
from tests.programs import wait_for

from roslens.recording import read_manifest
from roslens.recording.schema import SYSTEM, THREADS
from roslens.tracing.campaign import run_campaign
from roslens.tracing.sampling.heap import HeapProbe
from roslens.tracing.sampling.processes import ProcessReader
from roslens.tracing.sampling.system import disk_counters, network_counters, system_sample
from roslens.tracing.sampling.threads import ThreadSampler
from roslens.tracing.suite import parse_suite

pytestmark = pytest.mark.live


def test_heap_is_what_the_program_holds(tmp_path):
    program = str(compiled(tmp_path, "heap"))
    probe = HeapProbe(200, tmp_path)
    try:
        env = {**os.environ, **probe.variables({})}
        process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        heaps, held = [], []
        for _ in range(3):
            held.append(int(process.stdout.readline()))
            # Wait until the probe has looked once more; the first look to end may have begun
            # before.
            for _ in range(2):
                before = probe.own_cpu_ns()
                wait_for(lambda before=before: probe.own_cpu_ns() > before)
            heaps.append(probe.heap_bytes(process.pid))
            process.stdin.write("\n")
            process.stdin.flush()
        process.communicate()
    finally:
        probe.close()
    assert held[1] > 64 << 20
    # Each block has 8 to 16 bytes of overhead besides its usable size, each mapped block up to a
    # page.
    assert heaps[1] - heaps[0] == pytest.approx(held[1], abs=64 * 4096 + 1000 * 16)
    assert heaps[2] - heaps[0] == pytest.approx(held[2], abs=1000 * 16 + 4096)
    assert probe.heap_bytes(os.getpid()) is None


def test_threads_agree_with_the_process(usage):
    with Program(usage) as program:
        sampler = ThreadSampler(lambda: [program.process.pid], hz=20)
        program.says()
        program.goes_on()
        program.says()
        program.goes_on()
        used = program.says()  # by its only thread so far
        sampler._round()
        (row,) = sampler.rows
        assert row["thread"] == "usage"
        assert row["vtid"] == row["vpid"] == program.process.pid
        assert row["cpu_time_ns"] == pytest.approx(used, rel=0.02)
        sample = ProcessReader(program.process.pid).sample()
        assert row["voluntary_switches"] == pytest.approx(sample.voluntary_switches, abs=2)


def test_the_machine_is_read_as_the_kernel_writes_it():
    before, after = system_sample(), None
    blob = os.urandom(1 << 20)
    import socket

    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    end, _ = server.accept()
    for _ in range(8):
        client.sendall(blob[: 1 << 16])
        left = 1 << 16
        while left:
            left -= len(end.recv(left))
    for endpoint in (end, client, server):
        endpoint.close()
    after = system_sample()
    assert after["loopback_bytes"] - before["loopback_bytes"] >= 8 << 16
    assert after["time_ns"] > before["time_ns"]
    assert set(after) == {column.name for column in SYSTEM.columns}
    # psutil reads the same clocks, which go on meanwhile. It counts guests as users, as the kernel
    # does. (The time since the boot differs: a machine may have been paused.)
    now = psutil.cpu_times()
    assert after["cpu_idle_ns"] / 1e9 == pytest.approx(now.idle, abs=10)
    assert after["cpu_steal_ns"] / 1e9 == pytest.approx(now.steal, abs=10)
    busy = now.user + now.nice + now.system + now.irq + now.softirq
    assert after["cpu_busy_ns"] / 1e9 == pytest.approx(busy, abs=10)


def test_counters_of_disks_leave_out_partitions():
    # In Documentation/admin-guide/iostats.rst, fields 6 and 10 are sectors of 512 bytes.
    text = (
        " 259 0 nvme0n1 10 0 100 0 20 0 300 0 0 0 0\n"
        " 259 1 nvme0n1p1 10 0 100 0 20 0 300 0 0 0 0\n"
        " 8 0 sda 1 0 8 0 1 0 16 0 0 0 0\n"
        " 8 1 sda1 1 0 8 0 1 0 16 0 0 0 0\n"
        " 7 0 loop0 1 0 8 0 1 0 16 0 0 0 0\n"
        " 254 0 vda 1 0 4 0 1 0 4 0 0 0 0\n"
    )
    assert disk_counters(text) == {
        "disk_read_bytes": 112 * 512,
        "disk_written_bytes": 320 * 512,
    }
    net = (
        "Inter-|   Receive                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes ...\n"
        "    lo:  50 1 0 0 0 0 0 0  50 1 0 0 0 0 0 0\n"
        "  eth0: 100 1 0 2 0 0 0 0 200 1 0 3 0 0 0 0\n"
    )
    assert network_counters(net) == {
        "loopback_bytes": 50,
        "received_bytes": 100,
        "sent_bytes": 200,
        "dropped_packets": 5,
    }


def test_a_run_with_all_samplers(tmp_path):
    code = "import time; x = [bytes(1000) for _ in range(5000)]; time.sleep(2)"
    text = yaml.safe_dump(
        {
            "name": "all",
            "workload": {"command": [sys.executable, "-c", code], "ros": "none"},
            "sampler_hz": 20,
            "samplers": {"threads": 10, "system": 5, "heap": 20},
            "expect": {"ros2_events": False},
        }
    )
    result = run_campaign(parse_suite(text, "all.yaml"), text, root=tmp_path)
    assert result.exit_code == 0, result.summary()
    run = result.folder / result.complete[0].run
    manifest = read_manifest(run / "manifest.json")
    assert set(manifest.samplers) == {"threads", "system", "heap"}
    for facts in (manifest.sampler, *manifest.samplers.values()):
        assert facts.rounds > 2
        assert 0 <= facts.cpu_fraction < 1
    assert manifest.samplers["threads"].cpu_fraction > 0
    threads = pl.read_parquet(run / "threads.parquet")
    assert threads.schema == THREADS.schema
    assert "roslens-heap" in set(threads["thread"])
    system = pl.read_parquet(run / "system.parquet")
    assert system.schema == SYSTEM.schema
    assert system["cpu_busy_ns"].is_sorted()
    heap = pl.read_parquet(run / "resources.parquet")["heap_bytes"].drop_nulls()
    # Objects above 512 B come from malloc; below that Python has an allocator of its own.
    assert heap.max() > 5000 * 1000
    assert not list(run.glob("*heap*"))
