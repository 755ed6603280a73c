"""Waiting for the lock of an executor: busy, outside of callbacks, while another thread waits.

In a multi-threaded executor one thread at a time waits for work, under a lock; the others, once
their callbacks have ended, wait for that lock and emit nothing. Nothing in a trace says which
threads belong to one executor: those that executed the same callback do, directly or through
others, as an entity has one executor at a time. Of these, two that ever wait at the same time have
no lock in common (a pool of threads that waits for tasks has none).

What follows the end of a callback counts, and stretches in which nothing was executed; not what
lies before the first callback of a stretch, which is the executor's own work (it takes the
message), nor executions without a traced callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import polars as pl

from roslens.recording.arrays import Ints, np

Thread = TypeVar("Thread", int, tuple[str, int, int])
Stretches = tuple[Ints, Ints]
"""Begins and ends, disjoint and in order."""
_EXECUTED = ("timer", "subscription")  # what rclcpp_executor_execute is emitted for
_END = 2**63 - 1
_THREAD = "_thread"
_ROW = (_THREAD, "begin_ns", "end_ns")


def with_blocked(
    intervals: pl.DataFrame,
    instances: pl.DataFrame,
    key: Sequence[str] = ("proc", "thread"),
    *,
    lossless: bool = True,
) -> pl.DataFrame:
    """Split busy stretches where they are blocked.

    Parameters
    ----------
    intervals
        Rows of the table, none of them blocked.
    instances
        Executions of callbacks: ``callback_id``, ``kind``, ``start_ns``, ``end_ns``.
    key
        By which both name a thread; the rows come in order of begin and key.
    lossless
        Whether no event was lost, so that the last wait of a thread lasted to the end.

    Returns
    -------
    The rows, split ones in pieces of state ``busy`` and ``blocked``. Of a split stretch each piece
    counts as executed what had its callback begin there, the first one also the rest.
    """
    threads = intervals.select(key).unique(maintain_order=True).with_row_index(_THREAD)
    numbered = intervals.join(threads, on=key, how="left", nulls_equal=True)
    ran = instances.select(*key, "callback_id", "kind", "start_ns", "end_ns").join(
        threads, on=key, nulls_equal=True
    )
    began = pl.concat(
        [
            numbered.select(_THREAD, latest_ns="begin_ns"),
            ran.select(_THREAD, latest_ns="start_ns"),
        ]
    )
    latest = began.group_by(_THREAD).agg(pl.col("latest_ns").max())
    # One without an end that something follows on its thread ended nobody knows when.
    ends = pl.col("end_ns").is_not_null()
    ends |= pl.lit(lossless) & (pl.col("begin_ns") == pl.col("latest_ns"))
    waiting = numbered.join(latest, on=_THREAD).filter((pl.col("state") == "wait") & ends)
    waits = {
        int(thread): _merged(_times(part, "begin_ns"), _times(part, "end_ns"))
        for (thread,), part in waiting.partition_by(_THREAD, as_dict=True).items()
    }
    none: Stretches = (np.empty(0, np.int64), np.empty(0, np.int64))
    pairs = ran.select(_THREAD, "callback_id").drop_nulls().unique()
    found, whole = [], []
    executors = {tuple(x) for x in executors_of(pairs.iter_rows()).values() if len(x) > 1}
    for members in sorted(executors):
        for thread in members:
            own = (pl.col(_THREAD) == thread) & (pl.col("state") == "busy")
            busy = numbered.filter(own & pl.col("end_ns").is_not_null()).sort("begin_ns")
            mine = waits.get(thread, none)
            others = [waits[x] for x in members if x != thread and x in waits]
            apart = [other for other in others if not _overlaps(*mine, *other)[0].size]
            if not busy.height or not apart:
                continue
            here = ran.filter(pl.col(_THREAD) == thread)
            cut, go_on = _blocked(busy, here, apart)
            busy = busy[np.unique(np.searchsorted(_times(busy, "begin_ns"), cut, "right") - 1)]
            if busy.height:
                pieces = _split(busy, here, cut, go_on).with_columns(
                    pl.lit(busy[name][0]).alias(name) for name in key
                )
                found.append(pieces.select(intervals.columns).cast(intervals.schema))
                whole.append(busy.select(_ROW))
    if not found:
        return intervals
    rest = numbered.join(pl.concat(whole), on=_ROW, how="anti").select(intervals.columns)
    return pl.concat([rest, *found]).sort("begin_ns", *key, maintain_order=True)


def executors_of(pairs: Iterable[tuple[Thread, int | None]]) -> dict[Thread, list[Thread]]:
    """Of each thread, those that ran the same callbacks, directly or through others.

    Parameters
    ----------
    pairs
        Of a thread and a callback that it ran; None: it is not known which.
    """
    first: dict[int, Thread] = {}
    members: dict[Thread, set[Thread]] = {}
    for thread, callback in pairs:
        other = thread if callback is None else first.setdefault(callback, thread)
        joined = members.get(thread, {thread}) | members.get(other, {other})
        members |= dict.fromkeys(joined, joined)
    return {thread: sorted(of) for thread, of in members.items()}


def _overlaps(begin: Ints, end: Ints, low: Ints, high: Ints) -> Stretches:
    """What disjoint stretches have in common with others."""
    first = np.searchsorted(high, begin, "right")
    count = np.maximum(np.searchsorted(low, end, "left") - first, 0)
    one = np.repeat(np.arange(begin.size), count)
    other = np.arange(one.size) - np.repeat(np.cumsum(count) - count, count) + first[one]
    return np.maximum(begin[one], low[other]), np.minimum(end[one], high[other])


def _blocked(busy: pl.DataFrame, ran: pl.DataFrame, waits: Sequence[Stretches]) -> Stretches:
    low, high = (np.concatenate(times) for times in zip(*waits, strict=True))
    return _overlaps(*_gaps(busy, ran), *_merged(low, high))


def _split(busy: pl.DataFrame, ran: pl.DataFrame, cut: Ints, go_on: Ints) -> pl.DataFrame:
    """Busy stretches, each with at least one cut, as what is blocked and what lies between."""
    begin, end = _times(busy, "begin_ns"), _times(busy, "end_ns")
    begins, ends = np.concatenate([begin, go_on]), np.concatenate([cut, end])
    begins.sort()
    ends.sort()
    states = np.repeat(["busy", "blocked"], [begins.size, cut.size])
    begins, ends = np.concatenate([begins, cut]), np.concatenate([ends, go_on])
    there = ends > begins
    order = np.argsort(begins[there], kind="stable")
    begins, ends = begins[there][order], ends[there][order]
    row = np.searchsorted(begin, begins, "right") - 1
    done = ran.filter(pl.col("kind").cast(pl.String).is_in(_EXECUTED))["start_ns"].sort().to_numpy()
    executed = np.searchsorted(done, ends, "left") - np.searchsorted(done, begins, "left")
    total = np.zeros(begin.size, np.int64)
    np.add.at(total, row, executed)
    is_first = np.append(True, row[1:] != row[:-1])
    rest = np.maximum(busy["executed"].to_numpy()[row] - total[row], 0)
    ended = ran.drop_nulls("end_ns")
    within = _time_within(*_merged(_times(ended, "start_ns"), _times(ended, "end_ns")))
    return pl.DataFrame(
        {
            "state": states[there][order],
            "begin_ns": begins,
            "end_ns": ends,
            "duration_ns": ends - begins,
            "executed": np.where(is_first, executed + rest, executed),
            "callback_ns": within(ends) - within(begins),
        }
    ).with_columns(pl.lit(None).alias("timeout_ns"))


def _gaps(busy: pl.DataFrame, ran: pl.DataFrame) -> Stretches:
    """From the end of a callback to the next one or the end of its stretch; and idle stretches."""
    begin, end = _times(busy, "begin_ns"), _times(busy, "end_ns")
    start, stop = _times(ran, "start_ns"), _times(ran, "end_ns")
    of = np.searchsorted(begin, start, "right") - 1
    # One that never ended may have run for all the rest of its stretch.
    ended = np.where(of >= 0, np.maximum(end[of], start), start)
    stop = np.where(stop == _END, ended, stop)
    start, stop = _merged(start, stop)
    of = np.searchsorted(begin, stop, "right") - 1
    callbacks = np.searchsorted(start, end, "left") - np.searchsorted(stop, begin, "right")
    idle = (busy["executed"].to_numpy() == 0) & (callbacks == 0)
    inside = (of >= 0) & (stop < end[of]) & ~idle[of]
    until = np.minimum(np.append(start[1:], _END), end[of])
    starts = np.concatenate([stop[inside], begin[idle]])
    stops = np.concatenate([until[inside], end[idle]])
    order = np.argsort(starts, kind="stable")
    return starts[order], stops[order]


def _merged(begin: Ints, end: Ints) -> Stretches:
    """Intervals as disjoint ones, in order."""
    order = np.lexsort((end, begin))
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    new = np.append(True, begin[1:] > latest[:-1])[: begin.size]
    return begin[new], latest[np.append(new[1:], True)[: begin.size]]


def _time_within(begin: Ints, end: Ints) -> Callable[[Ints], Ints]:
    """How much of disjoint intervals lies before a time."""
    summed = np.append(0, np.cumsum(end - begin))

    def before(time: Ints) -> Ints:
        number = np.searchsorted(begin, time, "right")
        last = np.append(_END, end)[number]
        over = np.where(number > 0, np.maximum(last - time, 0), 0)
        return np.asarray(summed[number] - over, np.int64)

    return before


def _times(frame: pl.DataFrame, name: str) -> Ints:
    return frame[name].fill_null(_END).to_numpy().astype(np.int64)
