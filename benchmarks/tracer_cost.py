"""What tracing costs: runs that record against runs that record nothing, block by block.

``python benchmarks/tracer_cost.py CAMPAIGN``, of the suite ``tracer-cost``: for each group of
events, the additional latency (by the program's own clock) and CPU time per message.

Published (Bedard, Lütkebohle, Dagenais 2022, "ros2_tracing: Multipurpose Low-Overhead Framework
for Real-Time Tracing of ROS 2", IEEE RA-L 7(3)): 158 ns per tracepoint, and 3.3 us more latency
of a message from publisher to callback. ``native_tracer.py cost`` times single events.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.analysis.estimate import not_none
from roslens.analysis.statistics.over_runs import Interval, student_t
from roslens.collectors.reader import open_trace
from roslens.recording import Recording, find_recordings
from roslens.recording.manifest import Manifest

PUBLISHED_NS_PER_EVENT = 158.0
PUBLISHED_LATENCY_NS = 3300.0


@dataclass(frozen=True)
class Cost:
    """The additional cost of a level over no recording, with Student's t interval over blocks.

    Attributes
    ----------
    recorded
            The level: which events are recorded.
        events
            Mean number of recorded events per message.
        latency_ns, cpu_ns
            Additional latency and CPU time per message.
        ns_per_event
            Additional CPU time divided by the events of the same block; refused without events.
    """

    recorded: str
    events: float
    latency_ns: Interval
    cpu_ns: Interval
    ns_per_event: Interval


def costs(runs: pl.DataFrame) -> list[Cost]:
    """Return the cost of each level but ``nothing``, paired with the ``nothing`` run of its block.

    A block without both runs shows no difference and is left out.

    Parameters
    ----------
    runs
        ``recorded`` (the level: which events), ``block`` (its repetition), and, measured without
        the tracer, per message: ``latency_ns`` (median of callback - publish by the program's own
        clock), ``cpu_ns`` (of the recorded processes), ``events``; null if unknown.
    """
    nothing = pl.col("recorded") == "nothing"
    pairs = runs.filter(~nothing).join(runs.filter(nothing), on="block", suffix="_of_none")
    cpu = pl.col("cpu_ns") - pl.col("cpu_ns_of_none")
    more = pairs.select(
        "recorded",
        "events",
        latency_ns=pl.col("latency_ns") - pl.col("latency_ns_of_none"),
        cpu_ns=cpu,
        ns_per_event=pl.when(pl.col("events") > 0).then(cpu / pl.col("events")),
    )
    return [
        Cost(
            str(name),
            not_none(members["events"].mean()),
            *(
                student_t(members[column].drop_nulls())
                for column in ("latency_ns", "cpu_ns", "ns_per_event")
            ),
        )
        for (name,), members in more.group_by("recorded", maintain_order=True)
    ]


def runs_of(campaign: Path) -> Iterator[tuple[Recording, Manifest, pl.DataFrame]]:
    """Yield the completed runs with the program's own message log, and ``latency_ns`` in it."""
    for recording in find_recordings(campaign):
        manifest = recording.manifest
        if manifest is not None and manifest.status == "complete":
            log = pl.read_csv(recording.native / "messages.csv")
            latency = pl.col("callback_realtime_ns") - pl.col("publish_realtime_ns")
            yield recording, manifest, log.with_columns(latency_ns=latency.cast(pl.Int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", type=Path, help="of the suite tracer-cost")
    campaign = parser.parse_args().campaign
    rows, discarded, disturbed = [], 0, 0
    for recording, manifest, log in runs_of(campaign):
        discarded += manifest.loss.discarded_events or 0
        disturbed += bool(manifest.disturbances)
        usage = pl.read_parquet(recording.resources).filter(
            pl.col("process").str.starts_with("demo_")
        )
        # Only after readiness: starting an interpreter costs as much as thousands of messages.
        ready = manifest.timing.ready_ns if manifest.timing else None
        warm = usage.filter(pl.col("time_ns") >= (ready or 0))
        used = pl.col("cpu_time_ns").max() - pl.col("cpu_time_ns").min()
        rows.append(
            {
                "recorded": str(manifest.factors["recorded"]),
                "block": manifest.repetition,
                "latency_ns": log["latency_ns"].median(),
                "cpu_ns": warm.group_by("vpid").agg(used)["cpu_time_ns"].sum() / log.height,
                "events": open_trace(recording.path).info().events / log.height,
            }
        )
    print(
        f"{len(rows)} runs, {disturbed} of them disturbed by their host, {discarded} events "
        "discarded; intervals 95 % over blocks"
    )
    print(f"{'recorded':12}{'events per':>12}{'more latency':>26}{'more CPU time':>28}{'CPU':>26}")
    print(f"{'':12}{'message':>12}{'ns per message':>26}{'ns per message':>28}{'ns per event':>26}")
    for cost in costs(pl.DataFrame(rows, infer_schema_length=None)):
        print(
            f"{cost.recorded:12}{cost.events:12.2f}{text(cost.latency_ns):>26}"
            f"{text(cost.cpu_ns):>28}{text(cost.ns_per_event):>26}"
        )
    print(
        f"published: {PUBLISHED_LATENCY_NS:.0f} ns more latency with all events, "
        f"{PUBLISHED_NS_PER_EVENT:.0f} ns per event"
    )


def text(found: Interval, digits: int = 0) -> str:
    """Format a value and its interval."""
    if found.low is None or found.high is None:
        return "-" if found.value is None else f"{found.value:.{digits}f} (no interval)"
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


if __name__ == "__main__":
    main()
