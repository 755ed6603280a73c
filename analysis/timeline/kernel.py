"""Tracks of the kernel's scheduler: who had each CPU, and what kept threads from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from roslens.analysis.measures.cpu_waits import find_waits

_PLACE = ("host", "cpu_id")
_WAITS = {"preempted": "preempted", "woken": "woken, waits for a CPU"}


@dataclass(frozen=True)
class KernelIntervals:
    """What the kernel says, in ns; frames have host, begin_ns, end_ns and called.

    Attributes
    ----------
    cpus
        With cpu_id: the thread that ran there; nothing where it was idle, or where an event is
        missing.
    running, runnable
        With tid, of the threads asked for: on which CPU it ran; why it could have run and did not.
    """

    cpus: pl.DataFrame
    running: pl.DataFrame
    runnable: pl.DataFrame


def kernel_intervals(
    events: Mapping[str, pl.LazyFrame], threads: pl.DataFrame
) -> KernelIntervals | None:
    """Intervals from the kernel's events; None where its scheduler was not recorded.

    Parameters
    ----------
    events
        By name, as they were recorded; of these ``sched_switch`` and ``sched_waking`` are read.
    threads
        host, tid: those whose states are wanted, by their numbers in the kernel.
    """
    if "sched_switch" not in events:
        return None
    columns = (*_PLACE, "time_ns", "prev_tid", "next_tid", "next_comm", "prev_state")
    known = (
        events["sched_switch"]
        .select(*columns[:3], pl.col("prev_tid", "next_tid").cast(pl.Int64), *columns[5:])
        .with_columns(pl.col("host").cast(pl.String))
    )
    turns = (
        known.sort(*_PLACE, "time_ns", maintain_order=True)
        .with_columns(
            pl.col("time_ns").alias("begin_ns"),
            pl.col("time_ns", "prev_tid").shift(-1).over(_PLACE).name.prefix("then_"),
        )
        # Who leaves must be who came; thread 0 is each CPU's own when it has nothing to do.
        .filter((pl.col("then_prev_tid") == pl.col("next_tid")) & (pl.col("next_tid") > 0))
        .select(
            *_PLACE, "begin_ns", pl.col("next_tid").alias("tid"), "next_comm",
            pl.col("then_time_ns").alias("end_ns"),
        )
        .collect()
    )  # fmt: skip
    own = threads.select(pl.col("host").cast(pl.String), pl.col("tid").cast(pl.Int64)).unique()
    wanted = own["tid"].unique().to_list()
    concerned = pl.col("prev_tid").is_in(wanted) | pl.col("next_tid").is_in(wanted)
    wakes = events.get("sched_waking")
    waits = find_waits(
        known.filter(concerned),
        None
        if wakes is None
        else wakes.filter(pl.col("tid").is_in(wanted)).with_columns(pl.col("host").cast(pl.String)),
    )
    on = ["host", "tid"]
    return KernelIntervals(
        turns.with_columns(pl.format("{} {}", "next_comm", "tid").alias("called")),
        turns.join(own, on=on, how="semi").with_columns(
            pl.format("on CPU {}", "cpu_id").alias("called")
        ),
        waits.join(own, on=on, how="semi").with_columns(
            pl.col("kind").replace_strict(_WAITS, return_dtype=pl.String).alias("called")
        ),
    )
