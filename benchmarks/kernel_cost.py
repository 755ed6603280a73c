"""What recording the kernel costs, each way that needs nothing installed.

``python benchmarks/kernel_cost.py [--turns N]``, as root. Measured are the CPU ns of a switch
between two threads with all its consequences (two processes on one CPU that wake each other by
pipes, half a round trip), of a datagram to the own machine, and of a call of
``ros_trace_rmw_publish``: without recording, and with each kind of recording that sees them; and
the CPU ns to convert one event when the recording ends. All kinds are measured in each turn, in
random order; intervals (95 %, Student t) are over turns, differences are within a turn. LTTng's
kernel modules are not measured.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tracer_cost import text

from roslens.analysis.statistics.over_runs import student_t
from roslens.tracing.ftrace.recorder import Drain, convert, describe, own_instance
from roslens.tracing.ftrace.tracefs import write
from roslens.tracing.ftrace.uprobes import Target, place_probes
from roslens.tracing.lttng.settings import KERNEL_EVENTS
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.perf.buffers import PerfBuffers
from roslens.tracing.perf.switches import convert as convert_perf
from roslens.tracing.perf.switches import records_of

ROUND_TRIPS, DATAGRAMS, CALLS = 10_000, 10_000, 20_000
BUFFER = 16 << 20
SOFT_INTERRUPTS = ("irq_softirq_raise", "irq_softirq_entry", "irq_softirq_exit")
NET = ("net_dev_queue", "net_dev_start_xmit", "net_dev_xmit", "netif_rx", "netif_receive_skb")
SWITCH_OF_PERF = 14


@dataclass
class MeasuredCost:
    """A measured cost: CPU ns per operation, events recorded per operation, ns to convert one."""

    cost: float
    events: float = 0
    converting: float = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    library = native_library("kilted")
    publish = ctypes.CDLL(str(library)).ros_trace_rmw_publish
    publish.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    kinds: Mapping[str, Callable[[], MeasuredCost]] = {
        "switch": lambda: MeasuredCost(switches()),
        "switch, ftrace": partial(by_ftrace, KERNEL_EVENTS, switches, 2 * ROUND_TRIPS),
        "switch, perf_event_open": by_perf,
        "datagram": lambda: MeasuredCost(datagrams()),
        "datagram, soft interrupts": partial(by_ftrace, SOFT_INTERRUPTS, datagrams, DATAGRAMS),
        "datagram, net events": partial(by_ftrace, NET, datagrams, DATAGRAMS),
        "call": lambda: MeasuredCost(calls(publish)),
        "call, probe": lambda: MeasuredCost(probed_calls(publish, library), events=1),
    }
    draw, rows = random.Random(28), dict[str, list[float]]()
    for _ in range(turns):
        order = draw.sample(sorted(kinds), len(kinds))
        results = {name: kinds[name]() for name in order}
        for name in kinds:
            for label, value in figures_of(name, results):
                rows.setdefault(f"{name}: {label}", []).append(value)
    for name, values in rows.items():
        print(f"{name:52} {text(student_t(values))}")


def figures_of(name: str, found: Mapping[str, MeasuredCost]) -> list[tuple[str, float]]:
    """Return labels and values of the figures shown for a kind of measurement."""
    variant, plain = found[name], found[name.partition(",")[0]]
    if variant is plain:
        return [("not recorded", variant.cost)]
    added = variant.cost - plain.cost
    rows = [("adds", added)]
    if variant.converting:
        rows += [("events", variant.events), ("adds for each event", added / variant.events)]
        rows += [("converting one event", variant.converting)]
    return rows


def own_cpu() -> int:
    return max(os.sched_getaffinity(0))


def switches() -> float:
    """Return the CPU ns of half a round trip between two processes on one CPU."""
    (ping_in, ping_out), (pong_in, pong_out) = os.pipe(), os.pipe()
    cpu = own_cpu()
    pids = []
    for first in (True, False):
        pid = os.fork()
        if pid == 0:
            os.sched_setaffinity(0, {cpu})
            for _ in range(ROUND_TRIPS):
                if first:
                    os.write(ping_out, b"x")
                    os.read(pong_in, 1)
                else:
                    os.read(ping_in, 1)
                    os.write(pong_out, b"x")
            os._exit(0)
        pids.append(pid)
    usage = [os.wait4(pid, 0)[2] for pid in pids]
    for end in (ping_in, ping_out, pong_in, pong_out):
        os.close(end)
    return sum(child.ru_utime + child.ru_stime for child in usage) * 1e9 / (2 * ROUND_TRIPS)


def datagrams() -> float:
    """Return the CPU ns to send a datagram to the own machine and receive it, on one CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {own_cpu()})
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            where = udp.getsockname()
            before = time.thread_time_ns()
            for _ in range(DATAGRAMS):
                udp.sendto(b"x", where)
                udp.recv(1)
            return (time.thread_time_ns() - before) / DATAGRAMS
    finally:
        os.sched_setaffinity(0, allowed)


def by_ftrace(events: Sequence[str], work: Callable[[], float], times: int) -> MeasuredCost:
    with tempfile.TemporaryDirectory() as scratch, own_instance(BUFFER) as instance:
        raw = Path(scratch) / "raw"
        raw.mkdir()
        for event in events:
            instance.enable(event)
        drain = Drain(instance, raw)
        write(instance.path / "tracing_on", "1")
        cost = work()
        write(instance.path / "tracing_on", "0")
        drain.end()
        describe(instance, raw)
        # Events of other CPUs belong to other programs.
        for path in raw.glob("cpu*"):
            if path.name != f"cpu{own_cpu()}":
                path.unlink()
        before = time.process_time_ns()
        done = convert(raw, Path(scratch) / "kernel", beside=raw)
        return MeasuredCost(
            cost, done.events / times, (time.process_time_ns() - before) / done.events
        )


def by_perf() -> MeasuredCost:
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "raw"
        raw.mkdir()
        buffers = PerfBuffers(raw, BUFFER, range(os.cpu_count() or 1))
        cost = switches()
        buffers.end()
        kinds = [kind for file in raw.glob("cpu*") for kind, *_ in records_of(file.read_bytes())]
        count = kinds.count(SWITCH_OF_PERF)
        before = time.process_time_ns()
        convert_perf(raw, Path(scratch) / "kernel", beside=raw)
        spent = time.process_time_ns() - before
        return MeasuredCost(cost, count / (2 * ROUND_TRIPS), spent / count)


def calls(publish: Callable[..., object]) -> float:
    before = time.thread_time_ns()
    for number in range(CALLS):
        publish(1, 2, number)
    return (time.thread_time_ns() - before) / CALLS


def probed_calls(publish: Callable[..., object], library: Path) -> float:
    with own_instance(BUFFER) as instance:
        place_probes(instance, [Target(os.getpid(), "benchmark", library)])
        write(instance.path / "tracing_on", "1")
        return calls(publish)


if __name__ == "__main__":
    main()
