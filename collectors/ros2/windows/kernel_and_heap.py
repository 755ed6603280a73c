"""What the kernel and the allocator tell of executions."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from collectors.ros2.events import HEAP_FIELDS
from collectors.ros2.heap import Heap, find_heap
from collectors.ros2.scheduling import Scheduling, find_scheduling
from collectors.ros2.windows.run import Run


def find_kernel_and_heap(run: Run) -> tuple[Scheduling, Heap]:
    """Write what is known of scheduling and heap, and return the counts.

    Both are made in one piece: their events are few in the traces that are large, or the traces
    are not large.
    """
    recorded = any(run.events.happened(name) for name in ("sched_switch", *HEAP_FIELDS))
    stretches = range(len(run.windows) if recorded else 1)
    instances = pl.concat(run.instances.read(number) for number in stretches)
    callbacks = run.seen(instances if recorded else instances.clear())
    scheduling = find_scheduling(run.events, callbacks)
    heap = find_heap(run.events, callbacks)
    run.write("callback_scheduling", scheduling.rows, 0)
    run.write("heap", heap.processes, 0)
    run.write("callback_heap", heap.callbacks, 0)
    run.write("callback_allocations", heap.instances, 0)
    nothing = pl.DataFrame()
    return (
        replace(scheduling, rows=nothing),
        replace(heap, processes=nothing, callbacks=nothing, instances=nothing),
    )
