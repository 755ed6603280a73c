"""Compute where the time of callbacks went while the kernel scheduled their threads.

A thread runs from the `sched_switch` that switches it in to the one that switches it out. While it
is off the CPU it is preempted if it could have gone on (its state is "running"), else it is blocked
until `sched_waking` names it, and from there on waits for a CPU. An event of a program shows that
its thread was running then.

The kernel numbers threads as the root namespace does; `sched_switch`'s own contexts, or
`lttng_statedump_process_pid_ns`, give the number of a thread in its own namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.events import Events, vtid
from roslens.collectors.ros2.joins import join_next_in_time
from roslens.collectors.ros2.losses import FOREVER, gaps_of, is_kernel_loss
from roslens.collectors.ros2.processes import PID_NS
from roslens.collectors.ros2.types import I32, I64, TEXT

EXECUTIONS = (
    "callback_instance_id", "proc", "thread", "start_ns", "end_ns", "kind", "name", "node",
)  # fmt: skip
RUNNING, PREEMPTED, BLOCKED, WOKEN = range(4)
_PARTS = {
    RUNNING: "cpu_ns",
    PREEMPTED: "preempted_ns",
    BLOCKED: "blocked_ns",
    WOKEN: "scheduling_delay_ns",
}
_COUNTS = ("preemptions", "waits", "migrations")
_STATE_BITS = 0xFF
"""Mask for ``prev_state`` that removes the flag with which older kernels mark preemption."""
_WAKERS = ("sched_waking", "sched_wakeup")
_ACCOUNTED = "sched_stat_runtime"


@dataclass(frozen=True)
class Scheduling:
    """The scheduling of callbacks by the kernel.

    Attributes
    ----------
    rows
        Columns of the table, and proc and thread.
    unseen
        Number of threads that ran callbacks and that the kernel's events never name.
    outside
        Number of executions that the kernel's events do not cover from begin to end.
    assumed
        Number of threads whose number in the kernel was assumed to be their own vtid.
    """

    rows: pl.DataFrame
    unseen: int = 0
    outside: int = 0
    assumed: int = 0


def find_scheduling(
    events: Events,
    executions: pl.DataFrame,
    losses: pl.DataFrame,
    ran_at: pl.DataFrame | None = None,
    *,
    accounted: bool = False,
) -> Scheduling:
    """Return one row per finished execution that the kernel's events cover.

    Parameters
    ----------
    events
        Events of the recording.
    executions
        Executions with the columns `EXECUTIONS`.
    losses
        The table ``losses``.
    ran_at
        ``proc``, ``thread``, ``start_ns``: when threads were surely on a CPU; default: when
        executions start.
    accounted
        Use the CPU time that the kernel accounted, where its events contain it, instead of the
        time between switches. The other states then do not fill the rest.
    """
    instances = executions.filter(pl.col("end_ns").is_not_null()).select(
        "callback_instance_id", "proc", "thread", "start_ns", "end_ns"
    )
    hosts = events.processes.select("proc", "host")
    switches = events.scan("sched_switch")
    recorded = switches is not None and events.has_column("sched_switch", "prev_tid")
    if switches is None or not recorded or instances.is_empty():
        return Scheduling(rows=instances.clear())
    threads = (
        instances.group_by("thread").agg(pl.col("proc").first(), pl.col("start_ns").min())
    ).join(hosts, on="proc", how="left")
    threads, assumed = _with_tid(threads, events)
    span = switches.group_by("host").agg(
        pl.col("time_ns").min().alias("from_ns"), pl.col("time_ns").max().alias("until_ns")
    ).collect()  # fmt: skip
    line = _states(events, switches, threads)
    seen = line.select("thread").unique()
    observed = instances.join(seen, on="thread", how="semi")
    lost = losses.filter(is_kernel_loss())
    broken = not lost.is_empty()
    starts = observed if ran_at is None else ran_at.join(seen, on="thread", how="semi")
    line = _with_starts(line, starts, span.join(hosts, on="host"), broken=broken)
    covered = (
        observed.join(hosts, on="proc", how="left")
        .join(span, on="host", how="left")
        .filter(
            (pl.col("start_ns") >= pl.col("from_ns")) & (pl.col("end_ns") <= pl.col("until_ns"))
        )
    )
    if broken:
        covered = _without_gaps(covered, line, lost)
    covered = covered.select(instances.columns)
    if accounted:
        line = _as_accounted(line, events, threads, lost)
    clocks = _clocks(events)
    rows = _time_in_states(covered, _with_sums(line, clocks), clocks)
    woken = any(events.declared(name) for name in _WAKERS)
    delay = pl.col("scheduling_delay_ns")
    names = executions.select("callback_instance_id", "kind", "name", "node")
    return Scheduling(
        rows=rows.with_columns(
            pl.when(woken).then(delay).alias("scheduling_delay_ns"),
            (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        )
        .join(names, on="callback_instance_id", how="left")
        .sort("callback_instance_id"),
        unseen=threads.height - seen.height,
        outside=observed.height - covered.height,
        assumed=assumed,
    )


def with_cpu(
    events: Events, stretches: pl.DataFrame, losses: pl.DataFrame, whole: pl.DataFrame
) -> pl.DataFrame:
    """Add ``cpu_ns``, the CPU time of the thread, to stretches of threads.

    Parameters
    ----------
    events, losses
        As in `find_scheduling`.
    stretches
        ``proc``, ``thread``, ``begin_ns``, ``end_ns``.
    whole
        Stretches from one event of a thread to another one: the thread ran at their begin.
    """
    number = "callback_instance_id"
    kinds = pl.col("thread").cast(I64), pl.col("proc").cast(I32)
    numbered = stretches.with_row_index(number).with_columns(pl.col(number).cast(I64), *kinds)
    ran_at = whole.select(*kinds, start_ns="begin_ns")
    nameless = [pl.lit(None).alias(name) for name in ("kind", "name", "node")]
    instances = numbered.select(
        number, "proc", "thread", pl.col("begin_ns").alias("start_ns"), "end_ns", *nameless
    )
    rows = find_scheduling(events, instances, losses, ran_at, accounted=True).rows
    if rows.is_empty():
        return stretches.with_columns(cpu_ns=pl.lit(None, dtype=I64))
    cpu = rows.select(number, "cpu_ns")
    return stretches.with_columns(
        numbered.join(cpu, on=number, how="left", maintain_order="left")["cpu_ns"]
    )


def _without_gaps(
    instances: pl.DataFrame, line: pl.DataFrame, losses: pl.DataFrame
) -> pl.DataFrame:
    """Leave out executions in which an event of their thread may be missing.

    The switch of a running thread off its CPU is an event of that CPU. A thread that does not run
    may be switched in on any CPU, and one that runs on an unknown CPU may leave any.
    """
    per_cpu = () if losses["cpu_id"].null_count() else ("cpu_id",)
    runs, arrived = pl.col("state") == RUNNING, pl.col("arrived")
    somewhere = arrived & pl.col("cpu_id").is_null()
    recorded = pl.when(~arrived).then("time_ns").backward_fill().shift(-1).over("thread")
    until = pl.when(arrived).then(recorded).otherwise(pl.col("time_ns").shift(-1).over("thread"))
    line = line.with_columns(until=until.fill_null(FOREVER))
    # The one switch that is missing before a thread leaves is the one by which it came.
    shown = line.filter(arrived).select(
        "host", *per_cpu, end_ns="until", count=pl.lit(1, dtype=I64)
    )
    unexplained = losses.join(shown, on=shown.columns, how="anti")
    bad = pl.concat(
        join_next_in_time(
            line.filter(changes).with_columns(after=pl.col("time_ns") + 1),
            gaps_of(gaps, *by),
            "after",
            "gap_end_ns",
            ["host", *by],
            strategy="forward",
        )
        .filter(pl.col("gap_begin_ns") < pl.col("until"))
        .select("thread", "until", since=pl.max_horizontal("time_ns", "gap_begin_ns"))
        for changes, gaps, by in (
            (runs & ~arrived, losses, per_cpu),
            (runs & arrived & ~somewhere, unexplained, per_cpu),
            (~runs | somewhere, losses, ()),
        )
    )
    bad = bad.group_by("thread", "until").agg(pl.col("since").min())
    after = instances.with_columns(after=pl.col("start_ns") + 1)
    joined = join_next_in_time(after, bad, "after", "until", "thread", strategy="forward")
    bent = joined.filter(pl.col("since") < pl.col("end_ns"))
    return instances.join(bent, on="callback_instance_id", how="anti", maintain_order="left")


def _with_tid(threads: pl.DataFrame, events: Events) -> tuple[pl.DataFrame, int]:
    """Add ``tid``, the thread's number in the kernel; return how many were assumed to be vtids.

    Null where threads of several namespaces have the number, and none can be singled out.
    """
    numbered = threads.join(
        events.processes.select("proc", "vpid", "pid_ns"), on="proc", how="left"
    ).with_columns(vtid().cast(I64).alias("vtid"))
    sources = [
        ("sched_switch", "prev_tid", PID_NS),
        ("lttng_statedump_process_pid_ns", "tid", "ns_inum"),
    ]
    frames = []
    for name, tid, namespace in sources:
        frame = events.scan(name)
        if frame is None or not all(events.has_column(name, c) for c in ("vpid", "vtid")):
            continue
        columns = ["host", "vpid", "vtid", tid]
        field = {
            # A statedump has these in its payload, beside those of its own context.
            c: f"field_{c}" if events.has_column(name, f"field_{c}") else c
            for c in columns
        }
        frames.append(
            frame.select(
                "host",
                pl.col(field["vpid"]).cast(I32).alias("vpid"),
                pl.col(field["vtid"]).cast(I64).alias("vtid"),
                pl.col(tid).cast(I64).alias("tid"),
                (
                    pl.col(namespace).cast(I64)
                    if events.has_column(name, namespace)
                    else pl.lit(None, dtype=I64)
                ).alias("namespace"),
            ).unique()
        )
    if not frames:
        return numbered.with_columns(pl.col("vtid").alias("tid")), 0
    own_namespace = pl.col("pid_ns").replace(0, None)
    tids = (
        pl.concat(pl.collect_all(frames))
        .drop_nulls(["host", "vpid", "vtid", "tid"])
        .join(numbered, on=["host", "vpid", "vtid"])
        .filter((own_namespace == pl.col("namespace")).fill_null(value=True))
        .group_by("thread")
        .agg(pl.col("tid").unique())
    )
    joined = numbered.join(tids, on="thread", how="left", maintain_order="left")
    count = pl.col("tid").list.len()
    only = pl.when(count.is_null()).then("vtid").when(count == 1).then(pl.col("tid").list.first())
    return joined.with_columns(only.alias("tid")), joined["tid"].null_count()


def _states(events: Events, switches: pl.LazyFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return changes of state of these threads: thread, host, time_ns, state, cpu_id; sorted."""
    tracked = threads.select("host", "tid", "thread").lazy()
    state = pl.col("prev_state")
    if isinstance(switches.collect_schema()["prev_state"], pl.Struct):
        state = state.struct.field("value")
    could_go_on = (state.cast(I64) & _STATE_BITS) == 0
    out = switches.select(
        "time_ns", "host", "cpu_id", pl.col("prev_tid").cast(I64).alias("tid"),
        pl.when(could_go_on).then(PREEMPTED).otherwise(BLOCKED).cast(pl.Int8).alias("state"),
    )  # fmt: skip
    into = switches.select(
        "time_ns", "host", "cpu_id", pl.col("next_tid").cast(I64).alias("tid"),
        pl.lit(RUNNING, dtype=pl.Int8).alias("state"),
    )  # fmt: skip
    parts = [out, into]
    waker = next((name for name in _WAKERS if events.declared(name)), None)
    wakes = None if waker is None else events.scan(waker)
    if wakes is not None and events.has_column(str(waker), "tid"):
        parts.append(
            wakes.select(
                "time_ns", "host", pl.lit(None, dtype=I32).alias("cpu_id"),
                pl.col("tid").cast(I64), pl.lit(WOKEN, dtype=pl.Int8).alias("state"),
            )
        )  # fmt: skip
    frames = pl.collect_all([part.join(tracked, on=["host", "tid"]) for part in parts])
    line = pl.concat(
        frame.select("thread", "host", "time_ns", "state", "cpu_id") for frame in frames
    )
    line = line.sort("thread", "time_ns", maintain_order=True)
    # A wake-up only matters for a thread that sleeps.
    slept = (pl.col("state").shift(1) == BLOCKED) & (pl.col("thread") == pl.col("thread").shift(1))
    return line.filter((pl.col("state") != WOKEN) | slept.fill_null(value=False))


def _with_starts(
    line: pl.DataFrame, moments: pl.DataFrame, span: pl.DataFrame, *, broken: bool
) -> pl.DataFrame:
    """Add rows (``arrived``) for threads that ran when a callback began, where no event shows it.

    Such rows lie before a thread's first event and, where switches are missing (`broken`), later.
    """
    starts = (
        moments.join(span.select("proc", "host", "from_ns"), on="proc")
        .filter(pl.col("start_ns") >= pl.col("from_ns"))
        .select("thread", "host", time_ns="start_ns")
    )
    before = line.select("thread", "state", known_ns="time_ns")
    state = pl.col("state")
    unseen = state.is_null() | (state != RUNNING) if broken else state.is_null()
    added = (
        join_next_in_time(starts, before, "time_ns", "known_ns", "thread")
        .filter(unseen)
        .select(
            "thread", "host", "time_ns", pl.lit(RUNNING, dtype=pl.Int8).alias("state"),
            pl.lit(None, dtype=I32).alias("cpu_id"), pl.lit(value=True).alias("arrived"),
        )
    )  # fmt: skip
    line = pl.concat([added, line.with_columns(pl.lit(value=False).alias("arrived"))])
    # The thread was on the CPU that it is next seen to leave. If it is seen to arrive or to be
    # woken instead, it has left an unknown CPU.
    leaves = pl.when(~pl.col("arrived")).then(state.is_in((PREEMPTED, BLOCKED))).backward_fill()
    left = pl.when(leaves.over("thread")).then(pl.col("cpu_id").backward_fill().over("thread"))
    return line.sort("thread", "time_ns", maintain_order=True).with_columns(
        pl.when("arrived").then(left).otherwise("cpu_id").alias("cpu_id")
    )


def _as_accounted(
    line: pl.DataFrame, events: Events, threads: pl.DataFrame, lost: pl.DataFrame
) -> pl.DataFrame:
    """Move the begin of each turn on a CPU to its end minus the accounted CPU time.

    The kernel starts to account some us before the event of the switch. A turn stays as it is if
    nothing was accounted, if it began before the recording, or if events of any CPU are missing in
    it, because other CPUs account too. Wake-ups are left out.
    """
    frame = events.scan(_ACCOUNTED)
    if frame is None or not all(events.has_column(_ACCOUNTED, name) for name in ("tid", "runtime")):
        return line
    accounted = (
        frame.select("host", pl.col("tid", "runtime").cast(I64), told_ns="time_ns")
        .join(threads.select("host", "tid", "thread").lazy(), on=["host", "tid"])
        .collect()
        .sort("told_ns")
        .select("thread", "told_ns", total=pl.col("runtime").cum_sum().over("thread"))
    )
    columns = line.columns
    line = line.filter(pl.col("state") != WOKEN).with_row_index("row")
    line = join_next_in_time(
        line.with_columns(after=pl.col("time_ns") + 1), accounted, "time_ns", "told_ns", "thread"
    )
    line = join_next_in_time(
        line, gaps_of(lost), "after", "gap_end_ns", "host", strategy="forward"
    ).sort("row")
    begin = pl.col("time_ns")
    end, total = (pl.col(name).shift(-1).over("thread") for name in ("time_ns", "total"))
    ran = total - pl.col("total").fill_null(0)
    whole = (pl.col("gap_begin_ns") >= end).fill_null(value=True) & ~pl.col("arrived")
    meant = whole & (pl.col("state") == RUNNING) & (ran > 0)
    before = begin.shift(1).over("thread")
    earlier = pl.when(meant).then(pl.max_horizontal(end - ran, before))
    return line.with_columns(time_ns=earlier.fill_null(begin)).select(columns)


def _with_sums(line: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """Add the time passed in each state, and the counts, up to each change.

    ``cycles`` is kHz times ns of running, ``clocked`` the ns of running with known frequency.
    """
    same = pl.col("thread") == pl.col("thread").shift(-1)
    until = pl.when(same).then(pl.col("time_ns").shift(-1))
    state = pl.col("state")
    running = state == RUNNING
    ran_on = pl.when(running).then("cpu_id").forward_fill().shift(1).over("thread")
    line = line.with_columns(
        (until - pl.col("time_ns")).fill_null(0).alias("lasted"),
        until.alias("until_ns"),
        (state == PREEMPTED).cast(I64).alias("preemptions"),
        (state == BLOCKED).cast(I64).alias("waits"),
        (running & (pl.col("cpu_id") != ran_on)).fill_null(value=False).cast(I64)
        .alias("migrations"),
    )  # fmt: skip
    line = line.with_columns(_cycles(line, clocks, "time_ns", "until_ns"))
    passed = {name: pl.when(state == k).then("lasted").otherwise(0) for k, name in _PARTS.items()}
    passed["clocked"] = pl.when(pl.col("cycles").is_not_null()).then("lasted").otherwise(0)
    passed["cycles"] = pl.col("cycles").fill_null(0)
    return line.with_columns(
        *((part.cum_sum() - part).over("thread").alias(name) for name, part in passed.items()),
        *(pl.col(name).cum_sum().over("thread") for name in _COUNTS),
        pl.col("time_ns").alias("since_ns"),
    ).drop("lasted", "until_ns")


def _cycles(line: pl.DataFrame, clocks: pl.DataFrame, begin: str, end: str) -> pl.Series:
    """Return kHz times ns between two moments of a running thread; null if unknown."""
    cycles = _cycles_at(line, clocks, end) - _cycles_at(line, clocks, begin)
    return line.select(pl.when(pl.col("state") == RUNNING).then(cycles).alias("cycles")).to_series()


def _clocks(events: Events) -> pl.DataFrame:
    """Return changes of CPU frequency: host, cpu_id, changed_ns, khz, and the cycles up to it."""
    name = "power_cpu_frequency"
    frame = events.scan(name)
    schema: dict[str, pl.DataType] = {
        "host": TEXT,
        "cpu_id": I32,
        "changed_ns": I64,
        "khz": I64,
        "up_to": pl.Float64(),
    }
    if frame is None or not events.has_column(name, "state"):
        return pl.DataFrame(schema=schema)
    cpu = "field_cpu_id" if events.has_column(name, "field_cpu_id") else "cpu_id"
    changes = (
        frame.select(
            "host",
            pl.col(cpu).cast(I32).alias("cpu_id"),
            pl.col("time_ns").alias("changed_ns"),
            pl.col("state").cast(I64).alias("khz"),
        )
        .collect()
        .sort("host", "cpu_id", "changed_ns", maintain_order=True)
    )
    passed = pl.col("changed_ns").diff() * pl.col("khz").shift(1).cast(pl.Float64)
    return changes.with_columns(
        passed.over("host", "cpu_id").fill_null(0).cum_sum().over("host", "cpu_id").alias("up_to")
    )


def _cycles_at(moments: pl.DataFrame, clocks: pl.DataFrame, time: str) -> pl.Series:
    """Return the cycles of a moment's CPU since its first change; null before it."""
    cpu = ["host", "cpu_id"]
    numbered = (
        moments.select(*cpu, pl.col(time).alias("at_ns")).with_row_index("moment").drop_nulls()
    )
    since = pl.col("at_ns") - pl.col("changed_ns")
    cycles = join_next_in_time(numbered, clocks, "at_ns", "changed_ns", cpu).select(
        "moment", (pl.col("up_to") + since * pl.col("khz")).alias("c")
    )
    index = pl.DataFrame({"moment": pl.int_range(moments.height, dtype=pl.UInt32, eager=True)})
    return index.join(cycles, on="moment", how="left", maintain_order="left")["c"]


def _time_in_states(
    instances: pl.DataFrame, line: pl.DataFrame, clocks: pl.DataFrame
) -> pl.DataFrame:
    """Return the time in each state and the counts from start to end of each execution."""
    begin, end = (_at(instances, line, clocks, time) for time in ("start_ns", "end_ns"))
    names = (*_PARTS.values(), *_COUNTS)
    rows = instances.with_columns(*((end[name] - begin[name]).alias(name) for name in names))
    rate = (end["cycles"] - begin["cycles"]) * 1000 / rows["cpu_ns"]
    whole = (end["clocked"] - begin["clocked"] == rows["cpu_ns"]) & (rows["cpu_ns"] > 0)
    return rows.with_columns(pl.when(whole).then(rate).alias("frequency_hz"))


def _at(
    instances: pl.DataFrame, line: pl.DataFrame, clocks: pl.DataFrame, time: str
) -> pl.DataFrame:
    """Return the sums at one moment of each execution, in the order of `instances`."""
    moments = instances.select("thread", pl.col(time).alias("at_ns")).with_row_index("row")
    sums = join_next_in_time(moments, line, "at_ns", "since_ns", "thread").sort("row")
    since = pl.col("at_ns") - pl.col("since_ns")
    part = _cycles(sums, clocks, "since_ns", "at_ns")
    return sums.select(
        *(
            pl.when(pl.col("state") == k).then(pl.col(name) + since).otherwise(name).alias(name)
            for k, name in _PARTS.items()
        ),
        *_COUNTS,
        (pl.col("cycles") + part.fill_null(0)).alias("cycles"),
        pl.when(part.is_not_null()).then(pl.col("clocked") + since).otherwise("clocked")
        .alias("clocked"),
    )  # fmt: skip
