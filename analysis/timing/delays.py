"""Split the time from ready to start of a callback by the executor's activity."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.timing.schema import TimedExecutor
from roslens.recording.arrays import Ints, np

_THREAD = ("host", "vpid", "vtid")
_LEAST_FOUND = 3
"""Least number of finds: a callback that always waits for others is never found at once."""
_LEAST_POLLS = 0.1
"""Least part of the waits that must be polls, to tell polls from waits that only look like one."""
_NEVER = 2**62


def with_waits(rows: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """Add the wait that led to each execution: ``wait_ns`` to ``woken_ns``.

    Null where the thread did not wait after its previous execution, because the callback was left
    in the wait set, or where there is no wait set.
    """
    waits = (
        intervals.filter(pl.col("state") == "wait")
        .drop_nulls(["begin_ns", "end_ns"])
        .select(*_THREAD, wait_ns="begin_ns", woken_ns="end_ns")
        .sort("woken_ns")
    )
    after_own = pl.col("woken_ns") >= pl.col("ended").fill_null(0)
    # If another thread was woken later and has started a callback, the earlier wait found nothing.
    latest = pl.col("woken_ns") >= pl.col("woken_ns").cum_max().over("executor")
    return (
        rows.sort("start_ns", "end_ns")
        .with_columns(ended=pl.col("end_ns").shift(1).over(_THREAD))
        .join_asof(
            waits, left_on="start_ns", right_on="woken_ns", by=_THREAD, check_sortedness=False
        )
        .with_columns(pl.when(after_own).then(name).alias(name) for name in ("wait_ns", "woken_ns"))
        .with_columns(pl.when(latest).then(name).alias(name) for name in ("wait_ns", "woken_ns"))
    )


def delayed(
    rows: pl.DataFrame, intervals: pl.DataFrame, executors: Sequence[TimedExecutor]
) -> pl.DataFrame:
    """Add handover, gap, poll, lag and takeover [ns] to the executions of `with_waits`.

    A waiting thread is woken by the callback that is ready first, and begins with the callback that
    comes first in its order: the handover is the time from the first one's being ready to the start
    of the other. If a callback is ready before the thread begins to wait, the thread finds it after
    the time of a poll, which begins with the end of the thread's last execution if the thread came
    back from it at once. The gap is the time from the choice of a callback to its start. A message
    that a thread of the executor itself published can be taken next; others only after a lag, at
    most the shortest time in which a wait found one that was published during that wait. A takeover
    lasts from the start until a thread of the executor looks for work again (negative if one did
    before).

    Parameters
    ----------
    rows
        Executions from `with_waits`; all times are in ns.
    intervals
        Intervals from `on_wait_sets`, with ``executor``.
    """
    vtids = [executor.vtids for executor in executors]
    of_executor = pl.col("executor").replace_strict(
        range(len(vtids)), vtids, return_dtype=pl.List(pl.Int32)
    )
    held = pl.col("end_ns").cum_max().shift(1).over("excluding")
    # Threads search the wait set one after the other.
    looked = pl.col("start_ns").shift(1).over("executor")
    waits = pl.col("woken_ns").is_not_null().any().over("executor")
    from_others = (
        (pl.col("from_vpid") != pl.col("vpid"))
        | ~pl.col("from_vtid").is_in(of_executor)
        | (waits & (pl.col("from_vtid") != pl.col("vtid")))
    )
    rows = rows.with_columns(
        lag=pl.lit(0, dtype=pl.Int64), held=pl.when(pl.col("reentrant").is_null()).then(held)
    ).with_columns(free=pl.max_horizontal("ended", "held", pl.when(waits).then(looked)))
    first = _with_delays(rows, intervals, executors)
    found_ns = pl.col("found").filter(from_others)
    chosen = pl.col("start_ns") - pl.col("gap") - pl.col("ready")
    soonest = pl.min_horizontal(found_ns.min(), chosen.filter(chosen >= 0).min())
    soonest = pl.when(found_ns.count() >= _LEAST_FOUND).then(soonest).over("callback_id")
    return _with_delays(first.with_columns(lag=soonest.fill_null(0)), intervals, executors)


def _with_delays(
    rows: pl.DataFrame, intervals: pl.DataFrame, executors: Sequence[TimedExecutor]
) -> pl.DataFrame:
    waits = intervals.filter(pl.col("state") == "wait").drop_nulls(["begin_ns", "end_ns"])
    return pl.concat(
        [
            _add_delays(
                executions, waits.filter(pl.col("executor") == number), executors[number].threads
            )
            for (number,), executions in rows.partition_by(
                "executor", as_dict=True, maintain_order=True
            ).items()
        ]
    ).sort("start_ns", "end_ns")


def _add_delays(rows: pl.DataFrame, waits: pl.DataFrame, threads: int) -> pl.DataFrame:
    """Add the delays to the executions of one executor, in order, given all of its waits."""
    start = rows["start_ns"].to_numpy()
    known = rows["ready"].is_not_null().to_numpy()
    ready = rows["ready"].fill_null(_NEVER).to_numpy()
    arrived = ready + rows["lag"].to_numpy()
    free = rows["free"].fill_null(0).to_numpy()
    began = rows["wait_ns"].fill_null(-1).to_numpy()
    woken = rows["woken_ns"].fill_null(-1).to_numpy()
    waited = woken >= 0
    # A callback left in a wait set, or added afterwards, was found by a thread that looked.
    idle = ~waited & (free <= arrived) & known & (waits.height == 0)
    handover = np.where(idle, start - ready, -1)
    wakes = np.concatenate([[-1], waits["end_ns"].sort().to_numpy()])
    # A thread without a wait of its own chooses from the callbacks that the last wait of another
    # found.
    since = np.maximum(free, wakes[np.searchsorted(wakes, start, "right") - 1] + 1)
    chosen = np.where(waited, woken, np.maximum(since, np.where(known, arrived, since)))
    gap = np.where(waited | (known & ~idle & (free > 0)), start - chosen, -1)
    # The callback that was ready first among those not started when a wait ended.
    first = _place_of_least_from_each(arrived)
    polled = waited & (arrived[first] <= began)
    # Where hardly any wait is a poll, the delay of another message looks like one.
    polled &= polled.sum() >= _LEAST_POLLS * waited.sum()
    # A thread came back at once if no thread was woken between its execution and its wait.
    ended = rows["ended"].fill_null(-1).to_numpy()
    at_once = ended > wakes[np.searchsorted(wakes, began) - 1]
    poll = np.where(polled, woken - np.where(at_once, ended, began), -1)
    led = np.flatnonzero(waited & (arrived[first] > began) & known[first])
    handover[first[led]] = start[led] - ready[first[led]]
    rows = rows.with_columns(
        pl.when(values >= 0).then(values).alias(name)
        for name, values in (
            ("handover", pl.Series(handover)), ("gap", pl.Series(gap)), ("poll", pl.Series(poll)),
        )
    )  # fmt: skip
    if not waits.height:
        return rows.with_columns(found="handover", takeover=pl.lit(None, dtype=pl.Int64))
    # The wait before the execution found the message if the wait was in progress at publication.
    last = np.searchsorted(wakes, start, "right") - 1
    begins = np.append(_NEVER, waits.sort("end_ns")["begin_ns"].to_numpy())
    found = (begins[last] < ready) & (ready <= wakes[last])
    return rows.with_columns(
        pl.when(pl.Series(found)).then(pl.Series(wakes[last] - ready)).alias("found"),
        _takeovers(rows, waits, threads, chosen),
    )


def _takeovers(rows: pl.DataFrame, waits: pl.DataFrame, threads: int, chosen: Ints) -> pl.Series:
    """Return the time from each start to the next wait, or to a find of a callback left in the set.

    If all other threads were executing, it is not known, and set to the median.
    """
    if threads == 1:
        return pl.Series("takeover", [None] * rows.height, pl.Int64)
    order = np.argsort(chosen, kind="stable")
    chosen, start = chosen[order], rows["start_ns"].to_numpy()[order]
    begins = np.append(waits["begin_ns"].sort().to_numpy(), _NEVER)
    looks = begins[np.searchsorted(begins, chosen, "right")]
    without = np.where(rows["woken_ns"].is_null().to_numpy()[order], chosen, _NEVER)
    looks = np.minimum(looks, np.append(without[1:], _NEVER))
    ended = np.searchsorted(rows["end_ns"].sort().to_numpy(), chosen, "right")
    busy = np.arange(len(start)) - ended >= threads - 1
    known = ~busy & (looks < _NEVER)
    usual = int(np.median((looks - start)[known])) if known.any() else 0
    takeovers = np.empty_like(start)
    takeovers[order] = np.where(known, looks - start, usual)
    return pl.Series("takeover", takeovers)


def _place_of_least_from_each(
    times: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each entry the place of the least of itself and all following entries."""
    least = np.minimum.accumulate(times[::-1])[::-1]
    places = np.where(times == least, np.arange(len(times)), len(times))
    return np.minimum.accumulate(places[::-1])[::-1]
