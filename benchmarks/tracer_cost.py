"""What tracing costs, against the published 158 ns per tracepoint and 3.3 us per message.

``python benchmarks/tracer_cost.py [--processes N]`` times a tracepoint in C: CPU ns per event,
not recorded and recorded; each process gives the median of its bursts, the interval (95 %,
Student t) is over processes, which take turns.

``python benchmarks/tracer_cost.py CAMPAIGN``, of the suite ``tracer-cost``: per group of events
the additional latency (by the program's own clock) and CPU time per message, paired by block.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from roslens.analysis.measures.tracer_cost import (
    PUBLISHED_LATENCY_NS,
    PUBLISHED_NS_PER_EVENT,
    CostRun,
    costs,
)
from roslens.analysis.statistics.over_runs import Interval, student_t
from roslens.collectors.reader import open_trace
from roslens.recording import find_recordings
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon

PROGRAM = Path(__file__).parent / "programs" / "tracepoint_cost.c"
MODES = ("not recorded", "recorded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", type=Path, nargs="?", help="of the suite tracer-cost")
    parser.add_argument("--processes", type=int, default=15, help="for each mode")
    options = parser.parse_args()
    if options.campaign is None:
        of_tracepoint(options.processes)
    else:
        of_messages(options.campaign)


def of_tracepoint(processes: int) -> None:
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    discarded = 0
    with tempfile.TemporaryDirectory() as scratch, session_daemon(kernel="off") as daemon:
        program = Path(scratch) / "cost"
        command = ["cc", "-O2", f"-I{PROGRAM.parent}", str(PROGRAM), "-o", str(program)]
        subprocess.run([*command, "-llttng-ust", "-ldl"], check=True)
        for number in range(processes):
            # Back and forth, so that a drift of the machine is in both.
            for mode in MODES if number % 2 else MODES[::-1]:
                events = "ros2:*" if mode == "recorded" else "roslens_nothing:*"
                with ExitStack() as stack:
                    session = stack.enter_context(
                        recording_session(
                            daemon,
                            TracingOptions(events=(events,), kernel="off"),
                            Path(scratch) / f"{number}-{mode.replace(' ', '-')}",
                        )
                    )
                    run = subprocess.run(
                        [str(program)],
                        env=daemon.workload_variables,
                        check=True,
                        capture_output=True,
                        text=True,
                    )
                discarded += session.loss.discarded_events or 0
                found[mode].append(statistics.median(map(float, run.stdout.split())))
    print(f"{processes} processes for each mode, {discarded} events discarded")
    for mode in MODES:
        print(f"{mode:14}{text(student_t(found[mode]))} ns per event")
    print(f"{'published':14}{PUBLISHED_NS_PER_EVENT:.0f} ns per event")


def of_messages(campaign: Path) -> None:
    runs, discarded, disturbed = [], 0, 0
    for recording in find_recordings(campaign):
        manifest = recording.manifest
        if manifest is None or manifest.status != "complete":
            continue
        discarded += manifest.loss.discarded_events or 0
        disturbed += bool(manifest.disturbances)
        with (recording.native / "messages.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        received = [r for r in rows if r["callback_realtime_ns"]]
        latencies = [
            int(r["callback_realtime_ns"]) - int(r["publish_realtime_ns"]) for r in received
        ]
        usage = pl.read_parquet(recording.resources).filter(
            pl.col("process").str.starts_with("demo_")
        )
        # From readiness on: starting an interpreter costs as much as thousands of messages.
        ready = manifest.timing.ready_ns if manifest.timing else None
        warm = usage.filter(pl.col("time_ns") >= (ready or 0))
        used = pl.col("cpu_time_ns").max() - pl.col("cpu_time_ns").min()
        cpu = warm.group_by("vpid").agg(used)["cpu_time_ns"].sum()
        runs.append(
            CostRun(
                str(manifest.factors["recorded"]),
                manifest.repetition,
                statistics.median(latencies) if latencies else None,
                cpu / len(rows) if rows else None,
                open_trace(recording.path).info().events / len(rows),
            )
        )
    print(
        f"{len(runs)} runs, {disturbed} of them disturbed by their host, {discarded} events "
        "discarded; intervals 95 % over blocks"
    )
    print(f"{'recorded':12}{'events per':>12}{'more latency':>26}{'more CPU time':>28}{'CPU':>26}")
    print(f"{'':12}{'message':>12}{'ns per message':>26}{'ns per message':>28}{'ns per event':>26}")
    for cost in costs(runs):
        print(
            f"{cost.recorded:12}{cost.events:12.2f}{text(cost.latency_ns):>26}"
            f"{text(cost.cpu_ns):>28}{text(cost.ns_per_event):>26}"
        )
    print(
        f"published: {PUBLISHED_LATENCY_NS:.0f} ns more latency with all events, "
        f"{PUBLISHED_NS_PER_EVENT:.0f} ns per event"
    )


def text(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return "-" if interval.value is None else f"{interval.value:.0f} (no interval)"
    return f"{interval.value:.0f} [{interval.low:.0f}, {interval.high:.0f}]"


if __name__ == "__main__":
    main()
