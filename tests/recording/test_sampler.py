"""Test the sampler beside a C program that prints what it used (getrusage, its own mapping)."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.programs import wait_for

from roslens.recording.schema import RESOURCES
from roslens.tracing.proc import stat
from roslens.tracing.processes import has_mark, marked, process_ids
from roslens.tracing.ros.environment import preloaded
from roslens.tracing.sampling.processes import ProcessReader, Sampler, cpu_time_ns

pytestmark = pytest.mark.live


class Program:
    """A program that runs up to its next line, then waits."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> int:
        return int(self.process.stdout.readline())

    def goes_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_memory_and_cpu_time_agree_with_what_the_program_did(usage):
    with Program(usage) as program:
        reader = ProcessReader(program.process.pid)
        program.says()
        before = reader.sample()
        program.goes_on()
        touched = program.says()
        after = reader.sample()
        assert after.uss_bytes - before.uss_bytes == pytest.approx(touched, abs=65536)
        # There is one fault for each 4 KiB page that was touched for the first time.
        assert after.minor_faults - before.minor_faults == pytest.approx(touched / 4096, rel=0.02)
        # 64 kB: the page tables of libc's first calls are not counted by anyone.
        assert after.rss_bytes - before.rss_bytes == pytest.approx(touched, abs=65536)
        assert after.pss_bytes - before.pss_bytes == pytest.approx(touched, abs=65536)
        program.goes_on()
        used = program.says()
        assert reader.sample().cpu_time_ns == pytest.approx(used, rel=0.02)
        program.goes_on()
        with_ended_thread = program.says()
        sample = reader.sample()
        # The thread used half a second of CPU time by its own clock.
        assert with_ended_thread - used >= 490_000_000
        assert sample.cpu_time_ns == pytest.approx(with_ended_thread, rel=0.02)
        assert sample.threads == 1
        assert sample.process == "usage"


def test_context_switches_are_those_of_all_threads():
    code = (
        "import threading, time, resource\n"
        "def nap():\n    for _ in range(50): time.sleep(0.001)\n    gate.wait()\n"
        "gate = threading.Barrier(4)\n"
        "threads = [threading.Thread(target=nap, daemon=True) for _ in range(3)]\n"
        "[t.start() for t in threads]\n"
        "while gate.n_waiting < 3: time.sleep(0.05)\n"
        "time.sleep(0.2)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, flush=True)\n"
        "input()\n"
    )
    with Program(sys.executable, "-c", code) as program:
        counted = program.says()
        sample = ProcessReader(program.process.pid).sample()
        assert sample.threads == 4
        assert counted >= 150  # three threads slept 50 times
        # Printing and waiting for input add a few switches.
        assert sample.voluntary_switches == pytest.approx(counted, abs=10)


def test_a_whole_tree_is_sampled_even_when_a_parent_ends():
    script = "(sleep 300 & echo $!; read line; exit 0); echo gone; exec sleep 301"
    process = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    sampler = Sampler(process.pid, hz=50).start()

    def wait_for_samples(number: int) -> None:
        wait_for(lambda: sum(row.vpid == orphan for row in sampler.rows) >= number)

    try:
        orphan = int(process.stdout.readline())
        wait_for_samples(3)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "gone\n"
        before = sum(row.vpid == orphan for row in sampler.rows)
        wait_for_samples(before + 20)
        sampler.stop()
        frame = sampler.frame()
        assert frame.schema == RESOURCES.schema
        names = {row.process for row in sampler.rows if row.vpid == orphan}
        assert "sleep" in names
        assert frame["time_ns"].is_sorted()
        assert sampler.facts.rounds > 0
        assert 0 < sampler.facts.cpu_fraction < 1
    finally:
        os.kill(orphan, 9)
        process.kill()
        process.communicate()


def test_a_process_that_left_its_parent_at_once_is_found_by_its_mark():
    process = subprocess.Popen(
        ["sh", "-c", "setsid -f sleep 30; exec sleep 31"], env={**os.environ, "TEST_MARK": "x1"}
    )
    sampler = Sampler(process.pid, hz=20, belongs=lambda pid: has_mark(pid, "TEST_MARK=x1")).start()
    try:
        wait_for(lambda: len(asleep(sampler)) >= 2)
        sampler.stop()
        assert len(asleep(sampler)) == 2
    finally:
        for pid in marked("TEST_MARK=x1"):
            os.kill(pid, 9)
        process.wait()


def asleep(sampler: Sampler) -> set[int]:
    return {row.vpid for row in sampler.rows if row.process == "sleep"}


def test_rounds_that_come_too_late_are_counted_not_piled_up():
    class Slow(Sampler):
        def _round(self) -> None:
            super()._round()
            time.sleep(0.05)

    with Program("sleep", "30") as program:
        sampler = Slow(program.process.pid, hz=100).start()
        time.sleep(0.5)
        sampler.stop()
    # Each round takes five periods or more.
    assert sampler.overruns >= 3 * (sampler.rounds - 2)
    assert len(sampler.rows) == sampler.rounds


def test_an_ended_process_gives_nothing():
    process = subprocess.Popen(["true"])
    process.wait()
    assert cpu_time_ns(process.pid) is None
    with pytest.raises(OSError, match=str(process.pid)):
        ProcessReader(process.pid)
    sampler = Sampler(process.pid).start()
    sampler.stop()
    assert sampler.frame().height == 0
    assert sampler.frame().schema == RESOURCES.schema


def test_memory_is_read_at_a_rate_of_its_own():
    with Program("sleep", "30") as program:
        sampler = Sampler(program.process.pid, hz=50, memory_hz=2).start()
        time.sleep(1.2)
        sampler.stop()
    memory = sampler.frame().drop_nulls("rss_bytes")
    assert 1 <= memory.height <= 4
    assert (memory["time_ns"].diff().drop_nulls() >= 500_000_000).all()
    assert memory["voluntary_switches"].null_count() == 0
    assert sampler.frame()["cpu_time_ns"].null_count() == 0


def test_the_sampler_gives_way_and_keeps_off_the_cpus_of_what_it_samples():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    seen: set[tuple[int, tuple[int, ...]]] = set()

    class Watched(Sampler):
        def _round(self) -> None:
            super()._round()
            seen.add((os.sched_getscheduler(0), tuple(sorted(os.sched_getaffinity(0)))))

    with Program("sleep", "30") as program:
        os.sched_setaffinity(program.process.pid, cpus[:1])
        sampler = Watched(program.process.pid, hz=20).start()
        time.sleep(0.2)
        sampler.stop()
    assert seen == {(os.SCHED_IDLE, tuple(cpus[1:]))}
    assert sorted(os.sched_getaffinity(0)) == cpus


def test_the_id_is_the_one_that_the_process_sees():
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo $$; sleep 30"]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    if subprocess.run([*command[:-2], "-c", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a PID namespace")
    with Program(*command) as program:
        own_id = program.says()
        inside = next(pid for pid in process_ids() if parent(pid) == program.process.pid)
        assert own_id != inside
        assert ProcessReader(inside).sample().vpid == own_id


def parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(stat(pid)[1])
    return None


def test_libraries_of_a_user_are_between_the_tracers_and_the_samplers():
    """ld.so(8): separated by colons or spaces."""
    given = {"LD_PRELOAD": "a.so b.so:c.so"}
    order = preloaded(given, first=[Path("tracer.so")], last=[Path("heap.so")])
    assert order == "tracer.so:a.so:b.so:c.so:heap.so"
    assert not preloaded({})
