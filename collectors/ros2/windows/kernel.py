"""What the kernel tells of executions."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from roslens.collectors.ros2.scheduling import Scheduling, find_scheduling
from roslens.collectors.ros2.windows.run import Run

_COLUMNS = (
    "callback_instance_id", "proc", "thread", "start_ns", "end_ns", "kind", "name", "node",
)  # fmt: skip


def find_kernel(run: Run, losses: pl.DataFrame) -> Scheduling:
    """Write what is known of scheduling, and return the counts.

    Made in one piece, of the executions and the changes of state of their threads: the only table
    that takes memory in proportion to the recording.
    """
    recorded = run.events.happened("sched_switch")
    stretches = range(len(run.windows) if recorded else 1)
    instances = pl.concat(run.instances.read(number).select(_COLUMNS) for number in stretches)
    found = find_scheduling(
        run.events, run.seen(instances if recorded else instances.clear()), losses
    )
    run.write("callback_scheduling", found.rows, 0)
    return replace(found, rows=pl.DataFrame())
