"""Restore switches from idle that ftrace leaves out, from the CPU time that the kernel accounts.

Some kernels record only a part of the switches from idle to a thread. `sched_stat_runtime` states
how long a thread ran since its time was last accounted. The first such event after a thread came
to its CPU thus tells that it came there that much earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roslens.recording.arrays import Bytes, Ints, np
from roslens.tracing.ftrace.formats import HEAD_BYTES, Format
from roslens.tracing.ftrace.rows import numbers_at, windows

RUNTIME = "sched_stat_runtime"
_IDLE_PRIORITY = 120
_PID_AT = 4

Events = tuple[Bytes, Ints, Ints, Ints]
"""The bytes, and for each event its offset, its size in bytes, and its time in ns."""


@dataclass(frozen=True)
class Accounted:
    """CPU time of a thread that was accounted by others: ordered times, and amounts in ns."""

    time: Ints
    ran: Ints


def can_tell(switch: Format | None, runtime: Format | None) -> bool:
    """Return whether the two events have the needed fields, in the expected sizes."""
    runtime_sizes = {} if runtime is None else {field.name: field.size for field in runtime.fields}
    sizes = {} if switch is None else {field.name: field.size for field in switch.fields}
    numbers = [f"{side}_{name}" for side in ("prev", "next") for name in ("tid", "prio")]
    return (
        (runtime_sizes.get("tid"), runtime_sizes.get("runtime")) == (4, 8)
        and all(sizes.get(name) == 4 for name in numbers)
        and {"prev_comm", "next_comm", "prev_state"} <= sizes.keys()
    )


def runtime_accounted_elsewhere(
    blocks: Iterable[Events], runtime: Format
) -> Mapping[int, Accounted]:
    """Return by thread the CPU time that other CPUs accounted (as on waking it), in all blocks."""
    none = np.empty((3, 0), dtype=np.int64)
    accounted = np.concatenate(
        [none, *(_accounted_runtime(block, runtime) for block in blocks)], axis=1
    )
    accounted = accounted[:, np.lexsort((accounted[1], accounted[0]))]
    edges = np.flatnonzero(np.diff(accounted[0], prepend=-1, append=-1))
    return {
        int(accounted[0, begin]): Accounted(accounted[1, begin:end], accounted[2, begin:end])
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    }


def _accounted_runtime(events: Events, runtime: Format) -> Ints:
    data, begin, size, time = events
    begin, time = begin[size >= runtime.size], time[size >= runtime.size]
    rows = numbers_at(data, begin, "<u2") == runtime.number
    begin, time = begin[rows], time[rows]
    thread, ran = _threads_and_runtimes(data, begin, runtime)
    foreign = numbers_at(data, begin + _PID_AT, "<i4") != thread
    return np.stack((thread, time, ran))[:, foreign]


def _threads_and_runtimes(data: Bytes, begin: Ints, runtime: Format) -> tuple[Ints, Ints]:
    """Return the threads, and how long each ran in ns."""
    where = {field.name: field.offset for field in runtime.fields}
    thread = numbers_at(data, begin + where["tid"], "<i4")
    return thread, numbers_at(data, begin + where["runtime"], "<i8")


def with_switches(
    events: Events,
    switch: Format,
    runtime: Format,
    others: Mapping[int, Accounted],
    *,
    cpu: int,
    running: int | None,
    last: int,
) -> Events:
    """Add to the events of a CPU the missing switches from idle that can be restored.

    Parameters
    ----------
    switch, runtime
        The events ``sched_switch`` and ``sched_stat_runtime``.
    others
        CPU time that was accounted by others (`runtime_accounted_elsewhere`).
    running
        The thread that came to the CPU last before these events; None: unknown.
    last
        The time of the last event before these, in ns.
    """
    data, begin, size, time = events
    if not len(size) or size.min() < HEAD_BYTES:
        return events
    kind, by = numbers_at(data, begin, "<u2"), numbers_at(data, begin + _PID_AT, "<i4")
    at = np.flatnonzero((kind == switch.number) & (size >= switch.size))
    accounted = np.flatnonzero((kind == runtime.number) & (size >= runtime.size))
    if not len(at) or not len(accounted):
        return events
    where = {field.name: field for field in switch.fields}

    def column(field: str, rows: Ints) -> Ints:
        return numbers_at(data, begin[rows] + where[field].offset, "<i4")

    left, came = column("prev_tid", at), column("next_tid", at)
    before = np.concatenate(([left[0] if running is None else running], came[:-1]))
    missing = (before == 0) & (left != 0)
    # The switch that ends the turn of each event, and the events of the thread that had the turn.
    ends = np.searchsorted(at, np.arange(len(kind)))
    own_rows = np.flatnonzero(
        np.append(missing, values=False)[ends] & (by == np.append(left, -1)[ends])
    )
    row = np.intersect1d(own_rows, accounted)
    row = row[_threads_and_runtimes(data, begin[row], runtime)[0] == by[row]]
    number, first = np.unique(ends[row], return_index=True)
    row = row[first]
    thread, ran = _threads_and_runtimes(data, begin[row], runtime)
    start = time[row] - ran
    # The thread came no later than its first event, and not before the CPU became idle.
    acting, first = np.unique(ends[own_rows], return_index=True)
    acts = own_rows[first][np.searchsorted(acting, number)]
    idle = np.where(number > 0, at[number - 1], -1)
    since = np.where(idle < 0, last, time[idle])
    for tid in set(thread.tolist()) & others.keys():
        turns, account = np.flatnonzero(thread == tid), others[tid]
        first = np.searchsorted(account.time, since[turns], side="right")
        before = np.append(account.time, np.iinfo(np.int64).max)[first] < time[row[turns]]
        start[turns[before]] = (account.time - account.ran)[first[before]]
    known = (start >= since) | (idle >= 0)
    number, acts, idle = number[known], acts[known], idle[known]
    start = np.clip(start[known], since[known], time[acts])
    place = np.clip(np.searchsorted(time, start, side="right"), idle + 1, acts)
    switches = _from_idle(data, begin[at[number]], switch, cpu)
    return (
        np.concatenate((data, switches.ravel())),
        np.insert(begin, place, len(data) + switch.size * np.arange(len(number))),
        np.insert(size, place, switch.size),
        np.insert(time, place, start),
    )


def with_sums(events: Events, switch: Format, runtime: Format) -> Events:
    """Merge a thread's accounting events between two switches of its CPU into one with their sum.

    A thread that reads its own CPU clock in a loop accounts its time at each reading.
    """
    data, begin, size, time = events
    if not len(size) or size.min() < HEAD_BYTES:
        return events
    kind = numbers_at(data, begin, "<u2")
    row = np.flatnonzero((kind == runtime.number) & (size >= runtime.size))
    thread, ran = _threads_and_runtimes(data, begin[row], runtime)
    by_itself = thread == numbers_at(data, begin[row] + _PID_AT, "<i4")
    row, thread, ran = row[by_itself], thread[by_itself], ran[by_itself]
    if not len(row):
        return events
    turn = np.cumsum(kind == switch.number)[row]
    last = np.append((np.diff(turn) > 0) | (np.diff(thread) != 0), values=True)
    total = np.diff(np.cumsum(ran)[last], prepend=0)
    data = data.copy()
    place = next(field.offset for field in runtime.fields if field.name == "runtime")
    windows(data, 8)[begin[row[last]] + place] = total.astype("<i8").view("V8")
    kept = np.ones(len(begin), dtype=np.bool_)
    kept[row[~last]] = False
    return data, begin[kept], size[kept], time[kept]


def _from_idle(data: Bytes, begin: Ints, switch: Format, cpu: int) -> Bytes:
    """Return switches from idle to the threads that the given switches leave."""
    leaving = windows(data, switch.size)[begin].view(np.uint8).reshape(-1, switch.size)
    arriving = leaving.copy()
    where = {field.name: slice(field.offset, field.end) for field in switch.fields}
    for name in ("comm", "tid", "prio"):
        arriving[:, where[f"next_{name}"]] = leaving[:, where[f"prev_{name}"]]
    width = where["prev_comm"].stop - where["prev_comm"].start
    texts = {"prev_comm": f"swapper/{cpu}".encode().ljust(width, b"\0")[:width]}
    texts["prev_prio"] = _IDLE_PRIORITY.to_bytes(4, "little")
    for name in ("prev_comm", "prev_tid", "prev_prio", "prev_state"):
        arriving[:, where[name]] = 0
        if name in texts:
            arriving[:, where[name]] = np.frombuffer(texts[name], np.uint8)
    # The flags state no interrupt, and the thread is the idle thread.
    arriving[:, 2:8] = 0
    return arriving
