"""What made one message late: what its receiving thread did from publish to callback_start.

Callbacks, the executor's lock and waiting for work are known to the nanosecond, and so is waiting
for a CPU where the kernel's events were recorded; these name who had it, too. Where these explain
less than half of it, what was only sampled is asked: it can have been, and the words say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from roslens.analysis.latency.coincidence import STEAL, WINDOW_NS
from roslens.analysis.reports.numbers import significant

_EXPLAINS = 0.5
"""The part of the time that a cause must fill to be named."""
_MATTERS = 0.05
"""The part that a culprit must fill."""
_MOST_CULPRITS = 3

_WORDS = {
    "queue": "queue: earlier messages of the same callback",
    "callback": "other callbacks of the thread",
    "CPU wait": "waiting for a CPU",
    "lock": "the executor's lock",
    "executor": "the executor's own work",
    "transport": "on its way: the thread waited for work",
}


@dataclass(frozen=True)
class Blame:
    """What a message's latency is blamed on.

    Attributes
    ----------
    cause
        ``queue`` (with the executor's work between earlier messages), ``callback``, ``CPU wait``,
        ``lock``, ``executor``, ``transport``, ``steal``, ``sampler`` or ``unknown``.
    words
        The same for people, with the part of the time that it filled.
    parts
        ns of each cause that is known exactly.
    """

    cause: str
    words: str
    parts: Mapping[str, int]


@dataclass(frozen=True)
class Around:
    """The tables of one run, each sorted by time; one that was not recorded is empty.

    Attributes
    ----------
    callbacks, waits, scheduling
        ``callback_instances``, ``executor_intervals``, ``callback_scheduling``.
    processes, threads, system
        What was sampled.
    off_cpu
        By the kernel's events: host, tid, begin_ns, end_ns in which threads that run callbacks
        could have gone on and had no CPU; None where they were not recorded.
    """

    callbacks: pl.DataFrame
    waits: pl.DataFrame
    scheduling: pl.DataFrame
    processes: pl.DataFrame
    threads: pl.DataFrame
    system: pl.DataFrame
    off_cpu: pl.DataFrame | None = None


def blamed(
    message: Mapping[str, Any], around: Around, culprits: Sequence[Mapping[str, Any]] = ()
) -> Blame:
    """Blame one delivered message.

    Parameters
    ----------
    message
        ``publish_ns``, ``callback_start_ns``, ``subscription_host``, ``subscription_vpid``,
        ``callback_instance_id``.
    culprits
        Of its thread meanwhile: ``kind``, ``by_tid``, ``by_name``, ``by_process``, ``by_ns``, the
        longest first.
    """
    begin, end = int(message["publish_ns"]), int(message["callback_start_ns"])
    whole = max(1, end - begin)
    own = around.callbacks.filter(pl.col("callback_instance_id") == message["callback_instance_id"])
    if own.is_empty() or own["vtid"][0] is None:
        return Blame("unknown", "unknown: its thread is not known", {})
    thread = pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(own[name][0])) for name in ("host", "vpid", "vtid")
    )
    same = pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(own[name][0])) for name in ("kind", "name", "node")
    )
    ran = around.callbacks.filter(
        thread, pl.col("callback_instance_id") != message["callback_instance_id"]
    )
    off = _stretches(around.off_cpu, own["host"][0], own["vtid"][0])
    exact = off.height > 0
    off_ns = _union(off, begin, end)

    def without_wait(rows: pl.DataFrame, start: str) -> int:
        """For how long one of these lasts and the thread does not wait for a CPU."""
        lasting = rows.select(begin_ns=start, end_ns="end_ns")
        return _union(pl.concat([lasting, off]), begin, end) - off_ns

    parts = {
        "queue": without_wait(ran.filter(same), "start_ns"),
        "callback": without_wait(ran.filter(~same), "start_ns"),
    }
    waits = around.waits.filter(thread)
    for state, cause in (("blocked", "lock"), ("wait", "transport"), ("busy", "executor")):
        parts[cause] = without_wait(waits.filter(pl.col("state") == state), "begin_ns")
    earlier = parts["queue"] > parts["callback"]
    own_work = max(0, parts.pop("executor") - without_wait(ran, "start_ns"))
    parts["queue" if earlier else "executor"] = own_work + (parts["queue"] if earlier else 0)
    parts["CPU wait"] = off_ns
    if not exact:
        parts["CPU wait"] = _off_cpu(around.scheduling.filter(thread), begin, end)
        # While a callback waited for a CPU it was no callback that kept the message.
        for cause in ("callback", "queue"):
            parts[cause] = max(0, parts[cause] - parts["CPU wait"])
    named = _named(culprits, whole)
    most = max(parts, key=lambda cause: parts[cause])
    share = parts[most] / whole
    if share >= _EXPLAINS:
        return Blame(most, f"{_WORDS[most]} ({100 * min(1.0, share):.0f} %){named}", parts)
    cause, words = _sampled(around, thread, str(own["host"][0]), begin, end)
    known = f"; {_WORDS[most]} fill {100 * share:.0f} %" if parts[most] else ""
    return Blame(cause, words + known + named, parts)


def _named(culprits: Sequence[Mapping[str, Any]], whole: int) -> str:
    """Those that took a part of the time that matters."""
    told: list[str] = []
    for one in culprits:
        if one["by_ns"] < _MATTERS * whole or len(told) == _MOST_CULPRITS:
            break
        took = f"{significant(one['by_ns'] / 1e6, 3)} ms"
        if one["kind"] == "frequency":
            told.append(f"{one['by_name']} below its highest frequency cost {took}")
        elif one["by_tid"] is None:
            who = one["by_name"] or "a thread that the kernel's trace lacks"
            told.append(f"{who} had its CPU for {took}")
        elif one["by_tid"] == 0:
            told.append(f"its CPU woke up for {took}")
        else:
            of = f" of {one['by_process']}" if one["by_process"] else ""
            told.append(f"{one['by_name']} (thread {one['by_tid']}{of}) had its CPU for {took}")
    return "".join(f"; {x}" for x in told)


def briefly(culprits: Sequence[Mapping[str, Any]], whole_ns: int) -> str | None:
    """The first of `blamed`'s culprits in few words; None if it took too little to matter."""
    if not culprits or culprits[0]["by_ns"] < _MATTERS * whole_ns:
        return None
    one = culprits[0]
    who = "CPU asleep" if one["by_tid"] == 0 else one["by_name"] or "?"
    slow = " slow" if one["kind"] == "frequency" else ""
    return f"{who}{slow} {significant(one['by_ns'] / 1e6, 3)} ms"


def _stretches(off_cpu: pl.DataFrame | None, host: str, tid: int) -> pl.DataFrame:
    if off_cpu is None:
        return pl.DataFrame(schema={"begin_ns": pl.Int64, "end_ns": pl.Int64})
    of_thread = (pl.col("host") == host) & (pl.col("tid") == tid)
    return off_cpu.filter(of_thread).select("begin_ns", "end_ns")


def _union(rows: pl.DataFrame, begin: int, end: int) -> int:
    """For how many ns of [begin, end] at least one of the intervals lasts."""
    inside = rows.select(
        pl.col("begin_ns").clip(begin, end).alias("a"),
        pl.col("end_ns").fill_null(end).clip(begin, end).alias("b"),
    ).sort("a")
    until = pl.max_horizontal("a", pl.col("b").cum_max().shift(1, fill_value=begin))
    return int(inside.select((pl.col("b") - until).clip(0).sum()).item() or 0)


def _off_cpu(rows: pl.DataFrame, begin: int, end: int) -> int:
    """For how many ns executions could have gone on and had no CPU; of one cut, at most the cut."""
    stop = pl.col("start_ns") + pl.col("duration_ns")
    overlap = (
        pl.min_horizontal(stop, pl.lit(end)) - pl.max_horizontal("start_ns", pl.lit(begin))
    ).clip(0)
    waited = pl.col("preempted_ns").fill_null(0) + pl.col("scheduling_delay_ns").fill_null(0)
    return int(rows.select(pl.min_horizontal(overlap, waited).sum()).item() or 0)


def _sampled(around: Around, thread: pl.Expr, host: str, begin: int, end: int) -> tuple[str, str]:
    """What samplers saw meanwhile; their rows are further apart than the message was late."""
    whole = end - begin
    delay = _risen(around.threads.filter(thread), ["run_delay_ns"], begin, end)
    if delay is not None and delay[0] >= _EXPLAINS * whole:
        waited = significant(delay[0] / 1e6, 3)
        return "CPU wait", f"perhaps waiting for a CPU: {waited} ms between two samples"
    names = ["cpu_steal_ns", "cpu_busy_ns", "cpu_idle_ns"]
    machine = _risen(_of_host(around.system, host), names, begin, end)
    whole_machine = math.fsum(machine or ())
    if machine is not None and whole_machine and machine[0] / whole_machine > STEAL:
        share = significant(100 * machine[0] / whole_machine, 2)
        return "steal", f"perhaps steal: the hypervisor took {share} % of the machine"
    for what in ("processes", "threads", "system"):
        rows = _of_host(getattr(around, what), host)
        # In a longer time a sampler reads anyway.
        if whole <= WINDOW_NS and rows["time_ns"].is_between(begin, end).any():
            return "sampler", f"perhaps the sampler of {what}, which read meanwhile"
    return "unknown", "unknown"


def _of_host(rows: pl.DataFrame, host: str) -> pl.DataFrame:
    return rows.filter(pl.col("host") == host) if "host" in rows.columns else rows


def _risen(rows: pl.DataFrame, names: list[str], begin: int, end: int) -> list[float] | None:
    """By how much counters rose from the last row before to the first after; None: not sampled."""
    if rows.is_empty() or not set(names) <= set(rows.columns):
        return None
    before, after = rows.filter(pl.col("time_ns") <= begin), rows.filter(pl.col("time_ns") >= end)
    if before.is_empty() or after.is_empty():
        return None
    risen = [
        (b, a)
        for b, a in zip(before.select(names).row(-1), after.select(names).row(0), strict=True)
    ]
    return None if any(x is None for pair in risen for x in pair) else [a - b for b, a in risen]
