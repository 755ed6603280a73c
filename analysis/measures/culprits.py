"""Who kept a thread from going on during a stretch of time, by the kernel's events.

Made of the events as they are recorded, by LTTng or ftrace. What a virtual machine's host took
(steal) is in none of them: samples of the machine tell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from roslens.analysis.measures.cpu_waits import find_turns, find_waits, overlaps

KINDS: Mapping[str, str] = {
    "preempted": "it could have gone on, and this thread had its CPU",
    "woken": "it was woken, and this thread had the CPU that it then got (0: none, the CPU came "
    "out of its sleep)",
    "interrupt": "this interrupt ran on its CPU instead of it",
    "soft interrupt": "this soft interrupt did, hard interrupts within it included",
    "frequency": "what it did on its CPU took so much longer than at the highest frequency that "
    "this CPU had in the recording",
}
"""Kinds of culprits, and what their time is."""
_SOFT = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
         "RCU")  # fmt: skip
"""Soft interrupts by number (``include/linux/interrupt.h``)."""
_INTERRUPTS = (
    ("interrupt", "irq_handler", "irq", pl.format("irq {} {}", "irq", "name")),
    # What a timer of the CPU itself is on x86; elsewhere it has a handler like all others.
    ("interrupt", "x86_irq_vectors_local_timer", "vector", pl.lit("local timer")),
    ("soft interrupt", "irq_softirq", "vec", pl.format("softirq {}", pl.col("vec").replace_strict(
        dict(enumerate(_SOFT)), default=pl.col("vec").cast(pl.String), return_dtype=pl.String))),
)  # fmt: skip
"""Kind, begin of the two events' names, their number, what people call it."""
_PLACE = ["host", "cpu_id"]
_SCHEMA = {"span": pl.Int64, "kind": pl.String, "by_tid": pl.Int64, "by_name": pl.String,
           "by_ns": pl.Int64}  # fmt: skip


def culprits(spans: pl.DataFrame, events: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
    """Who kept threads from going on.

    Parameters
    ----------
    spans
        span (a number), host, tid (the thread, as the kernel numbers it), begin_ns, end_ns.
    events
        The kernel's events by name; without ``sched_switch`` nobody can be named.

    Returns
    -------
    DataFrame
        span, kind (of `KINDS`), by_tid (of a thread), by_name (of a thread, an interrupt; null
        where a switch is missing), by_ns: for how long; of each span the longest first.
    """
    parts = []
    if "sched_switch" in events and spans.height:
        turns = find_turns(events["sched_switch"])
        waits = waits_of(spans, events)
        parts.append(overlaps(_within(spans, waits), turns))
        own = turns.rename({"by_tid": "tid", "from_ns": "begin_ns", "until_ns": "end_ns"})
        ran = _within(spans, own.drop("by_name").drop_nulls())
        parts += [overlaps(ran, x) for x in _interrupts(events)]
        parts += [_slowed(overlaps(ran, x)) for x in _frequencies(events)]
    rows = [pl.DataFrame(schema=_SCHEMA)]
    for part in parts:
        # Of an interrupt there is no thread.
        whole = part if "by_tid" in part.columns else part.with_columns(by_tid=None)
        rows.append(whole.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items()))
    return (
        pl.concat(rows)
        .group_by("span", "kind", "by_tid", "by_name", maintain_order=True)
        .agg(pl.col("by_ns").sum())
        .sort("span", "by_ns", descending=[False, True], maintain_order=True)
    )


def waits_of(threads: pl.DataFrame, events: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
    """What `find_waits` finds of some threads (host, tid)."""
    tids = threads["tid"].unique().to_list()
    of_them = pl.col("prev_tid").is_in(tids) | pl.col("next_tid").is_in(tids)
    wakes = events.get("sched_waking")
    found = find_waits(
        events["sched_switch"].filter(of_them),
        None if wakes is None else wakes.filter(pl.col("tid").is_in(tids)),
    )
    return found.join(threads, on=["host", "tid"], how="semi", maintain_order="left")


def _within(spans: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """Stretches of the spans' threads, cut to the spans."""
    return (
        spans.select("span", "host", "tid", since="begin_ns", till="end_ns")
        .join(stretches, on=["host", "tid"])
        .with_columns(
            pl.max_horizontal("begin_ns", "since").alias("begin_ns"),
            pl.min_horizontal("end_ns", "till").alias("end_ns"),
        )
        .filter(pl.col("begin_ns") < pl.col("end_ns"))
        .drop("since", "till", "tid")
    )


def _interrupts(events: Mapping[str, pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """Where interrupts ran, one frame for each sort: from an entry to the next exit."""
    for kind, event, number, name in _INTERRUPTS:
        entry, exit_ = (events.get(f"{event}_{x}") for x in ("entry", "exit"))
        if entry is None or exit_ is None:
            continue
        entries = entry.select(*_PLACE, "time_ns", number, by_name=name)
        exits = exit_.select(*_PLACE, "time_ns", number, by_name=pl.lit(None, dtype=pl.String))
        line = pl.concat([entries, exits]).sort(*_PLACE, number, "time_ns", maintain_order=True)
        until = pl.col("time_ns").shift(-1).over(*_PLACE, number)
        ended = pl.col("by_name").shift(-1).over(*_PLACE, number).is_null() & until.is_not_null()
        yield (
            line.with_columns(until_ns=until, ended=ended)
            .filter(pl.col("by_name").is_not_null() & pl.col("ended"))
            .select(*_PLACE, "until_ns", "by_name", from_ns="time_ns", kind=pl.lit(kind))
            .collect()
        )


def _frequencies(events: Mapping[str, pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """At what part of its highest frequency each CPU ran, and from when to when."""
    found = events.get("power_cpu_frequency")
    if found is None:
        return
    # The CPU that an event was written on may be another one.
    there = set(found.collect_schema())
    cpu = "field_cpu_id" if "field_cpu_id" in there else "cpu_id"
    part = pl.col("state") / pl.col("state").max().over(_PLACE)
    yield (
        found.select("host", pl.col(cpu).cast(pl.Int32).alias("cpu_id"), "time_ns",
                     pl.col("state").cast(pl.Float64))
        .sort(*_PLACE, "time_ns", maintain_order=True)
        .select(
            *_PLACE, from_ns="time_ns", until_ns=pl.col("time_ns").shift(-1).over(_PLACE),
            part=part, by_name=pl.format("CPU {}", "cpu_id"), kind=pl.lit("frequency"),
        )
        .collect()
    )  # fmt: skip


def _slowed(rows: pl.DataFrame) -> pl.DataFrame:
    lost = (pl.col("by_ns") * (1 - pl.col("part"))).round().cast(pl.Int64)
    return rows.with_columns(lost.alias("by_ns")).filter(pl.col("by_ns") > 0)
