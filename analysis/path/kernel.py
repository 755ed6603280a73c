"""Extract kernel data on threads that messages depend on: states, who had the CPU, faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from roslens.analysis.measures.cpu_waits import (
    find_interrupts,
    find_states,
    find_turns,
    overlaps,
)

_THREAD = ["host", "tid"]
_UNINTERRUPTIBLE = 2
"""``prev_state`` of a thread that no signal wakes, such as one that waits for a disk."""
_STATE_BITS = 0xFF
_IN_INTERRUPT = 0x18
_FAULTS = ("page_fault_user", "x86_exceptions_page_fault_user")
FAULTS_APART_NS = 20_000
"""Page faults of one thread that are no further apart form one stretch."""
FAULT_TO_SLEEP_NS = 50_000
"""A sleep that begins within this time after a page fault belongs to it: until then the kernel
looks for the page and asks the disk for it."""
AGAIN_NS = 250_000
"""A thread that no thread woke and that sleeps again within this time continues the same wait."""


@dataclass(frozen=True)
class KernelView:
    """Frames of stretches: host, tid, begin_ns, end_ns and more columns; disjoint on each thread.

    Attributes
    ----------
    states
        Adds kind: ``ran``, ``preempted`` (switched out, or woken and not yet on a CPU), or asleep:
        ``futex``, ``syscall``, ``disk``, ``page_fault``; and waker, the thread that ended a sleep.
    had_cpu
        Parts of preempted stretches, with by_tid, by_name, and throttled: the CPU was idle.
    interrupts
        Parts of running or preempted stretches with an interrupt on the thread's CPU, with by_name
        and soft; soft interrupts may contain other ones.
    faults
        From a page fault to the end of the last one that follows closely; a sleep in a fault, and
        the kernel's work before that sleep, are part of the stretch.
    names
        Last recorded names of threads (host, tid).
    """

    states: pl.DataFrame
    had_cpu: pl.DataFrame
    interrupts: pl.DataFrame
    faults: pl.DataFrame
    names: pl.DataFrame


def kernel_view(
    events: Mapping[str, pl.LazyFrame], threads: pl.DataFrame, ended: pl.DataFrame | None = None
) -> KernelView | None:
    """Return kernel data on threads (host, tid); None where context switches were not recorded.

    Parameters
    ----------
    events
        Kernel events by name.
    threads
        Threads by host and kernel tid, each once.
    ended
        End times ``end_ns`` of callbacks on threads (host, tid): after them a new wait begins.
    """
    if "sched_switch" not in events:
        return None
    tids = threads["tid"].unique().to_list()
    switches = events["sched_switch"]
    wakes = events.get("sched_waking")
    own_switches = switches.filter(pl.col("prev_tid").is_in(tids) | pl.col("next_tid").is_in(tids))
    woken = None if wakes is None else wakes.filter(pl.col("tid").is_in(tids))
    states = find_states(own_switches, woken).join(
        threads, on=_THREAD, how="semi", maintain_order="left"
    )
    off = states.filter(pl.col("kind").is_in(["preempted", "woken"]))
    had_cpu = _had_cpu(states, off, find_turns(switches))
    ran = states.filter(pl.col("kind") == "ran")
    times = ("from_ns", "until_ns")
    interrupts = [
        overlaps(pl.concat([ran, off]), frame.rename({"kind": "sort"})).select(
            *_THREAD,
            pl.max_horizontal("begin_ns", times[0]).alias("begin_ns"),
            pl.min_horizontal("end_ns", times[1]).alias("end_ns"),
            "by_name",
            soft=pl.col("sort") == "soft interrupt",
        )
        for frame in find_interrupts(events)
    ]
    none = ran.clear().select(
        *_THREAD, "begin_ns", "end_ns", by_name=pl.lit(""), soft=pl.lit(value=False)
    )
    faults = _faults(events, threads)
    asleep = _asleep(states.filter(pl.col("kind") == "blocked"), own_switches, woken, faults)
    ended = threads.clear().with_columns(end_ns=pl.lit(0)) if ended is None else ended
    asleep = _waiting_on(asleep, ended)
    not_asleep = states.filter(pl.col("kind") != "blocked").with_columns(
        pl.col("kind").replace("woken", "preempted"), pl.lit(None, dtype=pl.Int64).alias("waker")
    )
    columns = [*_THREAD, "begin_ns", "end_ns", "kind", "waker"]
    return KernelView(
        pl.concat([not_asleep.select(columns), asleep.select(columns)]),
        had_cpu,
        pl.concat([none, *interrupts]),
        _joined_faults(faults, asleep, states),
        switches.group_by("host", pl.col("next_tid").cast(pl.Int64).alias("tid"))
        .agg(pl.col("next_comm").cast(pl.String).last().alias("name"))
        .collect(),
    )


def _had_cpu(states: pl.DataFrame, off: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Find which threads had the CPUs of threads that were off theirs.

    If a runnable thread's CPU was idle and the thread then came back to it, its cgroup had used
    up its time. From such a thread, being woken while its CPU is idle is also read as throttling.
    """
    then = pl.col("cpu_id").shift(-1).over(_THREAD) == pl.col("cpu_id")
    stayed = states.select(*_THREAD, "begin_ns", then.fill_null(value=False).alias("stayed"))
    overlapping = overlaps(
        off.join(stayed, on=[*_THREAD, "begin_ns"], maintain_order="left"), turns
    )
    idle = pl.col("by_tid") == 0
    proven = (idle & (pl.col("kind") == "preempted") & pl.col("stayed")).fill_null(value=False)
    throttled = overlapping.filter(proven).select(_THREAD).unique().with_columns(limited=True)
    return overlapping.join(throttled, on=_THREAD, how="left", maintain_order="left").select(
        *_THREAD,
        pl.max_horizontal("begin_ns", "from_ns").alias("begin_ns"),
        pl.min_horizontal("end_ns", "until_ns").alias("end_ns"),
        "by_tid",
        "by_name",
        (idle & pl.col("limited")).fill_null(value=False).alias("throttled"),
    )


def _asleep(
    asleep: pl.DataFrame, switches: pl.LazyFrame, wakes: pl.LazyFrame | None, faults: pl.DataFrame
) -> pl.DataFrame:
    """Add why threads slept, and which thread woke them."""
    out = switches.select(
        "host", pl.col("prev_tid").cast(pl.Int64).alias("tid"), pl.col("time_ns").alias("begin_ns"),
        (pl.col("prev_state").cast(pl.Int64) & _STATE_BITS).alias("state"),
    ).collect().unique([*_THREAD, "begin_ns"])  # fmt: skip
    slept = asleep.join(out, on=[*_THREAD, "begin_ns"], how="left", maintain_order="left")
    columns = set() if wakes is None else set(wakes.collect_schema())
    if wakes is None or not {"ctx_tid", "ctx_flags"} <= columns:
        # Without these columns the waker may be a thread or an interrupt.
        slept = slept.with_columns(pl.lit(None, dtype=pl.Int64).alias("waker"))
    else:
        by_thread = (pl.col("ctx_flags").cast(pl.Int64) & _IN_INTERRUPT) == 0
        woke = wakes.select(
            "host", pl.col("tid").cast(pl.Int64), pl.col("time_ns").alias("end_ns"),
            pl.when(by_thread).then(pl.col("ctx_tid").cast(pl.Int64)).alias("waker"),
        ).collect().unique([*_THREAD, "end_ns"])  # fmt: skip
        slept = slept.join(woke, on=[*_THREAD, "end_ns"], how="left", maintain_order="left")
    last_fault = slept.sort("begin_ns").join_asof(
        faults.sort("time_ns"), left_on="begin_ns", right_on="time_ns", by=_THREAD,
        tolerance=FAULT_TO_SLEEP_NS, strategy="backward", check_sortedness=False, coalesce=False,
    )  # fmt: skip
    fault = pl.col("time_ns").is_not_null()
    kind = (
        pl.when(fault & (pl.col("state") == _UNINTERRUPTIBLE))
        .then(pl.lit("page_fault"))
        .when(pl.col("state") == _UNINTERRUPTIBLE)
        .then(pl.lit("disk"))
        .when(pl.col("waker") > 0)
        .then(pl.lit("futex"))
        .otherwise(pl.lit("syscall"))
    )
    return last_fault.with_columns(kind.alias("kind"))


def _waiting_on(asleep: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """Merge sleeps that no thread ended and that resume at once; the waker of the last one holds.

    Python's lock is waited for in this way, 5 ms at a time.
    """
    callback = ended.drop_nulls().select(*_THREAD, callback_ns="end_ns").sort("callback_ns")
    slept = asleep.sort("end_ns").join_asof(
        callback, left_on="end_ns", right_on="callback_ns", by=_THREAD, strategy="forward",
        check_sortedness=False, coalesce=False,
    ).sort(*_THREAD, "begin_ns")  # fmt: skip
    then = pl.col("begin_ns").shift(-1).over(_THREAD)
    again = (then - pl.col("end_ns") < AGAIN_NS) & (pl.col("callback_ns") > then).fill_null(
        value=True
    )
    more = (pl.col("kind") == "syscall") & again.fill_null(value=False)
    ends = {
        name: pl.when(~more).then(name).backward_fill().over(_THREAD) for name in ("kind", "waker")
    }
    woken = ends["kind"] == "futex"
    return slept.with_columns(
        pl.when(woken).then(end).otherwise(name).alias(name) for name, end in ends.items()
    )


def _faults(events: Mapping[str, pl.LazyFrame], threads: pl.DataFrame) -> pl.DataFrame:
    """Return the page faults of threads: host, tid, time_ns."""
    recorded = [events[name] for name in _FAULTS if name in events]
    none = threads.clear().with_columns(pl.lit(None, dtype=pl.Int64).alias("time_ns"))
    frames = [
        frame.select("host", pl.col("ctx_tid").cast(pl.Int64).alias("tid"), "time_ns")
        .collect()
        .join(threads, on=_THREAD, how="semi")
        for frame in recorded
        if "ctx_tid" in frame.collect_schema()
    ]
    return pl.concat([none.select(*_THREAD, "time_ns"), *frames]).sort(*_THREAD, "time_ns")


def _joined_faults(
    faults: pl.DataFrame, asleep: pl.DataFrame, states: pl.DataFrame
) -> pl.DataFrame:
    """Join faults that follow each other closely, each up to when its thread ran again."""
    again = states.filter(pl.col("kind") == "woken").select(
        *_THREAD, pl.col("begin_ns").alias("end_ns"), pl.col("end_ns").alias("again_ns")
    )
    slept = asleep.filter(pl.col("kind") == "page_fault")
    slept = slept.join(again, on=[*_THREAD, "end_ns"], how="left")
    at, until = pl.col("time_ns").alias("begin_ns"), pl.coalesce("again_ns", "end_ns")
    single = faults.select(*_THREAD, at, pl.col("time_ns").alias("end_ns"))
    spans = pl.concat([single, slept.select(*_THREAD, at, until.alias("end_ns"))])
    spans = spans.sort(*_THREAD, "begin_ns", "end_ns")
    before = pl.col("end_ns").cum_max().shift(1).over(_THREAD)
    begins_new = (pl.col("begin_ns") - before > FAULTS_APART_NS).fill_null(value=True)
    return (
        spans.with_columns(begins_new.cum_sum().alias("stretch"))
        .group_by(*_THREAD, "stretch", maintain_order=True)
        .agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
        .drop("stretch")
    )
