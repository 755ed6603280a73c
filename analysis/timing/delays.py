"""What passes between a callback being ready and its start, by what executors do meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from roslens.analysis.timing.schema import Samples, TimedExecutor

_THREAD = ("host", "vpid", "vtid")
_LEAST_HANDOVERS = 3
"""Fewer tell nothing of the soonest: what always waits for others is never handed over."""
_LEAST_POLLS = 0.1
"""Part of the waits that are polls, so that these are told from what only looks like one."""
_NEVER = 2**62


def with_waits(rows: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """The executions with the wait that led to each: ``wait_ns`` to ``woken_ns``.

    Null where the thread did not wait after its execution before: what it executes was left in
    the wait set, or there is none.
    """
    waits = (
        intervals.filter(pl.col("state") == "wait")
        .drop_nulls(["begin_ns", "end_ns"])
        .select(*_THREAD, wait_ns="begin_ns", woken_ns="end_ns")
        .sort("woken_ns")
    )
    own = pl.col("woken_ns") >= pl.col("ended").fill_null(0)
    return (
        rows.sort("start_ns", "end_ns")
        .with_columns(ended=pl.col("end_ns").shift(1).over(_THREAD))
        .join_asof(
            waits, left_on="start_ns", right_on="woken_ns", by=_THREAD, check_sortedness=False
        )
        .with_columns(pl.when(own).then(name).alias(name) for name in ("wait_ns", "woken_ns"))
    )


def delayed(rows: pl.DataFrame, executors: Sequence[TimedExecutor]) -> pl.DataFrame:
    """The executions of `with_waits` with ``handover``, ``gap``, ``poll`` and ``lag`` (ns).

    A thread that waits is woken by what is ready first, and begins with what comes first in its
    order: from the one to the start of the other is the handover. What is there when it comes to
    wait it finds after the time of a poll. From its choice to the start is a gap. What a thread of
    the executor itself publishes it can take next; what others publish, after a lag: no later than
    the soonest that one woke a thread.
    """
    vtids = [executor.vtids for executor in executors]
    of_executor = pl.col("executor").replace_strict(
        range(len(vtids)), vtids, return_dtype=pl.List(pl.Int32)
    )
    other = (pl.col("from_vpid") != pl.col("vpid")) | ~pl.col("from_vtid").is_in(of_executor)
    handed = pl.col("until_woken").filter(other)
    soonest = pl.when(handed.count() >= _LEAST_HANDOVERS).then(handed.min()).over("callback_id")
    held = pl.col("end_ns").cum_max().shift(1).over("excluding")
    # Threads look into the wait set one after the other.
    looked = pl.col("start_ns").shift(1).over("executor")
    waits = pl.col("woken_ns").is_not_null().any().over("executor")
    rows = rows.with_columns(
        lag=pl.lit(0, dtype=pl.Int64), held=pl.when(pl.col("reentrant").is_null()).then(held)
    ).with_columns(free=pl.max_horizontal("ended", "held", pl.when(waits).then(looked)))
    first = _with_delays(rows)
    return _with_delays(first.with_columns(lag=soonest.fill_null(0)))


def _with_delays(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(
        [_of_executor(of) for of in rows.partition_by("executor", maintain_order=True)]
    ).sort("start_ns", "end_ns")


def _of_executor(rows: pl.DataFrame) -> pl.DataFrame:
    """With ``handover``, ``gap`` and ``poll``, of the executions of one executor, in order."""
    start = rows["start_ns"].to_numpy()
    known = rows["ready"].is_not_null().to_numpy()
    ready = rows["ready"].fill_null(_NEVER).to_numpy()
    arrived = ready + rows["lag"].to_numpy()
    free = rows["free"].fill_null(0).to_numpy()
    began = rows["wait_ns"].fill_null(-1).to_numpy()
    woken = rows["woken_ns"].fill_null(-1).to_numpy()
    waited = woken >= 0
    idle = ~waited & (free <= arrived) & known
    handover = np.where(idle, start - ready, -1)
    chosen = np.where(waited, woken, free)
    gap = np.where(waited | (known & ~idle & (free > 0)), start - chosen, -1)
    # What was ready first of all that had not started when a wait ended.
    first = _first_from_here(arrived)
    polled = waited & (arrived[first] <= began)
    # Where hardly any wait is one, it is another message's delay that looks like it.
    polled &= polled.sum() >= _LEAST_POLLS * waited.sum()
    poll = np.where(polled, woken - began, -1)
    usual = np.median(poll[polled]) if polled.any() else 0
    led = np.flatnonzero(waited & (arrived[first] > began + usual) & known[first])
    until_woken = handover.copy()
    handover[first[led]] = start[led] - ready[first[led]]
    until_woken[first[led]] = woken[led] - ready[first[led]]
    return rows.with_columns(
        pl.when(values >= 0).then(values).alias(name)
        for name, values in (
            ("handover", pl.Series(handover)), ("until_woken", pl.Series(until_woken)),
            ("gap", pl.Series(gap)), ("poll", pl.Series(poll)),
        )
    )  # fmt: skip


def _first_from_here(
    times: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each entry the place of the least of itself and all that follow."""
    least = np.minimum.accumulate(times[::-1])[::-1]
    places = np.where(times == least, np.arange(len(times)), len(times))
    return np.minimum.accumulate(places[::-1])[::-1]


def with_polls(
    executor: TimedExecutor, rows: pl.DataFrame, number: int, begin: int
) -> TimedExecutor:
    """The executor with its polls since the begin."""
    own = rows.filter(pl.col("executor") == number).drop_nulls("poll").sort("woken_ns")
    polls = Samples(
        at_ns=(own["woken_ns"] - begin).clip(0).to_list(), value_ns=own["poll"].to_list()
    )
    return executor.model_copy(update={"polls": polls})
