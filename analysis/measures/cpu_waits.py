"""Reconstruct from the kernel's events what threads and CPUs did.

The input is the events ``sched_switch`` and ``sched_waking``, recorded by LTTng or ftrace. Threads
are identified by their ids in the kernel, which equal the ids that they see themselves if they do
not run in a container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

_STATE_BITS = 0xFF
"""Masks the preemption flag of ``prev_state``, as in `roslens.collectors.ros2.scheduling`."""
_PLACE = ["host", "cpu_id"]
_THREAD = ["host", "tid"]
_SOFT = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
         "RCU")  # fmt: skip
"""Names of soft interrupts by number (``include/linux/interrupt.h``)."""
_INTERRUPTS = (
    ("interrupt", "irq_handler", "irq", pl.format("irq {} {}", "irq", "name")),
    # The CPU's own timer on x86; elsewhere it has a handler like all other interrupts.
    ("interrupt", "x86_irq_vectors_local_timer", "vector", pl.lit("local timer")),
    ("soft interrupt", "irq_softirq", "vec", pl.format("softirq {}", pl.col("vec").replace_strict(
        dict(enumerate(_SOFT)), default=pl.col("vec").cast(pl.String), return_dtype=pl.String))),
)  # fmt: skip
"""Kind, common prefix of the names of both events, column of the number, readable name."""


def find_waits(switches: pl.LazyFrame, wakes: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return the intervals in which threads could have run and did not.

    These are the rows of `find_states` whose kind is ``preempted`` or ``woken``.
    """
    return find_states(switches, wakes).filter(pl.col("kind").is_in(["preempted", "woken"]))


def find_states(switches: pl.LazyFrame, wakes: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return what each thread did from one of its events to the next.

    Parameters
    ----------
    switches, wakes
        The events ``sched_switch`` and ``sched_waking``.

    Returns
    -------
    DataFrame
        host, tid, kind (``ran``; ``preempted``; ``blocked``: asleep; ``woken``: from being woken
        until it ran), cpu_id (the CPU that the thread had, had to leave, or then got), begin_ns,
        end_ns; by thread and time. Where an event in between is missing, there is no row.
    """
    could_go_on = (pl.col("prev_state").cast(pl.Int64) & _STATE_BITS) == 0
    changes = switches.filter(pl.col("prev_tid") != pl.col("next_tid"))
    out = changes.select(
        "host", pl.col("prev_tid").cast(pl.Int64).alias("tid"), "time_ns", "cpu_id",
        pl.when(could_go_on).then(pl.lit("preempted")).otherwise(pl.lit("blocked")).alias("kind"),
    )  # fmt: skip
    into = changes.select(
        "host", pl.col("next_tid").cast(pl.Int64).alias("tid"), "time_ns", "cpu_id",
        pl.lit("ran").alias("kind"),
    )  # fmt: skip
    parts = [out, into]
    if wakes is not None:
        parts.append(
            wakes.select(
                "host", pl.col("tid").cast(pl.Int64), "time_ns",
                pl.lit(None, dtype=pl.Int32).alias("cpu_id"), pl.lit("woken").alias("kind"),
            )
        )  # fmt: skip
    # Thread 0 is each CPU's idle thread.
    line = pl.concat(pl.collect_all(parts)).filter(pl.col("tid") > 0)
    line = line.sort(*_THREAD, "time_ns", maintain_order=True)
    after_sleep = (pl.col("kind").shift(1) == "blocked").over(_THREAD).fill_null(value=False)
    line = line.filter((pl.col("kind") != "woken") | after_sleep)
    following = {name: pl.col(name).shift(-1).over(_THREAD) for name in ("kind", "time_ns")}
    ran_on = pl.col("cpu_id").shift(-1).over(_THREAD)
    fits = (pl.col("then") == "ran") != (pl.col("kind") == "ran")
    return (
        line.with_columns(
            following["kind"].alias("then"), following["time_ns"].alias("end_ns"),
            pl.coalesce("cpu_id", ran_on).alias("cpu_id"),
        )
        .filter(fits | ((pl.col("kind") == "blocked") & (pl.col("then") == "woken")))
        .select(*_THREAD, "kind", "cpu_id", pl.col("time_ns").alias("begin_ns"), "end_ns")
    )  # fmt: skip


def find_turns(switches: pl.LazyFrame) -> pl.DataFrame:
    """Return which thread had each CPU, from switch to switch.

    Parameters
    ----------
    switches
        The events ``sched_switch``.

    Returns
    -------
    DataFrame
        host, cpu_id, from_ns, until_ns (null for the last), by_tid, by_name (id and name of the
        thread); both are null where a switch is missing, that is, where the thread that leaves the
        CPU is not the one that came.
    """
    stayed = (pl.col("prev_tid").shift(-1).over(_PLACE) == pl.col("next_tid")).fill_null(value=True)
    # Where only own threads were recorded, all other threads have the id -1.
    known = stayed & (pl.col("next_tid") >= 0)
    return (
        switches.select(*_PLACE, "time_ns", "prev_tid", "next_tid", "next_comm")
        .sort(*_PLACE, "time_ns", maintain_order=True)
        .select(
            *_PLACE, pl.col("time_ns").alias("from_ns"),
            pl.col("time_ns").shift(-1).over(_PLACE).alias("until_ns"),
            pl.when(known).then(pl.col("next_tid").cast(pl.Int64)).alias("by_tid"),
            pl.when(known).then("next_comm").alias("by_name"),
        )
        .collect()
    )  # fmt: skip


def find_interrupts(events: Mapping[str, pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """Yield where interrupts ran, one frame per sort: from an entry to the next exit.

    Parameters
    ----------
    events
        The kernel's events by name.

    Yields
    ------
    host, cpu_id, from_ns, until_ns, by_name, kind (``interrupt``, ``soft interrupt``).
    """
    for kind, event, number, name in _INTERRUPTS:
        entry, exit_ = (events.get(f"{event}_{edge}") for edge in ("entry", "exit"))
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


def overlaps(pieces: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """Return the overlaps of pieces of time with intervals on the same CPU.

    Parameters
    ----------
    pieces
        host, cpu_id, begin_ns, end_ns, and any columns that identify the piece.
    stretches
        host, cpu_id, from_ns, until_ns (null: to the end), and columns that describe the interval;
        intervals of one CPU follow one another.

    Returns
    -------
    DataFrame
        The columns of both, and by_ns (length of the overlap), in the order of the pieces.
    """
    turns = stretches.sort(*_PLACE, "from_ns", maintain_order=True).with_columns(
        pl.int_range(pl.len()).over(_PLACE).alias("turn")
    )
    begins = turns.select(*_PLACE, "from_ns", "turn").sort("from_ns", maintain_order=True)
    located = pieces.with_row_index("piece")
    for name, edge in (("first", pl.col("begin_ns")), ("last", pl.col("end_ns") - 1)):
        located = (
            located.with_columns(edge.alias("from_ns"))
            .sort("from_ns", maintain_order=True)
            .join_asof(
                begins.rename({"turn": name}),
                on="from_ns", by=_PLACE, strategy="backward", check_sortedness=False,
            )
            .drop("from_ns")
        )  # fmt: skip
    shared = pl.min_horizontal("end_ns", "until_ns") - pl.max_horizontal("begin_ns", "from_ns")
    return (
        located.drop_nulls("last")
        .with_columns(pl.int_ranges(pl.col("first").fill_null(0), pl.col("last") + 1).alias("turn"))
        .explode("turn")
        .join(turns, on=[*_PLACE, "turn"])
        .with_columns(shared.alias("by_ns"))
        .filter(pl.col("by_ns") > 0)
        .sort("piece", "from_ns", maintain_order=True)
        .drop("piece", "turn", "first", "last")
    )
