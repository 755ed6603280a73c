"""Find waits for the lock of an executor: a busy thread outside callbacks, another one waiting.

In a multi-threaded executor one thread at a time waits for work, under a lock; the others wait for
that lock when their callbacks have ended, and emit no events. A trace does not record which
threads belong to one executor: threads that executed the same callback do, directly or through
others, as an entity has one executor at a time. Two of these that ever wait for work at the same
time share no lock (a pool of threads that waits for tasks has none).

Time after the end of a callback counts, and stretches in which nothing was executed; time before
the first callback of a stretch does not, as it is the executor's own work (it takes the message),
nor do executions without a traced callback.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import polars as pl

Thread = TypeVar("Thread", int, tuple[str, int, int])
_EXECUTED = ("timer", "subscription")  # kinds for which rclcpp_executor_execute is emitted
_ROW = ("thread", "begin_ns", "end_ns")
_BEGIN, _END = pl.col("begin_ns"), pl.col("end_ns")


def with_blocked(
    intervals: pl.DataFrame, instances: pl.DataFrame, *, lossless: bool = True
) -> pl.DataFrame:
    """Split busy stretches where they are blocked.

    Parameters
    ----------
    intervals
        Rows of the table, none of them blocked, with the number of their ``thread``.
    instances
        Executions of callbacks: ``thread``, ``callback_id``, ``kind``, ``start_ns``, ``end_ns``.
    lossless
        Whether no event was lost, so that the last wait of a thread lasted to the end.

    Returns
    -------
    The rows by begin and thread, with split ones as pieces of state ``busy`` and ``blocked``. Each
    piece of a stretch counts as executed the callbacks that began in it; the first piece also
    counts the rest.
    """
    ran = instances.join(intervals, on="thread", how="semi")
    began = pl.concat(
        [
            intervals.select("thread", latest_ns="begin_ns"),
            ran.select("thread", latest_ns="start_ns"),
        ]
    )
    latest = began.group_by("thread").agg(pl.col("latest_ns").max())
    # If an interval without an end is not its thread's last, its end is unknown.
    ends = pl.col("end_ns").is_not_null()
    ends |= pl.lit(lossless) & (pl.col("begin_ns") == pl.col("latest_ns"))
    waiting = intervals.join(latest, on="thread").filter((pl.col("state") == "wait") & ends)
    waits = {
        int(thread): _merged(part.select("begin_ns", _END.fill_null(2**63 - 1)))
        for (thread,), part in waiting.partition_by("thread", as_dict=True).items()
    }
    pairs = ran.select("thread", "callback_id").drop_nulls().unique()
    parts, whole = [], []
    executors = {
        tuple(members) for members in executors_of(pairs.iter_rows()).values() if len(members) > 1
    }
    for members in sorted(executors):
        for thread in members:
            is_busy = (pl.col("thread") == thread) & (pl.col("state") == "busy")
            busy = intervals.filter(is_busy & _END.is_not_null())
            busy = busy.sort("begin_ns").with_row_index("row")
            mine = waits.get(thread)
            peer_waits = [waits[peer] for peer in members if peer != thread and peer in waits]
            disjoint = [
                spans for spans in peer_waits if mine is None or _overlaps(mine, spans).is_empty()
            ]
            if busy.is_empty() or not disjoint:
                continue
            executions = ran.filter(pl.col("thread") == thread).sort("start_ns")
            cuts = _overlaps(_gaps(busy, executions), _merged(pl.concat(disjoint)))
            busy = busy[cuts.join_asof(busy, on="begin_ns")["row"].unique().sort()]
            if not busy.is_empty():
                pieces = _split(busy, executions, cuts)
                same = (name for name in intervals.columns if name not in pieces.columns)
                pieces = pieces.with_columns(pl.lit(busy[name][0]).alias(name) for name in same)
                parts.append(pieces.select(intervals.columns).cast(intervals.schema))
                whole.append(busy.select(_ROW))
    if not parts:
        return intervals
    rest = intervals.join(pl.concat(whole), on=_ROW, how="anti")
    return pl.concat([rest, *parts]).sort("begin_ns", "thread", maintain_order=True)


def executors_of(pairs: Iterable[tuple[Thread, int | None]]) -> dict[Thread, list[Thread]]:
    """Return for each thread the threads that ran the same callbacks, directly or through others.

    Parameters
    ----------
    pairs
        Pairs of a thread and a callback that it ran; None for an unknown callback.
    """
    first: dict[int, Thread] = {}
    members: dict[Thread, set[Thread]] = {}
    for thread, callback in pairs:
        peer = thread if callback is None else first.setdefault(callback, thread)
        joined = members.get(thread, {thread}) | members.get(peer, {peer})
        members |= dict.fromkeys(joined, joined)
    return {thread: sorted(group) for thread, group in members.items()}


def _merged(spans: pl.DataFrame) -> pl.DataFrame:
    """Merge spans of ``begin_ns`` and ``end_ns`` into disjoint ones, in order."""
    is_new = (_END.cum_max().shift() < _BEGIN).fill_null(value=True)
    return (
        spans.sort("begin_ns", "end_ns")
        .group_by(is_new.cum_sum().alias("of"), maintain_order=True)
        .agg(_BEGIN.first(), _END.max())
        .drop("of")
    )


def _overlaps(spans: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Return the intersections of disjoint spans with waits, in order."""
    low, high = pl.col("low"), pl.col("high")
    waits = waits.select(low="begin_ns", high="end_ns")
    return (
        spans.join_where(waits, high > _BEGIN, low < _END)
        .select(begin_ns=pl.max_horizontal(_BEGIN, low), end_ns=pl.min_horizontal(_END, high))
        .sort("begin_ns", "end_ns")
    )


def _split(busy: pl.DataFrame, ran: pl.DataFrame, cuts: pl.DataFrame) -> pl.DataFrame:
    """Split busy stretches, each with at least one cut, into blocked and busy pieces."""
    begins = pl.concat([busy["begin_ns"], cuts["end_ns"].rename("begin_ns")]).sort()
    ends = pl.concat([busy["end_ns"], cuts["begin_ns"].rename("end_ns")]).sort()
    parts = {"busy": pl.DataFrame([begins, ends]), "blocked": cuts}
    pieces = (
        pl.concat(part.with_columns(state=pl.lit(state)) for state, part in parts.items())
        .filter(_END > _BEGIN)
        .sort("begin_ns", maintain_order=True)
        .join_asof(busy.select("begin_ns", of="begin_ns", all="executed"), on="begin_ns")
    )
    done = ran.filter(pl.col("kind").cast(pl.String).is_in(_EXECUTED))["start_ns"]
    callbacks = _merged(ran.drop_nulls("end_ns").select("end_ns", begin_ns="start_ns"))

    def executed(name: str) -> pl.Series:
        return done.search_sorted(pieces[name], side="left").cast(pl.Int64)

    within = [_time_within(callbacks, pieces[name]) for name in ("begin_ns", "end_ns")]
    pieces = pieces.with_columns(
        executed=executed("end_ns") - executed("begin_ns"), callback_ns=within[1] - within[0]
    )
    rest = (pl.col("all") - pl.col("executed").sum().over("of")).clip(lower_bound=0)
    return pieces.with_columns(
        executed=pl.col("executed")
        + pl.when(pl.col("of").is_first_distinct()).then(rest).otherwise(0),
        duration_ns=_END - _BEGIN,
        timeout_ns=None,
    )


def _gaps(busy: pl.DataFrame, ran: pl.DataFrame) -> pl.DataFrame:
    """Return gaps from a callback's end to the next or the stretch's end, and idle stretches."""
    spans = busy.select("begin_ns", of_end="end_ns")
    ran = ran.select("end_ns", begin_ns="start_ns").join_asof(spans, on="begin_ns")
    # A callback without an end may have run for the rest of its stretch.
    ran = _merged(ran.select("begin_ns", _END.fill_null(pl.max_horizontal("begin_ns", "of_end"))))
    callbacks = ran["begin_ns"].search_sorted(busy["end_ns"], side="left").cast(pl.Int64)
    callbacks -= ran["end_ns"].search_sorted(busy["begin_ns"], side="right").cast(pl.Int64)
    is_idle = (busy["executed"] == 0) & (callbacks == 0)
    behind = (
        ran.select(begin_ns="end_ns", next=_BEGIN.shift(-1))
        .join_asof(spans.with_columns(is_idle=is_idle), on="begin_ns")
        .filter(pl.col("of_end") > _BEGIN, ~pl.col("is_idle"))
        .select("begin_ns", end_ns=pl.min_horizontal("next", "of_end"))
    )
    idle = busy.filter(is_idle).select("begin_ns", "end_ns")
    return pl.concat([behind, idle]).sort("begin_ns", maintain_order=True)


def _time_within(spans: pl.DataFrame, times: pl.Series) -> pl.Series:
    """Return how much of disjoint spans lies before each of some times, which ascend."""
    lasted = _END - _BEGIN
    spans = spans.with_columns(since="begin_ns", before=lasted.cum_sum() - lasted)
    placed = times.alias("begin_ns").to_frame().join_asof(spans, on="begin_ns")
    passed = pl.col("before") + pl.min_horizontal("begin_ns", "end_ns") - pl.col("since")
    return placed.select(passed.fill_null(0)).to_series()
