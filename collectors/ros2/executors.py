"""What the threads of executors did: waiting for work, or not.

``rclcpp_executor_wait_for_work`` begins a wait, the thread's next executor event ends it. Only the
single- and multi-threaded executors emit these events. Nothing tells which threads belong to one
executor, nor that a thread waits for the lock under which another one waits for work: that is part
of being busy, outside of callbacks.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.events import Events, proc
from roslens.collectors.ros2.joins import follows, timeline
from roslens.collectors.ros2.types import I32, I64, label

WAIT, READY, EXECUTE, START, END = range(5)
EVENTS = (
    "rclcpp_executor_wait_for_work",
    "rclcpp_executor_get_next_ready",
    "rclcpp_executor_execute",
)


def find_executor_intervals(events: Events, callbacks: Callbacks) -> pl.DataFrame:
    """One row per stretch of a thread; columns of the table, and proc and thread."""
    whole = callbacks.instances
    if not any(events.happened(name) for name in EVENTS):
        whole = whole.clear()
    whole = whole.select("thread", "start_ns", "end_ns").drop_nulls("end_ns")
    line = timeline(
        [
            *((events[name], ["timeout"] if name == EVENTS[WAIT] else []) for name in EVENTS),
            (whole.select("thread", pl.col("start_ns").alias("time_ns")), []),
            (whole.select("thread", pl.col("end_ns").alias("time_ns")), []),
        ]
    )
    kind = pl.col("kind")
    waits = kind == WAIT
    # Sums run on over threads, as differences within one are all that counts. Each thread leaves
    # as many callbacks as it enters.
    depth = ((kind == START).cast(I32) - (kind == END).cast(I32)).cum_sum()
    passed = pl.when(follows(by=1) & (depth.shift(1) > 0)).then(pl.col("time_ns").diff())
    line = line.with_columns(
        passed.fill_null(0).cum_sum().alias("callback_ns"),
        (kind == EXECUTE).cast(I64).cum_sum().alias("executed"),
    )
    sums = ("executed", "callback_ns")
    line = line.with_columns(
        pl.when(~follows(by=-1)).then(name).backward_fill().alias(f"whole_{name}") for name in sums
    ).filter(kind <= EXECUTE)
    begins = waits | (kind.shift(1) == WAIT).fill_null(value=True) | ~follows(by=1)
    line = line.with_columns(
        # Executions up to, and not with, this event.
        pl.col("executed") - (kind == EXECUTE).cast(I64)
    ).filter(begins)
    more = follows(by=-1)
    end = pl.when(more).then(pl.col("time_ns").shift(-1))
    return line.select(
        proc().alias("proc"),
        "thread",
        pl.when(waits).then(label("wait")).otherwise(label("busy")).alias("state"),
        pl.col("time_ns").alias("begin_ns"),
        end.alias("end_ns"),
        (end - pl.col("time_ns")).alias("duration_ns"),
        pl.when(waits).then("timeout").alias("timeout_ns"),
        *(
            pl.when(more).then(pl.col(name).shift(-1)).otherwise(f"whole_{name}").sub(pl.col(name))
            .alias(name)
            for name in sums
        ),
    ).sort("begin_ns", "thread", maintain_order=True)  # fmt: skip


def threads_without_events(events: Events, ran: pl.Series, seen: pl.Series) -> int:
    """How many threads that `ran` callbacks emitted no executor event, though these were recorded.

    Parameters
    ----------
    ran, seen
        Threads with callbacks, each once, and threads with executor events.
    """
    if not events.declared("rclcpp_executor_get_next_ready"):
        return 0
    return ran.filter(~ran.is_in(seen.implode())).len()
