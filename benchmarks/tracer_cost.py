"""What tracing costs: runs that record against runs that record nothing, block by block.

``python benchmarks/tracer_cost.py CAMPAIGN``, of the suite ``tracer-cost``: per group of events
the additional latency (by the program's own clock) and CPU time per message.

Published (Bedard, Lütkebohle, Dagenais 2022, "ros2_tracing: Multipurpose Low-Overhead Framework
for Real-Time Tracing of ROS 2", IEEE RA-L 7(3)): 158 ns per tracepoint, and 3.3 us more latency
of a message from publisher to callback. ``native_tracer.py cost`` times single events.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.analysis.statistics.over_runs import Interval, student_t
from roslens.collectors.reader import open_trace
from roslens.recording import find_recordings

PUBLISHED_NS_PER_EVENT = 158.0
PUBLISHED_LATENCY_NS = 3300.0


@dataclass(frozen=True)
class CostRun:
    """One run: what it recorded, in which block, and what was measured without the tracer.

    Attributes
    ----------
    recorded
        The level: which events.
    block
        Its repetition.
    latency_ns
        Median over messages of callback - publish by the program's own clock; None: not known.
    cpu_ns
        CPU time of the recorded processes per message.
    events
        Recorded events per message.
    """

    recorded: str
    block: int
    latency_ns: float | None
    cpu_ns: float | None
    events: float


@dataclass(frozen=True)
class Cost:
    """What a level costs more than none, with Student's t interval over blocks.

    Attributes
    ----------
    recorded
        The level.
    events
        Mean of recorded events per message.
    latency_ns, cpu_ns
        More latency and CPU time per message.
    ns_per_event
        The CPU time over the events of the same block; refused where there are none.
    """

    recorded: str
    events: float
    latency_ns: Interval
    cpu_ns: Interval
    ns_per_event: Interval


def costs(runs: Iterable[CostRun], base: str = "nothing", level: float = 0.95) -> list[Cost]:
    """The cost of each level but `base`, paired with the run of `base` in the same block.

    A block without both runs says nothing about their difference and is left out.
    """
    by_level: dict[str, dict[int, CostRun]] = {}
    for run in runs:
        by_level.setdefault(run.recorded, {})[run.block] = run
    without = by_level.pop(base, {})
    return [_cost(name, blocks, without, level) for name, blocks in by_level.items()]


def _cost(
    name: str, blocks: Mapping[int, CostRun], without: Mapping[int, CostRun], level: float
) -> Cost:
    pairs = [(run, without[block]) for block, run in blocks.items() if block in without]
    latency = [
        run.latency_ns - none.latency_ns
        for run, none in pairs
        if run.latency_ns is not None and none.latency_ns is not None
    ]
    cpu = [
        (run.cpu_ns - none.cpu_ns, run.events)
        for run, none in pairs
        if run.cpu_ns is not None and none.cpu_ns is not None
    ]
    return Cost(
        name,
        sum(run.events for run, _ in pairs) / len(pairs) if pairs else 0.0,
        student_t(latency, level),
        student_t([more for more, _ in cpu], level),
        student_t([more / events for more, events in cpu if events > 0], level),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", type=Path, help="of the suite tracer-cost")
    campaign = parser.parse_args().campaign
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


def text(found: Interval, digits: int = 0) -> str:
    """The value and its interval."""
    if found.low is None or found.high is None:
        return "-" if found.value is None else f"{found.value:.{digits}f} (no interval)"
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


if __name__ == "__main__":
    main()
