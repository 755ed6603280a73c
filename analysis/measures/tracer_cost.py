"""What tracing costs: runs that record against runs that record nothing, block by block.

Published (Bedard, Lütkebohle, Dagenais 2022, "ros2_tracing: Multipurpose Low-Overhead Framework
for Real-Time Tracing of ROS 2", IEEE RA-L 7(3)): 158 ns per tracepoint, and 3.3 us more latency
of a message from publisher to callback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roslens.analysis.statistics.over_runs import Interval, student_t

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
