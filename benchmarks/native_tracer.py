"""What the native tracer costs beside LTTng, and whether anything makes it lose or tear an event.

``python benchmarks/native_tracer.py cost [--processes N]``: CPU ns of one event (callback_start)
of a program that does nothing else, without tracing, with the native tracer and with LTTng-UST,
and of ``clock_gettime`` alone in the same process. Processes take turns; the interval (95 %,
Student t) is over processes, ratios and differences are between processes of the same turn.

``python benchmarks/native_tracer.py latency CAMPAIGN``, of the suite programs/tracers.yaml: the
demo's latency by its own clock, over runs, and its ratio to the untraced run of the same block.

``python benchmarks/native_tracer.py hold``: 100 kills at random moments, 100 forks, 64 threads at
a time that start and end, a million events per second from two threads for ten seconds.

``python benchmarks/native_tracer.py watch [--seconds S] [--rate EVENTS]``: the share of a CPU and
the memory that ``roslens watch`` uses for programs that emit so many events per second, once its
window is full.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tracer_cost import runs_of, text

from roslens.analysis.statistics.over_runs import student_t
from roslens.collectors.reader import open_trace
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.ros import embedded_ros

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.native_tracer.test_native_tracer import (  # noqa: E402
    compile_program,
    emitted,
    kill_at_random,
)

TRACERS = ("off", "native", "lttng")
BURST = 100_000
EVENTS_OF_MESSAGE = 8
SETTLED_S = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("cost", "latency", "hold", "watch"))
    parser.add_argument("campaign", type=Path, nargs="?")
    parser.add_argument("--processes", type=int, default=25, help="for each tracer")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60, help="that are watched")
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of these")
    options = parser.parse_args()
    if options.what == "latency":
        latency(options.campaign)
        return
    native = native_library("kilted")
    with tempfile.TemporaryDirectory() as scratch:
        program = "talking" if options.what == "watch" else "emit"
        emit = Path(scratch) / program
        compile_program(ROOT / "tests" / "native_tracer" / f"{program}.c", native, emit)
        if options.what == "watch":
            watch(emit, native, Path(scratch), options.seconds, options.rate)
        elif options.what == "cost":
            cost(emit, native, Path(scratch), options.processes)
        else:
            hold(emit, native, Path(scratch), options.kills)


def cost(emit: Path, native: Path, scratch: Path, processes: int) -> None:
    lttng = embedded_ros().preload()[0]
    costs: dict[str, list[tuple[float, float]]] = {tracer: [] for tracer in TRACERS}
    discarded = 0
    for turn in range(processes):
        for tracer in TRACERS if turn % 2 else TRACERS[::-1]:
            trace = scratch / f"{turn}-{tracer}"
            if tracer == "lttng":
                options = TracingOptions(kernel="off", subbuf_size="4M")
                with (
                    session_daemon() as daemon,
                    recording_session(daemon, options, trace) as session,
                ):
                    measured = burst(emit, lttng, session.workload_variables)
                discarded += session.loss.discarded_events or 0
            else:
                trace.mkdir(mode=0o700)
                folder = {"ROSLENS_TRACE_FOLDER": str(trace)} if tracer == "native" else {}
                measured = burst(emit, native, folder)
                if tracer == "native":
                    info = open_trace(trace).info()
                    assert info.events == 2 * BURST
                    discarded += info.discarded_events
            costs[tracer].append(measured)
    print(f"{processes} processes for each, {BURST} events timed in each, {discarded} discarded")
    for tracer in TRACERS:
        print(
            f"{tracer:24}{text(student_t([event for event, _ in costs[tracer]]), 1)} ns per event"
        )
    clocks = [clock for tracer in TRACERS for _, clock in costs[tracer]]
    print(f"{'clock_gettime':24}{text(student_t(clocks), 1)} ns")
    above = [event - clock for event, clock in costs["native"]]
    print(f"{'native above the clock':24}{text(student_t(above), 1)} ns per event")
    pairs = zip(costs["native"], costs["lttng"], strict=True)
    ratios = [ours[0] / theirs[0] for ours, theirs in pairs]
    print(f"{'native / lttng':24}{text(student_t(ratios), 3)}")


def burst(emit: Path, library: Path, variables: dict[str, str]) -> tuple[float, float]:
    output = subprocess.check_output(
        [str(emit), "cost", str(BURST)],
        env={**os.environ, **variables, "LD_PRELOAD": str(library)},
        text=True,
    )
    event, clock = map(float, output.split())
    return event, clock


def latency(campaign: Path) -> None:
    runs: dict[str, dict[int, tuple[float, float]]] = {}
    discarded = 0
    for _, manifest, log in runs_of(campaign):
        discarded += manifest.loss.discarded_events or 0
        cuts = statistics.quantiles(log["latency_ns"].drop_nulls(), n=100)
        of_tracer = runs.setdefault(str(manifest.factors["recorded_by"]), {})
        of_tracer[manifest.repetition] = (cuts[49] / 1e3, cuts[98] / 1e3)
    print(f"{sum(map(len, runs.values()))} runs, {discarded} events discarded")
    for tracer, blocks in runs.items():
        for at, name in enumerate(("P50", "P99")):
            values = [percentiles[at] for percentiles in blocks.values()]
            shared = sorted(set(blocks) & set(runs["nothing"]))
            ratios = [blocks[b][at] / runs["nothing"][b][at] for b in shared]
            print(
                f"{tracer:10}{name} {text(student_t(values), 1)} us, "
                f"{text(student_t(ratios), 2)} times that without"
            )


def hold(emit: Path, native: Path, scratch: Path, kills: int) -> None:
    for seed in range(kills):
        folder = scratch / f"kill-{seed}"
        folder.mkdir(mode=0o700)
        kill_at_random(emit, native, folder, seed)
        subprocess.run(["rm", "-r", str(folder)], check=True)
    print(f"{kills} kills: every complete event there, none torn, none discarded")
    for arguments in (
        ("fork", 2000, 100),
        ("churn", 1000, 6400),
        ("run", 200_000, 64),
        ("signals", 20_000_000),
        ("run", 5_000_000, 2),
    ):
        folder = scratch / "-".join(map(str, arguments))
        folder.mkdir(mode=0o700)
        begun = time.monotonic()
        total = emitted(emit, native, folder, *arguments)
        seconds = time.monotonic() - begun
        info = open_trace(folder).info()
        assert info.events + info.discarded_events == total
        rate = total / seconds / 1e6
        print(
            f"{' '.join(map(str, arguments))}: {info.events} events + {info.discarded_events} "
            f"discarded = {total} emitted, {rate:.2f} million per second"
        )
        subprocess.run(["rm", "-r", str(folder)], check=True)


def watch(talking: Path, native: Path, scratch: Path, seconds: float, rate: int) -> None:
    triggers = scratch / "triggers.yaml"
    triggers.write_text(
        "triggers: [latency of /chatter > 1 s, gap of /chatter > 1 s, callback of /listener > 1 s,"
        " rate of /chatter < 1 Hz, loss of /chatter > 50 %]"
    )
    for flight in ("", "30"):
        for more in ((), ("--triggers", str(triggers))):
            folder = scratch / f"watch{flight}{len(more)}"
            folder.mkdir(mode=0o700)
            variables = {"LD_PRELOAD": str(native), "ROSLENS_TRACE_FOLDER": str(folder)}
            program = subprocess.Popen(
                [str(talking), "100000000", str(rate // EVENTS_OF_MESSAGE), "0", "0"],
                env={**os.environ, **variables, "ROSLENS_TRACE_FLIGHT": flight},
                start_new_session=True,
            )
            time.sleep(1)
            watching = subprocess.Popen(
                [sys.executable, "-P", "-m", "roslens", "watch", str(folder), "--json", *more],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                assert watching.stdout is not None
                # Wait until the window is full and the events read at first are forgotten.
                begun = time.monotonic()
                while time.monotonic() - begun < SETTLED_S:
                    watching.stdout.readline()
                begun, used, rates = time.monotonic(), cpu_s(watching.pid), []
                while time.monotonic() - begun < seconds:
                    rates.append(json.loads(watching.stdout.readline())["events_per_s"])
                took = time.monotonic() - begun
                part = (cpu_s(watching.pid) - used) / took
                status = Path(f"/proc/{watching.pid}/status").read_text()
                now, most = (
                    int(status.partition(field)[2].split()[0]) / 1024
                    for field in ("VmRSS:", "VmHWM:")
                )
            finally:
                watching.kill()
                os.killpg(program.pid, signal.SIGKILL)
                watching.communicate()
                program.wait()
            print(
                f"{'flight recorder' if flight else 'all':16}{'5 triggers' if more else '':11}"
                f"{100 * part:.2f} % of a CPU; {statistics.mean(rates):,.0f} events/s, a refresh "
                f"every {took / len(rates):.2f} s; {now:.0f} MiB, {most:.0f} at most",
                flush=True,
            )
            subprocess.run(["rm", "-r", str(folder)], check=True)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
